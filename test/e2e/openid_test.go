package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/worldtest"
)

// openidVerb makes the test binary an OpenID provider, a process of its own. It prints its
// issuer, and changes its key for every line that it reads.
const openidVerb = "world-e2e-openid"

// openidMain serves until its input ends.
func openidMain(in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	issuer := "http://" + l.Addr().String()
	s := &openidStorage{Storage: storage.NewStorage(storage.NewUserStore(issuer))}
	if err := s.rotate(); err != nil {
		return err
	}
	provider, err := op.NewProvider(&op.Config{}, s, op.StaticIssuer(issuer), op.WithAllowInsecure())
	if err != nil {
		return err
	}
	go http.Serve(l, provider)
	fmt.Fprintln(out, issuer)
	for lines := bufio.NewScanner(in); lines.Scan(); fmt.Fprintln(out, "rotated") {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	return nil
}

// openidStorage is the provider's own storage for examples, with keys that change, and
// clients that get JWTs for World.
type openidStorage struct {
	*storage.Storage
	mu  sync.Mutex
	key openidKey
}

type openidKey struct {
	id  string
	key *rsa.PrivateKey
}

func (k openidKey) ID() string                                  { return k.id }
func (k openidKey) Key() any                                    { return k.key }
func (k openidKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }

type openidPublic struct{ openidKey }

func (k openidPublic) Key() any                           { return &k.key.PublicKey }
func (k openidPublic) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k openidPublic) Use() string                        { return "sig" }

func (s *openidStorage) rotate() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = openidKey{rand.Text(), key}
	return err
}

func (s *openidStorage) current() openidKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key
}

func (s *openidStorage) SigningKey(context.Context) (op.SigningKey, error) { return s.current(), nil }

func (s *openidStorage) KeySet(context.Context) ([]op.Key, error) {
	return []op.Key{openidPublic{s.current()}}, nil
}

func (s *openidStorage) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	c, err := s.Storage.ClientCredentials(ctx, id, secret)
	return openidClient{c}, err
}

type openidClient struct{ op.Client }

func (openidClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (s *openidStorage) ClientCredentialsTokenRequest(ctx context.Context, id string, scopes []string) (op.TokenRequest, error) {
	r, err := s.Storage.ClientCredentialsTokenRequest(ctx, id, scopes)
	return openidRequest{r}, err
}

type openidRequest struct{ op.TokenRequest }

// GetAudience is what the scopes ask for: a client names whom its token is for.
func (r openidRequest) GetAudience() []string {
	var all []string
	for _, s := range r.GetScopes() {
		if aud, ok := strings.CutPrefix(s, "for:"); ok {
			all = append(all, aud)
		}
	}
	return all
}

func (s *openidStorage) GetPrivateClaimsFromScopes(_ context.Context, _, _ string, scopes []string) (map[string]any, error) {
	roles := []string{}
	for _, s := range scopes {
		if role, ok := strings.CutPrefix(s, "role:"); ok {
			roles = append(roles, role)
		}
	}
	return map[string]any{"world": map[string]any{"roles": roles}}, nil
}

// openid is a provider's process.
type openid struct {
	t      *testing.T
	issuer string
	in     io.Writer
	out    *bufio.Scanner
}

func startOpenID(t *testing.T) *openid {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, openidVerb)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	p := &openid{t: t, in: in, out: bufio.NewScanner(out)}
	p.issuer = p.line()
	return p
}

func (p *openid) line() string {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the provider ended: %v", p.out.Err())
	}
	return p.out.Text()
}

func (p *openid) rotate() {
	p.t.Helper()
	fmt.Fprintln(p.in, "rotate")
	p.line()
}

// token asks the provider's token endpoint for an access token.
func (p *openid) token(scopes ...string) string {
	p.t.Helper()
	resp, err := http.PostForm(p.issuer+"/oauth/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"sid1"}, "client_secret": {"verysecret"}, "scope": {strings.Join(scopes, " ")},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var got struct {
		Token string `json:"access_token"`
	}
	if err != nil || json.Unmarshal(text, &got) != nil || strings.Count(got.Token, ".") != 2 {
		p.t.Fatalf("%s %v: %s", resp.Status, err, text)
	}
	return got.Token
}

// TestOpenIDProvider takes tokens of a real provider in a process of its own: by the plan
// that its claim leads to, on both endpoints, across a change of its key.
func TestOpenIDProvider(t *testing.T) {
	p := startOpenID(t)
	c := &clock{}
	c.set(time.Now())
	w := worldtest.Start(t, worldtest.Options{NoPacks: true, NoWorkspace: true, Now: c.read, Issuers: []authority.IssuerConfig{{
		URL: p.issuer, Audience: "world", Leeway: time.Minute, PlanClaim: "world.roles",
		Plans: []authority.ClaimPlan{{Value: "paying", Plan: "pro"}, {Value: "here", Plan: "free"}},
	}}})
	w.PublishPack("demo")
	send := func(token, message string) (int, string, http.Header) {
		a := &actor{t, w, token}
		resp, text := a.do(http.MethodPost, "/api/v1/a2a", []byte(sendMessage(message, "demo.answer", "hello")), "Content-Type", "application/json")
		return resp.StatusCode, string(text), resp.Header
	}
	paying := p.token("for:world", "role:here", "role:paying")
	status, text, _ := send(paying, "m1")
	user := authority.User{Issuer: p.issuer, Subject: "sid1"}
	if status != http.StatusOK || !strings.Contains(text, `"completed"`) || !strings.Contains(text, user.Episode()) {
		t.Fatalf("%d %s", status, text)
	}
	for name, c := range map[string]struct {
		token  string
		status int
		code   string
	}{
		"free":           {p.token("for:world", "role:here"), http.StatusForbidden, "-32005"},
		"no plan":        {p.token("for:world"), http.StatusForbidden, "-32005"},
		"for others":     {p.token("for:other", "role:paying"), http.StatusUnauthorized, "-32004"},
		"for nobody":     {p.token("role:paying"), http.StatusUnauthorized, "-32004"},
		"tampered":       {paying[:len(paying)-8] + "AAAAAAAA", http.StatusUnauthorized, "-32004"},
		"another's form": {"x.y.z", http.StatusUnauthorized, "-32004"},
	} {
		status, text, header := send(c.token, "m2")
		if status != c.status || !strings.Contains(text, c.code) {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if want := `resource_metadata="` + w.URL + `/.well-known/oauth-protected-resource"`; status == http.StatusUnauthorized && !strings.Contains(header.Get("WWW-Authenticate"), want) {
			t.Errorf("%s: WWW-Authenticate %q", name, header.Get("WWW-Authenticate"))
		}
	}
	// What a client finds that follows the hint.
	resp, meta := (&actor{t, w, ""}).do(http.MethodGet, "/.well-known/oauth-protected-resource", nil)
	if want := fmt.Sprintf(`{"authorization_servers":[%q],"bearer_methods_supported":["header"],"resource":%q}`, p.issuer, w.URL); string(meta) != want || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("metadata %s", meta)
	}
	// The same token on /mcp/, where a stranger is told the same.
	mcp := func(token string) (*http.Response, string) {
		resp, text := (&actor{t, w, token}).do(http.MethodPost, "/mcp/", []byte(callTool("demo_danswer", `{"question":"hello"}`)),
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		return resp, string(text)
	}
	if resp, text := mcp(paying); resp.StatusCode != http.StatusOK || !strings.Contains(text, "You asked: hello") {
		t.Errorf("/mcp/: %d %s", resp.StatusCode, text)
	}
	if resp, text := mcp("x.y.z"); resp.StatusCode != http.StatusUnauthorized || text != authority.MsgUnknown || !strings.Contains(resp.Header.Get("WWW-Authenticate"), "resource_metadata") {
		t.Errorf("/mcp/: %d %s %v", resp.StatusCode, text, resp.Header)
	}
	// The provider changes its key: what it signs from now on is believed once we look again.
	p.rotate()
	c.set(c.read().Add(11 * time.Second))
	if status, text, _ := send(p.token("for:world", "role:paying"), "m3"); status != http.StatusOK {
		t.Errorf("by the new key: %d %s", status, text)
	}
	if status, text, _ := send(paying, "m4"); status != http.StatusUnauthorized {
		t.Errorf("by the old key: %d %s", status, text)
	}
	// A token ends.
	ending := p.token("for:world", "role:paying")
	c.set(c.read().Add(time.Hour))
	if status, text, _ := send(ending, "m5"); status != http.StatusUnauthorized || !strings.Contains(text, "has expired") {
		t.Errorf("ended: %d %s", status, text)
	}
	if resp, text := mcp(ending); resp.StatusCode != http.StatusUnauthorized || text != authority.MsgExpired {
		t.Errorf("/mcp/, ended: %d %s", resp.StatusCode, text)
	}
}

// sendMessage is the body of a message/send of one text.
func sendMessage(message, skill, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","kind":"message","messageId":%q,"metadata":{"skillId":%q},"parts":[{"kind":"text","text":%q}]}}}`, message, skill, text)
}
