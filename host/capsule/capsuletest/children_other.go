//go:build !linux

package capsuletest

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// children lists the processes whose parent is this one, but for the one that lists them.
func children(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("ps", "-A", "-o", "pid=,ppid=,comm=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("no process can be listed: %v", err)
	}
	me := strconv.Itoa(os.Getpid())
	var found []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) > 2 && f[1] == me && f[0] != strconv.Itoa(cmd.Process.Pid) {
			found = append(found, f[0])
		}
	}
	return found
}
