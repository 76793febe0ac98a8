package provenance

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// StatementType and PredicateType are those of the in-toto statements that are written.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://ailang.dev/world/invocation/v1"
)

// Statement is an in-toto statement about one call: what it made, and the chain that made it.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     *Chain    `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// EachCall explains the entries of an episode in order.
func EachCall(ctx context.Context, s episodeStore, episode string, visit func(*Chain) error) error {
	e, err := OfEpisode(ctx, s, episode, time.Time{}) // whose budgets nobody asks for
	if err != nil {
		return err
	}
	if e.Calls == 0 {
		return world.Errorf(world.KindNotFound, "provenance.Export", "episode %q has no entries", episode)
	}
	known := &proved{}
	return eachOf(ctx, s, episode, false, func(entry *world.Entry) (bool, error) {
		c, err := explain(ctx, s, entry.Header.EntryIndex, known)
		if err != nil || c.Episode != episode {
			return false, err
		}
		return false, visit(c)
	})
}

// ExportStatements writes an episode as in-toto statements, one a line. The subjects of a
// call are its output, and each file that it wrote whole. Of a call whose chain is broken
// nothing is stated; broken counts its links.
func ExportStatements(ctx context.Context, s episodeStore, episode string, w io.Writer) (broken int, err error) {
	out := bufio.NewWriter(w)
	err = EachCall(ctx, s, episode, func(c *Chain) error {
		if broken += c.Broken; c.Broken > 0 {
			return nil
		}
		st := Statement{Type: StatementType, PredicateType: PredicateType, Predicate: c,
			Subject: []subject{{string(c.Call), map[string]string{"sha256": c.World.StateRoot.Hex()}}}}
		for _, r := range c.Rounds {
			for _, e := range r.Effects {
				var p writePayload
				if e.Effect == effectWrite && e.Status == "ok" && hashref.DecodeKnown(e.Payload, &p) == nil && p.Op == "write" {
					st.Subject = append(st.Subject, subject{path.Clean(p.Path), map[string]string{"sha256": hashref.SumString(p.Content).Hex()}})
				}
			}
		}
		text, err := json.Marshal(st)
		if err != nil {
			return err
		}
		_, err = out.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return broken, err
	}
	return broken, out.Flush()
}

// The parts of OTLP's JSON that spans need (opentelemetry.io/docs/specs/otlp): ids are hex,
// 64-bit numbers are text.
type (
	otlpExport struct {
		ResourceSpans []otlpResource `json:"resourceSpans"`
	}
	otlpResource struct {
		Resource   otlpAttributes `json:"resource"`
		ScopeSpans []otlpScope    `json:"scopeSpans"`
	}
	otlpAttributes struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScope struct {
		Scope struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		Parent     string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"` // 2 server, 3 client
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes"`
		Status     otlpStatus      `json:"status"`
	}
	otlpStatus struct {
		Code    int    `json:"code"` // 1 ok, 2 error
		Message string `json:"message,omitempty"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
	}
)

func attr(key, value string) otlpAttribute { return otlpAttribute{key, otlpValue{String: &value}} }

func number(key string, value int64) otlpAttribute {
	text := fmt.Sprint(value)
	return otlpAttribute{key, otlpValue{Int: &text}}
}

// ExportSpans writes an episode as one OTLP trace export in JSON: a span a call, and below it
// one an effect. The log holds order and no time, so a call's span begins at its index in
// milliseconds after the beginning of 1970, and its effects share its millisecond. A call that
// was refused, or whose chain is broken, is an error; broken counts the links.
func ExportSpans(ctx context.Context, s episodeStore, storeID, episode string, w io.Writer) (broken int, err error) {
	scope := otlpScope{Spans: []otlpSpan{}}
	scope.Scope.Name, scope.Scope.Version = "ailang.dev/world", world.Version
	err = EachCall(ctx, s, episode, func(c *Chain) error {
		broken += c.Broken
		scope.Spans = append(scope.Spans, spansOf(c, storeID)...)
		return nil
	})
	if err != nil {
		return broken, err
	}
	text, err := json.Marshal(otlpExport{[]otlpResource{{
		Resource:   otlpAttributes{[]otlpAttribute{attr("service.name", "ailang-worldd"), attr("world.store", storeID), attr("world.episode", episode)}},
		ScopeSpans: []otlpScope{scope},
	}}})
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return broken, err
}

// spansOf is a call's span and those of its effects. Ids follow from the entry's hash, so an
// export that is made again is the same.
func spansOf(c *Chain, storeID string) []otlpSpan {
	trace := hashref.SumString(storeID + " " + c.Episode).Hex()[:32]
	call := spanID(c.Entry.EntryHash)
	at := func(ns int64) string { return fmt.Sprint(c.Index*1e6 + ns) }
	effects := []otlpSpan{}
	n := int64(0)
	for _, r := range c.Rounds {
		for _, e := range r.Effects {
			span := otlpSpan{TraceID: trace, SpanID: spanID(e.Record), Parent: call, Name: e.Effect, Kind: 3, Start: at(1000 * (n + 1)), End: at(1000 * (n + 2)),
				Status: otlpStatus{Code: 1}, Attributes: []otlpAttribute{attr("world.effect.id", e.ID), attr("world.effect.scope", e.Scope), number("world.effect.cost", e.Cost),
					attr("world.effect.status", e.Status), attr("world.effect.record", e.Record.String()), number("world.budget.before", e.BudgetBefore), number("world.budget.after", e.BudgetAfter)}}
			if e.Status != "ok" {
				span.Status = otlpStatus{2, cond(e.Denial != "", e.Denial, e.Status)}
			}
			effects, n = append(effects, span), n+1
		}
	}
	root := otlpSpan{TraceID: trace, SpanID: call, Name: c.Tool, Kind: 2, Start: at(0), End: at(1000 * (n + 2)), Status: otlpStatus{Code: 1},
		Attributes: []otlpAttribute{number("world.entry.index", c.Index), attr("world.entry.hash", c.Entry.EntryHash.String()), attr("world.invocation", string(c.Call)),
			attr("world.surface", c.Surface), attr("world.transition.source", c.Source.String()), attr("world.ref", c.World.Ref.String())}}
	if c.Broken > 0 {
		root.Status = otlpStatus{2, fmt.Sprintf("%d of its links do not hold", c.Broken)}
	} else if refused, why := c.Refused(); refused {
		root.Status = otlpStatus{2, cond(why != "", why, "its answer is not ok")}
	}
	return append([]otlpSpan{root}, effects...)
}

// spanID is that of a reference; a record that names no effect has one of its own.
func spanID(ref world.Ref) string {
	return hex.EncodeToString(append(ref.Digest(), make([]byte, 8)...)[:8])
}
