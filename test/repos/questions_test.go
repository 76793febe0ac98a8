package repos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// questions asks, of the store that the day left, what somebody asks who was not there. Each
// answer is one command.
func (d *day) questions() {
	t := d.t
	t.Helper()
	ask := func(args ...string) string {
		t.Helper()
		return d.cli(append(append([]string{}, args...), "--db", d.db())...)
	}
	want := func(what, answer, pattern string) string {
		t.Helper()
		m := regexp.MustCompile("(?m)" + pattern).FindStringSubmatch(answer)
		if m == nil {
			t.Errorf("%s: the answer lacks %q:\n%.2000s", what, pattern, answer)
			return ""
		}
		return m[len(m)-1]
	}
	// Who wrote this line?
	blame := ask("why", "file:"+d.repo.testFile, "--episode", episode, "--blame")
	line := strings.TrimSpace(lastNonEmpty(d.repo.testText))
	by := want("who wrote this line", blame, `^ +(\d+) +\d+ .*`+regexp.QuoteMeta(line))
	want("is the file what was left", ask("why", "file:"+d.repo.testFile, "--episode", episode), `^✓ the file is what the last of these left`)
	story := ask("why", by)
	want("what wrote it", story, `^  tool +workspace-apply, source sha256:`)
	want("by whose authority", story, `^  who +episode `+episode+`, over mcp, session [0-9a-f]{12} until .*Workspace\.Write=worktree`)
	want("does it hold", story, `^all \d+ links hold$`)
	// Why did the test fail? The run that did is an entry, its output in it.
	failed := want("which run failed", ask("log", "tail", "-n", "1000"), `^ *(\d+)  \S+  mcp  `+episode+`  workspace-exec  Workspace\.Exec:ok  refused|^ *(\d+)  \S+  mcp  `+episode+`  workspace-exec`)
	if failed != "" {
		want("what ran", ask("why", failed, "--full"), `"profile": "`)
	}
	// What did it cost?
	var cost struct {
		Calls   int64
		Budgets []struct {
			Effect string
			Spent  int64
		}
	}
	if err := json.Unmarshal([]byte(ask("episode", "show", episode, "--json")), &cost); err != nil || cost.Calls < 20 {
		t.Errorf("what did it cost: %+v, %v", cost, err)
	}
	// Which calls used this version of the transition?
	source := want("source", story, `source (sha256:[0-9a-f]{64})`)
	want("which calls used it", ask("why", source), `^ *`+by+`  |^entry `+by+`,`)
	// Is all of it true, and would the same happen again?
	want("verify", ask("verify", "--deep"), `^✓ entries 0 to \d+: \d+ links hold$`)
	want("replay", ask("replay", "--episode", episode), `^✓ \d+ calls came out the same, 0 did not, 0 were not run$`)
	// Taken away, it proves itself.
	bundle := filepath.Join(d.dir, "day.bundle")
	ask("export", "--episode", episode, "--out", bundle)
	want("the bundle", d.cli("verify", "--bundle", bundle), `^✓ entries \d+ to \d+: \d+ links hold$`)
	if st, err := os.Stat(bundle); err == nil {
		t.Logf("%d calls, a bundle of %s", cost.Calls, fmt.Sprint(st.Size()>>10, " KiB"))
	}
}

func lastNonEmpty(text string) string {
	last := ""
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) != "" {
			last = l
		}
	}
	return last
}
