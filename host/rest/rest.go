// Package rest owns the ten frozen /v1 routes: it reads a request strictly, asks the store
// once, and writes the answer byte for byte as the contract has it. It never decides who a
// caller is, what a transition may do, or what the store's laws are, and it knows no other
// surface. Answers spec/10-rest.md; spec/openapi.yaml is the same table for machines.
package rest

import (
	"context"
	"net/http"
	"time"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Bounds of one request.
const (
	ReadTimeout       = 10 * time.Second // one read of the store, a whole page included
	CommitTimeout     = 3 * time.Second  // one commit, from a body that was read to its answer
	CredentialTimeout = 3 * time.Second  // one look-up of a credential
	BodyTimeout       = 10 * time.Second // the arrival of a whole body
	WriteTimeout      = 30 * time.Second // the taking of a whole answer by the client
	MaxBody           = 8_388_608        // bytes of a commit's body

	DefaultPage = 100 // items of a page when limit is absent or below 1
	MaxPage     = 500 // items of a page at most

	MaxInvocationID = 256 // bytes of an invocationId, prefix included
	MaxName         = store.MaxText
)

// Limits are the bounds that a test may shorten. A zero field means the constant of its
// name.
type Limits struct {
	Read, Commit, Credential, Body, Write time.Duration
}

func (l Limits) orDefault() Limits {
	for _, d := range []struct {
		field *time.Duration
		std   time.Duration
	}{
		{&l.Read, ReadTimeout},
		{&l.Commit, CommitTimeout},
		{&l.Credential, CredentialTimeout},
		{&l.Body, BodyTimeout},
		{&l.Write, WriteTimeout},
	} {
		if *d.field <= 0 {
			*d.field = d.std
		}
	}
	return l
}

// Right is what a route asks of its caller.
type Right int

// The rights. The zero value asks the most, so that a route that names none is closed.
const (
	Session Right = iota // a live session
	Open                 // nothing
)

// Route is one row of the table.
type Route struct {
	// Pattern is a method and a path in the language of http.ServeMux.
	Pattern string
	Right   Right
	// Handle answers, or returns why not; having written anything it returns nil.
	Handle func(w http.ResponseWriter, r *http.Request) error
}

// Health is what GET /v1/health tells, in the order of the wire, after the status.
type Health struct {
	DaemonVersion string `json:"daemon_version"`
	DBPath        string `json:"db_path"`
	// InterpreterRef and InterpreterVersion are those of the AILANG pin; empty without one.
	InterpreterRef     string   `json:"interpreter_ref"`
	InterpreterVersion string   `json:"interpreter_version"`
	Engines            []Engine `json:"engines"`
}

// Engine is one engine that this daemon can run.
type Engine struct {
	Name    string `json:"name"`
	Ref     string `json:"ref"`
	Version string `json:"version"`
}

// Config is all that the routes stand on.
type Config struct {
	Store store.Store
	// Resolve finds the live session that the Authorization header lines name. Its errors
	// are of the four session kinds, or KindTimeout.
	Resolve func(ctx context.Context, authorization []string) (world.Session, error)
	// PrivateReads makes every route need a session, health included.
	PrivateReads bool
	// Health is asked at each GET /v1/health. It must not block.
	Health func() Health
	// Logf is told the causes that clients are not. Nil discards them.
	Logf   func(format string, args ...any)
	Limits Limits
}

// API is the ten routes over one store. Its methods may be called from any goroutine.
type API struct {
	cfg Config
}

// New makes the routes. Store, Resolve and Health must be set.
func New(cfg Config) *API {
	cfg.Limits = cfg.Limits.orDefault()
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	return &API{cfg: cfg}
}

// Routes is the frozen table, sorted by pattern.
func (a *API) Routes() []Route {
	read := Open
	if a.cfg.PrivateReads {
		read = Session
	}
	return []Route{
		{Pattern: "GET /v1/head", Right: read, Handle: a.head},
		{Pattern: "GET /v1/health", Right: read, Handle: a.health},
		{Pattern: "GET /v1/log", Right: read, Handle: a.log},
		{Pattern: "GET /v1/log/{index}", Right: read, Handle: a.logEntry},
		{Pattern: "GET /v1/objects/by-semantic-id/{name...}", Right: read, Handle: a.objectsBySemanticID},
		{Pattern: "GET /v1/objects/{ref}", Right: read, Handle: a.object},
		{Pattern: "GET /v1/receipts/{id}", Right: read, Handle: a.receipt},
		{Pattern: "GET /v1/registry/{name...}", Right: read, Handle: a.registryHead},
		{Pattern: "GET /v1/worlds/{ref}", Right: read, Handle: a.world},
		{Pattern: "POST /v1/commit", Right: Session, Handle: a.commit},
	}
}

// Mount registers every route with a mux.
func (a *API) Mount(mux *http.ServeMux) {
	for _, rt := range a.Routes() {
		mux.Handle(rt.Pattern, a.Adapt(rt))
	}
}

// Handler is the ten routes alone.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	a.Mount(mux)
	return mux
}
