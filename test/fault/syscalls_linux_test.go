package fault

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
)

var deaths = flag.Int("deaths", 16, "how often the daemon is killed at a write of a call, at every other one from the first; and half as often at a flush")

// writes is about how many writes a call makes; it is odd, so that every other one is in the
// end each.
const writes = 25

// tracerTimeout bounds how long strace may take to hold on to a daemon, or to let it go.
const tracerTimeout = 30 * time.Second

// tracer is strace, which makes system calls of the daemon fail.
type tracer struct {
	t   *testing.T
	cmd *exec.Cmd
	log string
}

// inject has system calls of the daemon on its store's files come to what the expression
// says (strace's --inject, with the system calls before the colon), from now on.
func (s *site) inject(expr string) *tracer {
	s.t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		s.t.Skip("strace is not here: system calls cannot be made to fail")
	}
	db, err := filepath.EvalSymlinks(s.db)
	if err != nil {
		s.t.Fatal(err)
	}
	calls, _, _ := strings.Cut(expr, ":")
	tr := &tracer{t: s.t, log: filepath.Join(s.t.TempDir(), "strace")}
	tr.cmd = exec.Command(strace, "-f", "-p", strconv.Itoa(s.cmd.Process.Pid), "-o", tr.log, "-e", "trace="+calls, "-e", "inject="+expr,
		"-P", db, "-P", db+"-wal")
	errs, err := tr.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := tr.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	timer := time.AfterFunc(tracerTimeout, func() { tr.cmd.Process.Kill() })
	defer timer.Stop()
	var said strings.Builder
	for r := bufio.NewReader(errs); ; {
		line, err := r.ReadString('\n')
		said.WriteString(line)
		if strings.Contains(line, "attached") {
			go io.Copy(io.Discard, r)
			return tr
		}
		if err != nil {
			tr.cmd.Wait()
			if strings.Contains(said.String(), "Operation not permitted") {
				s.t.Skipf("a process may not be traced here: %s", said.String())
			}
			s.t.Fatalf("strace: %s", said.String())
		}
	}
}

// stop lets the daemon go, and tells how many system calls were made to fail.
func (tr *tracer) stop() (injected int) {
	tr.t.Helper()
	tr.cmd.Process.Signal(syscall.SIGINT)
	timer := time.AfterFunc(tracerTimeout, func() { tr.cmd.Process.Kill() })
	defer timer.Stop()
	tr.cmd.Wait() // it ends by the signal
	text, err := os.ReadFile(tr.log)
	if err != nil {
		tr.t.Fatal(err)
	}
	return strings.Count(string(text), "(INJECTED)") + strings.Count(string(text), "(DELAYED)")
}

// end waits for a tracer whose daemon was killed.
func (tr *tracer) end() {
	timer := time.AfterFunc(time.Second, func() { tr.cmd.Process.Kill() })
	defer timer.Stop()
	tr.cmd.Wait()
}

// TestDiskThatFails has the system calls by which the store reaches its disk fail, while
// calls come, and then no more.
func TestDiskThatFails(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name, expr string
		each       int  // calls of each caller meanwhile
		harmless   bool // all calls are done all the same
	}{
		{"a flush fails with EIO", "fsync,fdatasync:error=EIO", 6, false},
		{"every third flush of a thread fails with EIO", "fsync,fdatasync:error=EIO:when=2+3", 6, false},
		{"a flush fails with ENOSPC", "fsync,fdatasync:error=ENOSPC", 6, false},
		{"a write fails with EIO", "pwrite64:error=EIO", 6, false},
		{"every seventh write of a thread fails with EIO", "pwrite64:error=EIO:when=3+7", 6, false},
		{"a write fails with ENOSPC", "pwrite64:error=ENOSPC", 6, false},
		{"every seventh write of a thread fails with ENOSPC", "pwrite64:error=ENOSPC:when=5+7", 6, false},
		{"a write fails with EROFS", "pwrite64,ftruncate:error=EROFS", 6, false},
		{"a flush takes 0.2 s", "fsync,fdatasync:delay_exit=200000", 3, true},
		{"a write takes 5 ms", "pwrite64:delay_enter=5000", 6, true},
		{"a flush takes longer than what follows an effect may", "fsync,fdatasync:delay_exit=4500000", 1, false},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "")
			s.start()
			s.allDone("before", s.load("before", 3))
			tr := s.inject(f.expr)
			hurt := s.load("hurt", f.each)
			s.reads("at the fault")
			n := tr.stop()
			t.Logf("%d system calls injected: %v", n, answers(hurt))
			if n == 0 {
				t.Error("no system call was made to fail: the test sees nothing")
			}
			if told := answers(hurt); f.harmless && told["done"] != len(hurt) {
				t.Errorf("a slow disk: %v", told)
			} else if !f.harmless && told["done"] == len(hurt) {
				t.Errorf("a failing disk was not noticed: %v", told)
			}
			s.allDone("after", s.load("after", 3))
			s.settle()
		})
	}
}

// reads looks whether what needs no write is answered.
func (s *site) reads(when string) {
	s.t.Helper()
	for _, path := range []string{"/v1/health", "/v1/head", "/v1/log?limit=5"} {
		resp, err := s.client.Get(s.url + path)
		if err != nil {
			s.t.Fatalf("%s: %s: %v\n%s", when, path, err, s.stderr.String())
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			s.t.Errorf("%s: %s is %d", when, path, resp.StatusCode)
		}
	}
}

// TestKilledAtEachWrite kills the daemon at each write of a call that plans an effect and has
// a finish phase, and at flushes of calls of every kind: of its intent, its outcome and its
// entry, while a write of it is missing and nothing persists, and with all of it written, so
// that it persists and nobody was told. At each of them the kill leaves what the journal says, and a
// resend comes to a result or to what is unrecorded.
func TestKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	left := map[string]int{}
	kill := func(kind, call string, n int) {
		s.start()
		tr := s.inject(fmt.Sprintf("%s:signal=KILL:when=%d", call, n))
		tk := &task{caller: n % callers, id: fmt.Sprintf("%s-%s-%d-%d", kind, call, n, len(s.tasks)), kind: kind}
		if err := s.send(tk); err == nil {
			tr.stop() // this thread made fewer
			s.kill()
			left["not killed"]++
		} else {
			s.cmd.Wait()
			tr.end()
			left[s.left(tk.id)]++
		}
		s.tasks = append(s.tasks, tk)
		s.start()
		if err := s.send(tk); err != nil {
			t.Fatal(err)
		}
		s.kill()
	}
	for n := range *deaths {
		kill(rounds, "pwrite64", 2*n%writes+1)
	}
	for n := range *deaths / 2 {
		kill(kinds[n%len(kinds)], "fsync", n/len(kinds)%3+1)
	}
	for n := 0; left["an outcome"] == 0 && n < *deaths; n++ { // a call's writes may be shared out to more threads
		kill(rounds, "fsync", 2)
	}
	t.Logf("what the kills left: %v", left)
	for _, must := range []string{"nothing", "an intent", "an outcome", "an entry"} {
		if left[must] == 0 {
			t.Errorf("no kill left %s: %v", must, left)
		}
	}
	s.settle()
}

// left names what a kill left of a task.
func (s *site) left(id string) string {
	s.t.Helper()
	db, err := sqlite.Open(context.Background(), sqlite.Options{Path: s.db, Logf: s.t.Logf})
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	inv, err := db.Invocation(context.Background(), world.AgentInvocation(episode, id))
	switch {
	case err != nil:
		s.t.Fatal(err)
	case inv.State == store.StateCommitted:
		return "an entry"
	case len(inv.Effects) == 0:
		return "nothing"
	case inv.Effects[0].Record.IsNone():
		return "an intent"
	}
	return "an outcome"
}
