package world

import "testing"

// FuzzGrant: a text is no grant, or one that is written as it was read.
func FuzzGrant(f *testing.F) {
	for _, seed := range []string{"Workspace.Read=worktree:100", "E=a:b:0", "E==:1", "E=s:-1", "E=s:9007199254740992", "=s:1", "E=s:01", "E=\u202e:1", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseGrant(text)
		if err != nil {
			return
		}
		again, err := ParseGrant(g.String())
		if err != nil || again != g || g.Budget < 0 || g.Effect == "" {
			t.Errorf("%q is %+v, written %q: %+v, %v", text, g, g.String(), again, err)
		}
	})
}

// FuzzInvocation: the episode of an id is one that can be, and the id begins with it.
func FuzzInvocation(f *testing.F) {
	for _, seed := range []string{"a2a:ep:t", "task:u-0:x", "rest:a:b", "job:1", "a2a::x", "a2a:EP:x", "a2a:ep", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		episode := InvocationID(text).Episode()
		if episode == "" {
			return
		}
		if err := CheckEpisode(episode); err != nil {
			t.Error(err)
		}
		if id := string(AgentInvocation(episode, "")); len(text) < len(id)-1 {
			t.Errorf("%q has the episode %q", text, episode)
		}
	})
}
