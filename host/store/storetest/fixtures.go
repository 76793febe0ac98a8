package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

var (
	ctx = context.Background()
	fn  = hashref.SumString("a transition")
	eng = hashref.SumString("an engine")
)

func ref(s string) world.Ref { return hashref.SumString(s) }

// Genesis is a first commit.
func Genesis() store.Commit { return NextCommit(store.Head{}, "genesis") }

// NextCommit is a REST commit that keeps every law on a head. name makes its hashes.
func NextCommit(head store.Head, name string) store.Commit {
	state := world.NewObject("test/state", "rest", []byte("state "+name))
	entry := world.Entry{
		Header: world.EntryHeader{EntryIndex: head.Next, SemanticsEpoch: 1, TransitionFn: fn, Interpreter: eng,
			PrevEntryHash: head.LogHead, WrittenBy: "rest test"},
		EntryHash:     ref("entry " + name),
		TransitionRef: ref("transition " + name),
	}
	if head.World.IsNone() {
		entry.Header.PrevEntryHash = hashref.Zero
	}
	return store.Commit{
		ObservedHead: head.World,
		Objects:      []world.Object{state},
		NextWorld:    world.World{Ref: ref("world " + name), Revision: head.Next, StateRoot: state.Hash, LogHead: entry.EntryHash},
		Entry:        entry,
	}
}

// Call is a coordinator call that keeps every law. name makes its objects and its id.
func Call(name string) store.Append {
	writer := world.SurfaceA2A.Writer()
	in := world.NewObject(world.SemInput, writer, fmt.Appendf(nil, `{"in":%q}`, name))
	out := world.NewObject(world.SemOutput, writer, fmt.Appendf(nil, `{"out":%q}`, name))
	id := world.AgentInvocation("ep", name)
	rec := world.NewObject(world.SemRecordV1, writer,
		fmt.Appendf(nil, `{"input":%q,"invocationId":%q,"output":%q}`, in.Hash, id, out.Hash))
	return store.Append{
		Invocation: id, Digest: ref("digest " + name), Credential: ref("credential " + name), Objects: []world.Object{in, out, rec}, TransitionFn: fn, Interpreter: eng,
		SemanticsEpoch: 1, WrittenBy: writer, TransitionRef: rec.Hash, StateRoot: out.Hash,
	}
}

// begin commits a genesis and a few calls, and gives the head.
func begin(t testing.TB, s store.Store, calls int) store.Head {
	t.Helper()
	must(s.Commit(ctx, Genesis()))(t)
	for i := range calls {
		must(s.Append(ctx, Call(fmt.Sprintf("call %d", i))))(t)
	}
	return must(s.Head(ctx))(t)
}

// Intent is one effect about to be done, of the episode "ep".
func Intent(id world.InvocationID, effect string, cost, budget int64) store.EffectIntent {
	req := world.NewObject(world.SemRequest, "coordinator:a2a", fmt.Appendf(nil, `{"id":%q,"invocationId":%q}`, effect, id))
	return store.EffectIntent{
		Invocation: id, Digest: ref("digest of " + string(id)), Credential: ref("credential of " + string(id)), EffectID: effect, Episode: "ep",
		Need: world.Need{Effect: "Workspace.Read", Scope: "worktree", Cost: cost}, Budget: budget, Request: req,
	}
}

func outcome(i store.EffectIntent) store.EffectOutcome {
	rec := world.NewObject(world.SemEffect, "coordinator:a2a", fmt.Appendf(nil, `{"record":%q,"requestRef":%q}`, i.EffectID, i.Request.Hash))
	return store.EffectOutcome{Invocation: i.Invocation, EffectID: i.EffectID, Record: rec.Hash, Objects: []world.Object{rec}}
}

func session(name, episode string) world.Session {
	at := time.Date(2031, 2, 3, 4, 5, 6, 789_000_001, time.UTC)
	return world.Session{
		ID: ref("session " + name), Episode: episode, Created: at, Expires: at.Add(time.Hour),
		Grants: []world.Grant{{Effect: "Workspace.Read", Scope: "worktree", Budget: 1<<53 - 1}, {Effect: "Workspace.Read", Scope: "wörk: tree", Budget: 0}},
	}
}
