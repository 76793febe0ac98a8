package repos

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// day is one agent at work in one repository.
type day struct {
	*site
	agent    *agent
	repo     repository
	profiles map[string]profile
	twin     string // the same repository, where the same commands run outside
	commit   string // the hash of the one that the agent made
}

func newDay(t *testing.T, r repository) *day {
	t.Helper()
	profiles := r.profiles(t)
	d := &day{site: newSite(t, r.fill, profiles), repo: r, profiles: profiles}
	d.twin = filepath.Join(d.dir, "twin")
	d.git("worktree", "add", "-q", "--detach", d.twin, "HEAD")
	return d
}

// look finds the passage that the day is about.
func (d *day) look() {
	t, a := d.t, d.agent
	t.Helper()
	dir, base := filepath.Split(d.repo.file)
	if dir == "" {
		dir = "."
	}
	if names := entries(a.do("workspace-list", obj{"path": dir})); !names[base] {
		t.Fatalf("%s is not listed: %v", base, names)
	}
	if out := a.do("workspace-glob", obj{"pattern": "**/" + base}); !strings.Contains(text(out["paths"]), d.repo.file) {
		t.Fatalf("glob: %v", out)
	}
	found := a.do("workspace-grep", obj{"pattern": d.repo.find, "glob": base})
	matches, _ := found["matches"].([]any)
	if len(matches) != 1 {
		t.Fatalf("grep: %v", found)
	}
	at := matches[0].(obj)
	line := at["line"].(float64)
	if at["path"] != d.repo.file {
		t.Fatalf("grep: %v", at)
	}
	out := a.do("workspace-read", obj{"path": d.repo.file, "from": line, "to": line + 60})
	if !strings.Contains(out["content"].(string), d.repo.passage) {
		t.Fatalf("what was found is not the passage: %v", out["content"])
	}
}

func entries(out obj) map[string]bool {
	names := map[string]bool{}
	list, _ := out["entries"].([]any)
	for _, e := range list {
		names[e.(obj)["name"].(string)] = true
	}
	return names
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it came out of JSON
	}
	return string(b)
}

// same runs a profile through the daemon and the same command outside, and demands the same
// result.
func (d *day) same(profile string) (tally, result) {
	d.t.Helper()
	in, _ := d.agent.exec(profile)
	out := d.profiles[profile].outside(d.t, d.twin)
	got, want := d.repo.count(in), d.repo.count(out)
	d.t.Logf("%s: inside exit %d, %v; outside exit %d, %v", profile, in.exit, got, out.exit, want)
	if in.exit != out.exit || got != want {
		d.t.Errorf("%s:\n%s\n%s\noutside:\n%s\n%s", profile, in.stdout, in.stderr, out.stdout, out.stderr)
	}
	return got, in
}

func (d *day) buildAndTest() tally {
	d.t.Helper()
	if _, r := d.same("build"); r.exit != 0 {
		d.t.Fatalf("the build fails: %+v", r)
	}
	all, r := d.same("test")
	if r.exit != 0 || all.failed != 0 || all.passed < d.repo.least {
		d.t.Fatalf("exit %d, %v; want at least %d", r.exit, all, d.repo.least)
	}
	if out := d.agent.do("workspace-status", nil); len(out["changes"].([]any)) != 0 {
		d.t.Errorf("building changed what is not ignored: %v", out)
	}
	return all
}

// edit makes an edit in the worktree by the tool, and in the twin.
func (d *day) edit(old, new string) {
	d.t.Helper()
	// A passage that occurs more than once is told from the others by what stands before it.
	body := d.agent.do("workspace-read", obj{"path": d.repo.file})["content"].(string)
	at := regexp.MustCompile("(?m)" + d.repo.find).FindStringIndex(body)[0]
	end := at + strings.Index(body[at:], old) + len(old)
	whole := body[at:end]
	d.agent.do("workspace-edit", obj{"path": d.repo.file, "old_text": whole, "new_text": strings.TrimSuffix(whole, old) + new})
	d.mirror(d.repo.file)
}

// mirror brings a file of the worktree to the twin.
func (d *day) mirror(name string) {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.tree, name))
	must(d.t, err)
	must(d.t, os.WriteFile(filepath.Join(d.twin, name), b, 0o644))
}

func (d *day) breakAndRepair(all tally) {
	t := d.t
	t.Helper()
	d.edit(d.repo.passage, d.repo.broken)
	broken, r := d.same("test")
	if r.exit == 0 || broken.failed == 0 {
		t.Fatalf("the edit breaks nothing: %v", broken)
	}
	if out := d.agent.do("workspace-diff", nil); !strings.Contains(out["diff"].(string), "\n+"+lastLine(d.repo.broken)) {
		t.Errorf("diff: %v", out["diff"])
	}
	if out := d.agent.do("workspace-status", nil); !strings.Contains(text(out["changes"]), `"`+d.repo.file+`"`) {
		t.Errorf("status: %v", out)
	}
	d.edit(d.repo.broken, d.repo.passage)
	r, _ = d.agent.exec("test")
	if repaired := d.repo.count(r); r.exit != 0 || repaired != all {
		t.Errorf("repaired: exit %d, %v, before %v", r.exit, repaired, all)
	}
	if out := d.agent.do("workspace-diff", nil); out["diff"] != "" {
		t.Errorf("diff after the repair: %v", out["diff"])
	}
}

// lastLine is the last line of a passage, without what stands before it in its line.
func lastLine(passage string) string {
	lines := strings.Split(strings.TrimSuffix(passage, "\n"), "\n")
	if last := lines[len(lines)-1]; strings.HasSuffix(passage, "\n") {
		return last
	}
	return "" // a part of a line
}

func (d *day) addATest(all tally) {
	d.t.Helper()
	first := firstLine(d.repo.testText)
	out := d.agent.do("workspace-apply", obj{"edits": []obj{
		{"path": d.repo.testFile, "content": first + "\n"},
		{"path": d.repo.testFile, "old_text": first + "\n", "new_text": d.repo.testText},
	}})
	if out["applied"] != 2.0 {
		d.t.Errorf("apply: %v", out)
	}
	d.mirror(d.repo.testFile)
	more, r := d.same("test")
	if want := (tally{all.passed + 1, 0}); r.exit != 0 || more != want {
		d.t.Fatalf("with one more test: exit %d, %v, want %v\n%s%s", r.exit, more, want, r.stdout, r.stderr)
	}
}

// ask puts a question to a person, who answers on the command line.
func (d *day) ask() {
	d.t.Helper()
	id := d.agent.do("approval-request", obj{"question": "May I commit one more test?", "details": d.repo.testText})["approval"]
	if out := d.agent.do("approval-poll", obj{"approval": id}); out["state"] != "pending" {
		d.t.Errorf("%v", out)
	}
	d.cli("approvals", "decide", "--db", d.db(), id.(string), "--grant", "--note", "go ahead")
	if out := d.agent.do("approval-poll", obj{"approval": id}); out["state"] != "granted" || out["note"] != "go ahead" {
		d.t.Errorf("%v", out)
	}
}

func (d *day) commitIt() {
	t, a := d.t, d.agent
	t.Helper()
	out := a.do("workspace-commit", obj{"message": "test: one more\n\nThe day had one missing."})
	if out["branch"] != "world/"+episode || !strings.Contains(text(out["files"]), `"`+d.repo.testFile+`"`) || len(out["files"].([]any)) != 1 {
		t.Fatalf("commit: %v", out)
	}
	d.commit = out["commit"].(string)
	log := a.do("workspace-log", obj{"limit": 5})
	if !strings.Contains(text(log["commits"]), d.commit) || len(log["commits"].([]any)) != 2 {
		t.Errorf("log: %v", log)
	}
	if out := a.do("workspace-show", obj{"rev": d.commit}); !strings.Contains(out["diff"].(string), "\n+"+firstLine(d.repo.testText)) {
		t.Errorf("show: %v", out)
	}
	if out := a.do("workspace-show", obj{"rev": "HEAD", "path": d.repo.testFile}); out["content"] != d.repo.testText {
		t.Errorf("show of the file: %v", out)
	}
	if out := a.do("workspace-status", nil); len(out["changes"].([]any)) != 0 {
		t.Errorf("status after the commit: %v", out)
	}
}

func firstLine(s string) string { return strings.SplitN(s, "\n", 2)[0] }

// soak runs longer than a call may: a job, beside which the day goes on, and which is polled
// to its end.
func (d *day) soak() {
	d.t.Helper()
	out := d.agent.do("workspace-exec", obj{"profile": "soak"})
	if out["running"] != true {
		d.t.Fatalf("it is no job: %v", out)
	}
	d.agent.do("workspace-read", obj{"path": d.repo.testFile})
	d.agent.do("workspace-log", nil)
	if r := d.agent.await("soak", out); r.exit != 0 || r.stdout != "soaked\n" {
		d.t.Errorf("soak: %+v", r)
	}
}

var trailer = regexp.MustCompile(`(?m)^World-Provenance: store=\S+ episode=` + episode + ` entries=0-\d+$`)

// provenance looks at the commit with a git that knows nothing of World.
func (d *day) provenance() {
	d.t.Helper()
	if body := d.git("log", "-1", "--format=%H%n%an%n%B", "world/"+episode); !trailer.MatchString(body) || !strings.HasPrefix(body, d.commit+"\n") {
		d.t.Errorf("the commit is %s", body)
	}
	if files := d.git("diff", "--name-only", "main", "world/"+episode); files != d.repo.testFile+"\n" {
		d.t.Errorf("the branch differs in %q", files)
	}
}
