package sqlstore

import "context"

// Dump hands a store as it is at one moment to v: its head first, then every row. A row that
// does not prove itself ends it. It is for moving a world.
func (s *Store) Dump(ctx context.Context, head func(HeadRow) error, v *Visitor) error {
	_, err := view(ctx, s, "store.Dump", func(r Rows) (struct{}, error) {
		h, err := r.Head()
		if err == nil {
			err = head(h)
		}
		if err == nil {
			err = r.Audit(whole(ctx, v))
		}
		return struct{}{}, err
	})
	return err
}

// whole shows v rows that prove themselves, and nothing once ctx ended.
func whole(ctx context.Context, v *Visitor) *Visitor {
	return &Visitor{
		Object: func(r *ObjectRow, damage error) error {
			if damage == nil {
				damage = r.prove()
			}
			return proven(ctx, r, damage, v.Object)
		},
		Entry:    func(r *EntryRow, damage error) error { return proven(ctx, r, damage, v.Entry) },
		Journal:  func(r *JournalRow, damage error) error { return proven(ctx, r, damage, v.Journal) },
		Registry: func(r *RegistryRow, damage error) error { return proven(ctx, r, damage, v.Registry) },
		Session:  func(r *SessionRow, damage error) error { return proven(ctx, r, damage, v.Session) },
		Spend:    func(r *SpendRow, damage error) error { return proven(ctx, r, damage, v.Spend) },
		Kept:     func(r *KeptRow, damage error) error { return proven(ctx, r, damage, v.Kept) },
		Pending:  v.Pending,
		Derived:  func(error) error { return nil }, // it is made anew
	}
}

func proven[R any](ctx context.Context, r *R, damage error, show func(*R, error) error) error {
	switch {
	case damage != nil:
		return damage
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return show(r, nil)
}
