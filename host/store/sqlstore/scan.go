package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Bounds of a scan.
const (
	MaxScan  = 1_000_000 // entries; more are not looked at
	scanPage = 64        // entries read from one snapshot
)

// Scan implements store.Reader. It goes from the newest entry down, so that what it had
// time for is what the next call builds on.
func (s *Store) Scan(ctx context.Context, maxEntries int, report func(store.Hole)) (bool, error) {
	const op = "store.Scan"
	head, err := view(ctx, s, op, func(r Rows) (HeadRow, error) { return r.Head() })
	if err != nil {
		if world.KindOf(err) != world.KindIntegrity {
			return false, stopped(ctx, err)
		}
		report(store.Hole{What: "head", Reason: err.Error()})
		return true, nil
	}
	c := &scanner{head: head, report: report}
	low := max(0, head.Next-int64(min(max(maxEntries, 0), MaxScan)))
	for top := head.Next; top > low; {
		from := max(low, top-scanPage)
		_, err := view(ctx, s, op, func(r Rows) (struct{}, error) { return struct{}{}, c.page(ctx, r, from, top) })
		if err != nil {
			return false, stopped(ctx, err)
		}
		top = from
	}
	if low == 0 || c.above == nil {
		return true, nil
	}
	_, err = view(ctx, s, op, func(r Rows) (struct{}, error) { return struct{}{}, c.below(r, low) })
	return err == nil, stopped(ctx, err)
}

// stopped is the error of a scan that did not end; that its context did is none.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// scanner is one scan on its way down.
type scanner struct {
	head   HeadRow
	report func(store.Hole)
	// above is the entry above the one looked at, or nil at the top and above a hole.
	above *EntryRow
}

func (c *scanner) hole(reason string, what string, args ...any) {
	c.report(store.Hole{What: fmt.Sprintf(what, args...), Reason: reason})
}

// page looks at the entries from..top-1, newest first.
func (c *scanner) page(ctx context.Context, r Rows, from, top int64) error {
	for i := top - 1; i >= from; i-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(r, i); err != nil {
			return err
		}
	}
	return nil
}

// below looks only whether the lowest entry looked at follows from the one below it.
func (c *scanner) below(r Rows, low int64) error {
	row, ok, err := r.Entry(low - 1)
	if ok && err == nil {
		c.link(&row)
	}
	return ignoreIntegrity(err)
}

// ignoreIntegrity passes over damage that is reported elsewhere, or not asked about.
func ignoreIntegrity(err error) error {
	if world.KindOf(err) == world.KindIntegrity {
		return nil
	}
	return err
}

func (c *scanner) entry(r Rows, index int64) error {
	row, ok, err := r.Entry(index)
	switch {
	case world.KindOf(err) == world.KindIntegrity && err != nil:
		c.hole(err.Error(), "entry %d", index)
	case err != nil:
		return err
	case !ok:
		c.hole("it is missing", "entry %d", index)
	}
	if err != nil || !ok {
		c.above = nil
		return nil
	}
	if index == c.head.Next-1 {
		c.top(&row)
	}
	c.link(&row)
	c.above = &row
	return c.stands(r, &row)
}

// top compares the newest entry with the head.
func (c *scanner) top(row *EntryRow) {
	if row.Entry.EntryHash != c.head.LogHead {
		c.hole(fmt.Sprintf("logHead is not the hash of entry %d", row.Entry.Header.EntryIndex), "head")
	}
	if row.World.Ref != c.head.World {
		c.hole(fmt.Sprintf("the selected world is not that of entry %d", row.Entry.Header.EntryIndex), "head")
	}
}

// link compares an entry with the prevEntryHash of the one above it.
func (c *scanner) link(row *EntryRow) {
	if c.above != nil && c.above.Entry.Header.PrevEntryHash != row.Entry.EntryHash {
		c.hole("prevEntryHash is not the hash of the entry before it", "entry %d", c.above.Entry.Header.EntryIndex)
	}
}

// stands checks an entry and its world by themselves, and what they stand on.
func (c *scanner) stands(r Rows, row *EntryRow) error {
	e, w, index := row.Entry, row.World, row.Entry.Header.EntryIndex
	if w.LogHead != e.EntryHash {
		c.hole("logHead is not the entry's hash", "world of entry %d", index)
	}
	if w.Revision != index {
		c.hole(fmt.Sprintf("revision is %d", w.Revision), "world of entry %d", index)
	}
	if !strings.HasPrefix(e.Header.WrittenBy, world.WriterPrefix) {
		return nil // it came by REST, which names its own hashes and need not bring objects
	}
	if want := world.ComputeEntryHash(e.Header, e.TransitionRef); e.EntryHash != want {
		c.hole("entryHash should be "+want.String(), "entry %d", index)
	}
	if want := world.ComputeWorldRef(w.Revision, w.StateRoot, w.LogHead); w.Ref != want {
		c.hole("ref should be "+want.String(), "world of entry %d", index)
	}
	if err := c.object(r, e.TransitionRef, "transitionRef", index); err != nil {
		return err
	}
	return c.object(r, w.StateRoot, "stateRoot", index)
}

func (c *scanner) object(r Rows, ref world.Ref, field string, index int64) error {
	row, ok, err := r.Object(ref, true)
	if err == nil && ok {
		err = row.prove()
	}
	switch {
	case err != nil && world.KindOf(err) == world.KindIntegrity:
		c.hole(err.Error(), "object %s", ref)
	case err != nil:
		return err
	case !ok:
		c.hole(fmt.Sprintf("it is missing; %s of entry %d names it", field, index), "object %s", ref)
	}
	return nil
}
