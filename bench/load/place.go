package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/client"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// Bounds of a daemon's life, and what a session gets.
const (
	startLimit = 5 * time.Minute
	stopLimit  = time.Minute
	mintFor    = 24 * time.Hour
	budget     = 1 << 40 // more than a run can spend
	userPlan   = "load"
)

// place is the daemon that is put under load, and what was made in it.
type place struct {
	db, url   string
	workspace string
	pid       int
	ops       *client.Admin
	cmd       *exec.Cmd // nil if it ran before
	dir       string    // of a daemon of its own
	episodes  []string
	subjects  []string
}

// userConfig lets users call as often as they can.
const userConfig = "plans:\n  " + userPlan + ":\n    tasks: true\n    grants: [\"Skills.Use=public:unlimited\"]\n"

// daemonCommand runs the daemon's command line: the binary that was named, or this program.
func (l *loader) daemonCommand() []string {
	if l.opt.worldd != "" {
		return []string{l.opt.worldd}
	}
	return []string{l.exe, verbWorld}
}

// settle finds the daemon, or starts one with the shipped tools, and makes sessions.
func (l *loader) settle(ctx context.Context) (err error) {
	l.place = &place{db: l.opt.db}
	if l.opt.db == "" {
		if err := l.begin(ctx); err != nil {
			return err
		}
	}
	p := l.place
	socket, err := admin.SocketPath(p.db, l.opt.runtime)
	if err != nil {
		return err
	}
	if p.ops, err = client.DialAdmin(ctx, socket); err != nil {
		return fmt.Errorf("no daemon serves %s: %w", p.db, err)
	}
	st, err := p.ops.Status(ctx)
	if err != nil {
		return err
	}
	p.url, p.pid, p.workspace = st.URL, st.PID, st.WorkspaceRoot
	if p.workspace == "" {
		return errors.New("the daemon serves no worktrees: start it with --workspace-root")
	}
	if p.cmd != nil {
		if err := l.furnish(ctx); err != nil {
			return err
		}
	}
	return l.people(ctx)
}

// begin starts a daemon over a fresh store.
func (l *loader) begin(ctx context.Context) error {
	dir, err := os.MkdirTemp(l.opt.scratch, "load-")
	if err != nil {
		return err
	}
	p := l.place
	p.dir, p.db = dir, filepath.Join(dir, "store", "world.db")
	config, ws := filepath.Join(dir, "world.yaml"), filepath.Join(dir, "ws")
	for _, d := range []string{filepath.Dir(p.db), ws} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(config, []byte(userConfig), 0o600); err != nil {
		return err
	}
	argv := append(l.daemonCommand(), "serve", "--db", p.db, "--bind", "127.0.0.1:0", "--workspace-root", ws, "--config", config)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = os.Environ()
	if l.opt.runtime != "" {
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+l.opt.runtime)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	said, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		return err
	}
	defer said.Close()
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd = cmd
	up := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		if err == nil && !strings.Contains(line, " listening on ") {
			err = fmt.Errorf("said %q", line)
		}
		up <- err
	}()
	select {
	case err = <-up:
	case <-time.After(startLimit):
		err = fmt.Errorf("did not serve within %v", startLimit)
	}
	if err != nil {
		text, _ := os.ReadFile(said.Name())
		return fmt.Errorf("the daemon: %w: %.1000s", err, text)
	}
	return nil
}

// furnish commits a genesis and publishes what is called.
func (l *loader) furnish(ctx context.Context) error {
	if _, err := l.place.ops.Genesis(ctx, "bearing load"); err != nil {
		return err
	}
	for _, name := range []string{"workspace", "examples", "demo"} {
		p, err := packs.Load(name)
		if err != nil {
			return err
		}
		if _, err := l.place.ops.Publish(ctx, registry.Manifest{Text: p.Manifest, Files: p.Files}); err != nil {
			return err
		}
	}
	return nil
}

// What is read in each worktree: a file of lines, each with its number.
const (
	readFile  = "read.txt"
	readLines = 100
)

// people mints sessions, with a worktree each, and users' tokens.
func (l *loader) people(ctx context.Context) error {
	p, run := l.place, rand.Uint32()
	var text strings.Builder
	for i := range readLines {
		fmt.Fprintf(&text, "line %04d\n", i+1)
	}
	for i := range l.opt.sessions {
		episode := fmt.Sprintf("load-%08x-%d", run, i)
		p.episodes = append(p.episodes, episode)
		dir := filepath.Join(p.workspace, episode)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, readFile), []byte(text.String()), 0o600); err != nil {
			return err
		}
		m, err := p.ops.Mint(ctx, admin.MintRequest{Episode: episode, TTL: mintFor, Grants: []world.Grant{
			{Effect: "Tools.Echo", Scope: "demo"}, {Effect: "Workspace.Read", Scope: "worktree", Budget: budget}, {Effect: "Workspace.Write", Scope: "worktree", Budget: budget},
		}})
		if err != nil {
			return err
		}
		l.traffic.sessions = append(l.traffic.sessions, bearer(m.Credential))
	}
	plan := userPlan
	if p.cmd == nil {
		plan = l.opt.plan
	}
	if plan == "" {
		return nil
	}
	for i := range l.opt.users {
		subject := fmt.Sprintf("load-%08x-%d", run, i)
		p.subjects = append(p.subjects, subject)
		m, err := p.ops.MintToken(ctx, admin.TokenRequest{Subject: subject, Plan: plan, TTL: mintFor.String()})
		if err != nil {
			return err
		}
		l.traffic.users = append(l.traffic.users, bearer(m.Credential))
	}
	return nil
}

// learn makes one call, so that there is what can be read, and finds objects that are there.
func (l *loader) learn(ctx context.Context) error {
	t := l.traffic
	for i := range kinds() {
		k := &kinds()[i]
		if !k.entry || (k.user && len(t.users) == 0) {
			continue
		}
		o := t.send(ctx, k, t.number.Add(1))
		t.ledger.add(o)
		if o.verdict != ok {
			return fmt.Errorf("a first call of %s was not answered well: %s", k.name, o.label)
		}
	}
	st, err := l.place.ops.Status(ctx)
	if err != nil {
		return err
	}
	t.known.Store(st.Entries)
	h, err := client.NewHTTP(t.url, strings.TrimPrefix(t.sessions[0].Get("Authorization"), "Bearer "))
	if err != nil {
		return err
	}
	page, _, err := h.Entries(ctx, max(st.Entries-pageLength, 1), pageLength)
	if err != nil {
		return err
	}
	for _, e := range page {
		t.objects = append(t.objects, e.TransitionRef.String())
	}
	if len(t.objects) == 0 {
		return errors.New("the log has no entry that can be read")
	}
	return nil
}

// leave takes away what people needs not keep, and stops a daemon of its own. It is called
// at the end whatever happened.
func (l *loader) leave() (err error) {
	p := l.place
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if p.ops != nil {
		for _, e := range p.episodes {
			_, rerr := p.ops.RevokeEpisode(ctx, e)
			err = errors.Join(err, rerr, os.RemoveAll(filepath.Join(p.workspace, e)))
		}
		for _, s := range p.subjects {
			_, rerr := p.ops.RevokeSubject(ctx, s)
			err = errors.Join(err, rerr)
		}
		err = errors.Join(err, p.ops.Close())
	}
	return err
}

// halt stops a daemon of its own in good order.
func (p *place) halt() error {
	if p.cmd == nil {
		return nil
	}
	cmd := p.cmd
	p.cmd = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.AfterFunc(stopLimit, func() { cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		text, _ := os.ReadFile(filepath.Join(p.dir, "stderr"))
		return fmt.Errorf("the daemon ended with %w: %.1000s", err, text)
	}
	return nil
}
