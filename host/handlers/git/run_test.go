package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// standIn puts a program in git's place that tells a version, and then does what script says.
func (b *bench) standIn(script string) string {
	b.Helper()
	dir := b.TempDir()
	at := filepath.Join(dir, "git")
	must(b.TB, os.WriteFile(at, []byte("#!/bin/sh\n[ \"$1\" = version ] && { echo git version 2.40.1; exit; }\n"+strings.ReplaceAll(script, "DIR", dir)+"\n"), 0o755))
	b.h.cfg.Git = at
	h, err := New(b.Context(), b.h.cfg)
	must(b.TB, err)
	b.h = h
	return dir
}

// TestGitDiesWithItsCall ends a git that does not end when asked, and all that it started.
func TestGitDiesWithItsCall(t *testing.T) {
	b := newBench(t)
	dir := b.standIn(`trap "" TERM
/bin/sh -c 'trap "" TERM; echo $$ >DIR/child; while :; do /bin/sleep 1; done' &
echo $$ >DIR/parent
while :; do /bin/sleep 1; done`)
	ctx, cancel := context.WithCancel(t.Context())
	var canceled time.Time
	go func() {
		for {
			_, err1 := os.ReadFile(dir + "/child")
			_, err2 := os.ReadFile(dir + "/parent")
			if err1 == nil && err2 == nil {
				canceled = time.Now()
				cancel()
				return
			}
		}
	}()
	out, err := b.perform(ctx, "status", nil)
	if !errors.Is(err, context.Canceled) || world.KindOf(err) != world.KindCanceled {
		t.Errorf("%s, %v", out, err)
	}
	if took := time.Since(canceled); took > 20*time.Second {
		t.Errorf("it took %v to end", took)
	}
	for _, name := range []string{"parent", "child"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		must(t, err)
		for syscall.Kill(pid, 0) == nil && !zombie(pid) {
			if time.Since(canceled) > 40*time.Second {
				t.Fatalf("%s %d lives", name, pid)
			}
		}
	}
	b.nothingLeft()
}

// zombie tells whether a process has ended and waits for nobody but init.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// TestEnvironmentIsOurs sees all that git is started with.
func TestEnvironmentIsOurs(t *testing.T) {
	t.Setenv("GIT_SSH_COMMAND", "x")
	t.Setenv("SECRET", "x")
	b := newBench(t)
	dir := b.standIn(`/usr/bin/env >DIR/env; echo "$PWD" >DIR/pwd; read x && exit 1; exit 3`)
	if _, err := b.perform(t.Context(), "status", nil); err == nil {
		t.Error("a git that fails is no failure")
	}
	text, err := os.ReadFile(dir + "/env")
	must(t, err)
	var names []string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	want := "GIT_ADVICE GIT_ALLOW_PROTOCOL GIT_ASKPASS GIT_ATTR_NOSYSTEM GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_CONFIG_SYSTEM GIT_DIR GIT_EDITOR GIT_GRAFT_FILE " +
		"GIT_INDEX_FILE GIT_LITERAL_PATHSPECS GIT_NO_LAZY_FETCH GIT_NO_REPLACE_OBJECTS GIT_OBJECT_DIRECTORY GIT_OPTIONAL_LOCKS GIT_PAGER GIT_TERMINAL_PROMPT " +
		"GIT_WORK_TREE HOME LC_ALL PATH PWD SSH_ASKPASS TMPDIR TZ XDG_CONFIG_HOME"
	if got := strings.Join(slices.DeleteFunc(names, func(n string) bool { return n == "_" || n == "SHLVL" || n == "OLDPWD" }), " "); got != want {
		t.Errorf("environment\n%s, want\n%s", got, want)
	}
}

// TestReadyTellsWhatIsMissing walks through gits that cannot be used.
func TestReadyTellsWhatIsMissing(t *testing.T) {
	b := newBench(t)
	program := func(text string) string {
		at := filepath.Join(t.TempDir(), "git")
		must(t, os.WriteFile(at, []byte(text), 0o755))
		return at
	}
	for path, words := range map[string]string{
		"": "there is no git", "/nonexistent/git": "cannot be read", t.TempDir(): "not a program",
		program("#!/bin/sh\nexit 1\n"):                         "cannot be run",
		program("#!/bin/sh\necho hello\n"):                     "tells no version",
		program("#!/bin/sh\necho git version 2.31.8\n"):        "too old: 2.31.8",
		program("#!/bin/sh\necho git version 1.99.0\n"):        "too old",
		program("#!/bin/sh\nexec /bin/sleep 0.1\necho late\n"): "tells no version",
	} {
		cfg := b.h.cfg
		cfg.Git = path
		h, err := New(t.Context(), cfg)
		must(t, err)
		err = h.Ready(t.Context(), episode, EffectRead, Scope)
		if world.KindOf(err) != world.KindNoHandler || !strings.Contains(fmt.Sprint(err), words) {
			t.Errorf("%s: %v, want %s", path, err, words)
		}
		if _, err := h.Perform(t.Context(), request("status", nil)); err == nil || len(h.Objects()) != 0 {
			t.Errorf("%s: it performs", path)
		}
	}
	at := program("#!/bin/sh\necho git version 2.45.0\n")
	cfg := b.h.cfg
	cfg.Git = at
	h, err := New(t.Context(), cfg)
	must(t, err)
	must(t, h.Ready(t.Context(), episode, EffectRead, Scope))
	must(t, os.WriteFile(at, []byte("#!/bin/sh\necho git version 2.45.1 #\n"), 0o755))
	if err := h.Ready(t.Context(), episode, EffectRead, Scope); err == nil || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("%v", err)
	}
	for _, c := range []struct{ episode, effect, scope string }{
		{episode, "Workspace.Read", Scope}, {episode, EffectRead, "x"}, {"none", EffectRead, Scope}, {"../ws", EffectRead, Scope}, {"", EffectRead, Scope},
	} {
		if err := b.h.Ready(t.Context(), c.episode, c.effect, c.scope); err == nil {
			t.Errorf("%+v is ready", c)
		}
	}
	if _, err := New(t.Context(), Config{Root: "/nonexistent"}); world.KindOf(err) != world.KindBadRequest {
		t.Errorf("%v", err)
	}
}

// TestObjects: answers name objects that the daemon stores.
func TestObjects(t *testing.T) {
	b := newBench(t)
	kinds := map[string]int{}
	for _, o := range b.h.Objects() {
		kinds[o.SemanticID]++
		if o.Hash != hashref.Sum(o.Payload) {
			t.Errorf("%+v", o)
		}
	}
	if kinds[world.SemTool] != 1 || kinds[world.SemPolicy] != 1 {
		t.Errorf("%v", kinds)
	}
	if text := string(b.h.Objects()[0].Payload); !strings.Contains(text, `"git":"2.`) || !strings.Contains(text, `"binary":"sha256:`) {
		t.Errorf("%s", text)
	}
}

func TestPayloadContract(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ effect, payload string }{
		{EffectRead, `{}`}, {EffectRead, `{"op":"commit","message":"m"}`}, {EffectCommit, `{"op":"status"}`}, {EffectCommit, `{"op":"commit"}`}, {EffectRead, `{"op":"push"}`},
		{EffectRead, `{"op":"status","path":null}`}, {EffectRead, `{"op":"status","all":true}`}, {EffectRead, `{"op":"log","limit":"1"}`}, {EffectRead, `{"op":1}`}, {EffectRead, `[]`},
		{EffectCommit, `{"op":"commit","message":"m","paths":"a"}`}, {EffectCommit, `{"op":"commit","message":"m","amend":true}`},
	} {
		r := broker.Request{Episode: episode, Payload: []byte(c.payload), Need: world.Need{Effect: c.effect, Scope: Scope}}
		if out, err := b.h.Perform(t.Context(), r); world.KindOf(err) != world.KindBadRequest {
			t.Errorf("%s %s: %s, %v", c.effect, c.payload, out, err)
		}
	}
	r := request("status", nil)
	r.Need.Scope = "other"
	if _, err := b.h.Perform(t.Context(), r); world.KindOf(err) != world.KindNoHandler {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.h.Perform(ended, request("status", nil)); world.KindOf(err) != world.KindCanceled {
		t.Errorf("%v", err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if _, err := b.h.Perform(late, request("status", nil)); world.KindOf(err) != world.KindDeadline {
		t.Errorf("%v", err)
	}
}

// TestScratchOfCrashesIsSwept removes what a killed daemon left, and nothing else.
func TestScratchOfCrashesIsSwept(t *testing.T) {
	b := newBench(t)
	dir := b.h.cfg.Scratch
	for _, name := range []string{scratchPrefix + "dead", scratchPrefix + "new", "other"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	b.write(dir, scratchPrefix+"dead/lock", "")
	b.write(dir, scratchPrefix+"dead/git/config", "x")
	b.write(dir, "other/lock", "")
	live, err := b.h.begin(t.Context(), episode)
	must(t, err)
	b.handler(dir)
	for name, want := range map[string]bool{scratchPrefix + "dead": false, scratchPrefix + "new": true, "other": true, filepath.Base(live.scratch): true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	live.end()
	if _, err := os.Stat(live.scratch); err == nil {
		t.Error("a call that ended left its folder")
	}
}
