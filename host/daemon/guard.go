package daemon

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"ailang.dev/world/host/tasks"
)

// guard refuses, before any routing, what a web page or a rebound name could send: a Host
// that is neither a loopback name nor the public one, and a foreign Origin. Local is not
// trusted. Under the public name only the agents' doors are open.
type guard struct {
	next   http.Handler
	public *url.URL      // nil without --public-url
	body   time.Duration // how long a body that no handler reads may take
	write  time.Duration // how long a client may take over an answer, unless a handler says otherwise
}

// publicPaths are all that the public name reaches.
var publicPaths = map[string]bool{
	"/mcp/": true, "/a2a/": true, "/.well-known/agent.json": true,
	"/api/v1/a2a": true, "/.well-known/oauth-protected-resource": true,
}

// originExempt need no Origin check: they are made for pages of other origins. The endpoint
// carries no cookie and demands a bearer token; the metadata is no secret.
var originExempt = map[string]bool{tasks.Path: true, metadataPath: true}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(g.write))
	if r.ContentLength != 0 {
		// An answer that was given without reading the body still waits for the rest of it.
		// Handlers that read set a limit of their own, and lift it.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.body))
	}
	public := g.public != nil && sameHost(r.Host, g.public)
	if r.URL.Path == tasks.Path {
		tasks.AllowOrigins(w.Header()) // also of what is refused here
	}
	switch {
	case !public && !loopbackHost(r.Host):
		deny(w, "Host must be a loopback name, or the host of --public-url")
	case !originExempt[r.URL.Path] && !g.originOK(r.Header.Values("Origin")):
		deny(w, "Origin must be a loopback origin, or that of --public-url")
	case public && !publicPaths[r.URL.Path]:
		http.NotFound(w, r)
	default:
		g.next.ServeHTTP(w, r)
	}
}

func deny(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusForbidden)
	w.Write([]byte(text))
}

// originOK accepts no Origin at all, one of a loopback host at any port, or the public
// one. "null", and several lines, are foreign.
func (g *guard) originOK(lines []string) bool {
	if len(lines) == 0 {
		return true
	}
	if len(lines) > 1 {
		return false
	}
	o, err := url.Parse(lines[0])
	if err != nil || o.Host == "" || (o.Scheme != "http" && o.Scheme != "https") {
		return false
	}
	if loopbackHost(o.Host) {
		return true
	}
	return g.public != nil && strings.EqualFold(o.Scheme, g.public.Scheme) && sameHost(o.Host, g.public)
}

// loopbackHost tells whether a host, with or without a port, names this machine itself.
func loopbackHost(hostport string) bool {
	host := hostname(hostport)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// sameHost compares a Host with the public URL's, a port that the scheme implies left out.
func sameHost(hostport string, u *url.URL) bool {
	return strings.EqualFold(hostname(hostport), u.Hostname()) && port(hostport, u.Scheme) == port(u.Host, u.Scheme)
}

func hostname(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

func port(hostport, scheme string) string {
	if _, p, err := net.SplitHostPort(hostport); err == nil {
		return p
	}
	if scheme == "https" {
		return "443"
	}
	return "80"
}
