package authority_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
)

func open(t *testing.T) (*authority.Authority, *sqlite.Store, *time.Time) {
	t.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "w.db"), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return &authority.Authority{Store: s, Now: func() time.Time { return now }}, s, &now
}

func TestResolve(t *testing.T) {
	ctx := context.Background()
	a, s, now := open(t)
	grants := []world.Grant{{Effect: "E", Scope: "s", Budget: 3}}
	cred, minted, err := a.Mint(ctx, "ep", grants, time.Hour)
	if err != nil || len(cred) != 64 {
		t.Fatalf("%q, %v", cred, err)
	}
	for _, header := range []string{"Bearer " + cred, "bearer " + cred, "BEARER  " + cred} {
		got, err := a.Resolve(ctx, []string{header})
		if err != nil || got.ID != minted.ID || got.Episode != "ep" || len(got.Grants) != 1 || got.Grants[0] != grants[0] || !got.Expires.Equal(minted.Expires) {
			t.Fatalf("%q: %+v, %v", header[:7], got, err)
		}
	}
	for name, c := range map[string]struct {
		lines []string
		kind  world.Kind
		text  string
	}{
		"absent":       {nil, world.KindSessionAbsent, authority.MsgAbsent},
		"empty":        {[]string{""}, world.KindSessionBad, authority.MsgMalformed},
		"no scheme":    {[]string{cred}, world.KindSessionBad, authority.MsgMalformed},
		"other scheme": {[]string{"Basic " + cred}, world.KindSessionBad, authority.MsgMalformed},
		"short":        {[]string{"Bearer " + cred[:62]}, world.KindSessionBad, authority.MsgMalformed},
		"long":         {[]string{"Bearer " + cred + "00"}, world.KindSessionBad, authority.MsgMalformed},
		"not hex":      {[]string{"Bearer " + strings.Repeat("g", 64)}, world.KindSessionBad, authority.MsgMalformed},
		"trailing":     {[]string{"Bearer " + cred + " "}, world.KindSessionBad, authority.MsgMalformed},
		"two lines":    {[]string{"Bearer " + cred, "Bearer " + cred}, world.KindSessionBad, authority.MsgMalformed},
		"unknown":      {[]string{"Bearer " + strings.Repeat("0", 64)}, world.KindSessionUnknown, authority.MsgUnknown},
	} {
		_, err := a.Resolve(ctx, c.lines)
		if world.KindOf(err) != c.kind || world.Message(err) != c.text {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.RevokeSession(ctx, minted.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Resolve(ctx, []string{"Bearer " + cred}); world.KindOf(err) != world.KindSessionUnknown {
		t.Errorf("revoked: %v", err)
	}
	cred2, _, err := a.Mint(ctx, "ep", grants, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	*now = now.Add(time.Hour)
	if _, err := a.Resolve(ctx, []string{"Bearer " + cred2}); world.KindOf(err) != world.KindSessionExpired || world.Message(err) != authority.MsgExpired {
		t.Errorf("expired: %v", err)
	}
}

// TestTheTextsAreTheContracts pins the four texts by letter.
func TestTheTextsAreTheContracts(t *testing.T) {
	for got, want := range map[string]string{
		authority.MsgAbsent:    "session credential is absent: send Authorization: Bearer <session-credential>",
		authority.MsgMalformed: "malformed Authorization header: expected Bearer <64-hex-credential>",
		authority.MsgUnknown:   "unknown session credential",
		authority.MsgExpired:   "session credential has expired",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheCredentialIsNotKept(t *testing.T) {
	a, s, _ := open(t)
	cred, minted, err := a.Mint(context.Background(), "ep", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	id, ok := authority.CredentialID(cred)
	if !ok || id != minted.ID || id.Hex() == cred {
		t.Fatalf("%v, %v", id, ok)
	}
	if all, err := s.Sessions(context.Background(), "", hashref.None, 10); err != nil || len(all) != 1 || all[0].ID != id {
		t.Fatalf("%+v, %v", all, err)
	}
}

func TestMintRefuses(t *testing.T) {
	a, _, _ := open(t)
	for name, c := range map[string]struct {
		episode string
		grants  []world.Grant
		ttl     time.Duration
	}{
		"episode":       {"Not Good", nil, time.Hour},
		"grant":         {"ep", []world.Grant{{Effect: "", Scope: "s"}}, time.Hour},
		"negative":      {"ep", []world.Grant{{Effect: "E", Scope: "s", Budget: -1}}, time.Hour},
		"many":          {"ep", make([]world.Grant, authority.MaxGrants+1), time.Hour},
		"no ttl":        {"ep", nil, 0},
		"ttl too long":  {"ep", nil, authority.MaxTTL + 1},
		"ttl backwards": {"ep", nil, -time.Hour},
	} {
		if _, _, err := a.Mint(context.Background(), c.episode, c.grants, c.ttl); world.KindOf(err) != world.KindBadRequest || world.Message(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// slow is a store whose look-ups never end by themselves.
type slow struct{}

func (slow) Session(ctx context.Context, _ world.Ref) (world.Session, error) {
	<-ctx.Done()
	return world.Session{}, world.Wrap(world.KindTimeout, "slow", ctx.Err())
}

func (slow) PutSession(context.Context, world.Session) error { return errors.New("unused") }

func TestResolveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &authority.Authority{Store: slow{}, Now: time.Now}
		start := time.Now()
		_, err := a.Resolve(t.Context(), []string{"Bearer " + strings.Repeat("0", 64)})
		if world.KindOf(err) != world.KindTimeout || time.Since(start) != authority.CredentialTimeout {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
	})
}
