package sqlite

import (
	"bytes"
	"fmt"
	"slices"
)

// job writes a run, a slice at a time: from the segments in memory, or from other runs. A
// crash between two slices leaves a run that the catalogue says is not whole; it is
// deleted when the store is opened.
type job struct {
	name     string
	run      *run // being written
	segments []*segment
	from     []*run

	begun   bool // its row in the catalogue is there
	touched bool // it wrote in the transaction that is open
	done    bool // that transaction makes it whole

	part   part
	data   *runPart // of the part being written; nil between two
	want   int64    // rows that it must get
	open   []*cursor
	block  []byte
	extras []byte // what is left of the part's extras; nil before its rows are written
	extra  int64  // blocks of extras written
}

// slice goes on for about budget rows, and returns what is left of it.
func (j *job) slice(c *conn, budget int, step func(string)) (int, error) {
	j.touched = true
	if !j.begun {
		step(j.name + " begun")
		if err := c.setRun(j.run, runBegun); err != nil {
			return 0, err
		}
		j.begun = true
	} else {
		step(j.name + " slice")
	}
	for budget > 0 && j.part < parts {
		var cost int
		var err error
		switch {
		case j.data == nil:
			cost, err = 1, j.openPart(c)
		case j.extras == nil:
			cost, err = j.copyRows(c, budget)
		default:
			cost, err = j.copyExtras(c)
		}
		if err != nil {
			return 0, err
		}
		budget -= cost
	}
	if j.part == parts {
		step(j.name + " whole")
		j.done = true
		return budget, j.end(c)
	}
	return 0, nil
}

func (j *job) openPart(c *conn) error {
	j.data, j.want, j.open = &runPart{}, 0, nil
	for _, s := range j.segments {
		j.want += int64(len(s.parts[j.part]) / j.part.width())
		j.open = append(j.open, s.seek(j.part, nil))
	}
	for _, r := range j.from {
		k, err := r.seek(c, j.part, nil)
		if err != nil {
			return err
		}
		j.want += r.parts[j.part].rows
		j.open = append(j.open, k)
	}
	if j.part < points {
		j.data.filter = newFilter(j.want)
	}
	j.block, j.extras, j.extra = make([]byte, 0, blockSize), nil, 0
	return nil
}

// copyRows takes the lowest rows of all sources.
func (j *job) copyRows(c *conn, limit int) (n int, err error) {
	for ; n < limit; n++ {
		k := lowest(j.open)
		if k == nil {
			return n + 1, j.endRows(c)
		}
		row := k.row()
		if len(j.block)+len(row) > blockSize {
			if err := j.writeBlock(c); err != nil {
				return n, err
			}
		}
		if len(j.block) == 0 {
			j.data.fences = append(j.data.fences, row[:layouts[j.part].fence]...)
		}
		j.block = append(j.block, row...)
		j.data.rows++
		if j.data.filter != nil {
			j.data.filter.Add(row[:keySize])
		}
		if err := k.next(c); err != nil {
			return n, err
		}
	}
	return n, nil
}

// lowest is the cursor with the lowest row, nil if all are at their end.
func lowest(open []*cursor) (low *cursor) {
	var least []byte
	for _, k := range open {
		if row := k.row(); row != nil && (low == nil || bytes.Compare(row, least) < 0) {
			low, least = k, row
		}
	}
	return low
}

func (j *job) writeBlock(c *conn) error {
	if j.data.blocks == maxBlocks {
		return fmt.Errorf("sqlite: part %q of a run has more than %d blocks", j.part, int64(maxBlocks))
	}
	err := c.putBlock(blockID(j.run.id, j.part, j.data.blocks), j.block)
	j.data.blocks++
	j.block = j.block[:0]
	return err
}

func (c *conn) putBlock(id int64, data []byte) error {
	return c.do("INSERT INTO index_blocks (id, data, sum) VALUES (?, ?, ?)", func(p *params) { p.int(id).blob(data).int(blockSum(id, data)) })
}

func (j *job) endRows(c *conn) error {
	if len(j.block) > 0 {
		if err := j.writeBlock(c); err != nil {
			return err
		}
	}
	if j.data.rows != j.want {
		return indexError(j.part, j.run.id, fmt.Errorf("%d rows became %d", j.want, j.data.rows))
	}
	j.extras = j.data.extras()
	if len(j.extras) == 0 {
		j.endPart()
	}
	return nil
}

func (j *job) copyExtras(c *conn) (cost int, err error) {
	n := min(len(j.extras), blockSize)
	if err := c.putBlock(blockID(j.run.id, j.part+extrasPart, j.extra), j.extras[:n]); err != nil {
		return 0, err
	}
	j.extra++
	if j.extras = j.extras[n:]; len(j.extras) == 0 {
		j.endPart()
	}
	return 1 + n/extraBytes, nil
}

func (j *job) endPart() {
	j.run.parts[j.part] = j.data
	j.part, j.data, j.open = j.part+1, nil, nil
}

// end makes the run whole. The watermark is where the newest whole run ends, so it moves
// with this. The runs that were merged are dropped in the same transaction.
func (j *job) end(c *conn) error {
	for p := range parts {
		if err := c.addPart(j.run.id, p, j.run.parts[p]); err != nil {
			return err
		}
	}
	for _, r := range j.from {
		if err := c.setRun(r, runDropped); err != nil {
			return err
		}
	}
	return c.setRun(j.run, runWhole)
}

// replaced is a list of runs with the one that was written: in the place of those it was
// merged from, or as the newest.
func (j *job) replaced(all []*run) []*run {
	if len(j.from) == 0 {
		return append(slices.Clip(all), j.run)
	}
	i := slices.Index(all, j.from[0])
	out := append(make([]*run, 0, len(all)), all[:i]...)
	return append(append(out, j.run), all[i+len(j.from):]...)
}
