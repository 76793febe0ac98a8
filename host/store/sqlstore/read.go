package sqlstore

import (
	"context"
	"fmt"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// defaultPage is the page of a limit below 1.
const defaultPage = 100

func page(limit int) int {
	if limit < 1 {
		return defaultPage
	}
	return min(limit, store.MaxPage)
}

func notFound(op, subject, msg string) error {
	return &world.Error{Op: op, Kind: world.KindNotFound, Subject: subject, Msg: msg}
}

// view reads one value from a snapshot.
func view[T any](ctx context.Context, s *Store, op string, f func(Rows) (T, error)) (T, error) {
	var out, zero T
	if err := ctx.Err(); err != nil {
		return zero, timeout(op, context.Cause(ctx))
	}
	err := s.backend.Read(ctx, func(r Rows) (err error) {
		out, err = f(r)
		return err
	})
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return zero, timeout(op, context.Cause(ctx))
	}
	return zero, named(op, err)
}

// Head implements store.Reader.
func (s *Store) Head(ctx context.Context) (store.Head, error) {
	const op = "store.Head"
	return view(ctx, s, op, func(r Rows) (store.Head, error) {
		h, err := r.Head()
		if err == nil && h.World.IsNone() {
			err = noWorld(op)
		}
		return store.Head{World: h.World, LogHead: h.LogHead, Next: h.Next}, err
	})
}

// World implements store.Reader.
func (s *Store) World(ctx context.Context, ref world.Ref) (world.World, error) {
	const op = "store.World"
	return view(ctx, s, op, func(r Rows) (world.World, error) {
		row, ok, err := r.EntryByWorld(ref)
		if err == nil && !ok {
			err = notFound(op, ref.String(), "world not found")
		}
		return row.World, err
	})
}

// Object implements store.Reader.
func (s *Store) Object(ctx context.Context, ref world.Ref) (world.Object, error) {
	const op = "store.Object"
	row, err := view(ctx, s, op, func(r Rows) (ObjectRow, error) {
		row, ok, err := r.Object(ref, true)
		if err == nil && !ok {
			err = notFound(op, ref.String(), "object not found")
		}
		return row, err
	})
	if err != nil {
		return world.Object{}, err
	}
	if err := row.prove(); err != nil {
		return world.Object{}, world.Wrap(world.KindIntegrity, op, err)
	}
	return world.Object{ObjectMeta: row.Meta, Payload: row.Payload}, nil
}

// prove compares the payload with the hash it is kept under.
func (r *ObjectRow) prove() error {
	if int64(len(r.Payload)) != r.Size {
		return Damaged("objects", fmt.Sprintf("%d (%s)", r.Seq, r.Meta.Hash), fmt.Errorf("the payload has %d bytes, not %d", len(r.Payload), r.Size))
	}
	if sum := hashref.Sum(r.Payload); sum != r.Meta.Hash {
		return Damaged("objects", fmt.Sprintf("%d (%s)", r.Seq, r.Meta.Hash), fmt.Errorf("the payload's hash is %s", sum))
	}
	return nil
}

// ObjectMeta implements store.Reader.
func (s *Store) ObjectMeta(ctx context.Context, ref world.Ref) (world.ObjectMeta, error) {
	const op = "store.ObjectMeta"
	return view(ctx, s, op, func(r Rows) (world.ObjectMeta, error) {
		row, ok, err := r.Object(ref, false)
		if err == nil && !ok {
			err = notFound(op, ref.String(), "object not found")
		}
		return row.Meta, err
	})
}

// ObjectsBySemanticID implements store.Reader. A limit below 1 means 100.
func (s *Store) ObjectsBySemanticID(ctx context.Context, semanticID string, after world.Ref, limit int) ([]world.ObjectMeta, error) {
	return view(ctx, s, "store.ObjectsBySemanticID", func(r Rows) ([]world.ObjectMeta, error) {
		rows, err := r.ObjectsBySemanticID(semanticID, after, page(limit))
		out := make([]world.ObjectMeta, len(rows))
		for i := range rows {
			out[i] = rows[i].Meta
		}
		return out, err
	})
}

// Entry implements store.Reader.
func (s *Store) Entry(ctx context.Context, index int64) (world.Entry, error) {
	const op = "store.Entry"
	return view(ctx, s, op, func(r Rows) (world.Entry, error) {
		row, ok, err := r.Entry(index)
		if err == nil && !ok {
			err = notFound(op, fmt.Sprint(index), "log entry not found")
		}
		return row.Entry, err
	})
}

// Entries implements store.Reader. A limit below 1 means 100.
func (s *Store) Entries(ctx context.Context, from int64, limit int) ([]world.Entry, error) {
	return view(ctx, s, "store.Entries", func(r Rows) ([]world.Entry, error) {
		rows, err := r.Entries(from, page(limit))
		out := make([]world.Entry, 0, len(rows))
		for i := range rows {
			if rows[i].Entry.Header.EntryIndex != from+int64(i) {
				break
			}
			out = append(out, rows[i].Entry)
		}
		return out, err
	})
}

// RegistryHead implements store.Reader.
func (s *Store) RegistryHead(ctx context.Context, name string) (store.RegistryHead, error) {
	const op = "store.RegistryHead"
	return through(ctx, s.hot, s.hot.registries, name, func() (store.RegistryHead, error) {
		return view(ctx, s, op, func(r Rows) (store.RegistryHead, error) {
			row, ok, err := r.Registry(name)
			if err == nil && !ok {
				err = notFound(op, name, "registry head not found")
			}
			return row.Head, err
		})
	})
}

// Invocation implements store.Reader.
func (s *Store) Invocation(ctx context.Context, id world.InvocationID) (store.Invocation, error) {
	return view(ctx, s, "store.Invocation", func(r Rows) (store.Invocation, error) {
		a, err := readAccount(r, id)
		return a.Invocation, err
	})
}

// Unresolved implements store.Reader. A limit below 1 means 100.
func (s *Store) Unresolved(ctx context.Context, after int64, limit int) ([]store.Invocation, int64, error) {
	return s.UnresolvedOf(ctx, after, limit, Rows.Pending)
}

// UnresolvedOf is Unresolved of those intents that pending lists.
func (s *Store) UnresolvedOf(ctx context.Context, after int64, limit int, pending func(r Rows, after Seq, limit int) ([]JournalRow, error)) ([]store.Invocation, int64, error) {
	type result struct {
		open []store.Invocation
		next int64
	}
	res, err := view(ctx, s, "store.Unresolved", func(r Rows) (result, error) {
		limit := page(limit)
		rows, err := pending(r, Seq(after), limit)
		if err != nil {
			return result{}, err
		}
		var out result
		seen := make(map[world.InvocationID]bool)
		for i := range rows {
			if seen[rows[i].Invocation] {
				continue
			}
			seen[rows[i].Invocation] = true
			a, err := readAccount(r, rows[i].Invocation)
			if err != nil {
				return result{}, err
			}
			out.open = append(out.open, a.Invocation)
		}
		if len(rows) == limit {
			out.next = int64(rows[limit-1].Seq)
		}
		return out, nil
	})
	return res.open, res.next, err
}

// Session implements store.Reader.
func (s *Store) Session(ctx context.Context, id world.Ref) (world.Session, error) {
	const op = "store.Session"
	return through(ctx, s.hot, s.hot.sessions, id, func() (world.Session, error) {
		return view(ctx, s, op, func(r Rows) (world.Session, error) {
			row, ok, err := r.Session(id)
			if err != nil {
				return world.Session{}, err
			}
			if !ok {
				return world.Session{}, notFound(op, id.String(), "session not found")
			}
			return row.session()
		})
	})
}

// Sessions implements store.Reader. A limit below 1 means 100; an after that is not there
// is KindNotFound.
func (s *Store) Sessions(ctx context.Context, episode string, after world.Ref, limit int) ([]world.Session, error) {
	const op = "store.Sessions"
	return view(ctx, s, op, func(r Rows) ([]world.Session, error) {
		var place Seq
		if !after.IsNone() {
			row, ok, err := r.Session(after)
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, notFound(op, after.String(), "session not found")
			}
			place = row.Seq
		}
		rows, err := r.Sessions(episode, false, place, page(limit))
		if err != nil {
			return nil, err
		}
		out := make([]world.Session, len(rows))
		for i := range rows {
			if out[i], err = rows[i].session(); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// Spent implements store.Reader.
func (s *Store) Spent(ctx context.Context, episode, effect, scope string) (int64, error) {
	return view(ctx, s, "store.Spent", func(r Rows) (int64, error) {
		row, _, err := r.Spend(episode, effect, scope)
		return row.Spent, err
	})
}

// Referrers implements store.Reader. A limit below 1 means 100.
func (s *Store) Referrers(ctx context.Context, ref world.Ref, after int64, limit int) ([]store.Referrer, error) {
	return view(ctx, s, "store.Referrers", func(r Rows) ([]store.Referrer, error) {
		rows, err := r.Refs(ref, after, page(limit))
		if err != nil {
			return nil, err
		}
		out := make([]store.Referrer, len(rows))
		for i := range rows {
			if out[i], err = referrer(r, &rows[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// EpisodeEntries implements store.Reader. A limit below 1 means 100.
func (s *Store) EpisodeEntries(ctx context.Context, episode string, place int64, back bool, limit int) ([]int64, error) {
	return view(ctx, s, "store.EpisodeEntries", func(r Rows) ([]int64, error) {
		return r.EpisodeEntries(episode, max(place, 0), back, page(limit))
	})
}

// referrer reads the row that a line of the references index stands for.
func referrer(r Rows, row *RefRow) (store.Referrer, error) {
	out := store.Referrer{Seq: row.Seq}
	var ok bool
	var err error
	var at Seq // where the row that is named says it is
	switch row.Kind {
	case RefObject:
		var o ObjectRow
		o, ok, err = r.ObjectBySeq(row.Place)
		out.Kind, out.Ref, at = store.ReferrerObject, o.Meta.Hash, o.Seq
	case RefEntry:
		var e EntryRow
		e, ok, err = r.Entry(row.Place)
		out.Kind, out.Index, at = store.ReferrerEntry, row.Place, e.Seq
	case RefWorld:
		var e EntryRow
		e, ok, err = r.Entry(row.Place)
		out.Kind, out.Ref, at = store.ReferrerWorld, e.World.Ref, e.Seq+1
	case RefRegistry:
		var g RegistryRow
		g, ok, err = r.RegistryBySeq(row.Place)
		out.Kind, out.Ref, out.Name, at = store.ReferrerRegistry, g.Head.Head, g.Head.Name, g.Seq
	}
	if err == nil && (!ok || at != row.Seq) {
		err = Damaged("refs", row.Seq, fmt.Errorf("it names row %d of kind %d, which is not there, or is another", row.Place, row.Kind))
	}
	return out, err
}
