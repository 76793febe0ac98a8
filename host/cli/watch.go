package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/tracing"
)

// traceClose bounds the sending of the last spans when a daemon ends.
const traceClose = 5 * time.Second

// watchFlags say how a daemon tells of what it does.
type watchFlags struct{ format string }

func (f *watchFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.format, "log-format", "text", "`FORMAT` of stderr: text; or json, which has a line for each call too")
}

// begin makes this process tell in the way that was asked for. The answer sends what was
// not sent yet.
func (f *watchFlags) begin(ctx context.Context, a *app) (end func(), err error) {
	switch f.format {
	case "text":
	case "json":
		a.logJSON()
	default:
		return nil, failf("--log-format must be text or json, not %q", f.format)
	}
	on, err := tracesWanted(a.env)
	if err != nil || !on {
		return func() {}, err
	}
	t, err := tracing.New(ctx, func(err error) { a.tell("traces: %v", err) })
	if err != nil {
		return nil, failf("%v", err)
	}
	a.trace = t
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceClose)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			a.tell("traces: the last ones were not sent: %v", err)
		}
	}, nil
}

// tracesWanted tells whether the standard OTEL variables ask for traces. What they say of
// where and how the SDK reads by itself.
func tracesWanted(env Env) (bool, error) {
	first := func(names ...string) string {
		for _, n := range names {
			if v := env.Get(n); v != "" {
				return v
			}
		}
		return ""
	}
	if strings.EqualFold(env.Get("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := env.Get("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return false, nil
	case "otlp":
	case "":
		if first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
			return false, nil
		}
	default:
		return false, failf("OTEL_TRACES_EXPORTER is %q: this daemon knows otlp and none", exporter)
	}
	if p := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && p != "http/protobuf" {
		return false, failf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: this daemon speaks http/protobuf, by default at http://localhost:4318", p).
			hinted("collectors take it beside grpc: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, and the endpoint's port to 4318")
	}
	return true, nil
}

// logJSON makes every line of stderr one JSON object.
func (a *app) logJSON() {
	a.stderr.mu.Lock()
	defer a.stderr.mu.Unlock()
	h := slog.NewJSONHandler(a.stderr.w, nil)
	a.log = slog.New(h)
	a.stderr.w = &logLines{to: h}
}

// tell writes a line to stderr; as JSON, all that it tells is one record.
func (a *app) tell(format string, args ...any) {
	if a.log != nil {
		a.log.Warn(fmt.Sprintf(format, args...))
		return
	}
	fmt.Fprintln(a.stderr, printable(fmt.Sprintf(format, args...), true))
}

// logLines makes records of lines. It is written to by one at a time.
type logLines struct {
	to   slog.Handler
	rest []byte // of a line that has not ended
}

var _ io.Writer = (*logLines)(nil)

func (l *logLines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, ended := bytes.Cut(l.rest, []byte("\n"))
		if !ended {
			return len(b), nil
		}
		l.rest = append([]byte(nil), rest...)
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := l.to.Handle(context.Background(), slog.NewRecord(time.Now(), slog.LevelInfo, string(line), 0)); err != nil {
			return 0, err
		}
	}
}
