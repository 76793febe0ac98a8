// Package daemon assembles the house: it opens the store, makes engines, registry,
// authority, broker and coordinator, mounts every surface, and runs the listener. The whole
// route table is Daemon.Handler. Nothing is decided here that a room below could decide.
// Answers spec/07-calls.md (assembly) and spec/11-cli.md (serve).
package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/ailang"
	"ailang.dev/world/host/metrics"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/tracing"
	"ailang.dev/world/host/world"
)

// CoreConfig is what a store and its rules are opened with.
type CoreConfig struct {
	DB string // path of the SQLite file, or the URL of a PostgreSQL database
	// DataDir is the folder under which what stands beside a file stands for a database; it is
	// made when it is needed. "" is none.
	DataDir string
	// WorkerCommand, with the name of an engine behind it, starts a process that does nothing
	// but call WorkerMain: a worker for transitions that do not ship inside this binary.
	WorkerCommand []string
	// AilangBin is the AILANG binary that new .ail sources are published under; "" pins none.
	AilangBin string
	// TempDir holds the scratch folders of subprocesses; "" is one in memory if there is one,
	// else the system's.
	TempDir string
	// Trace and CallLog, unless nil, are told of what a daemon does; metrics always are.
	Trace   *tracing.Tracer
	CallLog *slog.Logger
	// Pause, unless nil, is called at each step of a call; for tests.
	Pause func(step string)
	Now   func() time.Time
	// Logf writes one line to stderr.
	Logf func(format string, args ...any)
}

// Core is an open store with all that reads and changes it, without any listener. The
// command line uses one directly while no daemon runs.
type Core struct {
	Config  CoreConfig
	Watch   *Observer
	Store   store.Store
	Engines capsule.Set
	// Ailang is the pinned AILANG engine, or nil. Past are those of binaries that earlier
	// starts archived.
	Ailang *ailang.Engine
	Past   []*ailang.Engine
	// Slots bounds the subprocesses of all engines and handlers together.
	Slots     *capsule.Slots
	Registry  *registry.Registry
	Authority *authority.Authority
	Users     *authority.Users // what a daemon is configured with is added by New
	Book      *approvals.Book
	// Base is the path that what stands beside the store is named after: its file's, or for a
	// database one in a folder named by the store's id.
	Base    string
	archive string // the folder of archived binaries
}

// OpenCore opens or creates the store, takes its writer lock if it is a file, and nominates
// this binary's engines. KindLocked if another process has the file.
func OpenCore(ctx context.Context, cfg CoreConfig) (*Core, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	watch := &Observer{Trace: cfg.Trace, Log: cfg.CallLog}
	var s store.Store
	watch.Metrics = metrics.New(func(ctx context.Context) (int64, error) {
		head, err := s.Head(ctx)
		if world.KindOf(err) == world.KindNoWorld {
			return 0, nil
		}
		return head.Next, err
	})
	c := &Core{Config: cfg, Watch: watch, Slots: capsule.NewSlots(capsule.MaxSubprocesses)}
	if err := c.openStore(ctx, sqlstore.Hooks{Batch: watch.Batch}); err != nil {
		return nil, err
	}
	s = c.Store
	if err := c.openEmbedded(); err != nil {
		c.Close()
		return nil, err
	}
	ailang.Sweep(c.ailangConfig())
	if err := c.openAilang(ctx); err != nil {
		c.Close()
		return nil, err
	}
	c.Registry = registry.New(s, c.Engines, cfg.Now)
	c.Authority = &authority.Authority{Store: s, Now: cfg.Now}
	c.Users = &authority.Users{Store: s, Now: cfg.Now}
	c.Book = &approvals.Book{Store: s, Now: cfg.Now}
	if err := c.Registry.Bootstrap(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// ArchiveSuffix makes the name of the archive of AILANG binaries out of the store's, which
// is its file's without symbolic links: a store has one archive, however it is named.
const ArchiveSuffix = ".archive"

func (c *Core) ailangConfig() ailang.Config {
	cfg := ailang.Config{Archive: c.archive, Temp: c.Config.TempDir, Slots: c.Slots, Logf: c.Config.Logf}
	if cfg.Temp == "" {
		cfg.Temp = cmp.Or(ailang.MemoryFolder(), os.TempDir())
	}
	return cfg
}

// openAilang pins the AILANG binary, if one is named, and finds those of earlier starts.
func (c *Core) openAilang(ctx context.Context) error {
	cfg := c.ailangConfig()
	var pinned world.Ref
	if c.Config.AilangBin != "" {
		e, err := ailang.Pin(ctx, cfg, c.Config.AilangBin)
		if err != nil {
			return err
		}
		c.Ailang, pinned = e, e.Identity().Ref
		c.Engines = append(c.Engines, e)
	}
	past, err := ailang.Archived(cfg, pinned)
	if err != nil {
		return fmt.Errorf("the archive of AILANG binaries: %w", err)
	}
	for _, e := range past {
		c.Past = append(c.Past, e)
		c.Engines = append(c.Engines, e)
	}
	return nil
}

// Ops is what an operator may ask of this core. Closing it closes the core.
func (c *Core) Ops(url string) *admin.Local {
	info := admin.Status{PID: os.Getpid(), URL: url}
	if c.Ailang != nil {
		info.Interpreter = c.Ailang.Identity().Ref
	}
	return &admin.Local{
		Store: c.Store, Authority: c.Authority, Users: c.Users, Registry: c.Registry, Book: c.Book,
		Info: info,
		Shut: c.Close,
	}
}

// Close ends the engines and then the store.
func (c *Core) Close() error {
	err := c.Engines.Close()
	if serr := c.Store.Close(); serr != nil {
		err = serr
	}
	return err
}
