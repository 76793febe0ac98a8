package workbench_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"golang.org/x/net/html"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// hostile are texts that try to be more than text.
var hostile = map[string]string{
	"markup":    `"><script>alert(1)</script><img src=x onerror=alert(2)><style>*{display:none}</style>`,
	"attribute": `' onmouseover='alert(1)' style='position:fixed`,
	"comment":   `--><!-- ]]> </pre></svg></title></textarea><base href=//evil.example>`,
	"scheme":    `javascript:alert(1)`,
	"template":  `{{.}} ${7*7} %s %n`,
	"escape":    "\x1b[2J\x1b[31mred\x1b]0;title\x07\x1b]8;;http://evil.example\x07link\x1b]8;;\x07\u009b31m",
	"bidi":      "\u202egnp.exe\u202c \u2066\u2067\u2069 \u200f\u061c abc\u05d0\u05d1",
	"invisible": "a\u200bb\u200d\ufeffc\u2060\u00add\U000e0041\u2028e\u180e\u3164",
	"controls":  "\r\n\v\f\b\x7f\x01",
	"stacked":   "Z" + strings.Repeat("\u0334\u035d", 300),
	"megabyte":  strings.Repeat("<b>long</b> ", 100_000),
	"one word":  strings.Repeat("M", 60_000),
	"lines":     strings.Repeat("<\n", 20_000),
}

// allowed are the elements of a page, and the attributes that they may have.
var allowed = map[string]string{
	"html": "lang", "head": "", "meta": "charset name content", "title": "id", "link": "rel href type", "body": "", "a": "class href title rel aria-label aria-current",
	"header": "class", "img": "src alt width height", "span": "class title", "nav": "class aria-label", "form": "class action role", "label": "for",
	"input": "id name type placeholder maxlength autocomplete spellcheck required", "button": "", "main": "id tabindex", "section": "class aria-labelledby",
	"h1": "id", "h2": "id", "h3": "", "p": "class", "strong": "class", "code": "class", "pre": "class tabindex", "ol": "class", "ul": "class", "li": "class",
	"div": "class tabindex role aria-label aria-hidden", "i": "", "dl": "", "dt": "", "dd": "class", "figure": "", "figcaption": "", "footer": "",
	"details": "open", "summary": "", "article": "class id", "br": "",
	"table": "class", "thead": "", "tbody": "", "tr": "class", "th": "scope class", "td": "class",
	"svg": "class viewbox role aria-labelledby aria-label preserveaspectratio", "desc": "id", "rect": "class x y width height rx", "path": "class d", "text": "class x y",
}

// maxPage is how large a page may be, whatever is stored.
const maxPage = 2 << 20

// crawl reads every page that can be reached, and holds each to being inert.
func (s *site) crawl(dangling func(at, from string) bool) int {
	s.T.Helper()
	seen, queue, from := map[string]bool{"/workbench": true}, []string{"/workbench"}, map[string]string{}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		resp, text := s.do(http.MethodGet, at, nil)
		switch {
		case resp.StatusCode == 303:
			continue
		case resp.StatusCode != 200 && !dangling(at, from[at]):
			s.T.Errorf("%s, to which %s leads: %d %.300s", at, from[at], resp.StatusCode, text)
		}
		for _, link := range inert(s.T, at, text) {
			if strings.HasPrefix(link, "#") {
				continue
			}
			u, err := url.Parse(link)
			if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(u.Path, "/workbench") && !strings.HasPrefix(u.Path, "/v1/objects/") {
				s.T.Errorf("%s leads to %q", at, link)
				continue
			}
			if u.Fragment = ""; !seen[u.String()] && strings.HasPrefix(u.Path, "/workbench") && !strings.Contains(u.Path, ".") {
				seen[u.String()] = true
				queue = append(queue, u.String())
				from[u.String()] = at
			}
		}
	}
	return len(seen)
}

// inert holds a page to its elements, attributes and characters, and gives its links.
func inert(t testing.TB, at, page string) (links []string) {
	t.Helper()
	if len(page) > maxPage {
		t.Errorf("%s has %d bytes", at, len(page))
	}
	for _, r := range page {
		if r == '\n' || r == '\t' {
			continue
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u3164' || r == unicode.ReplacementChar {
			t.Errorf("%s holds the character %U", at, r)
			break
		}
	}
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return links
		case html.CommentToken:
			t.Errorf("%s has the comment %.80q", at, z.Raw())
		case html.TextToken:
			// What the page shows once its entities are read has nothing unseen either.
			if text := string(z.Text()); strings.ContainsAny(text, "\x1b\u202e\u200b\r") {
				t.Errorf("%s shows %.80q", at, text)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			attrs, known := allowed[tok.Data]
			if !known {
				t.Errorf("%s has the element %s", at, tok)
				return links
			}
			for _, a := range tok.Attr {
				if !strings.Contains(" "+attrs+" ", " "+a.Key+" ") {
					t.Errorf("%s has the attribute %s of %s", at, a.Key, tok.Data)
				}
				if a.Key == "href" || a.Key == "src" {
					links = append(links, a.Val)
				}
			}
		}
	}
}

// TestEveryLinkLeadsSomewhere: pages of ordinary work lead to nothing that is not there.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	s := worked(t, worldtest.Options{})
	n := s.crawl(func(at, from string) bool {
		// A hash that a payload holds need not be that of an object.
		return strings.HasPrefix(at, "/workbench?object=") && strings.HasPrefix(from, "/workbench?object=")
	})
	if n < 60 {
		t.Errorf("only %d pages were found", n)
	}
}

// TestHostileTextIsInert: whatever is stored, in whatever place, is shown as text, cut.
func TestHostileTextIsInert(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, worldtest.Options{})
			s.plant(text)
			n := s.crawl(func(_, _ string) bool { return true })
			if n < 20 {
				t.Errorf("only %d pages were found", n)
			}
			for _, q := range []string{"?q=" + url.QueryEscape(bounded(text, 600)), "?" + url.QueryEscape(bounded(text, 600)) + "=1"} {
				_, page := s.do(http.MethodGet, "/workbench/find"+q, nil)
				inert(t, q, page)
			}
			_, page := s.do(http.MethodGet, "/workbench/calls/"+url.PathEscape(bounded(text, 600)), nil)
			inert(t, "call", page)
		})
	}
}

// TestAPageIsBounded: a call may have as many effects as a plan and its rounds allow, each with
// all that a box holds.
func TestAPageIsBounded(t *testing.T) {
	s := start(t, worldtest.Options{})
	const by, id = "coordinator:mcp", world.InvocationID("a2a:ep1:large")
	object := func(semantic string, v any) world.Object {
		return world.NewObject(semantic, by, hashref.MustMarshal(v))
	}
	empty := object(world.SemInput, map[string]any{})
	all := []world.Object{empty}
	var rounds []any
	for r := range coordinator.MaxRounds {
		var records []world.Ref
		for e := range coordinator.MaxPlanned {
			text := fmt.Sprint(r, e) + strings.Repeat("\x1b<\u202e", 10_000)
			list := make([]string, 400)
			for i := range list {
				list[i] = text[:500]
			}
			request := object(world.SemRequest, map[string]any{"cost": 1, "effect": "Workspace.Write", "id": fmt.Sprint(e), "invocationId": id, "scope": "s",
				"payload": map[string]any{"op": "write", "path": "a", "content": text, "list": list}})
			result := object(world.SemResult, map[string]any{"ok": true, "list": list, "n": fmt.Sprint(r, e)})
			record := object(world.SemEffect, map[string]any{"allowed": true, "budgetAfter": 1, "budgetBefore": 2, "cost": 1, "denial": "", "effect": "Workspace.Write",
				"failed": false, "requestRef": request.Hash, "resultRef": result.Hash, "scope": "s"})
			all, records = append(all, request, result, record), append(records, record.Hash)
		}
		rounds = append(rounds, map[string]any{"plan": empty.Hash, "effects": records})
	}
	record := object(world.SemRecordV2, map[string]any{"episodeId": "ep1", "input": empty.Hash, "interpreter": empty.Hash, "invocationId": id, "output": empty.Hash,
		"rounds": rounds, "semanticsEpoch": 1, "skillId": "large", "transitionFn": empty.Hash})
	res, err := s.Core.Store.Append(t.Context(), store.Append{Invocation: id, Digest: empty.Hash, Objects: append(all, record), TransitionFn: empty.Hash,
		Interpreter: empty.Hash, SemanticsEpoch: 1, WrittenBy: by, TransitionRef: record.Hash, StateRoot: empty.Hash})
	if err != nil {
		t.Fatal(err)
	}
	_, page := s.do(http.MethodGet, fmt.Sprint("/workbench?entry=", res.Entry.Header.EntryIndex), nil)
	inert(t, "the entry", page)
	if n := strings.Count(page, `<article class="effect`); n != coordinator.MaxRounds*coordinator.MaxPlanned {
		t.Errorf("%d effects are told", n)
	}
}

func bounded(s string, n int) string {
	return strings.ToValidUTF8(s[:min(len(s), n)], "")
}

// plant puts a text into every place of the store that somebody else chooses.
func (s *site) plant(text string) {
	s.T.Helper()
	ctx := context.Background()
	must := func(err error) {
		s.T.Helper()
		if err != nil {
			s.T.Fatal(err)
		}
	}
	short := bounded(text, 3000)
	scope := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, bounded(text, 200)) + "."
	_, err := s.Ops.Mint(ctx, admin.MintRequest{Episode: "ep1", TTL: time.Hour, Grants: []world.Grant{{Effect: "Workspace.Write", Scope: scope, Budget: 3}}})
	must(err)
	asked, err := s.Core.Book.Ask(ctx, approvals.Subject{Effect: "Human.Approve", Episode: "ep1", Scope: scope, Transition: short,
		Payload: hashref.MustMarshal(map[string]string{"question": short, "details": text}), TransitionFn: hashref.Zero})
	must(err)
	_, err = s.Core.Book.Ask(ctx, approvals.Subject{Effect: "E", Episode: "ep1", Scope: "s", Transition: "t", Payload: []byte(`{"other":` + quoted(short) + `}`)})
	must(err)
	_, err = s.Core.Book.Decide(ctx, asked.ID, approvals.Decision{By: short, Note: bounded(text, 1000)})
	must(err)
	manifest := hashref.MustMarshal([]any{map[string]any{"id": "hostile", "title": bounded(text, 250), "description": short, "transitionFnFile": "a.star",
		"inputSchema": map[string]any{"type": "object", "description": bounded(text, 120_000)}, "outputSchema": map[string]any{"type": "object"},
		"access": map[string]any{"effect": "Tools.Echo", "scope": scope, "cost": 0}, "declaredEffects": []any{}}})
	_, err = s.Ops.Publish(ctx, publication(s.T, manifest))
	must(err)
	for i, effect := range []struct{ name, payload, answer string }{
		{"Workspace.Write", `{"op":"edit","path":T,"old_text":T,"new_text":"x"}`, `{"ok":true,"line":3}`},
		{"Workspace.Write", `{"op":"write","path":T,"content":T}`, `{"ok":false,"refused":T}`},
		{"Workspace.Read", `{"op":"read","path":T,"from":1}`, `{"ok":true,"content":T,"from":7}`},
		{"Workspace.Read", `{"op":"grep","pattern":T}`, `{"ok":true,"matches":[{"path":T,"line":1,"text":T}]}`},
		{"Workspace.Read", `{"op":"list","path":T}`, `{"ok":true,"entries":[{"name":T,"type":T,"size":1}]}`},
		{"Workspace.Exec", `{"profile":T,"args":[T,T]}`, `{"ok":false,"exit_code":1,"signal":T,"limit":T,"stdout":T,"stderr":T}`},
		{"Git.Read", `{"op":"diff","path":T}`, `{"ok":true,"diff":T}`},
		{"Git.Read", `{"op":"status"}`, `{"ok":true,"changes":[{"path":T,"staged":T,"unstaged":T}]}`},
		{"Git.Commit", `{"op":"commit","message":T}`, `{"failed":T}`},
		{"Human.Approve", `{"question":T}`, `{"ok":true}`},
		{"Corpus.Search", `{"query":T,T:T}`, `{T:[T,{T:T}]}`},
	} {
		s.append(i, effect.name, scope, strings.ReplaceAll(effect.payload, "T", quoted(text)), strings.ReplaceAll(effect.answer, "T", quoted(text)), short)
	}
	s.rest(bounded(strings.ReplaceAll(text, "\x00", ""), 1000), text)
}

// append commits a call whose record, request, result and output hold the texts.
func (s *site) append(i int, effect, scope, payload, answer, skill string) {
	s.T.Helper()
	const by = "coordinator:mcp"
	object := func(semantic string, v any) world.Object {
		return world.NewObject(semantic, by, hashref.MustMarshal(v))
	}
	raw := func(semantic, text string) world.Object {
		b, err := hashref.Canonical([]byte(text))
		if err != nil {
			s.T.Fatalf("%v: %.200s", err, text)
		}
		return world.NewObject(semantic, by, b)
	}
	id := world.InvocationID(fmt.Sprintf("a2a:ep1:%d-%s", i, bounded(skill, 300)))
	var p, a any
	for text, into := range map[string]*any{payload: &p, answer: &a} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			s.T.Fatal(err)
		}
	}
	source, input := raw(world.SemSource, quoted(answer)), raw(world.SemInput, payload)
	output, result, plan := raw(world.SemOutput, answer), raw(world.SemResult, answer), raw(world.SemPlanV1, answer)
	request := object(world.SemRequest, map[string]any{"cost": 1, "effect": effect, "id": "e1", "invocationId": id, "payload": p, "scope": scope})
	record := object(world.SemEffect, map[string]any{"allowed": true, "budgetAfter": 1, "budgetBefore": 2, "cost": 1, "denial": "", "effect": effect,
		"failed": false, "requestRef": request.Hash, "resultRef": result.Hash, "scope": scope})
	wanted := object(world.SemRequest, map[string]any{"cost": 1, "effect": skill, "id": skill, "invocationId": id, "payload": p, "scope": skill})
	denied := object(world.SemEffect, map[string]any{"allowed": false, "budgetAfter": 1, "budgetBefore": 1, "cost": 1, "denial": skill, "effect": skill,
		"failed": false, "requestRef": wanted.Hash, "resultRef": "", "scope": skill})
	call := object(world.SemRecordV2, map[string]any{"effects": []world.Ref{record.Hash, denied.Hash}, "episodeId": skill, "input": input.Hash,
		"interpreter": source.Hash, "invocationId": id, "output": output.Hash, "plan": plan.Hash, "semanticsEpoch": 1, "skillId": skill, "transitionFn": source.Hash})
	_, err := s.Core.Store.Append(context.Background(), store.Append{Invocation: id, Digest: input.Hash,
		Objects:      []world.Object{source, input, output, result, plan, request, record, wanted, denied, call},
		TransitionFn: source.Hash, Interpreter: source.Hash, SemanticsEpoch: 1, WrittenBy: by, TransitionRef: call.Hash, StateRoot: output.Hash})
	if err != nil {
		s.T.Fatal(err)
	}
}

// rest commits over REST, which names its writer and the kinds of its objects.
func (s *site) rest(text, payload string) {
	s.T.Helper()
	token := s.Mint("ep1")
	head, err := s.Core.Store.Head(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	o := world.NewObject(text, text, []byte(payload))
	ref := hashref.SumString("entry" + text)
	body, err := json.Marshal(map[string]any{
		"observedHead": head.World, "invocationId": "rest:planted",
		"objects":   []any{map[string]any{"hash": o.Hash, "interfaceHash": o.InterfaceHash, "semanticId": text, "provenance": text, "payload": base64.StdEncoding.EncodeToString(o.Payload)}},
		"nextWorld": map[string]any{"ref": hashref.SumString("world" + text), "revision": head.Next, "stateRoot": o.Hash, "logHead": ref},
		"entry": map[string]any{"entryHash": ref, "transitionRef": o.Hash, "header": map[string]any{"entryIndex": head.Next, "semanticsEpoch": 1,
			"transitionFn": o.Hash, "interpreter": o.Hash, "prevEntryHash": head.LogHead, "writtenBy": text}},
	})
	if err != nil {
		s.T.Fatal(err)
	}
	if resp, answer := s.do(http.MethodPost, "/v1/commit", strings.NewReader(string(body)), "Authorization", "Bearer "+token); resp.StatusCode != 200 {
		s.T.Fatalf("%d %s", resp.StatusCode, answer)
	}
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
