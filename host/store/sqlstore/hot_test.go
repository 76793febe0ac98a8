package sqlstore

import (
	"context"
	"errors"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// settled is a backend whose doubt is resolved: the batch had landed.
type settled struct{ Backend }

func (settled) Settle() (bool, error) { return true, nil }

// TestNothingOlderIsServed: what is kept in memory is dropped when a batch that changed
// sessions or registries is durable, when it is not known what is, and again when that is
// known: what was read in between may be older than what turned out to be durable.
func TestNothingOlderIsServed(t *testing.T) {
	h := newHot(true)
	w := &writer{backend: settled{}, hot: h}
	id := hashref.SumString("session")
	revoked, reads := false, 0
	read := func() (world.Session, error) {
		reads++
		return world.Session{ID: id, Revoked: revoked}, nil
	}
	session := func() world.Session {
		t.Helper()
		s, err := through(context.Background(), h, h.sessions, id, read)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	session()
	session()
	if reads != 1 {
		t.Fatalf("read %d times, want once", reads)
	}
	h.landed(&txn{})
	if session(); reads != 1 {
		t.Fatal("a batch that touched neither sessions nor registries dropped them")
	}
	revoked = true
	h.landed(&txn{control: true})
	if !session().Revoked {
		t.Fatal("a session is served as it was before an acknowledged revocation")
	}

	revoked = false
	h.forget()
	w.unsettled = true // the batch that revokes is in doubt
	if session().Revoked {
		t.Fatal("the reading is wrong")
	}
	revoked = true
	if err := w.settle(); err != nil || w.unsettled {
		t.Fatal(err)
	}
	if !session().Revoked {
		t.Fatal("a session is served as it was read while it was not known what is durable")
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	failed := errors.New("the read ended")
	if _, err := through(ctx, h, h.sessions, id, func() (world.Session, error) { return world.Session{}, failed }); !errors.Is(err, failed) {
		t.Fatalf("a context that ended: %v", err)
	}
	h.on.Store(false)
	before := reads
	if session(); reads != before+1 {
		t.Fatal("a closed store answered from memory")
	}
}
