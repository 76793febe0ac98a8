package workspace_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/packs/packtest"
)

func TestMain(m *testing.M) { packtest.Main(m) }

const aJob = "0123456789abcdef0123456789abcdef"

func TestExecPlans(t *testing.T) {
	b := packtest.New(t, "workspace")
	for _, c := range []struct{ id, args, want string }{
		{"workspace-exec", `{"profile":"go-test"}`, packtest.Planned("Workspace.Exec", `{"profile":"go-test"}`)},
		{"workspace-exec", `{"profile":"t","args":["a","-b"]}`, packtest.Planned("Workspace.Exec", `{"args":["a","-b"],"profile":"t"}`)},
		{"workspace-job", `{"job":"` + aJob + `"}`, packtest.Planned("Workspace.Exec", `{"action":"poll","job":"`+aJob+`","op":"job"}`)},
		{"workspace-job", `{"job":"` + aJob + `","action":"cancel"}`, packtest.Planned("Workspace.Exec", `{"action":"cancel","job":"`+aJob+`","op":"job"}`)},
	} {
		if got := b.Plan(c.id, c.args); got != c.want {
			t.Errorf("%s %s:\n got  %s\n want %s", c.id, c.args, got, c.want)
		}
		packtest.Must(t, packtest.Valid(b.Tool(c.id).In, c.args))
	}
	many := `["` + strings.Repeat(`a","`, 64) + `a"]`
	for _, c := range []struct{ id, args, text string }{
		{"workspace-exec", `{"profile":""}`, `profile "" is no name of a profile: 1 to 64 of a-z, 0-9 and -`},
		{"workspace-exec", `{"profile":"a b"}`, `profile "a b" is no name of a profile: 1 to 64 of a-z, 0-9 and -`},
		{"workspace-exec", `{"profile":"../a"}`, `profile "../a" is no name of a profile: 1 to 64 of a-z, 0-9 and -`},
		{"workspace-exec", `{"profile":"a","args":[1]}`, `argument "args" must be a list of strings`},
		{"workspace-exec", `{"profile":"a","args":` + many + `}`, `args holds 65 arguments; at most 64`},
		{"workspace-exec", `{"profile":"a","args":["` + strings.Repeat("x", 4097) + `"]}`, `an argument is 4097 bytes long; at most 4096`},
		{"workspace-exec", `{"profile":"a","args":["a\u0000b"]}`, `an argument holds a NUL`},
		{"workspace-job", `{"job":"x"}`, `job must be the 32 hex digits that workspace-exec gave`},
		{"workspace-job", `{"job":"` + strings.ToUpper(aJob) + `"}`, `job must be the 32 hex digits that workspace-exec gave`},
		{"workspace-job", `{"job":"` + aJob + `","action":"stop"}`, `action must be poll or cancel`},
	} {
		if got := b.Plan(c.id, c.args); got != packtest.Refusal(c.text) {
			t.Errorf("%s %.100s: got %s", c.id, c.args, got)
		}
	}
}

func TestExecOnRealFiles(t *testing.T) {
	b := packtest.New(t, "workspace")
	b.Put("a.txt", "hello\n")
	b.ServeExec(exec.Profile{Name: "show", Description: "Shows a file.", Argv: []string{"cat"}, Args: exec.Args{Max: 1, Pattern: `[a-z]+\.txt`}})
	for _, c := range []struct {
		id, args string
		want     map[string]any
	}{
		{"workspace-exec", `{"profile":"show","args":["a.txt"]}`, map[string]any{"ok": true, "exit_code": 0.0, "signal": "", "stdout": "hello\n", "stderr": "", "truncated": false, "limit": ""}},
		{"workspace-exec", `{"profile":"show","args":["b.txt"]}`, map[string]any{"ok": false, "exit_code": 1.0, "signal": "", "stdout": "",
			"stderr": "cat: b.txt: No such file or directory\n", "truncated": false, "limit": ""}},
		{"workspace-exec", `{"profile":"show","args":["-e.txt"]}`, map[string]any{"ok": false, "refused": `argument 1 begins with "-": profile "show" takes no flags`}},
		{"workspace-exec", `{"profile":"show","args":["/etc/passwd"]}`, map[string]any{"ok": false, "refused": `argument 1 does not match what profile "show" takes: [a-z]+\.txt`}},
		{"workspace-exec", `{"profile":"none"}`, map[string]any{"ok": false, "refused": `there is no profile "none"; there are: show: Shows a file. (up to 1 arguments that match [a-z]+\.txt)`}},
		{"workspace-job", `{"job":"` + aJob + `"}`, map[string]any{"ok": false, "refused": "there is no such job in this episode: a job is known for 1h0m0s after its end, and ends with the daemon"}},
	} {
		got := b.Call(c.id, c.args)
		delete(got, "duration_ms")
		delete(got, "cpu_ms")
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.id, c.args, d)
		}
	}
}
