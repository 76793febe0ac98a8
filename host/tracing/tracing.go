// Package tracing tells OpenTelemetry what a daemon does: one trace from a request over
// HTTP, through each part of the call, to the flush that made it durable. It is off unless
// somebody makes a Tracer; nothing of a call depends on it, and what it sends holds no
// argument, result or credential. Answers spec/18-workbench.md.
package tracing

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"ailang.dev/world/host/world"
)

const scope = "ailang.dev/world"

// Service is the name under which a daemon tells of itself, unless OTEL_SERVICE_NAME says
// another.
const Service = "ailang-worldd"

// Tracer makes the spans of one daemon. A nil one makes none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	context  propagation.TextMapPropagator
}

// New sends spans by OTLP over HTTP. Where to, how many and how often the SDK reads from
// the standard OTEL variables. failed is told what could not be sent, from any goroutine;
// the SDK knows one such place in a process.
func New(ctx context.Context, failed func(error)) (*Tracer, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(failed))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	res, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", Service), attribute.String("service.version", world.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return Over(sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))), nil
}

// Over makes spans with a provider.
func Over(p *sdktrace.TracerProvider) *Tracer {
	return &Tracer{provider: p, tracer: p.Tracer(scope, trace.WithInstrumentationVersion(world.Version)), context: propagation.TraceContext{}}
}

// Close sends what was not sent yet, within ctx.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// ID is the trace of a context, in hex; "" if it has none.
func ID(ctx context.Context) string {
	if sc := trace.SpanContextFromContext(ctx); sc.HasTraceID() {
		return sc.TraceID().String()
	}
	return ""
}

// Handler gives each request a span, which continues the trace that the caller names.
func (t *Tracer) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := t.context.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", r.Method)))
		defer span.End()
		seen := &answered{ResponseWriter: w, status: http.StatusOK}
		r = r.WithContext(ctx)
		next.ServeHTTP(seen, r)
		if r.Pattern != "" { // the mux has told which route it is; a path may hold anything
			span.SetName(r.Pattern)
			span.SetAttributes(attribute.String("http.route", r.Pattern))
		}
		span.SetAttributes(attribute.Int("http.response.status_code", seen.status))
		if seen.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

// answered remembers the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Start begins a span.
func (t *Tracer) Start(ctx context.Context, name string, kv ...string) (context.Context, *Span) {
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(texts(kv)...))
	return ctx, &Span{span}
}

// Past makes a span of what is over already.
func (t *Tracer) Past(ctx context.Context, name string, from, to time.Time, failed bool) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from))
	if failed {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(to))
}

// Watched tells whether spans of a context are kept. The one that it is in may have ended:
// what the writer did for a call is told after the call was answered.
func Watched(ctx context.Context) bool {
	return ctx != nil && trace.SpanContextFromContext(ctx).IsSampled()
}

// Add puts an attribute on the span that a context is in.
func Add(ctx context.Context, key, value string) {
	trace.SpanFromContext(ctx).SetAttributes(attribute.String(key, value))
}

// Span is a part of a trace.
type Span struct{ span trace.Span }

// Set puts a text on it.
func (s *Span) Set(key, value string) { s.span.SetAttributes(attribute.String(key, value)) }

// Entry puts the index of the entry on it that the call became.
func (s *Span) Entry(index int64) {
	s.span.SetAttributes(attribute.Int64("world.entry_index", index))
}

// End ends it. Of an error only the kind is told.
func (s *Span) End(err error) {
	if err != nil {
		s.span.SetStatus(codes.Error, world.KindOf(err).String())
	}
	s.span.End()
}

func texts(kv []string) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(kv)/2)
	for i := 0; i+1 < len(kv); i += 2 {
		out = append(out, attribute.String(kv[i], kv[i+1]))
	}
	return out
}
