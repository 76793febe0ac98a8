package sandbox

import (
	"os"
	"testing"
	"time"
)

func limits() Limits {
	return Limits{Wall: 20 * time.Second, CPU: 20 * time.Second, Memory: 512 << 20, Processes: 64, FileSize: 64 << 20, OpenFiles: 256,
		Output: 8 << 20, Keep: 64 << 10, Temp: 64 << 20}
}

func exe(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSmoke(t *testing.T) {
	s := New(Config{Command: []string{exe(t), verb}, Logf: t.Logf})
	t.Logf("groups %+v", s.groups)
	t.Logf("%+v", s.Probe(t.Context()))
	dir := t.TempDir()
	res, err := s.Run(t.Context(), Spec{Argv: []string{"sh", "-c", os.Getenv("SCRIPT")}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir,
		Tree: &Tree{Path: dir, Denied: func(s []string) bool { return s[0] == ".git" }}, Limits: limits()})
	t.Logf("%v exit %d sig %q limit %q cpu %v wall %v removed %v\n%s\n--\n%s", err, res.Exit, res.Signal, res.Limit, res.CPU, res.Wall, res.Removed, res.Stdout.Text, res.Stderr.Text)
}
