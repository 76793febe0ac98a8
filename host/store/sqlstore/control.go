package sqlstore

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// MaxGrants bounds the grants of one session.
const MaxGrants = 1024

// SwapRegistry implements store.Writer.
func (s *Store) SwapRegistry(ctx context.Context, name string, observed, next world.Ref, objects []world.Object) (store.RegistryHead, error) {
	const op = "store.SwapRegistry"
	if err := checkTexts(op, text{"name", name}); err != nil {
		return store.RegistryHead{}, err
	}
	if next.IsNone() {
		return store.RegistryHead{}, world.Errorf(world.KindBadRequest, op, "a registry head must be a reference")
	}
	p, err := prepareProven(op, objects)
	if err != nil {
		return store.RegistryHead{}, err
	}
	return submit(ctx, s.writer, op, p.bytes, p.needs(""), func(t *txn) (store.RegistryHead, error) {
		old, _, err := t.Registry(name)
		if err != nil {
			return store.RegistryHead{}, err
		}
		if old.Head.Head != observed {
			return store.RegistryHead{}, conflict(op, observed, old.Head.Head)
		}
		if err := t.putObjects(p); err != nil {
			return store.RegistryHead{}, err
		}
		row := RegistryRow{Seq: t.place(), Head: store.RegistryHead{Name: name, Head: next, Revision: old.Head.Revision + 1}}
		t.refs = RefsOfRegistry(t.refs, &row)
		t.control = true
		return row.Head, t.AddRegistry(&row)
	})
}

// PutSession implements store.Writer.
func (s *Store) PutSession(ctx context.Context, ses world.Session) error {
	const op = "store.PutSession"
	row, err := sessionRow(op, &ses)
	if err != nil {
		return err
	}
	_, err = submit(ctx, s.writer, op, len(row.Grants), nil, func(t *txn) (struct{}, error) {
		_, there, err := t.Session(row.ID)
		if err != nil {
			return struct{}{}, err
		}
		if there {
			return struct{}{}, world.Errorf(world.KindBadRequest, op, "session %s is already there", row.ID)
		}
		row := row
		row.Seq = t.place()
		t.control = true
		return struct{}{}, t.AddSession(&row)
	})
	return err
}

func sessionRow(op string, ses *world.Session) (SessionRow, error) {
	if err := checkTexts(op, text{"episode", ses.Episode}); err != nil {
		return SessionRow{}, err
	}
	if len(ses.Grants) > MaxGrants {
		return SessionRow{}, world.Errorf(world.KindTooLarge, op, "a session may have at most %d grants, not %d", MaxGrants, len(ses.Grants))
	}
	for _, g := range ses.Grants {
		if err := checkTexts(op, text{"grant effect", g.Effect}, text{"grant scope", g.Scope}); err != nil {
			return SessionRow{}, err
		}
	}
	if ses.ID.IsNone() {
		return SessionRow{}, world.Errorf(world.KindBadRequest, op, "a session needs an id")
	}
	for _, t := range []time.Time{ses.Created, ses.Expires} {
		if back, err := ParseTime(FormatTime(t)); err != nil || !back.Equal(t) {
			return SessionRow{}, world.Errorf(world.KindBadRequest, op, "a session's times must lie in the years 0 to 9999")
		}
	}
	grants, err := json.Marshal(ses.Grants)
	if err != nil {
		return SessionRow{}, &world.Error{Op: op, Kind: world.KindBadRequest, Msg: "a session's grants must be valid UTF-8", Err: err}
	}
	return SessionRow{ID: ses.ID, Episode: ses.Episode, Grants: string(grants),
		Created: ses.Created.UTC(), Expires: ses.Expires.UTC(), Revoked: ses.Revoked}, nil
}

// session is the row as the contract speaks of it.
func (r *SessionRow) session() (world.Session, error) {
	s := world.Session{ID: r.ID, Episode: r.Episode, Created: r.Created, Expires: r.Expires, Revoked: r.Revoked}
	if err := json.Unmarshal([]byte(r.Grants), &s.Grants); err != nil {
		return world.Session{}, Damaged("sessions", r.Seq, err)
	}
	if len(s.Grants) == 0 {
		s.Grants = nil
	}
	return s, nil
}

// RevokeSession implements store.Writer.
func (s *Store) RevokeSession(ctx context.Context, id world.Ref) error {
	const op = "store.RevokeSession"
	_, err := submit(ctx, s.writer, op, 0, nil, func(t *txn) (struct{}, error) {
		row, there, err := t.Session(id)
		if err != nil {
			return struct{}{}, err
		}
		if !there {
			return struct{}{}, notFound(op, id.String(), "session not found")
		}
		if row.Revoked {
			return struct{}{}, nil
		}
		return struct{}{}, t.revoke(&row)
	})
	return err
}

func (t *txn) revoke(row *SessionRow) error {
	t.dirty, t.control = true, true
	row.Revoked = true
	return t.Tx.RevokeSession(row)
}

// RevokeEpisode implements store.Writer.
func (s *Store) RevokeEpisode(ctx context.Context, episode string) (int, error) {
	const op = "store.RevokeEpisode"
	if episode == "" {
		return 0, world.Errorf(world.KindBadRequest, op, "an episode needs a name")
	}
	return submit(ctx, s.writer, op, 0, nil, func(t *txn) (int, error) {
		n := 0
		for {
			rows, err := t.Sessions(episode, true, 0, store.MaxPage)
			if err != nil {
				return 0, err
			}
			for i := range rows {
				if err := t.revoke(&rows[i]); err != nil {
					return 0, err
				}
			}
			n += len(rows)
			if len(rows) < store.MaxPage {
				return n, nil
			}
		}
	})
}
