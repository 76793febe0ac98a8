package registry

import (
	"regexp"
	"testing"

	"ailang.dev/world/host/world"
)

func TestToolName(t *testing.T) {
	for id, want := range map[string]string{
		"tools.echo": "tools_decho", "ailang-read": "ailang-read", "a_b": "a_ub", "a/b.c_d": "a_sb_dc_ud", "a_d": "a_ud", "a._/": "a_d_u_s",
	} {
		if got := ToolName(id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	for _, name := range []string{"a.b", "a/b", "a_", "a_x", "a__", "_"} {
		if id, ok := TransitionID(name); ok {
			t.Errorf("%s is the name of %q", name, id)
		}
	}
}

var mcpName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// FuzzToolName: the escape loses nothing, either way, and what it makes of a transition's
// id is a name that every client takes.
func FuzzToolName(f *testing.F) {
	for _, seed := range []string{"tools.echo", "a_d", "a/b.c_d", "__", "_u", "", "é._/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name := ToolName(text)
		if id, ok := TransitionID(name); !ok || id != text {
			t.Errorf("%q is %q, which is the name of %q, %v", text, name, id, ok)
		}
		if n := ToolNameLen(text); n != len(name) {
			t.Errorf("%q has %d bytes, not %d", name, len(name), n)
		}
		if world.CheckTransitionID(text) == "" && !mcpName.MatchString(name) {
			t.Errorf("%q is no tool name", name)
		}
		if id, ok := TransitionID(text); ok && ToolName(id) != text {
			t.Errorf("%q is taken for the name of %q, which is %q", text, id, ToolName(id))
		}
	})
}
