package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

const (
	fillers      = 64      // goroutines that fill a store
	progressStep = 100_000 // entries between two lines of progress
	budget       = 1 << 40 // more than a run can spend
	mintFor      = 24 * time.Hour
)

// site is a store with what serves it: the shipped tools published, a worktree for each
// run, a session for each caller.
type site struct {
	db, ws  string
	data    string // what stands beside a database; "" for a file
	entries int64
	tokens  []string // each of an episode of its own
	episode string   // of the first token; it has the worktree
}

// prepare opens or makes a store under a folder, brings it to a number of entries, and
// mints sessions. A store that was left half filled is filled on.
func (b *bench) prepare(ctx context.Context, dir string, entries int64, sessions int) (*site, error) {
	s := &site{db: filepath.Join(dir, "world.db"), ws: filepath.Join(b.scratch, "ws-"+filepath.Base(dir)), entries: entries}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return s, b.furnish(ctx, s, entries, sessions)
}

// furnish is prepare for a site whose store may be a database.
func (b *bench) furnish(ctx context.Context, s *site, entries int64, sessions int) (err error) {
	if err := os.MkdirAll(s.ws, 0o700); err != nil {
		return err
	}
	core, err := daemon.OpenCore(ctx, daemon.CoreConfig{DB: s.db, DataDir: s.data, Logf: b.logf})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, core.Close()) }()
	ops := core.Ops("")
	if _, err := core.Store.Head(ctx); world.KindOf(err) == world.KindNoWorld {
		if _, err := ops.Genesis(ctx, "measuring"); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	for _, name := range []string{"workspace", "se-tools", "examples"} {
		p, err := packs.Load(name)
		if err != nil {
			return err
		}
		if _, err := ops.Publish(ctx, registry.Manifest{Text: p.Manifest, Files: p.Files}); err != nil {
			return err
		}
	}
	if err := b.fill(ctx, core, entries); err != nil {
		return err
	}
	for i := range sessions {
		episode := fmt.Sprintf("bench-%x-%d", b.nums.run>>32, i)
		m, err := ops.Mint(ctx, admin.MintRequest{Episode: episode, TTL: mintFor, Grants: []world.Grant{
			{Effect: "Tools.Echo", Scope: "demo", Budget: 0},
			{Effect: "Workspace.Read", Scope: "worktree", Budget: budget},
			{Effect: "Workspace.Write", Scope: "worktree", Budget: budget},
		}})
		if err != nil {
			return err
		}
		s.tokens = append(s.tokens, m.Credential)
		if i == 0 {
			s.episode = episode
		}
	}
	return b.worktree(ctx, s)
}

// fill appends calls of tools.echo until the log has that many entries.
func (b *bench) fill(ctx context.Context, core *daemon.Core, entries int64) error {
	head, err := core.Store.Head(ctx)
	if err != nil || head.Next >= entries {
		return err
	}
	snap, err := core.Registry.Snapshot(ctx)
	if err != nil {
		return err
	}
	echo := snap.Get("tools.echo")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	next.Store(head.Next)
	var wg sync.WaitGroup
	begun := time.Now()
	for range fillers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1)
				if i > entries {
					return
				}
				if _, err := core.Store.Append(ctx, b.pastCall(echo)); err != nil {
					cancel(err)
					return
				}
				if i%progressStep == 0 {
					b.logf("filling a store: entry %d of %d after %v", i, entries, time.Since(begun).Round(time.Second))
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// pastCall is a call of tools.echo as the daemon commits it.
func (b *bench) pastCall(d *world.Descriptor) store.Append {
	writer := world.SurfaceMCP.Writer()
	n := b.nums.take()
	in := world.NewObject(world.SemInput, writer, fmt.Appendf(nil, `{"text":"%016x"}`, n))
	out := world.NewObject(world.SemOutput, writer, fmt.Appendf(nil, `{"echo":{"text":"%016x"}}`, n))
	id := world.AgentInvocation("filler", fmt.Sprintf("%032x", n))
	record := world.NewObject(world.SemRecordV1, writer, hashref.MustMarshal(map[string]any{
		"invocationId": id, "episodeId": "filler", "skillId": d.ID, "transitionFn": d.TransitionFn,
		"interpreter": d.Interpreter, "semanticsEpoch": d.SemanticsEpoch, "input": in.Hash, "output": out.Hash,
	}))
	return store.Append{
		Invocation: id, Digest: in.Hash, Objects: []world.Object{in, out, record}, TransitionFn: d.TransitionFn,
		Interpreter: d.Interpreter, SemanticsEpoch: d.SemanticsEpoch, WrittenBy: writer, TransitionRef: record.Hash, StateRoot: out.Hash,
	}
}

// The file that is read, and the one that is edited: 4 KiB each, one line the caller's.
const (
	readFile = "read.txt"
	editFile = "edit.txt"
)

// worktree makes the first episode's: a real one, of a fresh repository.
func (b *bench) worktree(ctx context.Context, s *site) error {
	repo := filepath.Join(b.scratch, "repo-"+s.episode+filepath.Base(s.ws))
	if err := os.Mkdir(repo, 0o755); err != nil {
		return err
	}
	filler := make([]byte, 0, 4096)
	for len(filler) < 4000 {
		filler = append(filler, "a line that nobody edits\n"...)
	}
	for _, name := range []string{readFile, editFile} {
		if err := os.WriteFile(filepath.Join(repo, name), fmt.Appendf(nil, "call %016x\n%s", 0, filler), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"},
		{"worktree", "add", "-q", "-b", "world/" + s.episode, filepath.Join(s.ws, s.episode), "HEAD"},
	} {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", repo, "-c", "user.name=bench", "-c", "user.email=bench@example.invalid", "-c", "core.hooksPath=/dev/null"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// daemonCommand runs the daemon's command line: the built binary, or this program.
func (b *bench) daemonCommand() []string {
	if b.opt.worldd != "" {
		return []string{b.opt.worldd}
	}
	return []string{b.exe, verbWorld, "--"}
}

// build is one daemon that is measured.
type build struct {
	name    string
	command []string
}

// builds are the daemon, and the other build if one is asked for.
func (b *bench) builds() []build {
	all := []build{{"World", b.daemonCommand()}}
	if b.opt.against != "" {
		all = append(all, build{"World, the other build", []string{b.opt.against}})
	}
	return all
}

// serve starts the daemon on a site.
func (b *bench) serve(ctx context.Context, s *site, command []string, env ...string) (*server, error) {
	argv := append(command[:len(command):len(command)], "serve", "--db", s.db, "--bind", "127.0.0.1:0", "--workspace-root", s.ws)
	if s.data != "" {
		env = append(env, "XDG_DATA_HOME="+s.data)
	}
	return start(ctx, "ailang-worldd", argv, env...)
}

// store is the folder of a kept store of some size.
func (b *bench) store(entries int64) string {
	return filepath.Join(b.opt.cache, fmt.Sprintf("entries-%d", entries))
}

// fresh is the folder of a store of this run alone.
func (b *bench) fresh(name string) string { return filepath.Join(b.scratch, name) }

// The paths of the surfaces.
const (
	mcpPath = "/mcp/"
	a2aPath = "/a2a/"
)

func header(token string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return h
}

func fixed(path string) func() string { return func() string { return path } }

// mcpCall is tools/call of a tool; want is what its structuredContent must hold.
func mcpCall(token, tool, args string, want ...string) ask {
	h := header(token)
	h.Set("Accept", "application/json, text/event-stream")
	h.Set("MCP-Protocol-Version", "2025-06-18")
	return ask{method: http.MethodPost, path: fixed(mcpPath), header: h, want: want,
		body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`}
}

// echoCall is a call of an echo tool over MCP; the answer must hold its text both ways.
func echoCall(token, tool string) ask {
	return mcpCall(token, tool, `{"text":"`+markNow+`"}`,
		`"text":"{\"echo\":{\"text\":\"`+markNow+`\"}}"`, `"structuredContent":{"echo":{"text":"`+markNow+`"}}`)
}

// worldEcho is tools.echo under its name on /mcp/.
const worldEcho = "tools_decho"

func a2aEcho(token string) ask {
	return ask{method: http.MethodPost, path: fixed(a2aPath), header: header(token),
		body: `{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"` + markNow + `","metadata":{"skill_id":"tools.echo"},` +
			`"message":{"role":"user","parts":[{"type":"data","data":{"text":"` + markNow + `"}}]}}}`,
		want: []string{`"state":"completed"`, `"data":{"echo":{"text":"` + markNow + `"}}`, `:` + markNow + `","world_ref":"sha256:`}}
}

func readCall(token string) ask {
	return mcpCall(token, "workspace-read", `{"path":"`+readFile+`"}`,
		`"structuredContent":{"content":"call 0000000000000000\n`, `"ok":true`, `"status":"ok"`)
}

// editCall puts its own number where the call before put its.
func editCall(token string) ask {
	return mcpCall(token, "workspace-edit", `{"path":"`+editFile+`","old_text":"call `+markLast+`","new_text":"call `+markNow+`"}`,
		`"ok":true`, `"status":"ok"`)
}
