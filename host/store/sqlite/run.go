package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/bits-and-blooms/bloom/v3"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// run is the index rows of one stretch of the truth, on disk. It never changes once it is
// whole.
type run struct {
	id    int64
	level int             // how often its rows were merged
	after sqlstore.Seq    // it begins after this
	last  sqlstore.Seq    // and ends with this
	next  int64           // index of the first entry past it
	parts [parts]*runPart // nil in none that is whole
}

// runPart is what of a part is kept in memory to find a row in it.
type runPart struct {
	rows   int64
	blocks int64
	fences []byte             // the first bytes of each block's first row
	filter *bloom.BloomFilter // of keys; nil if the part has none, or it is not kept
}

// The states of a run. Their numbers are on disk.
const (
	runBegun   = 1 // it is being written
	runWhole   = 2
	runDropped = 3 // others hold its rows; its blocks are being deleted
)

// Blocks. A block and its row's other columns fit into one page of the file.
const (
	blockSize  = 4000       // bytes of rows, or of fences and filter, in one
	runBits    = 28         // a block's id is the run's, the part's and the block's number
	partBits   = 24         // within it
	extrasPart = 8          // added to a part's number: the blocks of its fences and filter
	maxBlocks  = 1<<24 - 1  // blocks of one part of a run
	filterBits = 16         // for each key: one lookup in 1,700 reads a block in vain, perhaps from the disk
	filterHash = 8          // places of a key
	maxFilters = 512 << 20  // bytes of all filters in memory; the runs left without are looked into
	maxExtras  = 1024 << 20 // bytes of one part's fences and filter
	maxRunRows = 256 << 20  // rows of one part of a merged run, whose filter has half of that bound
)

func blockID(run int64, p part, n int64) int64 { return run<<runBits | int64(p)<<partBits | n }

// firstBlock and pastBlocks enclose the ids of a run's blocks.
func firstBlock(run int64) int64 { return run << runBits }
func pastBlocks(run int64) int64 { return (run + 1) << runBits }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func blockSum(id int64, data []byte) int64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	return int64(crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, data))
}

// fenced is the first block of a part that may hold the first row not before q.
func (r *runPart) fenced(p part, q []byte) int64 {
	width := layouts[p].fence
	i := rows(r.fences).search(width, q[:min(len(q), width)])
	return int64(max(i-1, 0))
}

var (
	errNoBlock = errors.New("it is missing")
	errBlock   = errors.New("it does not match its checksum")
	errLeads   = errors.New("it leads to a row that is not the one")
)

// reindexHint tells the way out of a damaged index.
const reindexHint = "stop the daemon and run `ailang-worldd store reindex --db FILE`, which makes the indexes anew"

// indexError is the error of an index that lies, or cannot be read. The listing by
// semantic id is then told as an index that cannot be used, and so is one whose block is
// lost.
func indexError(p part, row any, cause error) error {
	kind := world.KindIntegrity
	if p == byName || p == byTarget && errors.Is(cause, errNoBlock) {
		kind = world.KindIndexMissing
	}
	return &world.Error{Op: "sqlite.index", Kind: kind, Subject: fmt.Sprintf("index %s row %v", p, row), Err: cause, Hint: reindexHint}
}

// block reads a block of rows, or of what belongs to them.
func (c *conn) block(p part, id int64) (data []byte, err error) {
	ok, err := c.one("SELECT data, sum FROM index_blocks WHERE id = ?", func(b *params) { b.int(id) }, func(k *cols) error {
		data = k.blob()
		if blockSum(id, data) != k.int() {
			return indexError(p, id, errBlock)
		}
		return nil
	})
	if err == nil && !ok {
		err = indexError(p, id, errNoBlock)
	}
	return data, err
}

// cursor walks the rows of one part in order. It is used by one goroutine.
type cursor struct {
	part  part
	rows  rows // all of them, or those of the block it is in
	pos   int  // in rows, in bytes
	run   *run // nil if rows are all
	block int64
}

// row is the row it stands on; nil at the end.
func (k *cursor) row() []byte {
	if k.pos >= len(k.rows) {
		return nil
	}
	return k.rows[k.pos : k.pos+k.part.width()]
}

func (k *cursor) next(c *conn) error {
	k.pos += k.part.width()
	return k.settle(c)
}

// prev goes to the row before; where there is none it stands at an end.
func (k *cursor) prev(c *conn) error {
	for k.pos -= k.part.width(); k.pos < 0; k.pos += len(k.rows) {
		if k.run == nil || k.block == 0 {
			k.rows, k.pos = nil, 0
			return nil
		}
		k.block--
		if err := k.load(c); err != nil {
			return err
		}
	}
	return nil
}

// settle goes on to the next block at the end of one.
func (k *cursor) settle(c *conn) error {
	for k.pos >= len(k.rows) && k.run != nil && k.block+1 < k.run.parts[k.part].blocks {
		k.block++
		if err := k.load(c); err != nil {
			return err
		}
		k.pos = 0
	}
	return nil
}

func (k *cursor) load(c *conn) error {
	id := blockID(k.run.id, k.part, k.block)
	data, err := c.block(k.part, id)
	if err == nil && len(data)%k.part.width() != 0 {
		err = indexError(k.part, id, fmt.Errorf("it has %d bytes", len(data)))
	}
	k.rows = data
	return err
}

// seek gives a cursor on the first row not before q.
func (s *segment) seek(p part, q []byte) *cursor {
	r := s.parts[p]
	return &cursor{part: p, rows: r, pos: r.search(p.width(), q) * p.width()}
}

// seek gives a cursor on the first row not before q.
func (r *run) seek(c *conn, p part, q []byte) (*cursor, error) {
	k := &cursor{part: p, run: r}
	if r.parts[p].blocks == 0 {
		return k, nil
	}
	k.block = r.parts[p].fenced(p, q)
	if err := k.load(c); err != nil {
		return nil, err
	}
	k.pos = k.rows.search(p.width(), q) * p.width()
	return k, k.settle(c)
}

// may tells whether a run can have a key.
func (r *run) may(p part, k key) bool {
	rp := r.parts[p]
	return rp.blocks > 0 && (rp.filter == nil || rp.filter.Test(k[:]))
}

func newFilter(keys int64) *bloom.BloomFilter {
	return bloom.New(uint(max(keys, 1)*filterBits), filterHash)
}

// filterBytes is what the part's filter takes in memory.
func (r *runPart) filterBytes() int64 {
	if r == nil || r.filter == nil {
		return 0
	}
	return int64(r.filter.Cap() / 8)
}

// extras are the bytes of a part's fences and filter, as they are on disk.
func (r *runPart) extras() []byte {
	b := bytes.Clone(r.fences)
	if r.filter != nil {
		for _, w := range r.filter.BitSet().Words() {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	return b
}

// fenceBytes is what the part's fences take.
func (r *runPart) fenceBytes(p part) int64 { return r.blocks * int64(layouts[p].fence) }

// setExtras reads extras. keep says whether to keep the filter.
func (r *runPart) setExtras(p part, b []byte, keep bool) error {
	n := r.fenceBytes(p)
	words := int64(0)
	if p < points {
		words = (max(r.rows, 1)*filterBits + 63) / 64
	}
	if int64(len(b)) != n+8*words {
		return fmt.Errorf("its fences and filter have %d bytes, not %d", len(b), n+8*words)
	}
	r.fences = bytes.Clone(b[:n])
	if words > 0 && keep {
		bits := make([]uint64, words)
		for i := range bits {
			bits[i] = binary.LittleEndian.Uint64(b[n+8*int64(i):])
		}
		r.filter = bloom.FromWithM(bits, uint(max(r.rows, 1)*filterBits), filterHash)
	}
	return nil
}
