package ingest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/handlers/corpus/ingest"
	"ailang.dev/world/host/world"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench is a corpus that is added to.
type bench struct {
	*testing.T
	files, dir string
	shelf      *shelf
	req        ingest.Request
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, files: t.TempDir(), dir: t.TempDir(), shelf: newShelf()}
	b.req = ingest.Request{Dir: b.dir, Corpus: "c", Paths: []string{b.files}, Store: b.shelf}
	return b
}

func (b *bench) put(name, text string) string {
	b.Helper()
	at := filepath.Join(b.files, name)
	must(b.T, os.MkdirAll(filepath.Dir(at), 0o755))
	must(b.T, os.WriteFile(at, []byte(text), 0o644))
	return at
}

func (b *bench) add(paths ...string) ingest.Result {
	b.Helper()
	if len(paths) > 0 {
		b.req.Paths = paths
	}
	r, err := ingest.Add(b.Context(), b.req)
	must(b.T, err)
	return r
}

// documents are all objects of a corpus by id.
func (b *bench) documents() map[string]*corpus.Document {
	b.Helper()
	lib := corpus.NewLibrary(b.dir)
	defer lib.Close()
	list, err := lib.Documents(b.Context(), "c", "", corpus.MaxListed)
	must(b.T, err)
	all := map[string]*corpus.Document{}
	for _, l := range list {
		for ref, o := range b.shelf.all {
			if ref.String() == l.Ref {
				d, err := corpus.ParseDocument(o.Payload)
				must(b.T, err)
				all[l.ID] = d
			}
		}
		if all[l.ID] == nil {
			b.Errorf("%s has no object", l.ID)
		}
	}
	return all
}

// outlineOf is a document as a text: a line a section.
func outlineOf(d *corpus.Document) string {
	lines := []string{d.Title + " | " + d.Author + " | " + d.Date + " | " + d.Kind + " | " + d.Link + " | " + d.Media + " | " + d.Source}
	for _, s := range d.Sections {
		lines = append(lines, s.Section+" | "+s.Heading+" | "+strings.ReplaceAll(s.Text, "\n", "/"))
	}
	return strings.Join(lines, "\n")
}

func TestFormats(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"markdown": {"m.md", "---\ntitle: T\nauthor: [A, B]\ndate: 2026-11-30\nkind: doctrine\nlink: https://example.org/a\nother: {x: 1}\n---\n# Not the title\n\nBefore.\n\n## 1. One\n\nA *b* [c](http://x) `d` &amp; <b>e</b>\nsoft.\n\n- i\n- j\n\n### 1.2. Kept\n\n> quoted\n\n```\ncode  x\n```\n\n## Counted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<script>evil()</script>\n",
			"T | A, B | 2026-11-30 | doctrine | https://example.org/a | text/markdown | m.md\n0 |  | Before.\n1 | One | A b c d & e soft.//- i/- j\n1.2 | Kept | quoted//code  x\n2 | Counted | a | b/1 | 2"},
		"a title of its own": {"plain.md", "# The title\n\nText.\n", "The title |  |  |  |  | text/markdown | plain.md\n1 |  | Text."},
		"numbers twice":      {"twice.md", "## 1. A\n\nx\n\n## 1. B\n\ny\n", "twice |  |  |  |  | text/markdown | twice.md\n1 | A | x\n1-2 | B | y"},
		"a bad link":         {"link.md", "---\nlink: javascript:alert(1)\n---\nText.\n", "link |  |  |  |  | text/markdown | link.md\n1 |  | Text."},
		"another's link":     {"own.md", "---\nlink: /v1/objects/sha256:0000\n---\nText.\n", "own |  |  |  |  | text/markdown | own.md\n1 |  | Text."},
		"a rule, no front":   {"rule.md", "---\n\nText\n", "rule |  |  |  |  | text/markdown | rule.md\n1 |  | Text"},
		"html": {"h.html", `<!doctype html><html><head><title>Page</title><meta name="author" content="Ann"><meta name="DC.date" content="2001-02-03"><style>p{}</style><script>steal()</script></head>
<body><nav>Home | About</nav><h1>Page</h1><p onclick="evil()">One <b>two</b>&nbsp;three<br>four.</p><h2>3.1 Part</h2><div>In a div<p>and p</p></div><ul><li>x<li>y</ul><table><tr><td>a<td>b</table><iframe src=x>no</iframe><p hidden=1>unseen</p><p hidden>unseen</p><div style="color:red; DISPLAY : none">unseen</div><p style="visibility:hidden">unseen</p><img src=x onerror=alert(1)></body></html>`,
			"Page | Ann | 2001-02-03 |  |  | text/html | h.html\n0 |  | One two three/four.\n3.1 | Part | In a div//and p//- x/- y//a b"},
		"html by its content": {"w.txt", "<html><title>W</title><p>Text</html>", "W |  |  |  |  | text/html | w.txt\n1 |  | Text"},
		"text":                {"t.txt", "A Title\n\n1. The Beginning\n\n   Indented lines\n   of text.\n\n1.1.  Of More\n\nAnd more\r\n\r\nthen.\n", "A Title |  |  |  |  | text/plain | t.txt\n1 | The Beginning | Indented lines/of text.\n1.1 | Of More | And more//then."},
		"steering text":       {"s.txt", "T\n\nred \x1b[31m and \u202eturned\u0007 text\n", "T |  |  |  |  | text/plain | s.txt\n1 |  | red [31m and turned text"},
		"utf-16":              {"u.txt", "\xff\xfeT\x00\n\x00\n\x00\xe9\x00t\x00", "T |  |  |  |  | text/plain | u.txt\n1 |  | ét"},
		"front matter's date": {"d.md", "---\ndate: 3 May 2020\n---\nx\n", "d |  | 2020-05-03 |  |  | text/markdown | d.md\n1 |  | x"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put(c.file, c.text)
			if r := b.add(); r.Added != 1 || r.Failures != 0 {
				t.Fatalf("%+v", r)
			}
			for _, d := range b.documents() {
				if diff := cmp.Diff(c.want, outlineOf(d)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestJSONLines(t *testing.T) {
	b := newBench(t)
	at := b.put("l.jsonl", `{"title":"One","text":"First\n\nsecond","id":"one","author":"A","date":"2020","kind":"k","link":"https://x.example/"}

{"text":"No title"}
{"title":"Parts","sections":[{"section":"2.1","heading":"H","text":"in it"},{"text":"next"}]}
not json
{"title":"empty"}
["list"]
`)
	r := b.add()
	if r.Added != 3 || r.Failures != 3 || r.Failed[0].Path != at+":5" || r.Failed[1].Reason != `it has no "text"` {
		t.Errorf("%+v", r)
	}
	got := map[string]string{}
	for id, d := range b.documents() {
		got[id] = outlineOf(d)
	}
	want := map[string]string{
		"one": "One | A | 2020 | k | https://x.example/ | application/jsonl | l.jsonl#one\n1 |  | First//second",
		"l-3": "l |  |  |  |  | application/jsonl | l.jsonl#3\n1 |  | No title",
		"l-4": "Parts |  |  |  |  | application/jsonl | l.jsonl#4\n2.1 | H | in it\n2 |  | next",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	b.put("l.jsonl", `{"title":"One","text":"changed","id":"one"}`+"\n")
	if r := b.add(); r.Replaced != 1 || r.Removed != 2 || r.Failures != 0 {
		t.Errorf("%+v", r)
	}
	if n := len(b.documents()); n != 1 {
		t.Errorf("%d documents", n)
	}
}

func TestPDF(t *testing.T) {
	b := newBench(t)
	broken := b.put("broken.pdf", "%PDF-1.7\nnothing of it")
	r := b.add("testdata/two-pages.pdf", "testdata/encrypted.pdf", broken)
	if r.Added != 1 || r.Failures != 2 || !strings.Contains(r.Failed[0].Reason, "encrypted") || !strings.Contains(r.Failed[1].Reason, "it is a broken PDF") {
		t.Fatalf("%+v", r)
	}
	want := "A small treatise | Ada Writer | 2021-03-04 |  |  | application/pdf | two-pages.pdf\n" +
		"p1 | Page 1 | Of grace and of free will, a first page. It names the sacraments in order.\n" +
		"p2 | Page 2 | The second page speaks of charity./And ends."
	if diff := cmp.Diff(want, outlineOf(b.documents()["two-pages"])); diff != "" {
		t.Error(diff)
	}
}

// TestFilesThatCannotBeTaken: each is named with its reason, and the rest goes on.
func TestFilesThatCannotBeTaken(t *testing.T) {
	b := newBench(t)
	b.put("good.md", "# Good\n\nText.\n")
	want := map[string]string{}
	bad := func(name, text, reason string) { want[b.put(name, text)] = reason }
	bad("empty.md", " \n", "it is empty")
	bad("no-text.md", "---\ntitle: x\n---\n", "it holds no text")
	bad("front.md", "---\ntitle: [\n---\nx\n", "its front matter is no YAML")
	bad("zip.md", "PK\x03\x04\x14\x00\x00", "it is binary: application/zip")
	bad("picture.txt", "\x89PNG\r\n\x1a\nxxxx", "it is image/png, whatever its name says")
	bad("lies.pdf", "no pdf at all", "it is named like a PDF and is none: text/plain")
	bad("latin.txt", "caf\xe9 text", "it is not valid UTF-8 (byte 3)")
	bad("utf16.txt", "\xff\xfea", "it holds no text")
	bad("list.jsonl", "", "it is empty")
	link := filepath.Join(b.files, "link.md")
	must(t, os.Symlink(filepath.Join(b.files, "good.md"), link))
	want[link] = "it is a symbolic link"
	pipe := filepath.Join(b.files, "pipe.txt")
	must(t, syscall.Mkfifo(pipe, 0o644))
	want[pipe] = "it is a named pipe"
	large := b.put("large.txt", "x")
	must(t, os.Truncate(large, ingest.MaxFile+1))
	want[large] = "it is larger than 64 MB"
	long := b.put("long.txt", strings.Repeat("word ", 3<<20))
	want[long] = "its text is larger than 12 MB"
	b.put("image.png", "left out")
	b.put(".hidden.md", "left out")
	b.put(".git/x.md", "left out")
	missing := filepath.Join(b.files, "missing.md")
	want[missing] = "no such file or directory"
	want["/dev/null"] = "it is a device"
	below := filepath.Join(b.files, "good.md", "x.md")
	want[below] = "not a directory"
	must(t, os.WriteFile(filepath.Join(b.files, "name\xff.md"), []byte("x"), 0o644))
	want[filepath.Join(b.files, "name\ufffd.md")] = "its name is not valid UTF-8"
	r := b.add(b.files, missing, "/dev/null", b.files, below)
	got := map[string]string{}
	for _, f := range r.Failed {
		got[f.Path] = f.Reason
	}
	for path, reason := range want {
		if !strings.Contains(got[path], reason) {
			t.Errorf("%s: %q, want %q", path, got[path], reason)
		}
		delete(got, path)
	}
	if len(got) > 0 || r.Added != 1 || r.Skipped != 2 {
		t.Errorf("%v, %+v", got, r)
	}
}

// TestDeepAndLarge: what is nested or long beyond sense is read within bounds.
func TestDeepAndLarge(t *testing.T) {
	b := newBench(t)
	b.put("deep.html", "<p>top</p>"+strings.Repeat("<div><b>", 50_000)+"x")
	b.put("deep.md", "top\n\n"+strings.Repeat("> ", 20_000)+"x\n")
	b.put("lists.md", "top\n\n"+strings.Repeat("- ", 20_000)+"x\n")
	b.put("brackets.md", "top\n\n"+strings.Repeat("[", 50_000)+"\n")
	b.put("stars.md", "top\n\n"+strings.Repeat("*a **b ", 20_000)+"\n")
	b.put("lines.txt", "top\n\n"+strings.Repeat("\n", 1<<20)+"x")
	b.put("headings.md", strings.Repeat("# h\n", 19_000)+"x")
	b.put("deep.jsonl", `{"text":"top","x":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+"}\n"+`{"text":"top"}`)
	bomb := "---\na: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	b.put("bomb.md", bomb+"title: *j\n---\ntop\n")
	b.put("rows.html", "<p>top</p><table>"+strings.Repeat("<tr><td>x", 100_000))
	b.put("entities.html", "<p>top</p>"+strings.Repeat("&lt;&#x202e;", 100_000))
	r := b.add() // that it ends is what is tested: some of these take for ever in a naive reader
	got := map[string]string{}
	for _, f := range r.Failed {
		got[filepath.Base(f.Path)] = f.Reason
	}
	for _, name := range []string{"deep.html", "deep.md", "lists.md", "bomb.md"} {
		if got[name] == "" {
			t.Errorf("%s is taken", name)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func TestKindAndAuthorAreForThoseWithout(t *testing.T) {
	b := newBench(t)
	b.put("a.md", "---\nkind: own\n---\nx\n")
	b.put("b.md", "x\n")
	b.req.Kind, b.req.Author = "given", "Somebody"
	b.add()
	d := b.documents()
	if d["a"].Kind != "own" || d["a"].Author != "Somebody" || d["b"].Kind != "given" {
		t.Errorf("%+v %+v", d["a"], d["b"])
	}
	if r := b.add(); r.Unchanged != 2 {
		t.Errorf("%+v", r)
	}
	b.req.Kind = "other"
	if r := b.add(); r.Replaced != 2 || b.documents()["b"].Kind != "other" {
		t.Errorf("%+v", r)
	}
}

func TestIDs(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"A b_C.md", "x/a-b-c.md", "y/a-b-c.md", "Ünïcode É.txt", "日本.md", strings.Repeat("long", 40) + ".md", "z/" + strings.Repeat("long", 40) + ".md"} {
		b.put(name, "text "+name)
	}
	b.add()
	got := []string{}
	for id := range b.documents() {
		got = append(got, id)
	}
	want := map[string]bool{"a-b-c": true, "a-b-c-2": true, "a-b-c-3": true, "unicode-e": true, "document": true, strings.Repeat("long", 16): true, strings.Repeat("long", 15) + "lo-2": true}
	for _, id := range got {
		if !want[id] {
			t.Errorf("id %q", id)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%q", got)
	}
}

func TestAStoreThatFailsLeavesTheIndexWhole(t *testing.T) {
	b := newBench(t)
	b.put("a.md", "x\n")
	b.add()
	b.put("b.md", "y\n")
	b.req.Store = failing{}
	if _, err := ingest.Add(t.Context(), b.req); world.KindOf(err) != world.KindStoreFull {
		t.Errorf("%v", err)
	}
	if n := len(b.documents()); n != 1 {
		t.Errorf("%d documents", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.req.Store = b.shelf
	if _, err := ingest.Add(ctx, b.req); err == nil {
		t.Error("a canceled add ended well")
	}
	if r := b.add(); r.Added != 1 || r.Unchanged != 1 {
		t.Errorf("%+v", r)
	}
}

type failing struct{}

func (failing) PutDocuments(context.Context, []world.Object) error {
	return &world.Error{Op: "failing", Kind: world.KindStoreFull}
}

// TestTwoLinesOfOneID: what cannot stand beside another is told, and nothing takes the other's
// place.
func TestTwoLinesOfOneID(t *testing.T) {
	b := newBench(t)
	b.put("d.jsonl", `{"id":"a","text":"first"}`+"\n"+`{"id":"a","text":"second"}`+"\n"+`{"text":"third"}`+"\n"+`{"id":"3","text":"fourth"}`+"\n")
	r := b.add()
	if r.Added != 2 || r.Failures != 2 || !strings.Contains(r.Failed[0].Reason, `line 1 is the document "a" already`) || !strings.Contains(r.Failed[1].Reason, "line 3 is") {
		t.Errorf("%+v", r)
	}
}
