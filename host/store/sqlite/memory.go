package sqlite

import (
	"ailang.dev/world/host/store/sqlstore"
)

// segment is the index rows of one stretch of the truth, kept in memory. It never changes
// once it is there.
type segment struct {
	parts [parts]rows
	bytes int
}

// count is how many rows it has in all.
func (s *segment) count() (n int) {
	for p := range parts {
		n += len(s.parts[p]) / p.width()
	}
	return n
}

// join is two neighbouring segments as one.
func join(a, b *segment) *segment {
	out := &segment{bytes: a.bytes + b.bytes}
	for p := range parts {
		out.parts[p] = merged(a.parts[p], b.parts[p], p.width())
	}
	return out
}

// grown is segments with one more. The newest are joined while the one before is not more
// than twice as large, so that their number stays logarithmic, and each row is copied a
// logarithmic number of times. The first fixed ones are left alone: a run is being written
// from them.
func grown(list []*segment, fixed int, s *segment) []*segment {
	out := append(make([]*segment, 0, len(list)+1), list...)
	for len(out) > fixed && out[len(out)-1].bytes <= 2*s.bytes {
		s = join(out[len(out)-1], s)
		out = out[:len(out)-1]
	}
	return append(out, s)
}

// draft is the index rows of the transaction being written, in order of writing. It is
// used by the writer alone.
type draft struct {
	rows [parts][]byte
	// chains lead from a key to the newest row that has it, and from a row to the one before
	// that has the same; rows are counted from 1.
	heads [points]map[key]int32
	older [points][]int32
}

func newDraft() *draft {
	d := &draft{}
	for p := range d.heads {
		d.heads[p] = make(map[key]int32)
	}
	return d
}

// maxKept bounds the rows whose space a draft keeps for the next transaction.
const maxKept = 1 << 16

func (d *draft) reset() {
	if d.count() > maxKept {
		*d = *newDraft()
		return
	}
	for p := range d.rows {
		d.rows[p] = d.rows[p][:0]
	}
	for p := range d.heads {
		clear(d.heads[p])
		d.older[p] = d.older[p][:0]
	}
}

// count is how many rows it has in all.
func (d *draft) count() (n int) {
	for p := range parts {
		n += len(d.rows[p]) / p.width()
	}
	return n
}

func (d *draft) point(p part, k key, at int64) {
	d.rows[p] = appendPoint(d.rows[p], k, at)
	d.older[p] = append(d.older[p], d.heads[p][k])
	d.heads[p][k] = int32(len(d.older[p]))
}

// places are those that rows of a key lead to, newest first.
func (d *draft) places(p part, k key) (list []int64) {
	w := p.width()
	for i := d.heads[p][k]; i > 0; i = d.older[p][i-1] {
		list = append(list, pointPlace(d.rows[p][int(i-1)*w:]))
	}
	return list
}

// mark and undo go back to an earlier state.
func (d *draft) mark() (m [parts]int) {
	for p := range d.rows {
		m[p] = len(d.rows[p])
	}
	return m
}

func (d *draft) undo(m [parts]int) {
	for p := range points {
		w := p.width()
		for i := len(d.older[p]); i > m[p]/w; i-- {
			k := key(d.rows[p][(i-1)*w:])
			if older := d.older[p][i-1]; older > 0 {
				d.heads[p][k] = older
			} else {
				delete(d.heads[p], k)
			}
		}
		d.older[p] = d.older[p][:m[p]/w]
	}
	for p := range d.rows {
		d.rows[p] = d.rows[p][:m[p]]
	}
}

// segment is a sorted copy.
func (d *draft) segment() *segment {
	s := &segment{}
	for p := range parts {
		s.parts[p] = sorted(d.rows[p], p.width())
		s.bytes += len(s.parts[p])
	}
	return s
}

// The rows that one row of the truth has in the indexes.

func (d *draft) object(r *sqlstore.ObjectRow) {
	d.point(byObject, keyOf(r.Meta.Hash), r.Seq)
	d.rows[byName] = appendName(d.rows[byName], r.Meta.SemanticID, r.Meta.Hash, r.Seq)
}

func (d *draft) entry(r *sqlstore.EntryRow) {
	d.point(byEntry, keyOf(r.Entry.EntryHash), r.Entry.Header.EntryIndex)
	d.point(byWorld, keyOf(r.World.Ref), r.Entry.Header.EntryIndex)
}

func (d *draft) journal(r *sqlstore.JournalRow) {
	d.point(byCall, keyOfText(string(r.Invocation)), r.Seq)
	if r.Kind != sqlstore.KindCommitted {
		return
	}
	if episode := r.Invocation.Episode(); episode != "" {
		d.rows[byEpisode] = appendEpisode(d.rows[byEpisode], episode, r.Index)
	}
}

func (d *draft) refs(list []sqlstore.RefRow) {
	for i := range list {
		d.rows[byTarget] = appendRef(d.rows[byTarget], &list[i])
	}
}
