// Package workbench owns the operator's pages: what happened, why, on whose authority and at
// what cost, as HTML that is made here whole. It reads a store and the books beside it and
// nothing else: it writes nothing, calls no handler, and decides nothing. All that is stored
// is untrusted: it is shown inert, cut at named bounds, and never as markup. The pages need
// no script, load nothing but the style sheet and the icon beside them, and may change
// whenever they can be made better. Answers spec/18-workbench.md.
package workbench

import (
	"context"
	"net/http"
	"time"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Bounds of one page.
const (
	ReadTimeout       = 10 * time.Second // all that is read for it
	CredentialTimeout = 3 * time.Second  // the look-up of a credential, where reads are private
	WriteTimeout      = 30 * time.Second // the taking of it by the client
	BodyTimeout       = 10 * time.Second // the arrival of a body, which nothing reads
	MaxAtOnce         = 8                // pages that are made at once; more wait within their time

	TimelinePage   = 40  // entries of the timeline
	EpisodePage    = 50  // entries on an episode's page
	SessionPage    = 100 // sessions of the episodes' page
	TransitionPage = 50  // transitions of a page
	NamedPage      = 100 // rows of the index of references that an object's page looks at
	OpenPage       = 100 // calls that have no end, of the page of them

	MaxQuery = 4 << 10   // bytes of a query string
	MaxField = 240       // characters of a text that stands in a line
	MaxBlock = 16 << 10  // bytes of a text that stands in a box of its own
	MaxBoxes = 1 << 20   // bytes of all boxes of an entry's page, as they are sent
	MaxWhole = 256 << 10 // bytes of an object that is shown whole
	MaxLines = 400       // lines of a box
	MaxNodes = 12        // effects of a picture
)

// Store is what the pages read.
type Store interface {
	provenance.Episodes
	RegistryHead(ctx context.Context, name string) (store.RegistryHead, error)
	Sessions(ctx context.Context, episode string, after world.Ref, limit int) ([]world.Session, error)
	Spent(ctx context.Context, episode, effect, scope string) (int64, error)
	Unresolved(ctx context.Context, after int64, limit int) ([]store.Invocation, int64, error)
}

// Registry tells what can be called.
type Registry interface {
	Snapshot(ctx context.Context) (*registry.Snapshot, error)
}

// Approvals is the book of what people were asked.
type Approvals interface {
	List(ctx context.Context) ([]approvals.Approval, error)
	Subject(ctx context.Context, a approvals.Approval) (approvals.Subject, error)
}

// Config is all that the pages stand on.
type Config struct {
	Store     Store
	Registry  Registry
	Approvals Approvals
	// Resolve finds the live session that the Authorization header lines name. Its errors
	// are of the four session kinds, or KindTimeout.
	Resolve func(ctx context.Context, authorization []string) (world.Session, error)
	// PrivateReads makes every page need a session.
	PrivateReads bool
	Now          func() time.Time
	// Note, unless nil, gives a sentence for the foot of each page; "" is none.
	Note func(ctx context.Context) string
	// Logf is told the causes that readers are not. Nil discards them.
	Logf func(format string, args ...any)
}

// Pages is the workbench over one store. Its methods may be called from any goroutine.
type Pages struct {
	cfg   Config
	slots chan struct{}
}

// New makes the pages. Store, Registry, Approvals, Resolve and Now must be set.
func New(cfg Config) *Pages {
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	return &Pages{cfg: cfg, slots: make(chan struct{}, MaxAtOnce)}
}

// route is one page: its pattern, and the query parameters that it knows.
type route struct {
	pattern string
	params  []string
	handle  func(*Pages, *request) (*page, error)
}

// routes are all pages.
var routes = []route{
	{"GET /workbench", []string{"world", "object", "from", "entry", "payload", "refsAfter", "commitsAfter"}, (*Pages).home},
	{"GET /workbench/approvals", nil, (*Pages).approvals},
	{"GET /workbench/calls", []string{"after"}, (*Pages).openCalls},
	{"GET /workbench/calls/{id...}", nil, (*Pages).call},
	{"GET /workbench/episodes", []string{"after"}, (*Pages).episodes},
	{"GET /workbench/episodes/{episode}", []string{"before", "after"}, (*Pages).episode},
	{"GET /workbench/find", []string{"q"}, (*Pages).find},
	{"GET /workbench/transitions", []string{"from"}, (*Pages).transitions},
}

// Mount registers every page with a mux, and the files that the pages need. Those hold
// nothing of the store and are open.
func (p *Pages) Mount(mux *http.ServeMux) {
	for _, rt := range routes {
		mux.Handle(rt.pattern, p.serve(rt))
	}
	mux.Handle("GET "+stylePath, file("text/css; charset=utf-8", styleSheet))
	mux.Handle("GET "+iconPath, file("image/svg+xml", icon))
}
