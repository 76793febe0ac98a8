package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"ailang.dev/world/host/a2a"
	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/handlers/ailang"
	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/handlers/git"
	"ailang.dev/world/host/handlers/human"
	"ailang.dev/world/host/handlers/model"
	"ailang.dev/world/host/handlers/workspace"
	"ailang.dev/world/host/mcp"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/rest"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/tasks"
	"ailang.dev/world/host/workbench"
	"ailang.dev/world/host/world"
)

// Bounds of the listener and of starting and stopping.
const (
	HeaderTimeout = 10 * time.Second  // the arrival of a request's headers
	IdleTimeout   = 120 * time.Second // a connection with nothing to do
	MaxHeader     = 64 << 10          // bytes of a request's headers
	MaxConns      = 16384             // connections at once, where there are descriptors for so many
	// AnswerTimeout is a whole answer, from the request's headers on: longer than any call may
	// take, and its answer after that.
	AnswerTimeout = tasks.PostDeadline + surface.WriteTimeout
	// WriteTimeout is the taking of an answer by the client. Handlers that take their time
	// begin it anew when they have one.
	WriteTimeout = surface.WriteTimeout
	// StopTimeout is what calls under way get when the daemon is told to stop: a call's
	// deadline and its aftermath.
	StopTimeout = coordinator.CallDeadline + coordinator.Aftermath
	// BodyTimeout is the arrival of a body that no handler reads.
	BodyTimeout = 10 * time.Second

	scanTimeout = 2 * time.Second // the integrity scan at start
	scanEntries = 2000            // newest entries that it looks at
)

// Config is what a daemon is started with, beside its core.
type Config struct {
	Bind          string // host:port of a loopback address; port 0 picks one
	WorkspaceRoot string // "" serves no workspace effects
	PrivateReads  bool
	PublicURL     string           // "" if nothing but this machine reaches the daemon
	RuntimeDir    string           // for admin sockets whose store's path is too long
	Git           string           // the git binary; "" if there is none
	Policy        *policy.Set      // what is read-only in worktrees; nil is what is built in alone
	Handlers      []broker.Handler // beside those that ship
	Profiles      []exec.Profile   // commands that agents may run
	// SandboxCommand starts this program so that it calls sandbox.Main; nil if it cannot.
	SandboxCommand []string
	// ToolAilangBin is the AILANG toolchain that agents may use in worktrees; "" is none.
	// ExamplesDir is the folder of sources that they may search; "" is none.
	ToolAilangBin, ExamplesDir string
	// Plans are what users can have; nil is authority.DefaultPlans. Issuers are the OpenID
	// Connect providers whose access tokens are accepted.
	Plans   authority.Plans
	Issuers []authority.IssuerConfig
	// Models are what Model.Infer can ask; nil is the extractive one alone.
	Models []model.Model
	// Calendars are files of liturgical calendars beside those that ship.
	Calendars []string
	// Replica is the URL of a streaming copy of the database, which the workbench then reads; ""
	// is none.
	Replica string
}

// Daemon is one running world.
type Daemon struct {
	core   *Core
	cfg    Config
	public *url.URL
	coord  *coordinator.Coordinator
	users  *tasks.Handler  // nil until Handler was called
	exec   *exec.Handler   // nil without a workspace root
	tools  *ailang.Handler // nil without a toolchain
	models *model.Handler
	// library is the corpora that are searched.
	library *corpus.Library
	// sandbox is one for all handlers: runs in one worktree must know of one another.
	sandbox *sandbox.Sandbox
	// unended are jobs of daemons that are no more whose end could not be recorded yet. New uses
	// it, and then watchOthers.
	unended []store.Invocation
	// replica is read by the workbench; nil if there is none.
	replica *postgres.Replica
	// damaged are engines whose archived binary was not what its name says at the start.
	damaged []capsule.Engine
}

// New checks the configuration, tells what the last run left open, and assembles the
// handlers. The core stays the caller's to close.
func New(ctx context.Context, core *Core, cfg Config) (*Daemon, error) {
	d := &Daemon{core: core, cfg: cfg, sandbox: sandbox.New(sandbox.Config{Command: cfg.SandboxCommand, Logf: core.Config.Logf})}
	if err := d.checkConfig(); err != nil {
		return nil, err
	}
	handlers, err := d.handlers(ctx)
	if err != nil {
		return nil, err
	}
	d.coord = coordinator.New(coordinator.Config{
		Store: core.Store, Registry: core.Registry, Engines: core.Engines,
		Broker: &broker.Broker{Store: core.Store, Approvals: core.Book, Handlers: handlers, Now: core.Config.Now, Logf: core.Config.Logf},
		Pause:  core.Config.Pause, Observe: core.Watch,
	})
	if err := d.admitUsers(); err != nil {
		return nil, err
	}
	if err := d.recover(ctx); err != nil {
		return nil, err
	}
	if err := d.openReplica(ctx); err != nil {
		return nil, err
	}
	d.proveArchive()
	return d, nil
}

// proveArchive looks at the binaries of earlier starts, and tells of those that cannot be
// used: what pins them stays visible, and cannot be called.
func (d *Daemon) proveArchive() {
	for _, e := range d.core.Past {
		if err := e.Prove(); err != nil {
			d.damaged = append(d.damaged, e)
			d.core.Config.Logf("archived interpreter damaged: %v", err)
		}
	}
}

func (d *Daemon) checkConfig() error {
	if err := checkBind(d.cfg.Bind); err != nil {
		return err
	}
	if d.cfg.PublicURL != "" {
		u, err := url.Parse(d.cfg.PublicURL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.User != nil {
			return world.Errorf(world.KindBadRequest, "daemon.New", "public URL %q must be http(s)://host[:port] and nothing more", d.cfg.PublicURL)
		}
		d.public = u
	}
	if err := d.cfg.checkTools(); err != nil {
		return err
	}
	if d.cfg.WorkspaceRoot == "" {
		return nil
	}
	return checkWorkspaceRoot(d.cfg.WorkspaceRoot, d.core.Base)
}

// checkBind accepts loopback addresses only; there is no override.
func checkBind(bind string) error {
	host, _, err := net.SplitHostPort(bind)
	if err != nil {
		return world.Errorf(world.KindBadRequest, "daemon.New", "bind %q must be host:port, for example 127.0.0.1:7644", bind)
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return world.Errorf(world.KindBadRequest, "daemon.New", "bind %q must be a loopback address: the daemon serves this machine only; put a reverse proxy before it and name it with --public-url", bind)
	}
	return nil
}

// handlers makes the effects that this daemon can perform, and stores the objects that
// their answers refer to.
func (d *Daemon) handlers(ctx context.Context) (map[string]broker.Handler, error) {
	ask := human.New(human.Config{Book: d.core.Book, Now: d.core.Config.Now, Policy: d.cfg.Policy})
	if err := d.core.Store.PutObjects(ctx, ask.Objects()); err != nil {
		return nil, err
	}
	all := []broker.Handler{ask}
	var err error
	if d.models, err = d.modelHandler(ctx); err != nil {
		return nil, err
	}
	texts, err := d.corpusHandler(ctx)
	if err != nil {
		return nil, err
	}
	days, err := d.calendarHandler(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, d.models, texts, days)
	if d.cfg.WorkspaceRoot == "" {
		return broker.Serve(append(all, d.cfg.Handlers...)...)
	}
	ws, err := workspace.New(workspace.Config{Root: d.cfg.WorkspaceRoot, Policy: d.cfg.Policy})
	if err != nil {
		return nil, err
	}
	if err := d.core.Store.PutObjects(ctx, ws.Objects()); err != nil {
		return nil, err
	}
	gt, err := d.gitHandler(ctx)
	if err != nil {
		return nil, err
	}
	if d.exec, err = d.execHandler(ctx); err != nil {
		return nil, err
	}
	all = append(all, ws, gt, d.exec)
	if d.tools, err = d.ailangHandler(ctx); err != nil {
		return nil, err
	}
	if d.tools != nil {
		all = append(all, d.tools)
	}
	return broker.Serve(append(all, d.cfg.Handlers...)...)
}

// gitHandler serves a worktree's history. Without a git it is there and says so.
func (d *Daemon) gitHandler(ctx context.Context) (*git.Handler, error) {
	h, err := git.New(ctx, git.Config{
		Root: d.cfg.WorkspaceRoot, Git: d.cfg.Git, Scratch: d.core.Config.TempDir, Policy: d.cfg.Policy,
		Store: d.core.Store.ID(), Now: d.core.Config.Now,
		LogEnd: func(ctx context.Context) (int64, error) {
			head, err := d.core.Store.Head(ctx)
			return head.Next - 1, err
		},
	})
	if err != nil {
		return nil, err
	}
	return h, d.core.Store.PutObjects(ctx, h.Objects())
}

// recover tells what a killed run left open, and scans the newest entries. Neither repeats
// or repairs anything; a whole store prints nothing.
func (d *Daemon) recover(ctx context.Context) error {
	if err := d.tellAllOpen(ctx); err != nil {
		return err
	}
	return d.scan(ctx)
}

// Handler is the whole route table. URL is what clients reach it by.
func (d *Daemon) Handler(base string) http.Handler {
	if d.public != nil {
		base = d.public.Scheme + "://" + d.public.Host
	}
	core := d.core
	mux := http.NewServeMux()
	rest.New(rest.Config{
		Store: core.Store, Resolve: core.Authority.Resolve, PrivateReads: d.cfg.PrivateReads,
		Health: d.health, Logf: core.Config.Logf,
	}).Mount(mux)
	pages := workbench.Store(core.Store)
	if d.replica != nil {
		pages = d.replica
	}
	workbench.New(workbench.Config{
		Store: pages, Note: d.replicaNote(), Registry: core.Registry, Approvals: core.Book, Resolve: core.Authority.Resolve,
		PrivateReads: d.cfg.PrivateReads, Now: core.Config.Now, Logf: core.Config.Logf,
	}).Mount(mux)
	watched := calls{d.coord, core.Watch}
	agents := a2a.New(a2a.Config{
		Sessions: doorkeeper{core.Authority, core.Watch, world.SurfaceA2A}, Skills: core.Registry, Calls: watched,
		PublicURL: base, Version: world.Version, Logf: core.Config.Logf,
	})
	mux.Handle("POST /a2a/{$}", agents)
	mux.Handle("GET /.well-known/agent.json", agents.Card())
	limits := &authority.Limiter{Plans: core.Users.Plans, Now: core.Config.Now}
	mux.Handle("POST /mcp/{$}", mcp.New(mcp.Config{
		Sessions: doorkeeper{authority.Callers{Sessions: core.Authority, Users: core.Users}, core.Watch, world.SurfaceMCP}, Tools: core.Registry, Calls: watched,
		Limits: limits, Version: world.Version, Logf: core.Config.Logf, Challenge: d.challenge(base),
		Refused: func(kind world.Kind) { core.Watch.refused(world.SurfaceMCP, kind) },
	}))
	d.mountTasks(mux, base, limits, watched)
	mux.Handle("GET /metrics", d.readers(core.Watch.Metrics.Handler()))
	return core.Watch.Trace.Handler(&guard{next: mux, public: d.public, body: BodyTimeout, write: WriteTimeout})
}

// readers lets those in that may read: everybody here, or with --private-reads who has a
// session.
func (d *Daemon) readers(next http.Handler) http.Handler {
	if !d.cfg.PrivateReads {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), rest.CredentialTimeout)
		defer cancel()
		if _, err := d.core.Authority.Resolve(ctx, r.Header.Values("Authorization")); err != nil {
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "a live session is needed: this daemon was started with --private-reads", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (d *Daemon) health() rest.Health {
	h := rest.Health{DaemonVersion: world.Version, DBPath: postgres.Display(d.core.Config.DB)}
	if pin := d.core.Ailang; pin != nil {
		h.InterpreterRef, h.InterpreterVersion = pin.Identity().Ref.String(), pin.Identity().Version
	}
	for _, e := range d.core.Engines {
		if slices.Contains(d.damaged, e) {
			continue
		}
		id := e.Identity()
		h.Engines = append(h.Engines, rest.Engine{Name: id.Name, Ref: id.Ref.String(), Version: id.Version})
	}
	return h
}

// Run listens, calls ready with the URL once bound, and serves HTTP and the admin socket
// until ctx ends; then it lets calls under way end within StopTimeout.
func (d *Daemon) Run(ctx context.Context, ready func(url string)) error {
	l, err := net.Listen("tcp", d.cfg.Bind)
	if err != nil {
		return &world.Error{Op: "daemon.Run", Kind: world.KindBadRequest, Msg: fmt.Sprintf("cannot listen on %s: %v", d.cfg.Bind, err),
			Hint: "another daemon may run there; choose another --bind", Err: err}
	}
	base := "http://" + l.Addr().String()
	operators, err := d.serveAdmin(base)
	if err != nil {
		l.Close()
		return err
	}
	srv := server(d.Handler(base), d.core.Watch.connections(mostConns(descriptorLimit())))
	sweeping, stopSweep := context.WithCancel(ctx)
	defer stopSweep()
	var swept sync.WaitGroup
	swept.Add(2)
	go func() {
		defer swept.Done()
		d.watchOthers(sweeping)
	}()
	go func() {
		defer swept.Done()
		d.users.Sweep(sweeping)
	}()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	ready(base)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	stopSweep()
	swept.Wait()
	return errors.Join(err, d.stop(context.WithoutCancel(ctx), operators, srv))
}

// server serves a handler within the bounds of the listener.
func server(h http.Handler, bound *conns) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: HeaderTimeout, IdleTimeout: IdleTimeout, MaxHeaderBytes: MaxHeader, WriteTimeout: AnswerTimeout,
		ConnState: bound.state,
	}
}

// stop takes no more requests, and lets calls under way end, those too whose caller is
// gone: the store is closed after this.
func (d *Daemon) stop(ctx context.Context, operators *admin.Server, srv *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, StopTimeout)
	defer cancel()
	// A task may take longer than stopping does; it gets what any other call would have. What
	// waits for a model then waits no more, and ends with a record.
	patience := time.AfterFunc(coordinator.CallDeadline, func() {
		d.models.Cancel()
		d.users.Cancel()
	})
	defer patience.Stop()
	var err error
	if operators != nil {
		err = operators.Shutdown(ctx)
	}
	if serr := srv.Shutdown(ctx); serr != nil {
		err = errors.Join(err, serr, srv.Close())
	}
	if werr := d.users.Wait(ctx); werr != nil {
		err = errors.Join(err, fmt.Errorf("tasks were still running after %v: %w", StopTimeout, werr))
	}
	if werr := d.coord.Wait(ctx); werr != nil {
		err = errors.Join(err, fmt.Errorf("calls were still running after %v: %w", StopTimeout, werr))
	}
	if d.exec != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exec.StopTimeout)
		defer cancel()
		err = errors.Join(err, d.exec.Close(ctx))
	}
	if d.tools != nil {
		err = errors.Join(err, d.tools.Close(ctx))
	}
	if d.replica != nil {
		err = errors.Join(err, d.replica.Close())
	}
	return errors.Join(err, d.library.Close())
}

func (d *Daemon) serveAdmin(base string) (*admin.Server, error) {
	path, err := admin.SocketPath(postgres.Display(d.core.Config.DB), d.cfg.RuntimeDir)
	if err != nil {
		return nil, err
	}
	if postgres.IsURL(d.core.Config.DB) && admin.Answers(path) {
		d.core.Config.Logf("another daemon of this machine serves this world, and answers operators; this one does not")
		return nil, nil
	}
	l, err := admin.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	ops := d.core.Ops(base)
	ops.Info.Effects = d.cfg.Effects()
	ops.Shut = nil // closing a connection must not close the store
	if d.cfg.WorkspaceRoot != "" {
		if ops.Info.WorkspaceRoot, err = realPath(d.cfg.WorkspaceRoot); err != nil {
			l.Close()
			return nil, err
		}
	}
	return admin.Serve(l, ops, d.core.Config.Logf), nil
}
