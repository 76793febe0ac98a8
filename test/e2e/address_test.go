package e2e

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"ailang.dev/world/host/cli"
)

// TestDefaultAddress: without being told, the daemon listens where its clients look.
func TestDefaultAddress(t *testing.T) {
	var out, errs bytes.Buffer
	if cli.DefaultBind != "127.0.0.1:7644" {
		t.Errorf("the default address is %s", cli.DefaultBind)
	}
	if code := cli.Run(context.Background(), []string{"serve", "--help"}, strings.NewReader(""), &out, &errs, cli.Env{}); code != 0 || !strings.Contains(out.String(), cli.DefaultBind) {
		t.Errorf("serve --help says %d, and not where it listens: %s%s", code, out.String(), errs.String())
	}
}
