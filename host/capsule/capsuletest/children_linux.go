package capsuletest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// children lists the processes whose parent is this one, dead ones that nobody waited for
// included.
func children(t *testing.T) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatalf("no process can be listed: %v", err)
	}
	me := strconv.Itoa(os.Getpid())
	var found []string
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		// After the name, which stands in parentheses: state, then the parent.
		fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == me {
			found = append(found, filepath.Base(filepath.Dir(path)))
		}
	}
	return found
}
