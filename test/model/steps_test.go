package model

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"ailang.dev/world/host/hashref"
)

// step is one step of a story, as plain data. What a step names that is not there (a session
// of a world without sessions) makes it no step.
type step struct {
	Do string `json:"do"`

	Episode int      `json:"episode,omitzero"` // mint, revoke all
	Grants  []string `json:"grants,omitempty"` // mint
	Seconds int      `json:"seconds,omitzero"` // mint: how long; wait: how long

	Who     int    `json:"who,omitzero"`     // call, revoke, list, commit: the session; again, decide: which one, from the last on
	Door    string `json:"door,omitzero"`    // call: a2a or mcp
	Skill   string `json:"skill,omitzero"`   // call, publish, remove
	Version int    `json:"version,omitzero"` // publish
	Task    string `json:"task,omitzero"`    // call: the task's id, or one that was never used
	Args    args   `json:"args,omitzero"`    // call
	At      string `json:"at,omitzero"`      // call: the step at which something happens
	What    string `json:"what,omitzero"`    // call: what happens there; commit: what is wrong with it
	Fault   string `json:"fault,omitzero"`   // call: the write whose outcome the store does not know
	Persist bool   `json:"persist,omitzero"` // whether it is durable all the same
	Calls   []step `json:"calls,omitempty"`  // burst
}

// args are what a call brings.
type args struct {
	N       int      `json:"n,omitzero"`
	Rounds  [][]deed `json:"rounds,omitempty"` // what is to be planned
	Finish  bool     `json:"finish,omitzero"`
	End     string   `json:"end,omitzero"` // what the finish phase does: result, fail, list, world
	Path    string   `json:"path,omitzero"`
	Content string   `json:"content,omitzero"`
	Old     string   `json:"old,omitzero"`
}

// deed is one effect to be planned.
type deed struct {
	ID     string `json:"id"`
	Effect string `json:"effect"`
	Scope  string `json:"scope"`
	Cost   int64  `json:"cost"`
	How    string `json:"how"` // how the handler ends
}

func (s step) String() string { return string(hashref.MustMarshal(s)) }

// GoString is how rapid shows it.
func (s step) GoString() string { return s.String() }

// preamble is how every story begins.
var preamble = []step{
	{Do: "mint", Seconds: 3600, Grants: []string{"Test.Do=s:9", "Test.Do=t:4", "Test.Other=s:4", "Workspace.Write=worktree:9"}},
	{Do: "mint", Seconds: 3600, Episode: 1, Grants: []string{"Test.Do=s:5", "Test.Do=t:1"}},
}

// The steps of a call at which something can happen.
var pauses = []string{"call.admitted", "call.planned", "effect.intended", "effect.performed", "effect.recorded", "call.finished", "call.before-commit", "call.committed"}

// hows are how a handler can end, the usual ones more than once.
var hows = []string{"ok", "ok", "ok", "ok", "refuse", "fail", "tell", "panic", "lie", "world", "hang", "stuck"}

func deeds() *rapid.Generator[deed] {
	return rapid.Custom(func(t *rapid.T) deed {
		d := rapid.SampledFrom([]deed{
			{Effect: "Test.Do", Scope: "s", Cost: 1}, {Effect: "Test.Do", Scope: "s", Cost: 1}, {Effect: "Test.Do", Scope: "s", Cost: 3},
			{Effect: "Test.Do", Scope: "s", Cost: 0}, {Effect: "Test.Do", Scope: "t", Cost: 1}, {Effect: "Test.Other", Scope: "s", Cost: 1},
			{Effect: "Test.Strange", Scope: "s", Cost: 1},
		}).Draw(t, "what")
		d.How = rapid.SampledFrom(hows).Draw(t, "how")
		return d
	})
}

func argsOf(skill string) *rapid.Generator[args] {
	return rapid.Custom(func(t *rapid.T) args {
		a := args{N: rapid.IntRange(0, 2).Draw(t, "n")}
		rounds := 0
		switch skill {
		case "plain", "told":
			rounds = 1
			a.Rounds = [][]deed{{deeds().Draw(t, "effect")}}
		case "many":
			rounds = rapid.IntRange(1, 3).Draw(t, "rounds")
			for range rounds {
				a.Rounds = append(a.Rounds, rapid.SliceOfN(deeds(), 1, 3).Draw(t, "effects"))
			}
			a.Finish = rounds > 1 || rapid.Bool().Draw(t, "finish")
		case "workspace-edit":
			a.Path, a.Old, a.Content = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "path"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "old"), rapid.SampledFrom([]string{"x", "y", "xy"}).Draw(t, "new")
		case "workspace-write":
			a.Path, a.Content = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "path"), rapid.SampledFrom([]string{"x", "y", "xy"}).Draw(t, "content")
		}
		for r := range a.Rounds {
			for i := range a.Rounds[r] {
				a.Rounds[r][i].ID = fmt.Sprintf("r%de%d", r, i)
			}
		}
		if skill == "told" || a.Finish {
			a.End = rapid.SampledFrom([]string{"", "", "", "", "fail", "list", "world"}).Draw(t, "end")
		}
		if rounds > 1 && rapid.IntRange(0, 9).Draw(t, "again") == 0 {
			a.Rounds[1][0].ID = "r0e0" // an id that was used
		}
		return a
	})
}

var skills = []string{"echo", "plain", "plain", "told", "told", "many", "many", "refuses", "breaks", "fails", "list", "workspace-edit", "workspace-write", "gated"}

func call() *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		s := step{Do: "call", Door: "a2a", Who: rapid.IntRange(0, 5).Draw(t, "who"), Skill: rapid.SampledFrom(skills).Draw(t, "skill")}
		s.Args = argsOf(s.Skill).Draw(t, "args")
		if rapid.IntRange(0, 3).Draw(t, "door") == 0 {
			s.Door = "mcp"
		} else {
			s.Task = rapid.SampledFrom([]string{"", "", "a", "b", "c"}).Draw(t, "task")
		}
		switch rapid.IntRange(0, 9).Draw(t, "event") {
		case 0:
			s.Fault, s.Persist = rapid.SampledFrom([]string{"intent", "outcome", "append"}).Draw(t, "fault"), rapid.Bool().Draw(t, "persist")
		case 1:
			s.At, s.What = rapid.SampledFrom(pauses).Draw(t, "at"), "cancel"
		case 2:
			s.At, s.What = rapid.SampledFrom(pauses).Draw(t, "at"), "kill"
		case 3:
			s.At, s.What = rapid.SampledFrom(pauses).Draw(t, "at"), rapid.SampledFrom([]string{"wait", "wait", "wait", "wait", "revoke", "remove", "publish"}).Draw(t, "what")
		}
		return s
	})
}

func mint() *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		s := step{Do: "mint", Episode: rapid.IntRange(0, 1).Draw(t, "episode"), Seconds: rapid.SampledFrom([]int{3600, 3600, 300, 5}).Draw(t, "ttl")}
		for _, g := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"Test.Do=s", "Test.Do=t", "Test.Other=s", "Workspace.Write=worktree"}), 1, 4, rapid.ID[string]).Draw(t, "grants") {
			s.Grants = append(s.Grants, fmt.Sprintf("%s:%d", g, rapid.SampledFrom([]int{4, 1, 9, 0, 30}).Draw(t, "budget")))
		}
		if !strings.Contains(strings.Join(s.Grants, " "), "Test.Do=s") && rapid.IntRange(0, 3).Draw(t, "more") > 0 {
			s.Grants = append(s.Grants, "Test.Do=s:6")
		}
		if rapid.IntRange(0, 4).Draw(t, "twice") == 0 {
			s.Grants = append(s.Grants, s.Grants[0]) // two grants of one thing add up
		}
		return s
	})
}

func burst() *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		calls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			c := step{Do: "call", Door: rapid.SampledFrom([]string{"a2a", "mcp"}).Draw(t, "door"), Who: rapid.IntRange(0, 5).Draw(t, "who"),
				Skill: rapid.SampledFrom([]string{"echo", "plain", "plain", "told"}).Draw(t, "skill")}
			if c.Skill != "echo" {
				how := rapid.SampledFrom([]string{"ok", "ok", "refuse", "fail"}).Draw(t, "how")
				c.Args.Rounds = [][]deed{{{"r0e0", "Test.Do", "s", rapid.SampledFrom([]int64{1, 3}).Draw(t, "cost"), how}}}
			}
			return c
		}), 2, 5).Draw(t, "calls")
		return step{Do: "burst", Calls: calls}
	})
}

// steps are all that can happen, calls most often.
func steps() *rapid.Generator[step] {
	who := func(do string) *rapid.Generator[step] {
		return rapid.Map(rapid.IntRange(0, 5), func(n int) step { return step{Do: do, Who: n} })
	}
	skill := func(do string) *rapid.Generator[step] {
		return rapid.Custom(func(t *rapid.T) step {
			return step{Do: do, Skill: rapid.SampledFrom(skills[:11]).Draw(t, "skill"), Version: rapid.IntRange(0, 1).Draw(t, "version")}
		})
	}
	commit := rapid.Custom(func(t *rapid.T) step {
		s := step{Do: "commit", Who: rapid.IntRange(0, 5).Draw(t, "who"), Task: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "id"),
			What: rapid.SampledFrom([]string{"", "", "stale", "index", "chain", "hash"}).Draw(t, "what")}
		if s.What == "" && rapid.IntRange(0, 4).Draw(t, "event") == 0 {
			s.Fault, s.Persist = "commit", rapid.Bool().Draw(t, "persist")
		}
		return s
	})
	wait := rapid.Map(rapid.SampledFrom([]int{1, 10, 400, 5000, 90000}), func(n int) step { return step{Do: "wait", Seconds: n} })
	message := rapid.Custom(func(t *rapid.T) step {
		s := step{Do: "message", Door: "tasks", Who: rapid.IntRange(0, 1).Draw(t, "who"), Task: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "id"),
			Skill: rapid.SampledFrom([]string{"plain", "told", "many", "echo", "refuses", "breaks", "fails", "list", "gated"}).Draw(t, "skill")}
		s.Args = argsOf(s.Skill).Draw(t, "args")
		if rapid.IntRange(0, 4).Draw(t, "event") == 0 {
			s.Fault, s.Persist = rapid.SampledFrom([]string{"intent", "outcome", "append", "keep", "keep"}).Draw(t, "fault"), rapid.Bool().Draw(t, "persist")
		}
		return s
	})
	about := rapid.Custom(func(t *rapid.T) step {
		return step{Do: "task", Who: rapid.IntRange(0, 4).Draw(t, "which"), What: rapid.SampledFrom([]string{"tasks/get", "tasks/cancel"}).Draw(t, "what")}
	})
	all := []*rapid.Generator[step]{message, message, message, about, who("resend"), who("resend"), who("again"), who("again"), who("anew"), who("anew"), call(), call(), call(), call(), call(), call(), call(), call(), call(), call(), mint(), mint(), burst(), burst(),
		who("revoke"), skill("publish"), skill("publish"), skill("remove"), commit, commit, wait, who("list"), who("decide"), who("decide"),
		rapid.Just(step{Do: "restart"}), rapid.Just(step{Do: "kill"}),
		rapid.Map(rapid.IntRange(0, 3), func(n int) step {
			if n > 1 {
				return step{Do: "list", Who: n}
			}
			return step{Do: "revoke all", Episode: n}
		}),
	}
	return rapid.OneOf(all...)
}

// wire is the arguments as they are sent.
func (a args) wire(skill string) []byte {
	switch skill {
	case "workspace-write":
		return hashref.MustMarshal(map[string]string{"path": a.Path, "content": a.Content})
	case "workspace-edit":
		return hashref.MustMarshal(map[string]string{"path": a.Path, "old_text": a.Old, "new_text": a.Content})
	}
	return hashref.MustMarshal(a)
}
