package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ailang.dev/world/host/world"
)

func TestEpisodeOf(t *testing.T) {
	for folder, want := range map[string]string{
		"/src/site": "site", "/src/My Repo!": "my-repo", "/a/.dotfiles": "dotfiles", "/a/--x__y--": "x-y", "/a/v1.2": "v1-2",
		"/a/é": "", "/": "", "/a/Ünder": "nder", "/" + strings.Repeat("a", 100): strings.Repeat("a", 64),
		"/" + strings.Repeat("a", 63) + "-b": strings.Repeat("a", 63),
	} {
		got := EpisodeOf(folder)
		if got != want {
			t.Errorf("%s makes %q, want %q", folder, got, want)
		}
		if got != "" && world.CheckEpisode(got) != nil {
			t.Errorf("%q is no episode", got)
		}
	}
}

// fakeGit puts a program in git's place and gives the environment that finds it.
func fakeGit(t *testing.T, script string) (environ []string, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"PATH=" + dir + ":/usr/bin:/bin", "GIT_DIR=/x", "GIT_CONFIG_COUNT=1", "SSH_ASKPASS=ask", "HOME=/h"}, dir
}

// TestEnvironmentIsScrubbed sees what git is started with.
func TestEnvironmentIsScrubbed(t *testing.T) {
	environ, dir := fakeGit(t, `env > "$(dirname "$0")/env"; echo "$@" > "$(dirname "$0")/args"; exit 1`)
	if _, err := Open(t.Context(), environ, dir); err == nil {
		t.Fatal("a git that fails is no error")
	}
	text, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "LC_ALL=C", "HOME=/h"} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	for _, name := range []string{"GIT_DIR=", "GIT_CONFIG_COUNT=", "SSH_ASKPASS=ask"} {
		if strings.Contains(string(text), name) {
			t.Errorf("%s reached git", name)
		}
	}
	args, _ := os.ReadFile(filepath.Join(dir, "args"))
	if !strings.Contains(string(args), "-c core.hooksPath=/dev/null") {
		t.Errorf("hooks are on: %s", args)
	}
}

// TestGitThatHangsIsStopped ends with its context, also when a child of git holds on to
// its output.
func TestGitThatHangsIsStopped(t *testing.T) {
	environ, dir := fakeGit(t, `touch "$(dirname "$0")/up"; sleep 600`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(dir, "up")); err == nil {
				cancel()
				return
			}
		}
	}()
	_, err := Open(ctx, environ, dir)
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
