// Package supply judges what the daemon is made of: the licences of all modules that are linked, that a known vulnerability
// fails, and that a release is the same bytes wherever it is made.
package supply

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// makeTimeout bounds one run of make; a release may compile all there is.
const makeTimeout = 15 * time.Minute

// root is the repository's top.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a program in a folder, with env added to the environment, and gives what it printed and its exit code.
func run(t *testing.T, dir string, env []string, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	// A make above this test has its own ideas of how to run one below it.
	cmd.Env = append(cmd.Env, "MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, errs.String())
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must is run for what has to end well.
func must(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, errs, code := run(t, dir, env, name, args...)
	if code != 0 {
		t.Fatalf("%s %v: exit %d\n%s%s", name, args, code, out, errs)
	}
	return out
}
