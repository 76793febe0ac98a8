package sqlstore

import (
	"context"
	"time"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Kept implements store.Reader.
func (s *Store) Kept(ctx context.Context, kind string, key world.Ref) (store.Kept, error) {
	const op = "store.Kept"
	return view(ctx, s, op, func(r Rows) (store.Kept, error) {
		row, ok, err := r.Kept(kind, key)
		if err == nil && !ok {
			err = notFound(op, kind+" "+key.String(), "nothing is kept there")
		}
		return row.kept(), err
	})
}

// KeptAll implements store.Reader. A limit below 1 means 100.
func (s *Store) KeptAll(ctx context.Context, kind string, after int64, limit int) ([]store.Kept, error) {
	return view(ctx, s, "store.KeptAll", func(r Rows) ([]store.Kept, error) {
		rows, err := r.KeptAll(kind, after, page(limit))
		out := make([]store.Kept, len(rows))
		for i := range rows {
			out[i] = rows[i].kept()
		}
		return out, err
	})
}

// Keep implements store.Writer.
func (s *Store) Keep(ctx context.Context, k store.Kept, replace bool) (store.Kept, error) {
	const op = "store.Keep"
	row, err := keptRow(op, &k)
	if err != nil {
		return store.Kept{}, err
	}
	return submit(ctx, s.writer, op, len(row.Body), nil, func(t *txn) (store.Kept, error) {
		there, ok, err := t.Kept(row.Kind, row.Key)
		if err != nil {
			return store.Kept{}, err
		}
		if ok && !replace {
			return there.kept(), nil
		}
		t.dirty = true
		row := row
		if row.ID = there.ID; ok {
			return row.kept(), t.SetKept(&row)
		}
		err = t.AddKept(&row)
		return row.kept(), err
	})
}

// DropKept implements store.Writer.
func (s *Store) DropKept(ctx context.Context, kind string, key world.Ref) error {
	const op = "store.DropKept"
	_, err := submit(ctx, s.writer, op, 0, nil, func(t *txn) (struct{}, error) {
		there, err := t.DropKept(kind, key)
		if err == nil && !there {
			err = notFound(op, kind+" "+key.String(), "nothing is kept there")
		}
		t.dirty = t.dirty || there
		return struct{}{}, err
	})
	return err
}

// SweepKept implements store.Writer. A limit below 1 means 100.
func (s *Store) SweepKept(ctx context.Context, ended time.Time, limit int) (int, error) {
	return submit(ctx, s.writer, "store.SweepKept", 0, nil, func(t *txn) (int, error) {
		n, err := t.SweepKept(ended.UnixMilli(), page(limit))
		t.dirty = t.dirty || n > 0
		return n, err
	})
}

func keptRow(op string, k *store.Kept) (KeptRow, error) {
	if err := checkTexts(op, text{"kind", k.Kind}); err != nil {
		return KeptRow{}, err
	}
	switch {
	case k.Kind == "" || len(k.Kind) > store.MaxKind || k.Key.IsNone():
		return KeptRow{}, world.Errorf(world.KindBadRequest, op, "what is kept needs a kind of at most %d bytes, and a key", store.MaxKind)
	case len(k.Body) > store.MaxPayload:
		return KeptRow{}, world.Errorf(world.KindTooLarge, op, "what is kept must be at most %d bytes, not %d", store.MaxPayload, len(k.Body))
	}
	return KeptRow{Kind: k.Kind, Key: k.Key, Expires: k.Expires.UnixMilli(), Body: k.Body}, nil
}

// kept is the row as the contract speaks of it.
func (r *KeptRow) kept() store.Kept {
	if r.Kind == "" {
		return store.Kept{}
	}
	return store.Kept{Place: r.ID, Kind: r.Kind, Key: r.Key, Expires: time.UnixMilli(r.Expires).UTC(), Body: r.Body}
}
