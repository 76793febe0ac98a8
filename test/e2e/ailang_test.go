package e2e

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/capsule/ailang"
	"ailang.dev/world/host/capsule/ailang/ailangtest"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// ailangManifest publishes two sources as tools: one without effects, and one that plans to
// list the worktree.
const ailangManifest = `[
{"id":"ail.echo","title":"Echo","description":"","transitionFnFile":"echo.ail","inputSchema":{},"outputSchema":{},
 "access":{"effect":"Workspace.Read","scope":"worktree","cost":0}},
{"id":"ail.list","title":"List","description":"","transitionFnFile":"list.ail","inputSchema":{},"outputSchema":{},
 "access":{"effect":"Workspace.Read","scope":"worktree","cost":0},"declaredEffects":[{"effect":"Workspace.Read","scope":"worktree","cost":1}]}
]`

const planToList = `{"plan":"world/effect-plan/v1","effects":[{"id":"e1","effect":"Workspace.Read","scope":"worktree","cost":1,` +
	`"payload":{"op":"list","path":"."}}],"finish":false,"result":null}`

// authored is a source as its author names its module.
func authored(statement string) []byte {
	return []byte(strings.Replace(string(ailangtest.Source(statement)), "module host/capsule/main", "module tools/mine", 1))
}

func ailangFiles() map[string][]byte {
	return map[string][]byte{"echo.ail": authored("echo"), "list.ail": authored("say " + planToList)}
}

// ailangSite is a daemon that may have an AILANG binary, and a session of it.
type ailangSite struct {
	*worldtest.World
	t     *testing.T
	token string
}

func (s *ailangSite) actor() *actor { return &actor{s.t, s.World, s.token} }

type ailangHealth struct {
	Ref     string `json:"interpreter_ref"`
	Version string `json:"interpreter_version"`
	Engines []struct {
		Name    string `json:"name"`
		Ref     string `json:"ref"`
		Version string `json:"version"`
	} `json:"engines"`
}

func (s *ailangSite) health() ailangHealth {
	s.t.Helper()
	_, text := s.actor().do(http.MethodGet, "/v1/health", nil)
	var h ailangHealth
	if err := json.Unmarshal(text, &h); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	return h
}

// mcp calls a tool on /mcp/, and gives the answer as it is.
func (s *ailangSite) mcp(name, args string) string {
	s.t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + args + `}}`
	_, text := s.actor().do(http.MethodPost, "/mcp/", []byte(body), "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
	return string(text)
}

// entry is the interpreter and epoch of the newest entry.
func (s *ailangSite) entry() (world.Ref, int64) {
	s.t.Helper()
	all := worldtest.Entries(s.t, s.Core.Store)
	h := all[len(all)-1].Header
	return h.Interpreter, h.SemanticsEpoch
}

func (s *ailangSite) descriptor(id string) *world.Descriptor {
	s.t.Helper()
	snap, err := s.Ops.Transitions(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return snap.Get(id)
}

// refusedPublication publishes what must be refused, and gives the error.
func (s *ailangSite) refusedPublication(manifest string, files map[string][]byte) error {
	s.t.Helper()
	_, err := s.Ops.Publish(context.Background(), registry.Manifest{Text: []byte(manifest), Files: files})
	if world.KindOf(err) != world.KindBadRequest {
		s.t.Fatalf("it was published, or: %v", err)
	}
	return err
}

func refOf(t *testing.T, path string) world.Ref {
	t.Helper()
	ref, err := ailang.RefOf(path)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestAilang publishes .ail sources, calls them on both surfaces, changes the binary, takes
// it away, damages the archive, and puts it back.
func TestAilang(t *testing.T) {
	standin, err := ailangtest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const firstVersion = "AILANG v0.41.0\nCommit: 24ee108"
	first, second := ailangtest.Release(t, standin, firstVersion+"\n", ""), ailangtest.Release(t, standin, "AILANG v0.42.0\n", "")
	a, b := refOf(t, first), refOf(t, second)
	s := &ailangSite{t: t, World: worldtest.Start(t, worldtest.Options{NoPacks: true, AilangBin: first})}
	s.Worktree("ep1", map[string]string{"a.txt": "x"})
	s.token = s.Mint("ep1", "Workspace.Read=worktree:100")
	s.Publish(ailangManifest, ailangFiles())

	t.Run("published and called", func(t *testing.T) {
		d := s.descriptor("ail.echo")
		if d.Interpreter != a || d.SemanticsEpoch != 1 {
			t.Errorf("%s, epoch %d", d.Interpreter, d.SemanticsEpoch)
		}
		if o, err := s.Core.Store.Object(context.Background(), d.TransitionFn); err != nil || string(o.Payload) != string(ailangtest.Source("echo")) {
			t.Errorf("stored: %s, %v", o.Payload, err)
		}
		if p := s.Publish(ailangManifest, ailangFiles()); !p.Unchanged {
			t.Errorf("published again: %+v", p)
		}
		if out := s.actor().send("t1", "ail.echo", map[string]any{"a": "é\n\"$x\""}).output(t); out["a"] != "é\n\"$x\"" {
			t.Errorf("%v", out)
		}
		if ref, epoch := s.entry(); ref != a || epoch != 1 {
			t.Errorf("entry of %s, epoch %d", ref, epoch)
		}
		if text := s.mcp("ail_decho", `{"n":1}`); !strings.Contains(text, `"structuredContent":{"n":1}`) {
			t.Errorf("%s", text)
		}
		if out := s.actor().send("t2", "ail.list", map[string]any{}).output(t); out["ok"] != true || out["world"] == nil {
			t.Errorf("%v", out)
		}
		if text := s.mcp("ail_dlist", `{}`); !strings.Contains(text, `a.txt`) {
			t.Errorf("%s", text)
		}
	})
	t.Run("health tells the pin", func(t *testing.T) {
		h := s.health()
		if h.Ref != a.String() || h.Version != firstVersion || len(h.Engines) != 3 || h.Engines[0].Name != "starlark" || h.Engines[1].Name != "wasm" || h.Engines[2].Name != "ailang" || h.Engines[2].Ref != a.String() {
			t.Errorf("%+v", h)
		}
	})
	t.Run("a source that the binary refuses", func(t *testing.T) {
		for source, want := range map[string]string{
			string(authored("shell ls")): `ail.echo: echo.ail: Error: host/capsule/main.ail:6:3: undefined name "shell"`,
			"export func main":           "ail.echo: echo.ail: the source must begin with a line `module NAME`",
		} {
			files := ailangFiles()
			files["echo.ail"] = []byte(source)
			if err := s.refusedPublication(ailangManifest, files); !strings.Contains(world.Message(err), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
	t.Run("an input that fits no argument", func(t *testing.T) {
		tk := s.actor().send("t3", "ail.echo", map[string]any{"a": strings.Repeat("x", ailang.MaxArgument)})
		if tk.Error == nil || tk.Error.Message != "transition execution failed" || !strings.Contains(s.Stderr(), "one argument of a command line at most 131071") {
			t.Errorf("%+v\n%s", tk.Error, s.Stderr())
		}
	})

	s.RestartWith(second)
	t.Run("another binary", func(t *testing.T) {
		h := s.health()
		if h.Ref != b.String() || h.Version != "AILANG v0.42.0" || len(h.Engines) != 4 || h.Engines[2].Ref != b.String() || h.Engines[3].Ref != a.String() || h.Engines[3].Version != firstVersion {
			t.Errorf("%+v", h)
		}
		if out := s.actor().send("t4", "ail.echo", map[string]any{"a": 1}).output(t); out["a"] != 1.0 {
			t.Errorf("%v", out)
		}
		if ref, epoch := s.entry(); ref != a || epoch != 1 {
			t.Errorf("what pins the old binary ran under %s, epoch %d", ref, epoch)
		}
		s.Publish(strings.ReplaceAll(ailangManifest, "ail.list", "ail.new"), ailangFiles())
		if out := s.actor().send("t5", "ail.echo", map[string]any{"a": 2}).output(t); out["a"] != 2.0 {
			t.Errorf("%v", out)
		}
		if ref, epoch := s.entry(); ref != b || epoch != 2 {
			t.Errorf("what was published anew ran under %s, epoch %d", ref, epoch)
		}
		if d := s.descriptor("ail.list"); d.Interpreter != a || d.SemanticsEpoch != 1 {
			t.Errorf("what was not published anew: %+v", d)
		}
	})

	s.RestartWith("")
	t.Run("no binary", func(t *testing.T) {
		if h := s.health(); h.Ref != "" || h.Version != "" || len(h.Engines) != 4 {
			t.Errorf("%+v", h)
		}
		err := s.refusedPublication(ailangManifest, ailangFiles())
		if !strings.Contains(err.Error(), `no engine of this daemon runs ".ail" files`) || !strings.Contains(err.Error(), "--ailang-bin") {
			t.Error(err)
		}
		for id, ref := range map[string]world.Ref{"ail.echo": b, "ail.list": a} {
			s.actor().send("t6"+id, id, map[string]any{}).output(t)
			if got, _ := s.entry(); got != ref {
				t.Errorf("%s ran under %s", id, got)
			}
		}
	})

	archived := s.DB + daemon.ArchiveSuffix + "/" + a.Hex()
	unavailable := func(t *testing.T, id string) {
		t.Helper()
		tk := s.actor().send(id, "ail.list", map[string]any{})
		if tk.Error == nil || tk.Error.Code != -32603 || tk.Error.Message != "transition invocation is not available in this daemon" {
			t.Errorf("%+v", tk)
		}
		if text := s.mcp("ail_dlist", `{}`); !strings.Contains(text, "host callback failed") {
			t.Errorf("%s", text)
		}
		if !strings.Contains(s.mcpList(), `"ail_dlist"`) {
			t.Error("it is not seen any more")
		}
		s.actor().send(id+"-new", "ail.echo", map[string]any{}).output(t)
	}
	if err := errors.Join(os.Chmod(archived, 0o700), os.Truncate(archived, 1<<10)); err != nil {
		t.Fatal(err)
	}
	t.Run("the archive is damaged while it runs", func(t *testing.T) {
		unavailable(t, "t7")
		if !strings.Contains(s.Stderr(), "a2a refusal EngineMissing: ail.list t7: ailang.Run: "+a.String()) || !strings.Contains(s.Stderr(), "its hash does not fit its name") {
			t.Error(s.Stderr())
		}
	})
	s.Restart()
	t.Run("the archive is damaged at the start", func(t *testing.T) {
		unavailable(t, "t8")
		if !strings.Contains(s.Stderr(), "archived interpreter damaged: ailang.Prove: "+a.String()) {
			t.Error(s.Stderr())
		}
		if h := s.health(); len(h.Engines) != 3 || h.Engines[2].Ref != b.String() {
			t.Errorf("%+v", h)
		}
	})
	if err := os.Remove(archived); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	t.Run("the binary is gone", func(t *testing.T) {
		unavailable(t, "t9")
		if !strings.Contains(s.Stderr(), "a2a refusal EngineMissing: ail.list t9: coordinator.prepare: "+a.String()) {
			t.Error(s.Stderr())
		}
	})
	s.RestartWith(first)
	t.Run("put back by a start with it", func(t *testing.T) {
		for id, ref := range map[string]world.Ref{"ail.echo": b, "ail.list": a} {
			s.actor().send("t10"+id, id, map[string]any{}).output(t)
			if got, _ := s.entry(); got != ref {
				t.Errorf("%s ran under %s", id, got)
			}
		}
		head, err := s.Core.Store.RegistryHead(context.Background(), world.EpochRegistry)
		if err != nil || head.Revision != 2 {
			t.Errorf("the epochs were moved again: %+v, %v", head, err)
		}
		o, err := s.Core.Store.Object(context.Background(), head.Head)
		var epochs registry.Epochs
		if err != nil || json.Unmarshal(o.Payload, &epochs) != nil {
			t.Fatalf("%s, %v", o.Payload, err)
		}
		var nominated []string
		for _, e := range epochs.Epochs {
			for _, in := range e.Interpreters {
				nominated = append(nominated, in.Name+" "+in.Ref.String())
			}
		}
		star := s.Core.Engines[0].Identity()
		want := []string{"starlark " + star.Ref.String(), "wasm " + s.Core.Engines[1].Identity().Ref.String(), "ailang " + a.String(), "ailang " + b.String()}
		if diff := cmp.Diff(want, nominated); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func (s *ailangSite) mcpList() string {
	s.t.Helper()
	_, text := s.actor().do(http.MethodPost, "/mcp/", []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`),
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
	return string(text)
}

// TestBrokenAilangOverTheWire: whatever a release does, the client gets the contract's
// answer, nothing is committed, and the cause is on stderr.
func TestBrokenAilangOverTheWire(t *testing.T) {
	standin, err := ailangtest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const failed, noObject = "transition execution failed", "transition output is not a JSON object"
	for fault, want := range map[string]struct{ answer, cause string }{
		"run hangs":         {failed, "deadline exceeded"},
		"run floods stdout": {failed, "it wrote too much to stdout"},
		"run floods stderr": {failed, "it wrote too much to stderr"},
		"run exits with 3":  {failed, "exit code 3"},
		"run says nonsense": {noObject, "invalid"},
		"run says nothing":  {noObject, "the binary printed nothing"},
		"run says no text":  {noObject, "no UTF-8"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := &ailangSite{t: t, World: worldtest.Start(t, worldtest.Options{NoPacks: true, AilangBin: ailangtest.Release(t, standin, "v1", fault)})}
			s.token = s.Mint("ep1", "Workspace.Read=worktree:1")
			s.Publish(ailangManifest, ailangFiles())
			if tk := s.actor().send("t1", "ail.echo", map[string]any{}); tk.Error == nil || tk.Error.Code != -32603 || tk.Error.Message != want.answer {
				t.Errorf("%+v, want %q", tk, want.answer)
			}
			if text := s.mcp("ail_decho", `{}`); !strings.Contains(text, "host callback failed") {
				t.Errorf("%s", text)
			}
			if n := strings.Count(s.Stderr(), want.cause); n != 2 {
				t.Errorf("the cause is told %d times:\n%s", n, s.Stderr())
			}
			if entries := worldtest.Entries(t, s.Core.Store); len(entries) != 1 {
				t.Errorf("%d entries", len(entries))
			}
		})
	}
}
