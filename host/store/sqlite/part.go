package sqlite

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// part is one of the derived indexes. Its number is on disk.
type part int64

// The parts. A row is a key and what it leads to, as bytes that sort in the order that
// reads want; see layouts.
const (
	byObject  part = iota // an object's hash -> its seq
	byEntry               // an entry's hash -> its index
	byWorld               // a world's ref -> the entry's index
	byCall                // an invocation id -> the seqs of its journal rows
	byName                // a semantic id, then an object's hash -> the object's seq
	byTarget              // a reference, then the seq of what names it -> kind and place
	byEpisode             // an episode, then the index of an entry that a call of it became
	parts
)

// points are the parts, from the first on, that a key is looked up in, mostly in vain: to
// see that a hash or an id is new. They alone have filters.
const points = byName

// layouts says how each part's rows are made up. Numbers are big-endian. Whatever a row
// leads to is read and compared with what was asked for, so that the first bytes of a
// hash are key enough; but for references and episodes, whose row is all there is, and which
// therefore get half of a sha256, which nobody can make collide on purpose.
var layouts = [parts]struct {
	name  string
	width int // bytes of a row
	fence int // bytes of a row that a block is found by
}{
	byObject:  {"objects by hash", keySize + placeSize, keySize},
	byEntry:   {"entries by hash", keySize + placeSize, keySize},
	byWorld:   {"entries by world", keySize + placeSize, keySize},
	byCall:    {"journal by invocation", keySize + placeSize, keySize},
	byName:    {"objects by semantic id", 2*keySize + placeSize, 2 * keySize},
	byTarget:  {"refs", targetSize + placeSize + 1 + placeSize, targetSize + placeSize},
	byEpisode: {"entries by episode", targetSize + placeSize, targetSize + placeSize},
}

// Bytes of what rows are made of.
const (
	keySize    = 8  // of a hash
	placeSize  = 6  // a seq, or an entry's index
	targetSize = 16 // of the hash of a reference, or of an episode's name
	maxWidth   = targetSize + 2*placeSize + 1
)

func (p part) String() string { return layouts[p].name }
func (p part) width() int     { return layouts[p].width }

// key is the first bytes of a hash.
type key [keySize]byte

// next is the key after k; ok is false for the last one.
func (k key) next() (n key, ok bool) {
	v := binary.BigEndian.Uint64(k[:])
	binary.BigEndian.PutUint64(n[:], v+1)
	return n, v != math.MaxUint64
}

func keyOf(r world.Ref) (k key) {
	var b [hashref.Size]byte
	copy(k[:], r.AppendDigest(b[:0]))
	return k
}

func keyOfText(s string) key { return keyOf(hashref.SumString(s)) }

func appendPlace(b []byte, v int64) []byte {
	return append(b, byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

func place(b []byte) int64 {
	return int64(binary.BigEndian.Uint16(b))<<32 | int64(binary.BigEndian.Uint32(b[2:]))
}

// pointPlace is what a row of a point part leads to.
func pointPlace(row []byte) int64 { return place(row[keySize:]) }

func appendPoint(b []byte, k key, at int64) []byte { return appendPlace(append(b, k[:]...), at) }

func appendName(b []byte, semanticID string, hash world.Ref, at int64) []byte {
	return appendPoint(append(b, nameKey(semanticID)...), keyOf(hash), at)
}

func nameKey(semanticID string) []byte {
	k := keyOfText(semanticID)
	return k[:]
}

func namePlace(row []byte) int64 { return place(row[2*keySize:]) }

func appendTarget(b []byte, target world.Ref) []byte {
	var d [hashref.Size]byte
	sum := hashref.Sum(target.AppendDigest(d[:0]))
	return append(b, sum.AppendDigest(d[:0])[:targetSize]...)
}

func appendEpisode(b []byte, episode string, index int64) []byte {
	var d [hashref.Size]byte
	b = append(b, hashref.SumString(episode).AppendDigest(d[:0])[:targetSize]...)
	return appendPlace(b, index)
}

func appendRef(b []byte, r *sqlstore.RefRow) []byte {
	b = append(appendPlace(appendTarget(b, r.Target), r.Seq), byte(r.Kind))
	return appendPlace(b, r.Place)
}

func refOf(row []byte, target world.Ref) sqlstore.RefRow {
	row = row[targetSize:]
	return sqlstore.RefRow{Target: target, Seq: place(row), Kind: sqlstore.RefKind(row[placeSize]), Place: place(row[placeSize+1:])}
}

// rows are rows of one part, in ascending order, one after the other.
type rows []byte

func (r rows) at(i, width int) []byte { return r[i*width : (i+1)*width : (i+1)*width] }

// search is the place of the first row that does not sort before q, which may be shorter
// than a row.
func (r rows) search(width int, q []byte) int {
	low, high := 0, len(r)/width
	for low < high {
		mid := int(uint(low+high) >> 1)
		if bytes.Compare(r[mid*width:mid*width+len(q)], q) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// searchKey is search for a key. Keys are the first bytes of hashes and lie evenly, so it
// starts where the key should be, and widens its steps from there.
func (r rows) searchKey(width int, k key) int {
	n, q := len(r)/width, binary.BigEndian.Uint64(k[:])
	at := func(i int) uint64 { return binary.BigEndian.Uint64(r[i*width:]) }
	guess, _ := bits.Mul64(q, uint64(n))
	low, high := int(guess), int(guess) // all before low are lower, those from high on are not
	for step := 4; low > 0 && at(low-1) >= q; step *= 2 {
		high, low = low-1, max(low-1-step, 0)
	}
	for step := 4; high < n && at(high) < q; step *= 2 {
		low, high = high+1, min(high+1+step, n)
	}
	for low < high {
		if mid := int(uint(low+high) >> 1); at(mid) < q {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// sorted is a copy of rows in any order, in order.
func sorted(r []byte, width int) rows {
	n := len(r) / width
	index := make([]int32, n)
	for i := range index {
		index[i] = int32(i)
	}
	slices.SortFunc(index, func(a, b int32) int {
		return bytes.Compare(r[int(a)*width:(int(a)+1)*width], r[int(b)*width:(int(b)+1)*width])
	})
	out := make(rows, 0, len(r))
	for _, i := range index {
		out = append(out, r[int(i)*width:(int(i)+1)*width]...)
	}
	return out
}

// merged is the rows of two, in order.
func merged(a, b rows, width int) rows {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := make(rows, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if bytes.Compare(a[:width], b[:width]) <= 0 {
			out, a = append(out, a[:width]...), a[width:]
		} else {
			out, b = append(out, b[:width]...), b[width:]
		}
	}
	return append(append(out, a...), b...)
}
