package ailang

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/archive"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

const (
	// Extension is the ending of AILANG sources.
	Extension = ".ail"
	// Name is what the engine is called in epochs and in health.
	Name = "ailang"
	// MaxArgument is how many bytes one argument of a command line may have: what Linux
	// allows, less the NUL that ends it. An input's JSON string must fit.
	MaxArgument = 128<<10 - 1
	// MaxVersion is how many bytes of a binary's version text are taken.
	MaxVersion = archive.MaxVersion
	// maxText is how many bytes main's text and the line end after it have.
	maxText = capsule.MaxOutput + 1
	// VersionTimeout is how long a binary may take to tell its version.
	VersionTimeout = 5 * time.Second
)

// Config is what the engines of one archive share.
type Config struct {
	Archive string         // the folder of archived binaries; made when first needed
	Temp    string         // the folder in which scratch folders are made
	Slots   *capsule.Slots // subprocesses of the whole daemon
	// Logf writes one line for the operator.
	Logf func(format string, args ...any)
}

// Engine implements capsule.Engine with one archived binary.
type Engine struct {
	cfg      Config
	identity capsule.Identity
	past     bool // it takes no new sources
	binary   *archive.Binary
	scratch  scratch
	starter  *starter
	// started, unless nil, is told of each process; for tests.
	started func(pid int)

	closing context.Context
	shut    context.CancelFunc
	once    sync.Once
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // grows under mu while not closed
}

var (
	_ capsule.Engine   = (*Engine)(nil)
	_ capsule.Preparer = (*Engine)(nil)
)

var errClosed = errors.New("the engine is closed")

func newEngine(cfg Config, ref world.Ref, version string, past bool) *Engine {
	e := &Engine{
		cfg: cfg, past: past,
		identity: capsule.Identity{Name: Name, Ref: ref, Version: version},
		binary:   archive.New(cfg.Archive, ref, Name, cfg.Logf),
		scratch:  scratch{parent: cfg.Temp, pattern: filepath.Base(cfg.scratchPattern())},
		starter:  newStarter(),
	}
	e.closing, e.shut = context.WithCancel(context.Background())
	return e
}

// Pin archives a binary, asks it for its version, and makes the engine that new sources
// are published under. What tells none does not stay in the archive. Errors are KindBadRequest with a message that says what is wrong
// with the file.
func Pin(ctx context.Context, cfg Config, path string) (*Engine, error) {
	ref, fresh, err := archive.Add(cfg.Archive, path)
	if err != nil {
		return nil, refused("ailang.Pin", path, err)
	}
	e := newEngine(cfg, ref, "", false)
	if e.identity.Version, err = e.version(ctx); err == nil {
		err = archive.WriteVersion(cfg.Archive, ref, e.identity.Version)
	}
	if err != nil {
		e.Close()
		if left := archive.Forget(cfg.Archive, ref, fresh); left != nil {
			cfg.Logf("ailang: %s stays in the archive: %v", ref, left)
		}
		return nil, refused("ailang.Pin", path, err)
	}
	if why := e.starter.unconfined(); why != nil {
		cfg.Logf("ailang: this kernel grants no process namespace (%v): a process that leaves its group and its folder outlives its run", archive.Bare(why))
	}
	if why := e.starter.networked(); why != nil {
		cfg.Logf("ailang: this kernel grants no network namespace (%v): what the binary itself does not forbid can reach the network", archive.Bare(why))
	}
	return e, nil
}

// version is what the binary says of itself, verbatim but for white space around it.
func (e *Engine) version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, VersionTimeout)
	defer cancel()
	out, err := e.execute(ctx, job{args: []string{"--version"}, keepOut: MaxVersion, maxOut: MaxVersion})
	switch {
	case err != nil:
		return "", cause(err)
	case out.failure != nil && ctx.Err() != nil:
		return "", fmt.Errorf("--version takes longer than %v", VersionTimeout)
	case out.failure != nil:
		return "", fmt.Errorf("--version: %w", out.failure)
	}
	text := trimmed(out.stdout)
	if text == "" || !utf8.ValidString(text) {
		return "", errors.New("--version says nothing that is text")
	}
	return text, nil
}

// cause is what stands behind an error of this package.
func cause(err error) error {
	var e *world.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}

// Identity is the hash of the archived binary and the version that it told when it was
// pinned.
func (e *Engine) Identity() capsule.Identity { return e.identity }

// Extension is ".ail" for the pinned binary, and "" for those of earlier starts.
func (e *Engine) Extension() string {
	if e.past {
		return ""
	}
	return Extension
}

// Prove hashes the archived file, unless it is known to be unchanged. KindEngineMissing if
// it is not there or is not what its name says.
func (e *Engine) Prove() error {
	if err := e.binary.Prove(); err != nil {
		return e.missing("ailang.Prove", err)
	}
	return nil
}

func (e *Engine) missing(op string, err error) error {
	return &world.Error{Op: op, Kind: world.KindEngineMissing, Subject: e.identity.Ref.String(), Err: err,
		Hint: "serve with --ailang-bin naming this binary puts it back into the archive"}
}

// Check asks the binary whether it takes the source. What it says of one that it does not
// take is the message of KindConvention; a source that takes it longer than
// capsule.PhaseTimeout, or over another bound, is not taken either.
func (e *Engine) Check(ctx context.Context, src capsule.Source) error {
	const op = "ailang.Check"
	if err := checkSource(op, src); err != nil {
		return err
	}
	out, err := e.within(ctx, op, src, checkJob(src.Text))
	if err != nil {
		var missing *world.Error
		if errors.As(err, &missing) && missing.Kind == world.KindEngineMissing {
			missing.Msg = cause(missing).Error()
		}
		return err
	}
	if out.failure != nil {
		return &world.Error{Op: op, Kind: world.KindConvention, Subject: src.Ref.String(), Msg: out.report(), Err: out.failure}
	}
	return nil
}

// Run calls main with input. It takes at most capsule.PhaseTimeout once it has a slot.
func (e *Engine) Run(ctx context.Context, src capsule.Source, input []byte) ([]byte, error) {
	const op = "ailang.Run"
	failed := func(kind world.Kind, err error) error {
		return &world.Error{Op: op, Kind: kind, Subject: src.Ref.String(), Err: err}
	}
	if err := checkSource(op, src); err != nil {
		return nil, failed(world.KindConvention, errors.New(world.Message(err)))
	}
	arg, err := argument(input)
	if err != nil {
		return nil, failed(world.KindExecution, err)
	}
	out, err := e.within(ctx, op, src, job{
		args:   []string{"run", "--quiet", "--caps", "", "--entry", "main", "--args-json", arg, sourcePath},
		source: src.Text, diagnose: true,
		keepOut: maxText, maxOut: maxText,
	})
	switch {
	case err != nil:
		return nil, err
	case out.failure != nil && out.broken:
		return nil, failed(world.KindConvention, out.failure)
	case out.failure != nil:
		return nil, failed(world.KindExecution, out.failure)
	case len(out.stdout) == 0:
		return nil, failed(world.KindBadOutput, errors.New("the binary printed nothing"))
	case !utf8.Valid(out.stdout):
		return nil, failed(world.KindBadOutput, errors.New("the binary printed what is no UTF-8"))
	}
	text := out.stdout
	if text[len(text)-1] == '\n' {
		text = text[:len(text)-1]
	}
	if len(text) > capsule.MaxOutput {
		return nil, failed(world.KindExecution, fmt.Errorf("the output has more than %d bytes", capsule.MaxOutput))
	}
	return text, nil
}

// within does a job within a phase's time, and tells the end of ctx and of the engine
// apart from what the job did.
func (e *Engine) within(ctx context.Context, op string, src capsule.Source, j job) (outcome, error) {
	out, err := e.execute(ctx, j)
	var known *world.Error
	switch {
	case err == nil && out.failure == nil:
		return out, nil
	case errors.As(err, &known):
		known.Op = op
		return outcome{}, known
	case ctx.Err() != nil:
		kind := world.KindCanceled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			kind = world.KindDeadline
		}
		return outcome{}, &world.Error{Op: op, Kind: kind, Subject: src.Ref.String(), Err: ctx.Err()}
	case e.closing.Err() != nil:
		return outcome{}, &world.Error{Op: op, Kind: world.KindCanceled, Subject: src.Ref.String(), Err: errClosed}
	case err != nil:
		return outcome{}, &world.Error{Op: op, Kind: world.KindExecution, Subject: src.Ref.String(), Err: err}
	}
	return out, nil
}

// argument writes an input as the JSON string that the command line takes.
func argument(input []byte) (string, error) {
	if len(input) > MaxArgument {
		return "", fmt.Errorf("the input has %d bytes, and one argument of a command line at most %d", len(input), MaxArgument)
	}
	arg, err := jsontext.AppendQuote(nil, input)
	if err != nil {
		return "", fmt.Errorf("the input: %w", err)
	}
	if len(arg) > MaxArgument {
		return "", fmt.Errorf("the input has %d bytes as a JSON string, and one argument of a command line at most %d", len(arg), MaxArgument)
	}
	return string(arg), nil
}

func checkSource(op string, src capsule.Source) error {
	switch {
	case len(src.Text) > capsule.MaxSource:
		return world.Errorf(world.KindConvention, op, "a source has at most %d bytes", capsule.MaxSource)
	case hashref.Sum(src.Text) != src.Ref:
		return world.Errorf(world.KindConvention, op, "the source is not the one that %s names", src.Ref)
	}
	return nil
}

// enter counts a run, unless the engine is closed.
func (e *Engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.running.Add(1)
	}
	return !e.closed
}

// Close ends what runs, waits until no process is left, and removes the scratch folder.
// Later runs are KindCanceled.
func (e *Engine) Close() error {
	var err error
	e.once.Do(func() {
		e.mu.Lock()
		e.closed = true
		e.mu.Unlock()
		e.shut()
		e.running.Wait()
		e.starter.stop()
		e.binary.Close()
		err = e.scratch.remove()
	})
	return err
}
