package sandbox

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHiddenUnderOtherNames: what is hidden is so under every name that a read-only path
// gives it.
func TestHiddenUnderOtherNames(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}, Logf: t.Logf})
	real, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	put(t, real, map[string]string{"shown": "shown", "store/db": "secret", "store/deep/x": "x"})
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(real, link))
	for _, c := range []struct{ hide, script, out string }{
		{real + "/store", "cat " + link + "/shown; ls " + link + "/store " + real + "/store | grep -v :; cat " + link + "/store/db 2>/dev/null", "shown"},
		{real + "/store/deep", "cat " + link + "/store/db; ls " + link + "/store/deep", "secret"},
		{real, "ls " + link + " " + real + " | grep -v :", ""},
	} {
		spec := script(t, c.script)
		spec.ReadOnly, spec.Hide = []string{link}, []string{c.hide}
		if res, err := s.Run(t.Context(), spec); err != nil || lines(res) != c.out {
			t.Errorf("%s hidden: %v: %q, want %q", c.hide, err, lines(res), c.out)
		}
	}
}

// The verbs of this binary in TestStreamsHandedOn.
const (
	giveVerb = "give-streams"
	holdVerb = "hold-streams"
	meet     = "meet"
)

// TestStreamsHandedOn: a run has its end, and its limits hold, also when another command
// that works in the same tree holds its streams.
func TestStreamsHandedOn(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}, Logf: t.Logf})
	give := script(t, "")
	give.Argv, give.ReadOnly = []string{testBinary(t), giveVerb}, []string{testBinary(t)}
	hold := give
	hold.Argv = []string{testBinary(t), holdVerb}
	giver, err := s.Start(t.Context(), give) // first: what is there when it starts is covered
	must(t, err)
	holder, err := s.Start(t.Context(), hold)
	must(t, err)
	select {
	case <-giver.Done():
	case <-time.After(limits().Wall / 2):
		t.Error("it does not end before the other does")
	}
	select {
	case <-holder.Done():
		t.Error("the other has ended")
	default:
	}
	holder.Kill()
	if _, err := holder.Wait(); err != nil {
		t.Error(err)
	}
	if res, err := giver.Wait(); err != nil || res.Exit != 0 || lines(res) != "given" {
		t.Errorf("%v, %+v: %q", err, res, lines(res))
	}
}

// giveStreams hands stdout and stderr to whoever listens.
func giveStreams() error {
	for {
		c, err := net.Dial("unix", meet)
		if err != nil {
			continue // not yet
		}
		defer c.Close()
		if _, _, err := c.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(1, 2), nil); err != nil {
			return err
		}
		if _, err := c.Read(make([]byte, 1)); err != nil { // they are taken
			return err
		}
		_, err = os.Stdout.WriteString("given")
		return err
	}
}

// holdStreams takes them, and lives until it is killed.
func holdStreams() error {
	l, err := net.Listen("unix", meet)
	if err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return err
	}
	if _, _, _, _, err := c.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), make([]byte, 64)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = l.Accept()
	return err
}
