// Package worktree gives an episode its git worktree: a folder of its own on a branch of
// its own, made by the real git binary out of a repository of the user's. It owns how git
// is run, and what is said when a repository or a worktree is not as it should be. It
// never deletes, prunes, moves or repairs anything, and runs no hook. Answers
// spec/11-cli.md.
package worktree

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ailang.dev/world/host/world"
)

// Bounds of one run of git.
const (
	askTimeout = 30 * time.Second // a question
	addTimeout = 15 * time.Minute // the checkout of a whole repository
	endTimeout = 5 * time.Second  // what it gets to clear away, told to end
	maxOutput  = 4 << 20          // bytes of what it prints
)

// Error says what is wrong with a repository or a worktree, and the way out.
type Error struct {
	Msg  string
	Hint string
	Err  error
}

func (e *Error) Error() string { return e.Msg }
func (e *Error) Unwrap() error { return e.Err }

// git runs git for this package.
type git struct {
	bin     string
	environ []string
}

// newGit finds git on the PATH that environ holds.
func newGit(environ []string) (*git, error) {
	g := &git{bin: FindGit(environ)}
	if g.bin == "" {
		return nil, &Error{Msg: "git is not on the PATH", Hint: "install git; worktrees are made with it"}
	}
	for _, kv := range environ {
		key, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(key, "GIT_") && key != "LC_ALL" && key != "LANGUAGE" && key != "SSH_ASKPASS" {
			g.environ = append(g.environ, kv)
		}
	}
	g.environ = append(g.environ, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false",
		"GIT_PAGER=cat", "GIT_EDITOR=false")
	return g, nil
}

// FindGit is the git on the PATH that environ holds, or "". Folders that are not absolute do
// not count.
func FindGit(environ []string) string {
	var path string
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		bin := filepath.Join(dir, "git")
		if st, err := os.Stat(bin); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			return bin
		}
	}
	return ""
}

// run runs git in a folder and gives what it printed, without the last line end. An error
// that is no *exec.ExitError did not come from git.
func (g *git) run(ctx context.Context, timeout time.Duration, dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	safe := []string{"-C", dir, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}
	cmd := exec.CommandContext(ctx, g.bin, append(safe, args...)...)
	cmd.Env = g.environ
	// All of git's processes are asked to end, so that it clears away what is half made.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = endTimeout
	out, errs := &bounded{}, &bounded{}
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		return "", &Error{Msg: "git " + args[0] + " in " + dir + " was stopped: " + ctx.Err().Error(), Err: ctx.Err()}
	}
	if err != nil {
		return "", &failure{said: strings.TrimSpace(errs.String()), err: err}
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// failure is git's own refusal.
type failure struct {
	said string
	err  error
}

func (f *failure) Error() string {
	if f.said == "" {
		return f.err.Error()
	}
	return f.said
}
func (f *failure) Unwrap() error { return f.err }

// said tells whether git itself refused, with these words.
func said(err error, words string) bool {
	var f *failure
	return errors.As(err, &f) && strings.Contains(f.said, words)
}

// bounded keeps the first maxOutput bytes. It must not have the buffer's ReadFrom, which
// knows no bound.
type bounded struct{ kept bytes.Buffer }

func (b *bounded) String() string { return b.kept.String() }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.kept.Len(); room > 0 {
		b.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// EpisodeOf makes an episode's name out of a folder's: lower case, all else than letters
// and digits a hyphen. It is "" if nothing is left.
func EpisodeOf(folder string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(filepath.Base(folder)) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := b.String()
	s = strings.TrimRight(s[:min(len(s), 64)], "-")
	if world.CheckEpisode(s) != nil {
		return ""
	}
	return s
}
