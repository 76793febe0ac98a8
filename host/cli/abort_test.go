package cli

import (
	"context"
	"io"
	"strings"
	"testing"
)

// TestASignalEndsWhatBlocks: a verb that waits for something no context reaches is ended
// soon after its context.
func TestASignalEndsWhatBlocks(t *testing.T) {
	in, hold := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	aborted := make(chan struct{})
	go Run(ctx, []string{"call", "x", "--json", "-", "--session", strings.Repeat("0", 64)}, in, io.Discard, io.Discard,
		Env{Dir: t.TempDir(), Abort: func() { close(aborted); hold.Close() }})
	<-aborted
}
