package sqlite

import (
	"bytes"
	"errors"
	"slices"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// seen is what one transaction sees of the indexes: a state, and what was committed after
// it but stands in the transaction's snapshot (gap), or was written by itself (draft).
type seen struct {
	state  *state
	draft  *draft // the writer's; nil in one that reads
	gap    *segment
	synced bool
}

// sync finds what was committed between the taking of the state and the snapshot. It is
// needed before anything is said to be absent, or listed; seldom is there a gap, and never
// is it more than some batches.
func (c *conn) sync() error {
	if c.seen.synced {
		return nil
	}
	head, err := c.Head()
	if err != nil {
		return err
	}
	if s := c.seen.state; head.Seq > s.seq {
		d := newDraft()
		t := truth{seq: s.seq, next: s.next}
		if err := c.readTruth(&t, head.Seq, d); err != nil {
			return err
		}
		c.seen.gap = d.segment()
	}
	c.seen.synced = true
	return nil
}

// visitor is handed the places that a key leads to, newest first, until it says that it
// needs no more.
type visitor func(at int64) (enough bool, err error)

// find hands each place that a key leads to to visit. Without a sync before it, what was
// committed last comes last.
func (c *conn) find(p part, k key, visit visitor) (enough bool, err error) {
	s := &c.seen
	if s.draft != nil {
		for _, at := range s.draft.places(p, k) {
			if enough, err := visit(at); enough || err != nil {
				return enough, err
			}
		}
	}
	gap := s.gap
	if gap != nil {
		if enough, err := gap.find(p, k, visit); enough || err != nil {
			return enough, err
		}
	}
	for i := len(s.state.mem) - 1; i >= 0; i-- {
		if enough, err := s.state.mem[i].find(p, k, visit); enough || err != nil {
			return enough, err
		}
	}
	all := s.state.runs.runs
	for i := len(all) - 1; i >= 0; i-- {
		if !all[i].may(p, k) {
			continue
		}
		if enough, err := c.findInRun(all[i], p, k, visit); enough || err != nil {
			return enough, err
		}
	}
	if err := c.sync(); err != nil || s.gap == nil || s.gap == gap {
		return false, err
	}
	return s.gap.find(p, k, visit)
}

func (s *segment) find(p part, k key, visit visitor) (bool, error) {
	enough, _, err := s.parts[p].find(p, k, visit)
	return enough, err
}

// find goes from the last row of a key to its first. all says that rows before these
// cannot have the key.
func (r rows) find(p part, k key, visit visitor) (enough, all bool, err error) {
	w := p.width()
	i := len(r) / w
	if next, ok := k.next(); ok {
		i = r.searchKey(w, next)
	}
	for i--; i >= 0; i-- {
		if key(r.at(i, w)) != k {
			return false, true, nil
		}
		if enough, err = visit(pointPlace(r.at(i, w))); enough || err != nil {
			return enough, true, err
		}
	}
	return false, false, nil
}

func (c *conn) findInRun(r *run, p part, k key, visit visitor) (bool, error) {
	rp := r.parts[p]
	cur := cursor{part: p, run: r, block: rp.blocks}
	if next, ok := k.next(); ok {
		cur.block = int64(rows(rp.fences).searchKey(keySize, next))
	}
	for cur.block--; cur.block >= 0; cur.block-- {
		if err := cur.load(c); err != nil {
			return false, err
		}
		if enough, all, err := cur.rows.find(p, k, visit); enough || all || err != nil {
			return enough, err
		}
	}
	return false, nil
}

// leads is the error of a place that an index says a key leads to, if the row there has
// another key. A row whose whole hash differs but not its key is no error, and not the one.
func leads(p part, at int64, there bool, want, got key) error {
	if !there {
		return indexError(p, at, errNoRow)
	}
	if want != got {
		return indexError(p, at, errLeads)
	}
	return nil
}

// Object finds an object by its hash.
func (c *conn) Object(hash world.Ref, payload bool) (r sqlstore.ObjectRow, ok bool, err error) {
	if hash.IsNone() {
		return r, false, nil
	}
	k := keyOf(hash)
	ok, err = c.find(byObject, k, func(at int64) (bool, error) {
		row, there, err := c.objectAt(at, payload)
		if err == nil {
			err = leads(byObject, at, there, k, keyOf(row.Meta.Hash))
		}
		r = row
		return err == nil && row.Meta.Hash == hash, err
	})
	return r, ok, err
}

func (c *conn) EntryByHash(hash world.Ref) (sqlstore.EntryRow, bool, error) {
	return c.entryBy(byEntry, hash, func(r *sqlstore.EntryRow) world.Ref { return r.Entry.EntryHash })
}

func (c *conn) EntryByWorld(ref world.Ref) (sqlstore.EntryRow, bool, error) {
	return c.entryBy(byWorld, ref, func(r *sqlstore.EntryRow) world.Ref { return r.World.Ref })
}

func (c *conn) entryBy(p part, ref world.Ref, of func(*sqlstore.EntryRow) world.Ref) (r sqlstore.EntryRow, ok bool, err error) {
	if ref.IsNone() {
		return r, false, nil
	}
	k := keyOf(ref)
	ok, err = c.find(p, k, func(at int64) (bool, error) {
		row, there, err := c.Entry(at)
		if err == nil {
			err = leads(p, at, there, k, keyOf(of(&row)))
		}
		r = row
		return err == nil && of(&row) == ref, err
	})
	return r, ok, err
}

// Journal lists what is said of an invocation, newest first.
func (c *conn) Journal(id world.InvocationID, limit int) (list []sqlstore.JournalRow, err error) {
	if err := c.sync(); err != nil {
		return nil, err
	}
	k := keyOfText(string(id))
	_, err = c.find(byCall, k, func(at int64) (bool, error) {
		row, there, err := c.journalAt(at)
		if err == nil && (!there || row.Invocation != id) { // another id may have the same key
			err = leads(byCall, at, there, k, keyOfText(string(row.Invocation)))
		} else if err == nil {
			list = append(list, row)
		}
		return len(list) == limit, err
	})
	return list, err
}

// sources gives a cursor on the first row not before q in each segment and run that has
// one, oldest first.
func (c *conn) sources(p part, q []byte) (list []*cursor, err error) {
	if err := c.sync(); err != nil {
		return nil, err
	}
	for _, r := range c.seen.state.runs.runs {
		k, err := r.seek(c, p, q)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	for _, s := range c.seen.state.mem {
		list = append(list, s.seek(p, q))
	}
	if c.seen.gap != nil {
		list = append(list, c.seen.gap.seek(p, q))
	}
	if d := c.seen.draft; d != nil && len(d.rows[p]) > 0 {
		s := &segment{}
		s.parts[p] = sorted(d.rows[p], p.width())
		list = append(list, s.seek(p, q))
	}
	return list, nil
}

// ObjectsBySemanticID merges all sources, and reads no more of them than the page needs.
func (c *conn) ObjectsBySemanticID(id string, after world.Ref, limit int) (list []sqlstore.ObjectRow, err error) {
	name := nameKey(id)
	from := keyOf(after)
	open, err := c.sources(byName, append(bytes.Clone(name), from[:]...))
	if err != nil {
		return nil, unusable(err)
	}
	for len(list) < limit {
		k := lowest(open)
		if k == nil || !bytes.HasPrefix(k.row(), name) {
			return list, nil
		}
		group, err := c.nameGroup(open, k.row()[:2*keySize])
		if err != nil {
			return nil, unusable(err)
		}
		for _, row := range group {
			if row.Meta.SemanticID == id && row.Meta.Hash.Compare(after) > 0 && len(list) < limit {
				list = append(list, row)
			}
		}
	}
	return list, nil
}

// nameGroup reads the objects of all rows with one key, which nearly always is one, in the
// order of their hashes, and steps over them.
func (c *conn) nameGroup(open []*cursor, row []byte) (group []sqlstore.ObjectRow, err error) {
	want := bytes.Clone(row)
	for k := lowest(open); k != nil && bytes.HasPrefix(k.row(), want); k = lowest(open) {
		at := namePlace(k.row())
		o, there, err := c.objectAt(at, false)
		if err != nil {
			return nil, err
		}
		if err := leads(byName, at, there, key(want[keySize:]), keyOf(o.Meta.Hash)); err != nil {
			return nil, err
		}
		if err := leads(byName, at, there, key(want), key(nameKey(o.Meta.SemanticID))); err != nil {
			return nil, err
		}
		group = append(group, o)
		if err := k.next(c); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(group, func(a, b sqlstore.ObjectRow) int { return a.Meta.Hash.Compare(b.Meta.Hash) })
	return group, nil
}

// unusable makes a fault of the blocks one of the listing by semantic id.
func unusable(err error) error {
	var e *world.Error
	if errors.As(err, &e) && e.Kind == world.KindIntegrity && e.Op == "sqlite.index" {
		return &world.Error{Op: e.Op, Kind: world.KindIndexMissing, Subject: e.Subject, Err: e.Err, Hint: e.Hint}
	}
	return err
}

// Refs lists what names a target. The sources follow one another in the order of writing.
func (c *conn) Refs(target world.Ref, after sqlstore.Seq, limit int) (list []sqlstore.RefRow, err error) {
	if target.IsNone() {
		return nil, nil
	}
	want := appendTarget(nil, target)
	open, err := c.sources(byTarget, appendPlace(bytes.Clone(want), max(after, -1)+1))
	if err != nil {
		return nil, err
	}
	for _, k := range open {
		for len(list) < limit && bytes.HasPrefix(k.row(), want) {
			list = append(list, refOf(k.row(), target))
			if err := k.next(c); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// EpisodeEntries lists entries of an episode. The sources follow one another in the order
// of writing.
func (c *conn) EpisodeEntries(episode string, at int64, back bool, limit int) (list []int64, err error) {
	from := appendEpisode(nil, episode, at)
	open, err := c.sources(byEpisode, from)
	if err != nil {
		return nil, unusable(err)
	}
	if back {
		slices.Reverse(open)
	}
	for _, k := range open {
		step := k.next
		if back {
			step = k.prev
			err = k.prev(c) // from the first row not before the place
		}
		for err == nil && len(list) < limit && bytes.HasPrefix(k.row(), from[:targetSize]) {
			list = append(list, place(k.row()[targetSize:]))
			err = step(c)
		}
		if err != nil {
			return nil, unusable(err)
		}
	}
	return list, nil
}
