package authority

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/sync/singleflight"

	"ailang.dev/world/host/world"
)

// Bounds of issuers and their keys.
const (
	MaxIssuers   = 16
	MaxLeeway    = 5 * time.Minute
	keysTimeout  = 2 * time.Second  // one look at an issuer's keys, discovery included
	keysFresh    = 15 * time.Minute // after that they are looked at again, beside the calls
	keysStale    = 24 * time.Hour   // after that they are not believed any more
	keysPause    = 10 * time.Second // between two looks because of tokens that no key fits
	maxKeysBody  = 1 << 20          // bytes of an issuer's answer
	maxKeys      = 64
	maxClaimPath = 8
)

// Algorithms are what an issuer's tokens may be signed with: those with public keys.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// IssuerConfig is one OpenID Connect provider whose access tokens are accepted.
type IssuerConfig struct {
	URL      string // exactly as the iss claim has it
	Audience string // what the aud claim must hold
	// Algorithms pins what tokens may be signed with; none is RS256.
	Algorithms []string
	// JWKS is where the keys are; "" asks the issuer's discovery document.
	JWKS string
	// Leeway is how far the issuer's clock may be behind.
	Leeway time.Duration
	// PlanClaim is the claim that tells the plan, a text or a list of them; a dot goes into
	// an object. Plans maps its values; the first that the claim holds counts.
	PlanClaim string
	Plans     []ClaimPlan
	// DefaultPlan is the plan of who has none of these; "" is none.
	DefaultPlan string
}

// ClaimPlan maps a value of the plan claim.
type ClaimPlan struct{ Value, Plan string }

// Issuer verifies one issuer's tokens.
type Issuer struct {
	cfg      IssuerConfig
	keys     *keySet
	verifier *oidc.IDTokenVerifier
}

// NewIssuer checks a configuration; nothing is asked of the issuer before its first token.
func NewIssuer(cfg IssuerConfig, now func() time.Time, logf func(string, ...any)) (*Issuer, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if len(cfg.Algorithms) == 0 {
		cfg.Algorithms = []string{"RS256"}
	}
	k := &keySet{issuer: cfg.URL, url: cfg.JWKS, now: now, logf: logf, client: &http.Client{
		Timeout: keysTimeout, Transport: bounded{http.DefaultTransport}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	return &Issuer{cfg: cfg, keys: k, verifier: oidc.NewVerifier(cfg.URL, k, &oidc.Config{
		ClientID: cfg.Audience, SupportedSigningAlgs: cfg.Algorithms,
		Now: func() time.Time { return now().Add(-cfg.Leeway) },
	})}, nil
}

// URL is the issuer's.
func (i *Issuer) URL() string { return i.cfg.URL }

// IssuerError is what is wrong with a configuration, and which field.
type IssuerError struct{ Field, Why string }

func (e *IssuerError) Error() string { return e.Field + " " + e.Why }

// Check tells what is wrong with a configuration, as an *IssuerError.
func (c IssuerConfig) Check() error {
	bad := func(field, format string, args ...any) error {
		return &IssuerError{field, fmt.Sprintf(format, args...)}
	}
	if why := checkSecureURL(c.URL); why != "" {
		return bad("issuer", "%q %s", c.URL, why)
	}
	if c.Audience == "" {
		return bad("audience", "must be given: tokens for others must not be accepted here")
	}
	if c.JWKS != "" {
		if why := checkSecureURL(c.JWKS); why != "" {
			return bad("jwks", "%q %s", c.JWKS, why)
		}
	}
	for _, alg := range c.Algorithms {
		if !slices.Contains(Algorithms, alg) {
			return bad("algorithms", "%q is not one of %s", alg, strings.Join(Algorithms, ", "))
		}
	}
	if c.Leeway < 0 || c.Leeway > MaxLeeway {
		return bad("leeway", "must be from 0s to %v", MaxLeeway)
	}
	if (c.PlanClaim == "") != (len(c.Plans) == 0) {
		return bad("plan_claim", "and plans need one another")
	}
	if c.PlanClaim == "" && c.DefaultPlan == "" {
		return bad("default_plan", "must be given where no plan_claim is: nobody would have a plan")
	}
	if strings.Count(c.PlanClaim, ".") >= maxClaimPath {
		return bad("plan_claim", "goes deeper than %d objects", maxClaimPath)
	}
	return nil
}

// checkSecureURL accepts https, and http to this machine.
func checkSecureURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "" {
		return "must be a URL without user, query and fragment"
	}
	if u.Scheme == "https" {
		return ""
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback()) {
		return ""
	}
	return "must be an https URL, or http on this machine"
}

// verify finds the issuer of a token and what the token says. Whatever is wrong with it but
// its end is KindSessionUnknown; an issuer that does not answer is KindInternal.
func (u *Users) verify(ctx context.Context, bearer string) (User, Token, error) {
	const op = "authority.Users.verify"
	unknown := world.Errorf(world.KindSessionUnknown, op, MsgUnknown)
	algs := make([]jose.SignatureAlgorithm, len(Algorithms))
	for i, a := range Algorithms {
		algs[i] = jose.SignatureAlgorithm(a)
	}
	parsed, err := jwt.ParseSigned(bearer, algs)
	if err != nil {
		return User{}, Token{}, unknown
	}
	var said struct {
		Issuer  string `json:"iss"`
		Expires any    `json:"exp"`
	}
	if parsed.UnsafeClaimsWithoutVerification(&said) != nil {
		return User{}, Token{}, unknown
	}
	if _, number := said.Expires.(float64); !number { // the verifier takes one without for one that ended
		unknown.Err = errors.New("exp is not a number")
		return User{}, Token{}, unknown
	}
	at := slices.IndexFunc(u.Issuers, func(i *Issuer) bool { return i.cfg.URL == said.Issuer })
	if at < 0 {
		return User{}, Token{}, unknown
	}
	i := u.Issuers[at]
	token, err := i.verifier.Verify(ctx, bearer)
	var ended *oidc.TokenExpiredError
	var missing *keysError
	if errors.As(err, &ended) {
		// That it ended is told only of what was a token.
		if _, err = i.keys.VerifySignature(ctx, bearer); err == nil {
			return User{}, Token{}, world.Errorf(world.KindSessionExpired, op, MsgExpired)
		}
	}
	if errors.As(err, &missing) || errors.As(i.keys.trouble(err), &missing) {
		return User{}, Token{}, &world.Error{Op: op, Kind: world.KindInternal, Subject: i.cfg.URL, Err: missing}
	}
	if err != nil {
		unknown.Err = err
		return User{}, Token{}, unknown
	}
	if why := checkSubject(token.Subject); why != "" {
		unknown.Err = fmt.Errorf("sub %s", why)
		return User{}, Token{}, unknown
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		unknown.Err = err
		return User{}, Token{}, unknown
	}
	return User{Issuer: i.cfg.URL, Subject: token.Subject}, Token{
		Subject: token.Subject, Plan: i.plan(claims), Created: token.IssuedAt, Expires: token.Expiry.Add(i.cfg.Leeway),
	}, nil
}

// plan is what the plan claim leads to.
func (i *Issuer) plan(claims map[string]any) string {
	if i.cfg.PlanClaim == "" {
		return i.cfg.DefaultPlan
	}
	var at any = claims
	if whole, there := claims[i.cfg.PlanClaim]; there { // a name with dots in it, a URL for one
		at = whole
	} else {
		for name := range strings.SplitSeq(i.cfg.PlanClaim, ".") {
			object, _ := at.(map[string]any)
			at = object[name]
		}
	}
	var values []string
	switch v := at.(type) {
	case string:
		values = []string{v}
	case []any:
		for _, item := range v {
			if s, ok := item.(string); ok {
				values = append(values, s)
			}
		}
	}
	for _, p := range i.cfg.Plans {
		if slices.Contains(values, p.Value) {
			return p.Plan
		}
	}
	return i.cfg.DefaultPlan
}

// keySet is an issuer's keys, looked at again when they are old, and when a token comes that
// none of them fits; but not at the pace that such tokens come.
type keySet struct {
	issuer, url string
	client      *http.Client
	now         func() time.Time
	logf        func(string, ...any)

	look    singleflight.Group
	beside  sync.WaitGroup // looks that nobody waits for
	mu      sync.Mutex
	keys    []crypto.PublicKey
	fetched time.Time // when these were had
	tried   time.Time // when they were last looked at, in vain too
	failed  error     // why that was in vain
}

// keysError says that an issuer's keys could not be had.
type keysError struct{ err error }

func (e *keysError) Error() string { return "its keys cannot be had: " + e.err.Error() }
func (e *keysError) Unwrap() error { return e.err }

// VerifySignature implements oidc.KeySet.
func (k *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	keys, err := k.current(ctx)
	if err != nil {
		return nil, err
	}
	payload, err := (&oidc.StaticKeySet{PublicKeys: keys}).VerifySignature(ctx, token)
	if err == nil || !k.mayLook() {
		return payload, err
	}
	if keys, err = k.fetch(ctx); err != nil {
		return nil, err
	}
	return (&oidc.StaticKeySet{PublicKeys: keys}).VerifySignature(ctx, token)
}

// trouble is why the keys could not be had, if that is what a failed verification is about:
// the verifier's own error does not wrap it.
func (k *keySet) trouble(err error) error {
	if err == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil || k.now().Sub(k.fetched) >= keysStale {
		return k.failed
	}
	return nil
}

func (k *keySet) mayLook() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now().Sub(k.tried) >= keysPause
}

// current is the keys as they are known. Old ones are still used while new ones are had.
func (k *keySet) current(ctx context.Context) ([]crypto.PublicKey, error) {
	k.mu.Lock()
	keys, age, since, failed := k.keys, k.now().Sub(k.fetched), k.now().Sub(k.tried), k.failed
	k.mu.Unlock()
	switch {
	case keys != nil && age < keysFresh:
		return keys, nil
	case since < keysPause && failed != nil && (keys == nil || age >= keysStale):
		return nil, failed
	case keys == nil || age >= keysStale:
		return k.fetch(ctx)
	}
	if since >= keysPause {
		k.beside.Go(func() { _, _ = k.fetch(ctx) }) // what fails is told by fetch
	}
	return keys, nil
}

// fetch looks at the keys, once for all who wait.
func (k *keySet) fetch(ctx context.Context) ([]crypto.PublicKey, error) {
	got, err, _ := k.look.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
		defer cancel()
		keys, err := k.read(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.tried, k.failed = k.now(), nil
		if err != nil {
			k.failed = &keysError{err}
			k.logf("issuer %s: %v", k.issuer, k.failed)
			return nil, k.failed
		}
		k.keys, k.fetched = keys, k.tried
		return keys, nil
	})
	if err != nil {
		return nil, err
	}
	return got.([]crypto.PublicKey), nil
}

// read asks the issuer.
func (k *keySet) read(ctx context.Context) ([]crypto.PublicKey, error) {
	where := k.url
	if where == "" {
		p, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.issuer)
		if err != nil {
			return nil, err
		}
		var doc struct {
			JWKS string `json:"jwks_uri"`
		}
		if err := p.Claims(&doc); err != nil {
			return nil, err
		}
		if why := checkSecureURL(doc.JWKS); why != "" {
			return nil, fmt.Errorf("its jwks_uri %q %s", doc.JWKS, why)
		}
		where = doc.JWKS
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", where, resp.Status)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return publicKeys(text)
}

// publicKeys are the signing keys of a set that we can use; others are passed over.
func publicKeys(text []byte) ([]crypto.PublicKey, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("no JSON Web Key Set: %w", err)
	}
	keys := []crypto.PublicKey{}
	for _, key := range set.Keys {
		if key.Use == "enc" || !key.Valid() || !key.IsPublic() || len(keys) == maxKeys {
			continue
		}
		keys = append(keys, key.Key)
	}
	if len(keys) == 0 {
		return nil, errors.New("its key set holds no public key for signatures")
	}
	return keys, nil
}

// bounded cuts off answers that are too long.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxKeysBody)
	}
	return resp, err
}
