package authority

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"ailang.dev/world/host/world"
)

// provider serves a discovery document and a key set, and signs.
type provider struct {
	t       testing.TB
	server  *httptest.Server
	keys    atomic.Pointer[jose.JSONWebKeySet]
	down    atomic.Bool
	fetches atomic.Int64
	key     any
	kid     string
	alg     jose.SignatureAlgorithm
}

func newProvider(t testing.TB) *provider {
	p := &provider{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if p.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":"x","token_endpoint":"x"}`, p.server.URL, p.server.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.fetches.Add(1)
		json.NewEncoder(w).Encode(p.keys.Load())
	})
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	p.rotate("k1")
	return p
}

// rotate makes a new key, and tells of that one alone.
func (p *provider) rotate(kid string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		p.t.Fatal(err)
	}
	p.key, p.kid, p.alg = key, kid, jose.RS256
	p.keys.Store(&jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: kid, Algorithm: "RS256", Use: "sig"}}})
}

func (p *provider) sign(claims map[string]any) string {
	p.t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: p.alg, Key: p.key}, (&jose.SignerOptions{}).WithHeader("kid", p.kid).WithType("at+jwt"))
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// claims are those of a good token, changed; nil takes one out.
func (p *provider) claims(now time.Time, changes map[string]any) map[string]any {
	c := map[string]any{"iss": p.server.URL, "aud": []string{"other", "world"}, "sub": "ada", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "plan": "gold"}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

func (p *provider) users(now *time.Time, change func(*IssuerConfig)) *Users {
	p.t.Helper()
	cfg := IssuerConfig{URL: p.server.URL, Audience: "world", Leeway: 30 * time.Second, PlanClaim: "plan", Plans: []ClaimPlan{{"gold", "pro"}}, DefaultPlan: "free"}
	if change != nil {
		change(&cfg)
	}
	u := newUsers(now)
	i, err := NewIssuer(cfg, u.Now, p.t.Logf)
	if err != nil {
		p.t.Fatal(err)
	}
	u.Issuers = []*Issuer{i}
	return u
}

var issuersStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestIssuers(t *testing.T) {
	p := newProvider(t)
	now := issuersStart
	u := p.users(&now, nil)
	good := p.claims(now, nil)
	s, err := u.Resolve(t.Context(), bearer(p.sign(good)))
	if err != nil || s.Plan != "pro" || s.Episode != (User{p.server.URL, "ada"}).Episode() || len(s.Grants) != len(skillGrants()) {
		t.Fatalf("%+v %v", s, err)
	}
	if want := now.Add(time.Hour + 30*time.Second); !s.Expires.Equal(want) {
		t.Errorf("expires %v, want %v", s.Expires, want)
	}
	forged := func(claims map[string]any) string {
		other := newProvider(t)
		other.kid = p.kid
		return other.sign(claims)
	}
	parts := strings.Split(p.sign(good), ".")
	hs := func() string { // signed with the public key as if it were a secret
		q := &provider{t: t, key: []byte(strings.Repeat("k", 32)), kid: p.kid, alg: jose.HS256}
		return q.sign(good)
	}
	ec := func() string {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		p.keys.Store(&jose.JSONWebKeySet{Keys: append(p.keys.Load().Keys, jose.JSONWebKey{Key: key.Public(), KeyID: "ec", Algorithm: "ES256"})})
		q := &provider{t: t, key: key, kid: "ec", alg: jose.ES256}
		return q.sign(good)
	}
	for name, c := range map[string]struct {
		token string
		kind  world.Kind
	}{
		"another audience":      {p.sign(p.claims(now, map[string]any{"aud": "other"})), world.KindSessionUnknown},
		"no audience":           {p.sign(p.claims(now, map[string]any{"aud": nil})), world.KindSessionUnknown},
		"another issuer":        {p.sign(p.claims(now, map[string]any{"iss": "https://other.example"})), world.KindSessionUnknown},
		"no issuer":             {p.sign(p.claims(now, map[string]any{"iss": nil})), world.KindSessionUnknown},
		"no subject":            {p.sign(p.claims(now, map[string]any{"sub": nil})), world.KindSessionUnknown},
		"a subject with a line": {p.sign(p.claims(now, map[string]any{"sub": "a\nb"})), world.KindSessionUnknown},
		"no end":                {p.sign(p.claims(now, map[string]any{"exp": nil})), world.KindSessionUnknown},
		"an end in words":       {p.sign(p.claims(now, map[string]any{"exp": "never"})), world.KindSessionUnknown},
		"ended":                 {p.sign(p.claims(now, map[string]any{"exp": now.Add(-31 * time.Second).Unix()})), world.KindSessionExpired},
		"not yet":               {p.sign(p.claims(now, map[string]any{"nbf": now.Add(time.Hour).Unix()})), world.KindSessionUnknown},
		"forged":                {forged(good), world.KindSessionUnknown},
		"forged and ended":      {forged(p.claims(now, map[string]any{"exp": now.Add(-time.Hour).Unix()})), world.KindSessionUnknown},
		"unsigned":              {"eyJhbGciOiJub25lIn0." + parts[1] + ".", world.KindSessionUnknown},
		"a secret":              {hs(), world.KindSessionUnknown},
		"another algorithm":     {ec(), world.KindSessionUnknown},
		"another's claims":      {parts[0] + "." + strings.Split(forged(p.claims(now, map[string]any{"sub": "eve"})), ".")[1] + "." + parts[2], world.KindSessionUnknown},
		"no token":              {"a.b.c", world.KindSessionUnknown},
		"two parts":             {parts[0] + "." + parts[1], world.KindSessionBad},
		"too long":              {strings.Repeat("a", MaxBearer) + ".b.c", world.KindSessionBad},
	} {
		if s, err := u.Resolve(t.Context(), bearer(c.token)); err == nil || world.KindOf(err) != c.kind {
			t.Errorf("%s: %+v %v", name, s, err)
		}
	}
	for name, token := range map[string]string{
		"one audience":      p.sign(p.claims(now, map[string]any{"aud": "world"})),
		"within the leeway": p.sign(p.claims(now, map[string]any{"exp": now.Add(-29 * time.Second).Unix()})),
	} {
		if _, err := u.Resolve(t.Context(), bearer(token)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	u.Issuers = nil
	if _, err := u.Resolve(t.Context(), bearer(p.sign(good))); world.KindOf(err) != world.KindSessionBad {
		t.Errorf("without an issuer: %v", err)
	}
}

// TestKeysRotate: a token by a new key makes us look, but tokens that no key fits cannot
// make us look often; a key that was taken back is not believed for long.
func TestKeysRotate(t *testing.T) {
	p := newProvider(t)
	now := issuersStart
	u := p.users(&now, nil)
	resolve := func(token string) error {
		_, err := u.Resolve(t.Context(), bearer(token))
		return err
	}
	old := p.sign(p.claims(now, map[string]any{"exp": now.Add(48 * time.Hour).Unix()}))
	if err := resolve(old); err != nil {
		t.Fatal(err)
	}
	p.rotate("k2")
	fresh := p.sign(p.claims(now, map[string]any{"exp": now.Add(48 * time.Hour).Unix()}))
	if err := resolve(fresh); world.KindOf(err) != world.KindSessionUnknown || p.fetches.Load() != 1 {
		t.Errorf("right after a look: %v, %d looks", err, p.fetches.Load())
	}
	now = now.Add(keysPause)
	if err := resolve(fresh); err != nil || p.fetches.Load() != 2 {
		t.Errorf("a new key: %v, %d looks", err, p.fetches.Load())
	}
	for range 50 {
		if err := resolve(old); world.KindOf(err) != world.KindSessionUnknown {
			t.Errorf("a key that was taken back: %v", err)
		}
	}
	if n := p.fetches.Load(); n != 2 {
		t.Errorf("%d looks", n)
	}
}

// TestIssuerIsDown: what is known serves on for a day; without it nobody is unknown, but the
// daemon cannot tell.
func TestIssuerIsDown(t *testing.T) {
	p := newProvider(t)
	p.down.Store(true)
	now := issuersStart
	u := p.users(&now, nil)
	token := p.sign(p.claims(now, map[string]any{"exp": now.Add(48 * time.Hour).Unix()}))
	resolve := func() world.Kind {
		_, err := u.Resolve(t.Context(), bearer(token))
		u.Issuers[0].keys.beside.Wait()
		if err == nil {
			return -1
		}
		return world.KindOf(err)
	}
	for range 3 {
		if kind := resolve(); kind != world.KindInternal {
			t.Errorf("down at first: %v", kind)
		}
	}
	p.down.Store(false)
	now = now.Add(keysPause)
	if kind := resolve(); kind != -1 || p.fetches.Load() != 1 {
		t.Errorf("up: %v", kind)
	}
	p.down.Store(true)
	now = now.Add(keysStale - time.Minute)
	if kind := resolve(); kind != -1 {
		t.Errorf("down for less than a day: %v", kind)
	}
	now = now.Add(2 * time.Minute)
	if kind := resolve(); kind != world.KindInternal {
		t.Errorf("down for a day: %v", kind)
	}
}

func TestPlansOfClaims(t *testing.T) {
	for _, c := range []struct{ claim, claims, want string }{
		{"plan", `{"plan":"gold"}`, "pro"},
		{"plan", `{"plan":"tin"}`, "free"},
		{"plan", `{}`, "free"},
		{"plan", `{"plan":["tin","silver","gold"]}`, "pro"}, // the first of the configured ones
		{"plan", `{"plan":["silver"]}`, "organization"},
		{"plan", `{"plan":7}`, "free"},
		{"plan", `{"plan":{"gold":true}}`, "free"},
		{"realm.roles", `{"realm":{"roles":["gold"]}}`, "pro"},
		{"realm.roles", `{"realm":"gold"}`, "free"},
		{"https://x.example/plan", `{"https://x.example/plan":"gold"}`, "pro"},
		{"", `{"plan":"gold"}`, "free"},
	} {
		cfg := IssuerConfig{URL: "https://id.example", Audience: "a", PlanClaim: c.claim, DefaultPlan: "free"}
		if c.claim != "" {
			cfg.Plans = []ClaimPlan{{"gold", "pro"}, {"silver", "organization"}}
		}
		i, err := NewIssuer(cfg, time.Now, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		var claims map[string]any
		if err := json.Unmarshal([]byte(c.claims), &claims); err != nil {
			t.Fatal(err)
		}
		if got := i.plan(claims); got != c.want {
			t.Errorf("%s in %s: %q", c.claim, c.claims, got)
		}
	}
}

func TestIssuerConfig(t *testing.T) {
	good := IssuerConfig{URL: "https://id.example/realm", Audience: "world", DefaultPlan: "free"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*IssuerConfig){
		"issuer": func(c *IssuerConfig) { c.URL = "http://id.example" }, "issuer ": func(c *IssuerConfig) { c.URL = "" }, "issuer  ": func(c *IssuerConfig) { c.URL = "https://a@b" },
		"audience": func(c *IssuerConfig) { c.Audience = "" }, "jwks": func(c *IssuerConfig) { c.JWKS = "file:///keys" },
		"algorithms": func(c *IssuerConfig) { c.Algorithms = []string{"HS256"} }, "algorithms ": func(c *IssuerConfig) { c.Algorithms = []string{"none"} },
		"leeway": func(c *IssuerConfig) { c.Leeway = MaxLeeway + 1 }, "plan_claim": func(c *IssuerConfig) { c.PlanClaim = "plan" },
		"default_plan": func(c *IssuerConfig) { c.DefaultPlan = "" },
	} {
		c := good
		change(&c)
		var wrong *IssuerError
		if err := c.Check(); err == nil {
			t.Errorf("%s: accepted", field)
		} else if wrong, _ = err.(*IssuerError); wrong.Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, u := range []string{"http://127.0.0.1:9/x", "http://localhost:9", "http://[::1]:9"} {
		if why := checkSecureURL(u); why != "" {
			t.Errorf("%s %s", u, why)
		}
	}
}

// FuzzBearer: whatever stands where a provider's token should, it is refused as bad, unknown or
// expired, and makes nobody a user; only the one that was signed is taken.
func FuzzBearer(f *testing.F) {
	p := newProvider(f)
	now := issuersStart
	u := p.users(&now, nil)
	good := p.sign(p.claims(now, nil))
	parts := strings.Split(good, ".")
	for _, s := range []string{good, good + ".", parts[0] + "." + parts[1] + ".", parts[0] + ".e30." + parts[2], "eyJhbGciOiJub25lIn0." + parts[1] + ".", "a.b.c", "..", strings.Repeat("A", MaxBearer)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		s, err := u.Resolve(t.Context(), bearer(token))
		if err == nil {
			if header, claims := strings.Split(token, ".")[0], strings.Split(token, ".")[1]; header != parts[0] || claims != parts[1] {
				t.Fatalf("%q is %+v", token, s)
			}
			return
		}
		switch world.KindOf(err) {
		case world.KindSessionBad, world.KindSessionUnknown, world.KindSessionExpired:
		default:
			t.Fatalf("%q: %v", token, err)
		}
	})
}

// FuzzKeys: whatever a provider gives as its keys is refused, or is public keys, a bounded number.
func FuzzKeys(f *testing.F) {
	p := newProvider(f)
	set, err := json.Marshal(p.keys.Load())
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{string(set), `{"keys":[]}`, `{"keys":[{"kty":"oct","k":"AAAA"}]}`, `{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`, "null", `{"keys":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := publicKeys(text)
		if err != nil {
			return
		}
		if len(keys) == 0 || len(keys) > maxKeys {
			t.Fatalf("%d keys", len(keys))
		}
		for _, k := range keys {
			switch k.(type) {
			case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
			default:
				t.Fatalf("a key of %T", k)
			}
		}
	})
}
