package sqlite

import (
	"errors"
	"fmt"

	"ailang.dev/world/host/store/sqlstore"
)

// The catalogue tells which runs there are: index_runs has a row for each, from the
// transaction that writes its first block to the one that deletes its last; index_parts
// one for each part of those that are whole.

func (r *run) sum(state int64) int64 {
	return sqlstore.SumInts("index_runs", r.id, int64(r.level), state, r.after, r.last, r.next)
}

// setRun writes a run's row in the catalogue.
func (c *conn) setRun(r *run, state int64) error {
	return c.do("INSERT OR REPLACE INTO index_runs (run, level, state, after_seq, last_seq, next_index, sum) VALUES (?, ?, ?, ?, ?, ?, ?)",
		func(p *params) { p.int(r.id, int64(r.level), state, r.after, r.last, r.next, r.sum(state)) })
}

func (c *conn) forgetRun(id int64) error {
	if err := c.do("DELETE FROM index_parts WHERE run = ?", func(p *params) { p.int(id) }); err != nil {
		return err
	}
	return c.do("DELETE FROM index_runs WHERE run = ?", func(p *params) { p.int(id) })
}

func (c *conn) addPart(run int64, p part, rp *runPart) error {
	return c.do("INSERT INTO index_parts (run, part, row_count, block_count, sum) VALUES (?, ?, ?, ?, ?)", func(b *params) {
		b.int(run, int64(p), rp.rows, rp.blocks, partSum(run, p, rp))
	})
}

func partSum(run int64, p part, rp *runPart) int64 {
	return sqlstore.SumInts("index_parts", run, int64(p), rp.rows, rp.blocks)
}

// catalogue is what the tables say.
type catalogue struct {
	whole []*run // oldest first; each begins where the one before ends
	dead  []int64
	last  int64 // the highest run number given out
}

// readCatalogue reads which runs there are, and what finding rows in them needs. An error
// of kind KindIntegrity says that the indexes must be made anew.
//
// lean leaves the filters on disk, which are most of it: for whoever looks a few things up.
func (c *conn) readCatalogue(lean bool) (*catalogue, error) {
	cat := &catalogue{}
	err := c.each("SELECT run, level, state, after_seq, last_seq, next_index, sum FROM index_runs ORDER BY after_seq, last_seq", nil, func(k *cols) error {
		r := &run{id: k.int(), level: int(k.int())}
		state := k.int()
		r.after, r.last, r.next = k.int(), k.int(), k.int()
		if err := k.prove("index_runs", r.id, k.int(), r.sum(state)); err != nil {
			return err
		}
		cat.last = max(cat.last, r.id)
		if state != runWhole {
			cat.dead = append(cat.dead, r.id)
			return nil
		}
		var end sqlstore.Seq
		if n := len(cat.whole); n > 0 {
			end = cat.whole[n-1].last
		}
		if r.after != end {
			return sqlstore.Damaged("index_runs", r.id, fmt.Errorf("it begins after row %d, but the one before it ends with %d", r.after, end))
		}
		cat.whole = append(cat.whole, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.checkEnds(cat); err != nil {
		return nil, err
	}
	size := int64(0)
	for i := len(cat.whole) - 1; i >= 0; i-- { // the newest, which are the smallest, first
		if err := c.readParts(cat.whole[i], &size, lean); err != nil {
			return nil, err
		}
	}
	return cat, nil
}

// checkEnds sees that the first and the last block belong to runs that are listed, so that
// no new run gets the number of one whose row is lost.
func (c *conn) checkEnds(cat *catalogue) error {
	listed := make(map[int64]bool)
	for _, r := range cat.whole {
		listed[r.id] = true
	}
	for _, id := range cat.dead {
		listed[id] = true
	}
	for _, end := range []string{"min", "max"} {
		_, err := c.one("SELECT "+end+"(id) FROM index_blocks", nil, func(k *cols) error {
			if id := k.int(); id != 0 && !listed[id>>runBits] {
				return sqlstore.Damaged("index_blocks", id, errors.New("its run is not listed"))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readParts reads what is kept of a run. size is that of all filters.
func (c *conn) readParts(r *run, size *int64, lean bool) error {
	n := part(0)
	err := c.each("SELECT part, row_count, block_count, sum FROM index_parts WHERE run = ? ORDER BY part",
		func(b *params) { b.int(r.id) }, func(k *cols) error {
			p, rp := part(k.int()), &runPart{rows: k.int(), blocks: k.int()}
			if err := k.prove("index_parts", r.id, k.int(), partSum(r.id, p, rp)); err != nil {
				return err
			}
			if p != n || p >= parts {
				return sqlstore.Damaged("index_parts", r.id, fmt.Errorf("part %d is missing", n))
			}
			r.parts[p] = rp
			n++
			return nil
		})
	if err == nil && n != parts {
		err = sqlstore.Damaged("index_parts", r.id, fmt.Errorf("part %d is missing", n))
	}
	for p := part(0); p < parts && err == nil; p++ {
		err = c.readExtras(r, p, size, lean)
	}
	return err
}

func (c *conn) readExtras(r *run, p part, size *int64, lean bool) error {
	rp := r.parts[p]
	first := blockID(r.id, p+extrasPart, 0)
	last := first + maxBlocks
	if lean { // the fences come first
		last = first + (rp.fenceBytes(p)+blockSize-1)/blockSize - 1
	}
	var data []byte
	n := int64(0)
	err := c.each("SELECT id, data, sum FROM index_blocks WHERE id BETWEEN ? AND ? + 0 ORDER BY id",
		func(b *params) { b.int(first, last) }, func(k *cols) error {
			id, b := k.int(), k.blob()
			if id != first+n || blockSum(id, b) != k.int() || len(data) > maxExtras {
				return sqlstore.Damaged("index_blocks", id, errBlock)
			}
			data = append(data, b...)
			n++
			return nil
		})
	if err != nil {
		return err
	}
	if lean {
		if n := rp.fenceBytes(p); int64(len(data)) >= n {
			rp.fences = data[:n:n]
			return nil
		}
		return sqlstore.Damaged("index_blocks", first, errNoBlock)
	}
	keep := p < points && *size+rp.rows*filterBits/8 <= maxFilters
	if keep {
		*size += rp.rows * filterBits / 8
	}
	if err := rp.setExtras(p, data, keep); err != nil {
		return sqlstore.Damaged("index_blocks", first, err)
	}
	return nil
}
