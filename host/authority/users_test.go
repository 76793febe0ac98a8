package authority

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// shelf keeps what users need, in memory.
type shelf struct {
	mu    sync.Mutex
	kept  []store.Kept
	spent int64

	sessions map[world.Ref]world.Session
	objects  []world.Object
}

func (s *shelf) Session(_ context.Context, id world.Ref) (world.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses, ok := s.sessions[id]; ok {
		return ses, nil
	}
	return world.Session{}, world.Errorf(world.KindNotFound, "shelf", "none")
}

func (s *shelf) PutSession(_ context.Context, ses world.Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.sessions[ses.ID]; there {
		return world.Errorf(world.KindBadRequest, "shelf", "there")
	}
	if s.sessions == nil {
		s.sessions = map[world.Ref]world.Session{}
	}
	s.sessions[ses.ID] = ses
	return nil
}

func (s *shelf) PutObjects(_ context.Context, objects []world.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = append(s.objects, objects...)
	return nil
}

func (s *shelf) find(kind string, key world.Ref) int {
	for i, k := range s.kept {
		if k.Kind == kind && k.Key == key {
			return i
		}
	}
	return -1
}

func (s *shelf) Kept(_ context.Context, kind string, key world.Ref) (store.Kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(kind, key); i >= 0 {
		return s.kept[i], nil
	}
	return store.Kept{}, world.Errorf(world.KindNotFound, "shelf", "none")
}

func (s *shelf) KeptAll(_ context.Context, kind string, after int64, limit int) (page []store.Kept, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kept {
		if k.Kind == kind && k.Place > after && len(page) < limit {
			page = append(page, k)
		}
	}
	return page, nil
}

func (s *shelf) Keep(_ context.Context, k store.Kept, replace bool) (store.Kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(k.Kind, k.Key); i >= 0 {
		if replace {
			s.kept[i] = k
		}
		return s.kept[i], nil
	}
	k.Place = int64(len(s.kept)) + 1
	s.kept = append(s.kept, k)
	return k, nil
}

func (s *shelf) DropKept(_ context.Context, kind string, key world.Ref) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(kind, key)
	if i < 0 {
		return world.Errorf(world.KindNotFound, "shelf", "none")
	}
	s.kept[i].Kind = "" // its place stays taken
	return nil
}

func (s *shelf) Spent(context.Context, string, string, string) (int64, error) { return s.spent, nil }

func newUsers(now *time.Time) *Users {
	return &Users{Store: &shelf{}, Now: func() time.Time { return *now }, Plans: DefaultPlans()}
}

func bearer(token string) []string { return []string{"Bearer " + token} }

func TestTokens(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	u := newUsers(&now)
	for _, c := range []struct {
		subject, plan string
		ttl           time.Duration
		says          string
	}{
		{"", "pro", time.Hour, "subject"}, {strings.Repeat("s", MaxSubject+1), "pro", time.Hour, "subject"}, {"a\nb", "pro", time.Hour, "subject"}, {"ada\u202e", "pro", time.Hour, "subject"}, {" ada ", "pro", time.Hour, "subject"}, {"\xff", "pro", time.Hour, "subject"},
		{"ada", "gold", time.Hour, "there are enterprise, free, organization, pro"}, {"ada", "Pro", time.Hour, "plan"}, {"ada", "", time.Hour, "plan"},
		{"ada", "pro", 0, "ttl"}, {"ada", "pro", MaxTTL + 1, "ttl"},
	} {
		if _, _, err := u.MintToken(ctx, c.subject, c.plan, c.ttl); world.KindOf(err) != world.KindBadRequest || !strings.Contains(world.Message(err), c.says) {
			t.Errorf("%q %q %v: %v", c.subject, c.plan, c.ttl, err)
		}
	}
	token, made, err := u.MintToken(ctx, "ada", "pro", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := u.MintToken(ctx, "ada", "free", 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range u.Store.(*shelf).kept {
		if strings.Contains(string(k.Body), token) || k.Key != made.ID && k.Key == hashref.SumString(token) {
			t.Errorf("the token is kept: %s", k.Body)
		}
	}
	s, err := u.Resolve(ctx, bearer(token))
	if err != nil || s.Plan != "pro" || s.Episode != made.Episode || len(s.Grants) != len(skillGrants()) || !s.LiveAt(now) {
		t.Errorf("%+v %v", s, err)
	}
	other, err := u.Resolve(ctx, bearer(second))
	if err != nil || other.Episode != s.Episode || other.Plan != "free" {
		t.Errorf("a user's other token: %+v %v", other, err)
	}
	if err := world.CheckEpisode(s.Episode); err != nil {
		t.Error(err)
	}
	sh := u.Store.(*shelf)
	if kept := sh.sessions[s.ID]; len(sh.sessions) != 2 || kept.Episode != s.Episode || len(kept.Grants) != len(skillGrants()) || s.ID == made.ID {
		t.Errorf("sessions: %+v", sh.sessions)
	}
	if o := sh.objects[0]; string(o.Payload) != `{"issuer":"","subject":"ada"}` || !strings.HasPrefix(o.Hash.Hex(), s.Episode[2:]) {
		t.Errorf("user: %+v", o)
	}
	if err := CheckMint(s.Episode, nil, time.Hour); world.KindOf(err) != world.KindBadRequest {
		t.Errorf("a session for a user's episode: %v", err)
	}
	now = now.Add(time.Hour)
	if _, err := u.Resolve(ctx, bearer(token)); world.KindOf(err) != world.KindSessionExpired {
		t.Errorf("past its end: %v", err)
	}
	if all, err := u.Tokens(ctx, "ada"); err != nil || len(all) != 2 || all[0].ID != made.ID {
		t.Errorf("%+v %v", all, err)
	}
	if all, err := u.Tokens(ctx, "bob"); err != nil || len(all) != 0 {
		t.Errorf("%+v %v", all, err)
	}
	if n, err := u.RevokeSubject(ctx, "ada"); err != nil || n != 2 {
		t.Errorf("revoked %d: %v", n, err)
	}
	if _, err := u.Resolve(ctx, bearer(second)); world.KindOf(err) != world.KindSessionUnknown {
		t.Errorf("revoked: %v", err)
	}
	if err := u.RevokeToken(ctx, made.ID); world.KindOf(err) != world.KindNotFound {
		t.Errorf("revoked again: %v", err)
	}
}

func TestUserEpisodes(t *testing.T) {
	seen := map[string]User{}
	for _, u := range []User{{"", "ada"}, {"https://a", "ada"}, {"https://b", "ada"}, {"", "bob"}, {"ada", ""}} {
		if other, same := seen[u.Episode()]; same {
			t.Errorf("%v and %v have one episode", u, other)
		}
		seen[u.Episode()] = u
		if string(hashref.Ordered(u)) != string(hashref.MustMarshal(u)) {
			t.Errorf("%v is not canonical", u)
		}
	}
	for _, v := range []any{tokenBody{"c", "e", "p", "s"}, allowance{7}} {
		if string(hashref.Ordered(v)) != string(hashref.MustMarshal(v)) {
			t.Errorf("%+v is not canonical", v)
		}
	}
}

// TestRatesAreExact uses rates up on a moved clock: a call succeeds when it was said that
// it would, and not a second before.
func TestRatesAreExact(t *testing.T) {
	for _, r := range []Rate{{1, time.Minute, 2}, {60, time.Minute, 5}, {7, time.Minute, 3}, {3, time.Second, 1}, {1, time.Hour, 1}, {1000, 24 * time.Hour, 10}, {11, 97 * time.Second, 4}, {1, MaxPer, 1}} {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			l := &Limiter{Plans: Plans{"p": {Rates: map[string]Rate{ClassDefault: r}}}, Now: func() time.Time { return now }}
			s := world.Session{Episode: "u", Plan: "p"}
			for range r.Burst {
				if wait := l.Admit(s, ""); wait != 0 {
					t.Fatalf("within the burst: wait %v", wait)
				}
			}
			begun, admitted := now, 0
			for range 200 {
				wait := l.Admit(s, ClassDefault)
				if wait == 0 {
					admitted++
					continue
				}
				if wait%time.Second != 0 {
					t.Fatalf("wait %v", wait)
				}
				if wait > time.Second {
					now = now.Add(wait - time.Second)
					if l.Admit(s, "") == 0 {
						t.Fatalf("a second before %v are over it is admitted", wait)
					}
					now = now.Add(time.Second)
				} else {
					now = now.Add(wait)
				}
				if again := l.Admit(s, ""); again != 0 {
					t.Fatalf("after %v it says %v", wait, again)
				}
				admitted++
			}
			if most := float64(now.Sub(begun))/float64(r.Per)*float64(r.Requests) + 1e-6; float64(admitted) > most {
				t.Errorf("%d were admitted in %v, at most %v may be", admitted, now.Sub(begun), most)
			}
		})
	}
}

// TestNeverMoreThanAllowed calls from 64 sides at once.
func TestNeverMoreThanAllowed(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := &Limiter{Plans: Plans{"p": {Rates: map[string]Rate{ClassDefault: {1, time.Hour, 100}, ClassExpensive: {1, time.Hour, 10}}}}, Now: func() time.Time { return now }}
	var def, exp, free atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 20 {
				if l.Admit(world.Session{Episode: "u", Plan: "p"}, "") == 0 {
					def.Add(1)
				}
				if l.Admit(world.Session{Episode: "u", Plan: "p"}, ClassExpensive) == 0 {
					exp.Add(1)
				}
				if l.Admit(world.Session{Episode: "u"}, ClassExpensive) == 0 {
					free.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if def.Load() != 100 || exp.Load() != 10 || free.Load() != 64*20 {
		t.Errorf("admitted %d, %d, and %d without a plan", def.Load(), exp.Load(), free.Load())
	}
	if wait := l.Admit(world.Session{Episode: "v", Plan: "p"}, ""); wait != 0 {
		t.Errorf("another user waits %v", wait)
	}
}

// TestPoolsAreBounded: full pools are left out before any other, and a new one is refused
// rather than one that is not full forgotten.
func TestPoolsAreBounded(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := &Limiter{Plans: Plans{"p": {Rates: map[string]Rate{ClassDefault: {1, time.Hour, 1}}}}, Now: func() time.Time { return now }}
	who := func(i int) world.Session { return world.Session{Episode: fmt.Sprint(i), Plan: "p"} }
	for i := range MaxPools {
		if l.Admit(who(i), "") != 0 {
			t.Fatal("refused")
		}
	}
	if l.Admit(who(MaxPools), "") == 0 || l.Admit(who(0), "") == 0 {
		t.Error("a pool that was not full was forgotten")
	}
	now = now.Add(time.Hour)
	if l.Admit(who(MaxPools), "") != 0 || len(l.pools) != 1 {
		t.Errorf("%d pools", len(l.pools))
	}
}

// TestRatesOfAClockThatIsSetBack: it gives nothing and takes nothing.
func TestRatesOfAClockThatIsSetBack(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	l := &Limiter{Plans: Plans{"p": {Rates: map[string]Rate{ClassDefault: {1, time.Minute, 2}}}}, Now: func() time.Time { return now }}
	s := world.Session{Episode: "u", Plan: "p"}
	admit := func(want time.Duration) {
		t.Helper()
		if wait := l.Admit(s, ""); wait != want {
			t.Errorf("at %v: wait %v, want %v", now, wait, want)
		}
	}
	admit(0)
	admit(0)
	admit(time.Minute)
	now = now.Add(30*time.Second - 24*time.Hour)
	admit(time.Minute) // the half minute that went by cannot be known of
	now = now.Add(time.Minute)
	admit(0)
	admit(time.Minute)
	now = now.Add(48 * time.Hour)
	admit(0)
	admit(0)
	admit(time.Minute)
}
