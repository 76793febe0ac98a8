package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/world"
)

// Bounds of one request to a daemon.
const (
	HTTPTimeout = 40 * time.Second  // longer than any answer that the agents' doors give
	TaskTimeout = 135 * time.Second // longer than any that the task endpoint gives
	MaxAnswer   = 64 << 20          // bytes of an answer: an object in base64, a page of entries
	MaxCommit   = 8_388_608         // bytes of a commit's body
)

// HTTP asks a daemon over its listener.
type HTTP struct {
	base    string // without a closing slash
	token   string // "" without a session
	version string
	http    *http.Client
}

// NewHTTP makes a client of the daemon at addr, a URL or HOST:PORT. token may be "". A
// token is never sent in the clear to another machine: such an addr is KindBadRequest.
// No answer is followed elsewhere, and no proxy is used.
func NewHTTP(addr, token string) (*HTTP, error) {
	u, err := parseAddr(addr)
	if err != nil {
		return nil, world.Errorf(world.KindBadRequest, "client.NewHTTP", "address %q %v", addr, err)
	}
	if token != "" && u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, world.Errorf(world.KindBadRequest, "client.NewHTTP",
			"address %q is another machine's without TLS: the session would travel in the clear; use https:// or a tunnel to a loopback port", addr)
	}
	return &HTTP{
		base: strings.TrimRight(u.String(), "/"), token: token, version: world.Version,
		http: &http.Client{
			Timeout:       HTTPTimeout,
			Transport:     &http.Transport{DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func parseAddr(addr string) (*url.URL, error) {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	u, err := url.Parse(addr)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must begin with http:// or https://")
	case u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, errors.New("must be http://HOST:PORT")
	}
	return u, nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// URL is where the daemon is, without a closing slash.
func (c *HTTP) URL() string { return c.base }

// Refusal is a daemon's answer that is no result. What it says is for the caller.
type Refusal struct {
	Status       int    `json:"status,omitzero"` // of HTTP
	Class        string `json:"class,omitzero"`  // of the REST envelope
	Code         int    `json:"code,omitzero"`   // of JSON-RPC
	Message      string `json:"message"`
	ObservedHead string `json:"observedHead,omitzero"`
	SelectedHead string `json:"selectedHead,omitzero"`
}

func (r *Refusal) Error() string { return r.Message }

// classKinds are the kinds behind the classes of the REST envelope.
var classKinds = map[string]world.Kind{
	"BadRequest": world.KindBadRequest, "InvalidSession": world.KindSessionBad,
	"SessionAbsent": world.KindSessionAbsent, "SessionUnknown": world.KindSessionUnknown,
	"SessionExpired": world.KindSessionExpired, "NotFound": world.KindNotFound,
	"HeadConflict": world.KindHeadConflict, "PayloadTooLarge": world.KindTooLarge,
	"Internal": world.KindInternal, "Timeout": world.KindTimeout, "CommitUncertain": world.KindUncertain,
	"LookupIndexUnavailable": world.KindIndexMissing, "ProjectionUnavailable": world.KindInternal,
	"ProjectionDeadlineExceeded": world.KindDeadline,
}

// refused makes the error of a refusal.
func refused(op string, kind world.Kind, r *Refusal) error {
	return &world.Error{Op: op, Kind: kind, Msg: r.Message, Err: r}
}

// answer is a whole HTTP answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send makes one request and reads its whole answer.
func (c *HTTP) send(ctx context.Context, method, path string, header map[string]string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, world.Errorf(world.KindBadRequest, "client", "%v", err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	req.Header.Set("User-Agent", "ailang-worldd/"+c.version)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, c.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return answer{}, c.unreachable(ctx, err)
	}
	if len(text) > MaxAnswer {
		return answer{}, world.Errorf(world.KindTooLarge, "client", "the answer of %s is larger than %d bytes", c.base, MaxAnswer)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: text}, nil
}

// unreachable says why no answer came. The cause names no header, so no session.
func (c *HTTP) unreachable(ctx context.Context, err error) error {
	e := &world.Error{Op: "client", Kind: world.KindTimeout, Err: err}
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		e.Kind, e.Msg = world.KindCanceled, "stopped while waiting for "+c.base
	case errors.As(err, &op) && op.Op == "dial":
		e.Msg = fmt.Sprintf("no daemon answers at %s (%v)", c.base, op.Err)
		e.Hint = "start one with `ailang-worldd up`, or with `ailang-worldd serve --db FILE`; or say where it is with --addr or WORLD_ADDR"
	default:
		e.Msg = fmt.Sprintf("%s did not answer: %v", c.base, bare(err))
	}
	return e
}

// bare takes the method and URL off an error of net/http.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// notOurs is the error for an answer that no daemon gives.
func (c *HTTP) notOurs(a answer) error {
	text := strings.TrimSpace(string(a.body[:min(len(a.body), 200)]))
	msg := fmt.Sprintf("%s answered HTTP %d", c.base, a.status)
	if text != "" && strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		msg += ": " + text
	}
	return &world.Error{Op: "client", Kind: world.KindInternal, Msg: msg,
		Hint: "is that address an ailang-worldd's?", Err: &Refusal{Status: a.status, Message: msg}}
}

// restError makes the error of a REST answer that is not 200.
func (c *HTTP) restError(a answer) error {
	var envelope struct {
		Error *Refusal `json:"error"`
	}
	if err := json.Unmarshal(a.body, &envelope); err != nil || envelope.Error == nil || envelope.Error.Class == "" {
		return c.notOurs(a)
	}
	r := envelope.Error
	r.Status = a.status
	return refused("client", classKinds[r.Class], r)
}

// HasSession tells whether the client carries a session's credential.
func (c *HTTP) HasSession() bool { return c.token != "" }
