package corpus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/handlers/corpus/ingest"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// shelf keeps documents' objects in memory.
type shelf struct {
	mu  sync.Mutex
	all map[world.Ref]world.Object
}

func (s *shelf) PutDocuments(_ context.Context, objects []world.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.all[o.Hash] = o
	}
	return nil
}

func (s *shelf) Object(_ context.Context, ref world.Ref) (world.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.all[ref]; ok {
		return o, nil
	}
	return world.Object{}, &world.Error{Op: "shelf", Kind: world.KindNotFound}
}

// desk is a corpus on trial, made of files.
type desk struct {
	*testing.T
	files, dir string
	shelf      *shelf
	lib        *corpus.Library
	h          *corpus.Handler
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newDesk(t *testing.T, files map[string]string) *desk {
	d := &desk{T: t, files: t.TempDir(), dir: filepath.Join(t.TempDir(), "w.db.corpora"), shelf: &shelf{all: map[world.Ref]world.Object{}}}
	d.lib = corpus.NewLibrary(d.dir)
	t.Cleanup(func() { d.lib.Close() })
	d.h = corpus.New(corpus.Config{Library: d.lib, Objects: d.shelf})
	d.write(files)
	if len(files) > 0 {
		d.add()
	}
	return d
}

func (d *desk) write(files map[string]string) {
	d.Helper()
	for name, text := range files {
		must(d.T, os.MkdirAll(filepath.Dir(filepath.Join(d.files, name)), 0o755))
		must(d.T, os.WriteFile(filepath.Join(d.files, name), []byte(text), 0o644))
	}
}

func (d *desk) add() ingest.Result {
	d.Helper()
	res, err := ingest.Add(d.Context(), ingest.Request{Dir: d.dir, Corpus: "library", Paths: []string{d.files}, Store: d.shelf})
	must(d.T, err)
	return res
}

func (d *desk) search(q corpus.Query) *corpus.Found {
	d.Helper()
	f, err := d.lib.Search(d.Context(), "library", q)
	must(d.T, err)
	return f
}

// places are document#section of what a query finds, in order.
func (d *desk) places(q corpus.Query) []string {
	d.Helper()
	all := []string{}
	for _, p := range d.search(q).Passages {
		all = append(all, p.Document+"#"+p.Section)
	}
	return all
}

// perform performs an effect, and reads its answer.
func (d *desk) perform(effect, payload string) map[string]any {
	d.Helper()
	out, err := d.h.Perform(d.Context(), broker.Request{Episode: "ep", Need: world.Need{Effect: effect, Scope: "library", Cost: 1}, Payload: []byte(payload)})
	must(d.T, err)
	var v map[string]any
	must(d.T, json.Unmarshal(out, &v))
	if v["tool"] != d.h.Objects()[0].Hash.String() || len(v["policy_digest"].(string)) != 64 {
		d.Errorf("%s %s: tool %v, policy %v", effect, payload, v["tool"], v["policy_digest"])
	}
	return v
}

var three = map[string]string{
	"eucharist.md": "---\ntitle: The Eucharist\nauthor: Thérèse Écrivain\ndate: 2020-05-01\nkind: sacraments\nlink: https://example.org/e\n---\n# The Eucharist\n\n## 1. Real presence\n\nThe real presence of Christ in the Eucharist.\n\n## 3.2 Fruits\n\nPresence that is real, and charity.\n",
	"grace.md":     "# Of grace\n\nBefore the first heading.\n\n## What grace is\n\nGrace is favour, the free and undeserved help that God gives.\n\n### Kinds\n\nSanctifying grace and actual grace.\n",
	"Ägypten.txt":  "1. Die Wüste\n\nEin Text über Mönche in der Wüste: grace, once.\n",
}

func TestSearch(t *testing.T) {
	d := newDesk(t, three)
	for _, c := range []struct {
		name string
		q    corpus.Query
		want []string
	}{
		{"words in any form", corpus.Query{Query: "what are the FRUIT"}, []string{"eucharist#3.2"}},
		{"a phrase", corpus.Query{Query: `"real presence"`}, []string{"eucharist#1"}},
		{"a prefix", corpus.Query{Query: "charit*"}, []string{"eucharist#3.2"}},
		{"without diacritics", corpus.Query{Query: "monche WUSTE"}, []string{"agypten#1"}},
		{"with others", corpus.Query{Query: "Ürgräce Mönché"}, []string{"agypten#1"}},
		{"a question", corpus.Query{Query: "What is meant by sanctifying grace, and why?"}, []string{"grace#1.1", "grace#1", "grace#0", "agypten#1"}},
		{"operators alone", corpus.Query{Query: `AND OR NOT ( ) * " ^`}, []string{}},
		{"nothing of it", corpus.Query{Query: "football results"}, []string{}},
		{"by kind", corpus.Query{Query: "grace real", Filters: corpus.Filters{Kind: "sacraments"}}, []string{"eucharist#1", "eucharist#3.2"}},
		{"by author, folded", corpus.Query{Query: "presence", Filters: corpus.Filters{Author: "therese ECRI"}}, []string{"eucharist#1", "eucharist#3.2"}},
		{"an author is no title", corpus.Query{Query: "presence", Filters: corpus.Filters{Title: "therese"}}, []string{}},
		{"by title", corpus.Query{Query: "grace", Filters: corpus.Filters{Title: "OF G"}}, []string{"grace#1", "grace#1.1", "grace#0"}},
		{"by document", corpus.Query{Query: "grace", Filters: corpus.Filters{Document: "agypten"}}, []string{"agypten#1"}},
		{"from a year", corpus.Query{Query: "grace presence", Filters: corpus.Filters{From: "2020"}}, []string{"eucharist#1", "eucharist#3.2"}},
		{"to a month", corpus.Query{Query: "presence", Filters: corpus.Filters{From: "2020-05-01", To: "2020-05"}}, []string{"eucharist#1", "eucharist#3.2"}},
		{"after", corpus.Query{Query: "presence", Filters: corpus.Filters{From: "2020-05-02"}}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := *d
			d.T = t
			if diff := cmp.Diff(c.want, d.places(c.q)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPassageIsWhole(t *testing.T) {
	d := newDesk(t, three)
	v := d.perform("Corpus.Search", `{"query":"real presence","limit":1}`)
	p := v["passages"].([]any)[0].(map[string]any)
	ref, err := hashref.Parse(p["ref"].(string))
	must(t, err)
	if _, err := d.shelf.Object(t.Context(), ref); err != nil {
		t.Errorf("ref does not resolve: %v", err)
	}
	delete(p, "ref")
	delete(p, "score")
	want := map[string]any{"document": "eucharist", "title": "The Eucharist", "author": "Thérèse Écrivain", "date": "2020-05-01", "kind": "sacraments", "section": "1",
		"heading": "Real presence", "text": "The real presence of Christ in the Eucharist.", "link": "https://example.org/e", "highlights": []any{[]any{4.0, 8.0}, []any{9.0, 17.0}}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	if v["total"] != 2.0 || v["next"] == "" || v["corpus"] != "library" || v["ok"] != true {
		t.Errorf("%v", v)
	}
	// Without a link of its own, a document is linked by its object.
	link := d.search(corpus.Query{Query: "undeserved"}).Passages[0]
	if link.Link != "/v1/objects/"+link.Ref {
		t.Errorf("link %q", link.Link)
	}
}

func TestPagesAndCursors(t *testing.T) {
	files := map[string]string{}
	for i := range 30 {
		files[fmt.Sprintf("d%02d.txt", i)] = fmt.Sprintf("Title %d\n\nThe common word, and number %d.\n", i, i)
	}
	d := newDesk(t, files)
	seen := map[string]bool{}
	q := corpus.Query{Query: "common", Limit: 7}
	pages := 0
	var second string
	for {
		f := d.search(q)
		pages++
		if f.Total != 30 {
			t.Fatalf("total %d", f.Total)
		}
		for _, p := range f.Passages {
			if seen[p.Document] {
				t.Errorf("%s twice", p.Document)
			}
			seen[p.Document] = true
		}
		if f.Next == "" {
			break
		}
		if q.Cursor = f.Next; second == "" {
			second = f.Next
		}
	}
	if len(seen) != 30 || pages != 5 {
		t.Errorf("%d passages on %d pages", len(seen), pages)
	}
	refused := func(payload, want string) {
		t.Helper()
		if v := d.perform("Corpus.Search", payload); v["ok"] != false || !strings.Contains(fmt.Sprint(v["refused"]), want) {
			t.Errorf("%s: %v", payload, v)
		}
	}
	flipped := []byte(second)
	flipped[12] ^= 1
	refused(`{"query":"common","cursor":"`+string(flipped)+`"}`, "not one that this search gave")
	refused(`{"query":"number","cursor":"`+second+`"}`, "not one that this search gave")
	refused(`{"query":"common","cursor":"AAAA"}`, "not one that this search gave")
	refused(`{"query":"common","cursor":"`+second+`","filters":{"kind":"x"}}`, "not one that this search gave")
	d.write(map[string]string{"d00.txt": "Changed\n\nAll of it.\n"})
	d.add()
	refused(`{"query":"common","cursor":"`+second+`"}`, "has changed since")
}

func TestBadPayloads(t *testing.T) {
	d := newDesk(t, three)
	for _, c := range []struct{ effect, payload string }{
		{"Corpus.Search", `{}`}, {"Corpus.Search", `{"query":""}`}, {"Corpus.Search", `{"query":" "}`}, {"Corpus.Search", `{"query":7}`},
		{"Corpus.Search", `{"query":"` + strings.Repeat("x", 1025) + `"}`}, {"Corpus.Search", `{"query":"a","limit":51}`}, {"Corpus.Search", `{"query":"a","limit":-1}`},
		{"Corpus.Search", `{"query":"a","filters":{"from":"yesterday"}}`}, {"Corpus.Search", `{"query":"a","filters":{"from":"2020-02-30"}}`},
		{"Corpus.Search", `{"query":"a","filters":{"from":"2021","to":"2020-12-31"}}`}, {"Corpus.Search", `{"query":"a","filters":{"kind":"` + strings.Repeat("x", 257) + `"}}`},
		{"Corpus.Search", `{"query":"a","more":1}`}, {"Corpus.Search", `{"query":"a","cursor":"` + strings.Repeat("A", 65) + `"}`},
		{"Corpus.Fetch", `{}`}, {"Corpus.Fetch", `{"document":""}`}, {"Corpus.Fetch", `{"document":"a","limit":65537}`}, {"Corpus.Fetch", `{"document":"a","limit":-1}`},
		{"Corpus.Fetch", `{"document":"a","offset":"x"}`},
	} {
		_, err := d.h.Perform(t.Context(), broker.Request{Episode: "ep", Need: world.Need{Effect: c.effect, Scope: "library"}, Payload: []byte(c.payload)})
		if world.KindOf(err) != world.KindBadRequest || world.Message(err) == "" {
			t.Errorf("%s %.80s: %v", c.effect, c.payload, err)
		}
	}
}

func TestFetch(t *testing.T) {
	d := newDesk(t, three)
	v := d.perform("Corpus.Fetch", `{"document":"grace"}`)
	if got := v["text"]; got != "Before the first heading.\n\n1. What grace is\n\nGrace is favour, the free and undeserved help that God gives.\n\n1.1. Kinds\n\nSanctifying grace and actual grace." {
		t.Errorf("%q", got)
	}
	if v["next"] != -1.0 || v["source"] != "grace.md" || len(v["sections"].([]any)) != 3 {
		t.Errorf("%v", v)
	}
	byHash := d.perform("Corpus.Fetch", `{"document":"`+v["ref"].(string)+`","section":"1.1"}`)
	if byHash["text"] != "Sanctifying grace and actual grace." || byHash["heading"] != "Kinds" {
		t.Errorf("%v", byHash)
	}
	var whole strings.Builder
	for at := 0.0; at >= 0; {
		part := d.perform("Corpus.Fetch", fmt.Sprintf(`{"document":"agypten","offset":%v,"limit":7}`, at))
		if part["ok"] != true {
			t.Fatalf("%v", part)
		}
		whole.WriteString(part["text"].(string))
		at = part["next"].(float64)
	}
	if all := d.perform("Corpus.Fetch", `{"document":"agypten"}`)["text"]; all != whole.String() || !strings.Contains(whole.String(), "Wüste") {
		t.Errorf("%q, in parts %q", all, whole.String())
	}
	for payload, want := range map[string]string{
		`{"document":"euchar"}`:                                 "there are like it: eucharist",
		`{"document":"zzz"}`:                                    "it has 3, such as: agypten, eucharist, grace",
		`{"document":"eucharist","section":"2"}`:                "it has 1, 3.2",
		`{"document":"eucharist","offset":9999}`:                "past the end",
		`{"document":"eucharist","offset":-5}`:                  "offset must be 0 or more",
		`{"document":"sha256:` + strings.Repeat("0", 64) + `"}`: "removed or replaced is still at /v1/objects/sha256:0000",
	} {
		if v := d.perform("Corpus.Fetch", payload); v["ok"] != false || !strings.Contains(fmt.Sprint(v["refused"]), want) {
			t.Errorf("%s: %v", payload, v["refused"])
		}
	}
}

func TestReadySaysWhatIsMissing(t *testing.T) {
	d := newDesk(t, nil)
	err := d.h.Ready(t.Context(), "ep", "Corpus.Search", "library")
	if world.KindOf(err) != world.KindNotFound || !strings.Contains(err.Error(), "corpus add library") {
		t.Errorf("%v", err)
	}
	if err := d.h.Ready(t.Context(), "ep", "Corpus.Search", "../x"); world.KindOf(err) != world.KindBadRequest {
		t.Errorf("%v", err)
	}
	d.write(three)
	d.add()
	must(t, d.h.Ready(t.Context(), "ep", "Corpus.Fetch", "library"))
	if err := d.h.Ready(t.Context(), "ep", "Corpus.Fetch", "other"); err == nil || !strings.Contains(err.Error(), "there are library") {
		t.Errorf("%v", err)
	}
	if err := d.h.Ready(t.Context(), "ep", "Corpus.Write", "library"); world.KindOf(err) != world.KindNoHandler {
		t.Errorf("%v", err)
	}
}

// TestReplaceAndRemove: documents keep their ids, change when their files do, and are gone
// when they are removed, word for word.
func TestReplaceAndRemove(t *testing.T) {
	d := newDesk(t, three)
	if r := d.add(); r.Unchanged != 3 || r.Added+r.Replaced+r.Failures != 0 {
		t.Errorf("again: %+v", r)
	}
	d.write(map[string]string{"grace.md": "# Of grace\n\n## 1. New\n\nAll is mercy.\n", "grace.txt": "Another of that name\n\nText.\n"})
	if r := d.add(); r.Replaced != 1 || r.Added != 1 || r.Unchanged != 2 {
		t.Errorf("changed: %+v", r)
	}
	if got := d.places(corpus.Query{Query: "undeserved sanctifying"}); len(got) != 0 {
		t.Errorf("the old text is found: %v", got)
	}
	if got := d.places(corpus.Query{Query: "mercy"}); !cmp.Equal(got, []string{"grace#1"}) {
		t.Errorf("the new text: %v", got)
	}
	if got := d.places(corpus.Query{Query: "another"}); !cmp.Equal(got, []string{"grace-2#1"}) {
		t.Errorf("the second of a name: %v", got)
	}
	fresh := newDesk(t, nil)
	fresh.files = d.files
	fresh.add()
	if diff := cmp.Diff(dump(fresh.T, fresh.dir), dump(t, d.dir)); diff != "" {
		t.Errorf("an index that was changed is not one that was made anew: %s", diff)
	}
	w, err := corpus.OpenWriter(t.Context(), d.dir, "library")
	must(t, err)
	if err := w.Remove(t.Context(), []string{"grace", "nothing"}); world.KindOf(err) != world.KindNotFound {
		t.Errorf("%v", err)
	}
	must(t, w.Remove(t.Context(), []string{"grace", "grace-2"}))
	must(t, w.Finish(t.Context()))
	must(t, w.Close())
	if got := d.places(corpus.Query{Query: "mercy grace"}); !cmp.Equal(got, []string{"agypten#1"}) {
		t.Errorf("after removal: %v", got)
	}
	must(t, corpus.Drop(t.Context(), d.dir, "library"))
	if _, err := d.lib.Search(t.Context(), "library", corpus.Query{Query: "grace"}); world.KindOf(err) != world.KindNotFound {
		t.Errorf("%v", err)
	}
}

// dump is all that an index holds: documents, passages by document, and how common words are.
func dump(t *testing.T, dir string) map[string]string {
	t.Helper()
	c, err := sqlite.OpenConn(filepath.Join(dir, "library.db"), sqlite.OpenReadOnly)
	must(t, err)
	defer c.Close()
	all := map[string]string{}
	take := func(sql string) {
		must(t, sqlitex.Execute(c, sql, &sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
			all[st.ColumnText(0)] = st.ColumnText(1)
			return nil
		}}))
	}
	take("SELECT 'document ' || id, ref || ' ' || passages || ' ' || sum FROM documents")
	take("SELECT 'passage ' || d.id || ' ' || p.section || ' ' || p.start, p.text || p.sum FROM passages p JOIN documents d ON d.seq = p.doc")
	take("SELECT 'term ' || term, n FROM terms WHERE n <> 0")
	take("SELECT 'meta', passages || ' ' || words FROM meta")
	must(t, sqlitex.Execute(c, "SELECT count(*) FROM words WHERE words MATCH 'text OR grace'", nil))
	return all
}
