package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/cli/worktree"
	"ailang.dev/world/host/client"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/world"
)

// Bounds of an examination.
const (
	doctorTime    = 30 * time.Second // all of it
	doctorEntries = 2000             // newest entries that are looked at
	lowSpace      = 1 << 30          // bytes that should be free where the store is
)

// finding is one line of an examination.
type finding struct {
	Mark string `json:"mark"` // ok, warning or error
	What string `json:"what"`
	Says string `json:"says"`
	Fix  string `json:"fix,omitzero"`
}

// doctor is an examination on its way.
type doctor struct {
	a     *app
	ctx   context.Context
	f     doctorFlags
	found []finding
}

type doctorFlags struct {
	db, root, config, bind string
	json                   bool
}

func (d *doctor) say(mark, what, fix, format string, args ...any) {
	d.found = append(d.found, finding{mark, what, fmt.Sprintf(format, args...), fix})
}

func (d *doctor) ok(what, format string, args ...any) { d.say("ok", what, "", format, args...) }
func (d *doctor) warn(what, fix, format string, args ...any) {
	d.say("warning", what, fix, format, args...)
}
func (d *doctor) bad(what, fix, format string, args ...any) {
	d.say("error", what, fix, format, args...)
}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use:   "doctor [--db FILE] [--workspace-root FOLDER] [--config FILE]",
		Short: "Look at store, daemon, engines, sandbox, git and files, and say what to do",
		Long: `Looks at everything that a daemon needs, changes nothing, and says of each what is wrong
and how to put it right: ✓ is well, ! works but not as well as it could, ✗ does not work.
Exit code 1 if anything does not. Without --db it looks at what up made.`,
		Example: `  ailang-worldd doctor
  ailang-worldd doctor --db world.db --workspace-root ~/worktrees --config world.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorTime)
			defer cancel()
			d := &doctor{a: a, ctx: ctx, f: f}
			d.examine(cmd)
			return d.tell()
		},
	}
	readFlag(c, &f.db)
	c.Flags().StringVar(&f.root, "workspace-root", "", "`FOLDER` of the worktrees; without it, the one beside up's store")
	c.Flags().StringVar(&f.bind, "bind", DefaultBind, "`ADDRESS` that a daemon would listen on")
	configFlag(c, &f.config)
	jsonFlag(c, &f.json)
	return c
}

func (d *doctor) examine(cmd *cobra.Command) {
	path, err := d.a.readPath(cmd, d.f.db)
	if err != nil {
		d.bad("store", "run `ailang-worldd up` in a git repository, or name one with --db", "%s", describe(err).Message)
	} else {
		served := d.daemon(path)
		d.store(path)
		if !served {
			d.port()
		}
		if base, err := d.a.beside(d.ctx, path); err == nil {
			d.space(base)
		}
	}
	d.git()
	d.sandbox()
	d.configFile()
	if err == nil {
		home := filepath.Dir(filepath.Dir(path))
		if postgres.IsURL(path) {
			home, _ = d.a.dataHome("")
		}
		d.worktrees(home)
		d.sessions(path, home)
		d.corpora(path)
	}
}

// corpora opens the index of each corpus.
func (d *doctor) corpora(path string) {
	base, err := d.a.beside(d.ctx, path)
	if err != nil {
		return // told already
	}
	dir := corpus.Dir(base)
	names, err := corpus.Names(dir)
	if err != nil {
		d.bad("corpora", "make the folder readable", "%v", err)
		return
	}
	lib := corpus.NewLibrary(dir)
	defer lib.Close()
	for _, name := range names {
		if st, err := lib.Status(d.ctx, name); err != nil {
			d.bad("corpora", "ailang-worldd corpus rebuild "+name, "%s", describe(err).Message)
		} else {
			d.ok("corpora", "%s: %d documents, %d passages", name, st.Documents, st.Passages)
		}
	}
}

// daemon tells who has the store.
func (d *doctor) daemon(path string) (served bool) {
	ops, err := d.a.dial(d.ctx, path)
	if err != nil {
		d.warn("daemon", "`ailang-worldd up`, or serve, starts one", "none serves this store")
		return false
	}
	defer ops.Close()
	st, err := ops.Status(d.ctx)
	if err != nil {
		d.bad("daemon", "end the process that holds the store, and start it again", "it does not answer operators: %s", describe(err).Message)
		return false
	}
	if c, err := client.NewHTTP(st.URL, ""); err == nil {
		// With private reads it answers by asking for a session.
		if _, _, err := c.Health(d.ctx); err != nil && !refusedForSession(err) {
			d.bad("daemon", "look at its stderr, and start it again", "process %d holds the store, and %s does not answer: %v", st.PID, st.URL, err)
			return true
		}
	}
	d.ok("daemon", "process %d serves it at %s", st.PID, st.URL)
	d.socket(path)
	return true
}

func refusedForSession(err error) bool {
	var r *client.Refusal
	return errors.As(err, &r) && r.Status == http.StatusUnauthorized
}

func (d *doctor) socket(path string) {
	dir, _ := d.a.runtimeDir()
	socket, err := admin.SocketPath(postgres.Display(path), dir)
	if err != nil {
		return
	}
	if st, err := os.Lstat(socket); err == nil && st.Mode().Perm()&0o077 != 0 {
		d.bad("admin socket", "chmod 700 "+socket, "other users may use %s", socket)
	} else if err == nil {
		d.ok("admin socket", "%s, for this user alone", socket)
	}
}

// store reads the newest entries beside the daemon, and proves the engines.
func (d *doctor) store(path string) {
	core, err := daemon.OpenReader(d.ctx, d.a.coreConfig(path, ""))
	if err != nil {
		told := describe(err)
		d.bad("store", told.Hint, "%s", told.Message)
		return
	}
	defer core.Close()
	if st, err := os.Stat(path); err == nil && st.Mode().Perm()&0o077 != 0 {
		d.warn("store", "chmod 600 "+path, "other users may read %s", path)
	}
	holes := 0
	done, err := core.Store.Scan(d.ctx, doctorEntries, func(h store.Hole) {
		if holes++; holes == 1 {
			d.bad("store", "ailang-worldd verify --deep, and restore a copy", "%s: %s", h.What, h.Reason)
		}
	})
	head, herr := core.Store.Head(d.ctx)
	switch {
	case err != nil:
		d.bad("store", "", "%s", describe(err).Message)
	case world.KindOf(herr) == world.KindNoWorld && herr != nil:
		d.warn("store", "ailang-worldd genesis --db "+postgres.Display(path), "it has no genesis yet")
	case holes == 0 && done:
		d.ok("store", "%s, %d entries; the newest prove themselves", postgres.Display(path), head.Next)
	case holes == 0:
		d.warn("store", "ailang-worldd verify", "%s, %d entries; there was no time to look at all of the newest", postgres.Display(path), head.Next)
	}
	names := []string{}
	for _, e := range core.Engines {
		names = append(names, e.Identity().Name)
	}
	d.ok("engines", "%s", strings.Join(names, ", "))
	for _, e := range core.Past {
		if err := e.Prove(); err != nil {
			d.bad("archive", "put the binary back that has this hash", "%v", err)
		}
	}
}

func (d *doctor) port() {
	l, err := net.Listen("tcp", d.f.bind)
	if err != nil {
		d.warn("port", "choose another with --bind", "%s cannot be listened on: %v", d.f.bind, err)
		return
	}
	l.Close()
	d.ok("port", "%s is free", d.f.bind)
}

func (d *doctor) space(path string) {
	if free, ok := freeSpace(filepath.Dir(path)); ok && free < lowSpace {
		d.warn("disk", "make room: a full disk refuses every call", "%d MB are free where the store is", free>>20)
	} else if ok {
		d.ok("disk", "%d MB are free where the store is", free>>20)
	}
}

func (d *doctor) git() {
	bin := worktree.FindGit(d.a.env.Environ)
	if bin == "" {
		d.bad("git", "install git", "there is none in PATH: no worktrees, no history")
		return
	}
	out, err := exec.CommandContext(d.ctx, bin, "--version").Output()
	if err != nil {
		d.bad("git", "install git anew", "%s does not run: %v", bin, err)
		return
	}
	d.ok("git", "%s, %s", strings.TrimSpace(strings.TrimPrefix(string(out), "git version ")), bin)
}

// sandbox tells whether commands could be confined here.
func (d *doctor) sandbox() {
	argv := d.a.sandboxArgv()
	if argv == nil {
		d.warn("sandbox", "", "this program does not know its own path, and cannot confine commands")
		return
	}
	r := sandbox.New(sandbox.Config{Command: argv, Logf: func(string, ...any) {}}).Probe(d.ctx)
	for _, m := range r.Missing {
		d.bad("sandbox", m.How, "%s: %s; no command can be run", m.What, m.Why)
	}
	for _, m := range r.Weaker {
		d.warn("sandbox", m.How, "%s: %s", m.What, m.Why)
	}
	if r.OK() {
		d.ok("sandbox", "commands can be confined; Landlock %s, control groups %s", cond(r.Landlock > 0, fmt.Sprint("version ", r.Landlock), "is not there"), cond(r.Groups, "bound them", "are not there"))
	}
}

func (d *doctor) configFile() {
	if d.f.config == "" {
		return
	}
	if err := d.a.configure(&daemon.Config{WorkspaceRoot: "/"}, d.f.config); err != nil {
		d.bad("configuration", "docs/configuration.md lists every key", "%s", describe(err).Message)
		return
	}
	d.ok("configuration", "%s can be read", d.f.config)
}

func (d *doctor) worktrees(home string) {
	root := d.f.root
	if root == "" {
		root = filepath.Join(home, "ws")
	}
	list, err := os.ReadDir(d.a.path(root))
	if err != nil {
		d.warn("worktrees", "name the folder with --workspace-root", "there is no folder %s", root)
		return
	}
	n := 0
	for _, e := range list {
		dir := filepath.Join(d.a.path(root), e.Name())
		_, gitErr := os.Lstat(filepath.Join(dir, ".git"))
		switch {
		case world.CheckEpisode(e.Name()) != nil || !e.IsDir():
			d.warn("worktrees", "", "%s is no episode's folder, and is not served", printable(dir, false))
		case gitErr != nil:
			d.warn("worktrees", "session new makes one of a repository", "%s is no git worktree: its files are served, its history is not", printable(dir, false))
		default:
			n++
		}
	}
	d.ok("worktrees", "%s in %s", plainCount(n, "git worktree"), root)
}

// sessions looks at the files that up keeps.
func (d *doctor) sessions(path, home string) {
	dir := filepath.Join(home, "sessions")
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	_ = d.withStore(path, func(s store.Store) {
		for _, e := range list {
			d.session(s, filepath.Join(dir, e.Name()))
		}
	})
}

func (d *doctor) withStore(path string, do func(store.Store)) error {
	core, err := daemon.OpenReader(d.ctx, d.a.coreConfig(path, ""))
	if err != nil {
		return err // told already
	}
	defer core.Close()
	do(core.Store)
	return nil
}

func (d *doctor) session(s store.Store, file string) {
	st, err := os.Lstat(file)
	if err != nil || !st.Mode().IsRegular() {
		return
	}
	if st.Mode().Perm()&0o077 != 0 {
		d.bad("session file", "chmod 600 "+file+"; if others may have read it, revoke the session", "other users may read %s", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		d.bad("session file", "make it readable by you", "%s cannot be read", file)
		return
	}
	id, ok := authority.CredentialID(strings.TrimSpace(string(text)))
	if !ok {
		d.warn("session file", "remove it", "%s holds no credential", file)
		return
	}
	ses, err := s.Session(d.ctx, id)
	switch {
	case err != nil:
		d.warn("session file", "remove it; up makes a new one", "the store does not know the session in %s", file)
	case !ses.LiveAt(time.Now()):
		d.warn("session file", "up makes a new one", "the session in %s is %s", file, sessionState(ses, time.Now()))
	default:
		d.ok("session file", "%s, episode %s until %s", file, ses.Episode, when(ses.Expires))
	}
}

// tell prints what was found. Anything that does not work is exit code 1.
func (d *doctor) tell() error {
	errs := 0
	for _, f := range d.found {
		if f.Mark == "error" {
			errs++
		}
	}
	if d.f.json {
		if err := writeJSON(d.a.stdout, map[string]any{"findings": d.found, "errors": errs}); err != nil {
			return err
		}
	} else {
		marks := map[string]string{"ok": "✓", "warning": "!", "error": "✗"}
		for _, f := range d.found {
			fmt.Fprintf(d.a.stdout, "%s %s: %s\n", marks[f.Mark], f.What, printable(f.Says, false))
			if f.Fix != "" {
				fmt.Fprintf(d.a.stdout, "  %s\n", printable(f.Fix, false))
			}
		}
	}
	if errs > 0 {
		return exitError(1)
	}
	return nil
}
