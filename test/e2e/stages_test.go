package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ailang.dev/world/host/a2a"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/mcp"
	"ailang.dev/world/host/rest"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// stages are the worlds that the transcripts are played in, by the transcript's name.
var stages = map[string]func(*testing.T) *stage{
	"auth":             authStage,
	"view":             viewStage,
	"mcp_transport":    mcpTransportStage,
	"mcp_methods":      programsStage,
	"mcp_call":         callStage,
	"mcp_batch":        batchStage,
	"mcp_failures":     failuresStage,
	"a2a_send":         callStage,
	"a2a_refusals":     a2aRefusalsStage,
	"a2a_failures":     programsStage,
	"busy":             busyStage,
	"late":             lateStage,
	"no_world":         noWorldStage,
	"no_workspace":     noWorkspaceStage,
	"no_worktree":      noWorktreeStage,
	"engine_missing":   engineMissingStage,
	"registry_damaged": registryDamagedStage,
	"card":             programsStage,
	"rest_reads":       restReadsStage,
	"rest_refusals":    restReadsStage,
	"rest_commit":      restCommitStage,
	"rest_and_agents":  restAndAgentsStage,
	"guard":            programsStage,
	"public":           publicStage,
	"private":          privateStage,
	"tasks_auth":       usersStage,
	"tasks_send":       usersStage,
	"tasks_refusals":   usersStage,
	"tasks_rates":      usersStage,
	"tasks_budgets":    usersStage,
}

// run is the grants of a session that may run every program of testdata/programs.
func run(budget string) []string {
	return []string{"Test.Run=bench:0", "Test.Do=bench:" + budget, "Test.Nowhere=bench:0"}
}

// clock is a time that can be set.
type clock struct{ now atomic.Pointer[time.Time] }

func (c *clock) set(at time.Time) { c.now.Store(&at) }
func (c *clock) read() time.Time  { return *c.now.Load() }

// authStage has sessions that are live, over, revoked and unknown.
func authStage(t *testing.T) *stage {
	c := &clock{}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c.set(start.Add(-2 * time.Hour))
	s := newStage(t, worldtest.Options{NoPacks: true, Now: c.read})
	s.mint("EXPIRED", "ep1") // for an hour
	c.set(start)
	s.mint("LIVE", "ep1")
	s.mint("REVOKED", "ep9")
	s.acts["revoke"] = func() string {
		if n, err := s.Ops.RevokeEpisode(context.Background(), "ep9"); err != nil || n != 1 {
			t.Errorf("revoked %d: %v", n, err)
		}
		return ""
	}
	s.acts["an hour passes"] = func() string { c.set(start.Add(time.Hour)); return "" }
	s.acts["a nanosecond less than an hour passes"] = func() string { c.set(start.Add(time.Hour - 1)); return "" }
	return s
}

// programsStage has the programs of testdata, and sessions of two episodes that see them.
func programsStage(t *testing.T) *stage {
	s := newStage(t, worldtest.Options{NoPacks: true})
	s.publish("manifest.json")
	s.mint("CODER", "ep1", run("3")...)
	s.mint("OTHER", "ep2", run("100")...)
	s.mint("EMPTY", "ep1")
	s.vars["LONG_TASK"], s.vars["LONGER_TASK"] = strings.Repeat("t", 128), strings.Repeat("t", 129)
	return s
}

// viewStage has sessions whose grants admit more and less.
func viewStage(t *testing.T) *stage {
	s := programsStage(t)
	s.mint("RUNNER", "ep1", "Test.Run=bench:0")
	s.mint("DOER", "ep3", "Test.Do=bench:1")
	s.mint("SPENDER", "ep3", "Test.Do=bench:0")
	s.mint("ELSEWHERE", "ep1", "Test.Do=elsewhere:9", "test.do=bench:9")
	s.acts["remove test-do"] = func() string {
		if _, err := s.Ops.Remove(context.Background(), []string{"test-do"}); err != nil {
			t.Error(err)
		}
		return ""
	}
	s.acts["publish"] = func() string { s.publish("manifest.json"); return "" }
	return s
}

// mcpTransportStage has bodies of exactly the bound and of one byte more.
func mcpTransportStage(t *testing.T) *stage {
	s := programsStage(t)
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	s.vars["FILL"], s.vars["FILL_MORE"] = fill(mcp.MaxBody-len(ping)), fill(mcp.MaxBody+1-len(ping))
	return s
}

// callStage has the shipped packs, a real worktree, and the programs of testdata.
func callStage(t *testing.T) *stage {
	s := newStage(t, worldtest.Options{})
	s.publish("manifest.json")
	s.Worktree("ep1", map[string]string{"hello.ail": "module hello\n", "hello.txt": "hello, world\n"})
	s.Worktree("ep2", map[string]string{"hello.ail": "module other\n"})
	s.mint("CODER", "ep1", append(run("100"), worldtest.Coding(4)...)...)
	s.mint("OTHER", "ep2", worldtest.Coding(9)...)
	s.mint("READER", "ep1", "Workspace.Read=worktree:1")
	snap, err := s.Ops.Transitions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s.vars["READ_FN"] = snap.Get("ailang-read").TransitionFn.String()
	s.vars["EDIT_FN"] = snap.Get("ailang-edit").TransitionFn.String()
	s.vars["LONG_TASK"], s.vars["LONGER_TASK"] = strings.Repeat("t", 128), strings.Repeat("t", 129)
	return s
}

// batchStage can hold a batch between two of its calls.
func batchStage(t *testing.T) *stage {
	s := programsStage(t)
	var answer func() string
	s.acts["begin a batch"] = func() string {
		answer = s.background("/mcp/", s.vars["OTHER"], "["+callTool("test-do", `{"op":"wait"}`)+","+callTool("tools_secho_uone_dv2", `{}`)+"]")
		<-s.bench.entered
		return ""
	}
	s.acts["remove the echo"] = func() string {
		if _, err := s.Ops.Remove(context.Background(), []string{"tools/echo_one.v2"}); err != nil {
			t.Error(err)
		}
		return ""
	}
	s.acts["end the batch"] = func() string { s.bench.open(); return answer() }
	return s
}

// failuresStage has a transition whose tool name is too long beside those that fail.
func failuresStage(t *testing.T) *stage {
	s := programsStage(t)
	s.publish("long.json")
	s.mint("LONG", "ep1", "Test.Long=bench:0", "Test.Run=bench:0")
	return s
}

// a2aRefusalsStage has bodies of exactly the bound and of one byte more.
func a2aRefusalsStage(t *testing.T) *stage {
	s := programsStage(t)
	body := sendTask("full", "tools/echo_one.v2", `{}`)
	s.vars["FILL"], s.vars["FILL_MORE"] = fill(a2a.MaxBody-len(body)), fill(a2a.MaxBody+1-len(body))
	return s
}

// busyStage can hold an episode by an effect that waits, and fill its queue.
func busyStage(t *testing.T) *stage {
	s := newStage(t, worldtest.Options{NoPacks: true})
	s.publish("manifest.json")
	s.mint("CODER", "ep1", run("100")...)
	s.mint("OTHER", "ep2", run("100")...)
	var held func() string
	s.acts["hold"] = func() string {
		held = s.background("/a2a/", s.vars["CODER"], sendTask("held", "test-do", `{"op":"wait"}`))
		<-s.bench.entered
		return ""
	}
	crowd := make(chan string, 33)
	s.acts["crowd"] = func() string {
		for i := range cap(crowd) {
			go func() {
				crowd <- s.post("/a2a/", s.vars["CODER"], sendTask(fmt.Sprint("crowd-", i), "test-do", `{}`))
			}()
		}
		return <-crowd
	}
	s.acts["release"] = func() string {
		s.bench.open()
		for range cap(crowd) - 1 {
			if text := <-crowd; !strings.Contains(text, `"state":"completed"`) {
				t.Errorf("one of those that waited: %s", text)
			}
		}
		return held()
	}
	return s
}

// lateStage has calls that wait behind an effect, and for a slot, past every deadline.
func lateStage(t *testing.T) *stage {
	finished, performed := make(chan struct{}, mcp.Slots+1), make(chan struct{}, 1)
	hold := make(chan struct{})
	s := newStage(t, worldtest.Options{NoPacks: true, Pause: func(step string) {
		switch step {
		case "call.finished":
			finished <- struct{}{}
			<-hold
		case "effect.performed":
			performed <- struct{}{}
			<-hold
		}
	}})
	s.publish("manifest.json")
	s.mint("CODER", "ep1", run("100")...)
	token := s.vars["CODER"]
	var late []func() string
	var slots []func() string
	s.acts["wait behind an effect"] = func() string {
		late = append(late, s.background("/a2a/", token, sendTask("held", "test-do", `{}`)))
		<-performed
		late = append(late,
			s.background("/a2a/", token, sendTask("waits", "test-do", `{}`)),
			s.background("/mcp/", token, callTool("test-do", `{}`)))
		return ""
	}
	s.acts["take every slot"] = func() string {
		for range mcp.Slots {
			slots = append(slots, s.background("/mcp/", token, callTool("tools_secho_uone_dv2", `{}`)))
		}
		for range mcp.Slots {
			<-finished
		}
		return ""
	}
	s.acts["a ninth call"] = func() string { return s.post("/mcp/", token, callTool("tools_secho_uone_dv2", `{}`)) }
	s.acts["what waited on a2a"] = func() string { return late[1]() }
	s.acts["what waited on mcp"] = func() string { return late[2]() }
	s.acts["release"] = func() string {
		close(hold)
		for _, answer := range slots {
			if text := answer(); !strings.Contains(text, "host callback timed out") {
				t.Errorf("a call that was held past its deadline: %s", text)
			}
		}
		return late[0]()
	}
	return s
}

// noWorldStage has packs and sessions, but no genesis.
func noWorldStage(t *testing.T) *stage {
	s := newStage(t, worldtest.Options{NoGenesis: true})
	s.Worktree("ep1", map[string]string{"hello.ail": "module hello\n"})
	s.mint("CODER", "ep1", worldtest.Coding(9)...)
	return s
}

// noWorkspaceStage is a daemon without workspace effects.
func noWorkspaceStage(t *testing.T) *stage {
	s := newStage(t, worldtest.Options{NoWorkspace: true})
	s.mint("CODER", "ep1", worldtest.Coding(9)...)
	return s
}

// noWorktreeStage has an episode without a worktree.
func noWorktreeStage(t *testing.T) *stage {
	s := newStage(t, worldtest.Options{})
	s.Worktree("ep2", map[string]string{"hello.ail": "module hello\n"})
	s.mint("CODER", "ep1", worldtest.Coding(9)...)
	s.mint("OTHER", "ep2", worldtest.Coding(9)...)
	return s
}

// swapRegistry moves the transition registry to an object, as another program could.
func (s *stage) swapRegistry(payload []byte) {
	s.t.Helper()
	ctx := context.Background()
	head, err := s.Core.Store.RegistryHead(ctx, world.TransitionRegistry)
	if err != nil {
		s.t.Fatal(err)
	}
	obj := world.NewObject(world.SemTransitions, "test", payload)
	if _, err := s.Core.Store.SwapRegistry(ctx, world.TransitionRegistry, head.Head, obj.Hash, []world.Object{obj}); err != nil {
		s.t.Fatal(err)
	}
}

// engineMissingStage has a transition that was published for an interpreter which this
// daemon has not.
func engineMissingStage(t *testing.T) *stage {
	s := programsStage(t)
	snap, err := s.Ops.Transitions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	d := *snap.Get("tools/echo_one.v2")
	d.Interpreter = hashref.SumString("an engine of another build")
	s.swapRegistry(hashref.MustMarshal(map[string]any{"transitions": []world.Descriptor{d}}))
	return s
}

// registryDamagedStage has a registry head that names no registry.
func registryDamagedStage(t *testing.T) *stage {
	s := programsStage(t)
	s.swapRegistry([]byte(`[]`))
	return s
}

// restReadsStage has a log of five entries, with an object of an empty payload.
func restReadsStage(t *testing.T) *stage {
	s := programsStage(t)
	empty := world.NewObject("test/empty/v1", "test", nil)
	if err := s.Core.Store.PutObjects(context.Background(), []world.Object{empty}); err != nil {
		t.Fatal(err)
	}
	s.vars["ABSENT"] = hashref.SumString("nothing of the kind").String()
	return s
}

// nameRefs gives names to references that a commit of its own making may use.
func (s *stage) nameRefs() {
	for name, text := range map[string]string{
		"WORLD_ZERO": "world 0", "WORLD_ONE": "world 1", "WORLD_TWO": "world 2",
		"ENTRY_ZERO": "entry 0", "ENTRY_ONE": "entry 1", "ENTRY_TWO": "entry 2",
		"STATE": "state", "FUNCTION": "function", "INTERPRETER": "interpreter", "RECORD": "record", "INTERFACE": "interface",
		"HELLO": "hello",
	} {
		s.vars[name] = hashref.SumString(text).String()
	}
}

// restAndAgentsStage has programs, and references for commits.
func restAndAgentsStage(t *testing.T) *stage {
	s := programsStage(t)
	s.nameRefs()
	return s
}

// restCommitStage has no genesis, and bodies of the bound and of one byte more.
func restCommitStage(t *testing.T) *stage {
	s := newStage(t, worldtest.Options{NoGenesis: true, NoPacks: true})
	s.mint("CODER", "ep1")
	s.nameRefs()
	s.vars["FILL"], s.vars["FILL_MORE"] = fill(rest.MaxBody-2), fill(rest.MaxBody-1)
	return s
}

// publicStage is reached by a name of its own too.
func publicStage(t *testing.T) *stage {
	s := newStage(t, worldtest.Options{NoPacks: true, PublicURL: "https://world.example"})
	s.publish("manifest.json")
	s.mint("CODER", "ep1", run("3")...)
	return s
}

// privateStage closes the reads.
func privateStage(t *testing.T) *stage {
	s := newStage(t, worldtest.Options{NoPacks: true, PrivateReads: true})
	s.mint("LIVE", "ep1")
	return s
}
