package registry_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/starlark"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
)

const source = "def main(text):\n    return text\n"

func open(t *testing.T) (*registry.Registry, *sqlite.Store, capsule.Set) {
	t.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "w.db"), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	eng, err := starlark.New(starlark.Config{Trusted: func(world.Ref) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(); s.Close() })
	set := capsule.Set{eng}
	r := registry.New(s, set, time.Now)
	if err := r.Bootstrap(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r, s, set
}

// item is one element of a manifest; change replaces or, with nil, removes fields.
func item(id string, change map[string]any) map[string]any {
	m := map[string]any{
		"id": id, "title": "A title", "description": "What it does", "transitionFnFile": "a.star",
		"inputSchema": map[string]any{"type": "object"}, "outputSchema": map[string]any{"type": "object"},
		"access":          map[string]any{"effect": "E", "scope": "s", "cost": 1},
		"declaredEffects": []any{},
	}
	for k, v := range change {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	return m
}

func manifest(items ...map[string]any) registry.Manifest {
	list := make([]any, len(items))
	for i, m := range items {
		list[i] = m
	}
	return registry.Manifest{Text: hashref.MustMarshal(list), Files: map[string][]byte{"a.star": []byte(source)}}
}

func TestPublishMergesByIDAndMovesTheHead(t *testing.T) {
	ctx := context.Background()
	r, s, set := open(t)
	p, err := r.Publish(ctx, manifest(item("b", nil), item("a", nil)))
	if err != nil || p.Revision != 1 || p.Unchanged || !cmp.Equal(p.Added, []string{"b", "a"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	again, err := r.Publish(ctx, manifest(item("a", nil)))
	if err != nil || !again.Unchanged || again.Head != p.Head || again.Revision != 1 {
		t.Fatalf("republish: %+v, %v", again, err)
	}
	if want := fmt.Sprintf("transition registry UNCHANGED at revision 1 (head %s)", p.Head); again.Summary() != want {
		t.Fatalf("%q, want %q", again.Summary(), want)
	}
	p2, err := r.Publish(ctx, manifest(item("a", map[string]any{"title": "New"}), item("c", nil)))
	if err != nil || p2.Revision != 2 || !cmp.Equal(p2.Updated, []string{"a"}) || !cmp.Equal(p2.Added, []string{"c"}) || p2.Kept != 1 {
		t.Fatalf("%+v, %v", p2, err)
	}
	snap, err := r.Snapshot(ctx)
	if err != nil || len(snap.Transitions) != 3 || snap.Transitions[0].ID != "a" || snap.Get("c") == nil || snap.Get("d") != nil {
		t.Fatalf("%+v, %v", snap, err)
	}
	before := snap
	if _, err := r.Publish(ctx, manifest(item("z", nil))); err != nil {
		t.Fatal(err)
	}
	if snap, _ = r.Snapshot(ctx); snap.Get("a") != before.Get("a") || snap.Get("z") == nil {
		t.Fatal("a descriptor that did not change lost its pointer")
	}
	if _, err := r.Remove(ctx, []string{"z"}); err != nil {
		t.Fatal(err)
	}
	d := snap.Get("a")
	if d.TransitionFn != hashref.SumString(source) || d.Interpreter != set[0].Identity().Ref || d.SemanticsEpoch != 1 || d.Title != "New" {
		t.Fatalf("%+v", d)
	}
	if o, err := s.Object(ctx, d.TransitionFn); err != nil || o.SemanticID != world.SemSource {
		t.Fatalf("source: %+v, %v", o.ObjectMeta, err)
	}
	// A source that is in the store can be named by its hash.
	p3, err := r.Publish(ctx, manifest(item("d", map[string]any{"transitionFnFile": nil, "transitionFn": d.TransitionFn.String()})))
	if err != nil || p3.Revision != 5 {
		t.Fatalf("%+v, %v", p3, err)
	}
	p4, err := r.Remove(ctx, []string{"a", "d"})
	if err != nil || p4.Revision != 6 || p4.Kept != 2 {
		t.Fatalf("%+v, %v", p4, err)
	}
	if _, err := r.Remove(ctx, []string{"b", "gone"}); world.KindOf(err) != world.KindNotFound {
		t.Fatal(err)
	}
	if snap, _ := r.Snapshot(ctx); len(snap.Transitions) != 2 {
		t.Fatal("a failed removal removed something")
	}
}

func TestBadManifestsPublishNothing(t *testing.T) {
	ctx := context.Background()
	r, _, _ := open(t)
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		m    registry.Manifest
		want string
	}{
		"no JSON":         {registry.Manifest{Text: []byte("[")}, "is not valid JSON"},
		"an object":       {registry.Manifest{Text: []byte("{}")}, "must be a JSON array"},
		"empty":           {registry.Manifest{Text: []byte("[]")}, "holds no transition"},
		"duplicate key":   {registry.Manifest{Text: []byte(`[{"id":"a","id":"b"}]`)}, `"/0/id" stands twice`},
		"unknown field":   {manifest(item("a", map[string]any{"interpreter": "x"})), `"/0/interpreter" is not a known field`},
		"wrong type":      {manifest(item("a", map[string]any{"title": 7})), `"/0/title" must be a string`},
		"broken cost":     {manifest(item("a", map[string]any{"access": map[string]any{"effect": "E", "scope": "s", "cost": 1.5}})), `"/0/access/cost" must be an integer`},
		"no array inside": {manifest(item("a", map[string]any{"declaredEffects": map[string]any{}})), `"/0/declaredEffects" must be an array`},
		"duplicate id":    {manifest(item("a", nil), item("a", nil)), "stands twice"},
		"bad id":          {manifest(item("a b", nil)), "must be 1 to 256"},
		"no title":        {manifest(item("a", map[string]any{"title": nil})), "title"},
		"long title":      {manifest(item("a", map[string]any{"title": long})), "title"},
		"no source":       {manifest(item("a", map[string]any{"transitionFnFile": nil})), "exactly one of"},
		"two sources":     {manifest(item("a", map[string]any{"transitionFn": hashref.SumString("x").String()})), "exactly one of"},
		"path up":         {manifest(item("a", map[string]any{"transitionFnFile": "../a.star"})), "inside the manifest's folder"},
		"absolute path":   {manifest(item("a", map[string]any{"transitionFnFile": "/a.star"})), "inside the manifest's folder"},
		"file missing":    {manifest(item("a", map[string]any{"transitionFnFile": "b.star"})), "did not come"},
		"no engine":       {manifest(item("a", map[string]any{"transitionFnFile": "a.lua"})), "no engine"},
		"access approved": {manifest(item("a", map[string]any{"access": map[string]any{"effect": "E", "scope": "s", "cost": 1, "approval": true}})), "access: approval belongs to"},
		"approved or not": {manifest(item("a", map[string]any{"declaredEffects": []any{
			map[string]any{"effect": "E", "scope": "s", "cost": 1, "approval": true}, map[string]any{"effect": "E", "scope": "s", "cost": 1}}})), "with approval and without"},
		"bad ref":        {manifest(item("a", map[string]any{"transitionFnFile": nil, "transitionFn": "sha256:x"})), "64 lower-case"},
		"unknown ref":    {manifest(item("a", map[string]any{"transitionFnFile": nil, "transitionFn": hashref.SumString("x").String()})), "not in the store"},
		"no schema":      {manifest(item("a", map[string]any{"inputSchema": nil})), "inputSchema: must be given"},
		"schema no obj":  {manifest(item("a", map[string]any{"inputSchema": true})), "inputSchema"},
		"schema no type": {manifest(item("a", map[string]any{"inputSchema": map[string]any{"type": "nothing"}})), "inputSchema"},
		"schema no js":   {manifest(item("a", map[string]any{"outputSchema": map[string]any{"properties": 1}})), "outputSchema: is no JSON Schema"},
		"schema remote":  {manifest(item("a", map[string]any{"inputSchema": map[string]any{"$ref": "file:///etc/passwd"}})), "must stand alone"},
		"no access":      {manifest(item("a", map[string]any{"access": nil})), "access"},
		"bad access":     {manifest(item("a", map[string]any{"access": map[string]any{"effect": "", "scope": "s", "cost": 1}})), "access"},
		"negative cost":  {manifest(item("a", map[string]any{"access": map[string]any{"effect": "E", "scope": "s", "cost": -1}})), "cost"},
		"bad effect":     {manifest(item("a", map[string]any{"declaredEffects": []any{map[string]any{"effect": "E", "scope": "", "cost": 1}}})), "declaredEffects[0]"},
		"wrong epoch":    {manifest(item("a", map[string]any{"semanticsEpoch": 7})), "semanticsEpoch 7"},
		"no such text": {manifest(item("a", map[string]any{"textArgument": "nope",
			"inputSchema": map[string]any{"type": "object", "properties": map[string]any{}}})), "no property of inputSchema"},
		"a text number": {manifest(item("a", map[string]any{"textArgument": "n",
			"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}})), "must be a string"},
		"bad rate class":  {manifest(item("a", map[string]any{"rateClass": "free"})), "rateClass"},
		"bad source":      {registry.Manifest{Text: manifest(item("a", nil)).Text, Files: map[string][]byte{"a.star": []byte("def main(:\n")}}, "a.star"},
		"no main":         {registry.Manifest{Text: manifest(item("a", nil)).Text, Files: map[string][]byte{"a.star": []byte("x = 1\n")}}, "main"},
		"second is wrong": {manifest(item("a", nil), item("b", map[string]any{"title": nil})), `"b"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Publish(ctx, c.m)
			if world.KindOf(err) != world.KindBadRequest || !strings.Contains(world.Message(err), c.want) {
				t.Fatalf("%v (message %q), want %q", err, world.Message(err), c.want)
			}
		})
	}
	if snap, err := r.Snapshot(ctx); err != nil || !snap.Head.IsNone() {
		t.Fatalf("%+v, %v", snap, err)
	}
}

func TestReadManifest(t *testing.T) {
	good := manifest(item("a", map[string]any{"transitionFnFile": "src/a.star"})).Text
	dir := fstest.MapFS{"m.json": {Data: good}, "src/a.star": {Data: []byte(source)}, "no.json": {Data: manifest(item("a", nil)).Text}}
	m, err := registry.ReadManifest(dir, "m.json")
	if err != nil || string(m.Files["src/a.star"]) != source {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, name := range []string{"no.json", "absent.json", "src"} {
		if _, err := registry.ReadManifest(dir, name); world.KindOf(err) != world.KindBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestViewIsWhatLiveGrantsAdmit(t *testing.T) {
	ctx := context.Background()
	r, _, _ := open(t)
	if v, err := r.View(ctx, world.Session{}); err != nil || v == nil || len(v) != 0 {
		t.Fatalf("before any publication: %v, %v", v, err)
	}
	if _, err := r.Publish(ctx, manifest(item("b", nil), item("a", nil), item("dear", map[string]any{"access": map[string]any{"effect": "E", "scope": "s", "cost": 5}}))); err != nil {
		t.Fatal(err)
	}
	live := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		s    world.Session
		want string
	}{
		"all":          {world.Session{Expires: live, Grants: []world.Grant{{Effect: "E", Scope: "s", Budget: 5}}}, "a b dear"},
		"sum":          {world.Session{Expires: live, Grants: []world.Grant{{Effect: "E", Scope: "s", Budget: 2}, {Effect: "E", Scope: "s", Budget: 3}}}, "a b dear"},
		"cheap":        {world.Session{Expires: live, Grants: []world.Grant{{Effect: "E", Scope: "s", Budget: 1}}}, "a b"},
		"other scope":  {world.Session{Expires: live, Grants: []world.Grant{{Effect: "E", Scope: "t", Budget: 9}}}, ""},
		"other effect": {world.Session{Expires: live, Grants: []world.Grant{{Effect: "F", Scope: "s", Budget: 9}}}, ""},
		"expired":      {world.Session{Expires: time.Now().Add(-time.Second), Grants: []world.Grant{{Effect: "E", Scope: "s", Budget: 9}}}, ""},
		"revoked":      {world.Session{Expires: live, Revoked: true, Grants: []world.Grant{{Effect: "E", Scope: "s", Budget: 9}}}, ""},
		"no grants":    {world.Session{Expires: live}, ""},
	} {
		v, err := r.View(ctx, c.s)
		var ids []string
		for _, d := range v {
			ids = append(ids, d.ID)
		}
		if got := strings.Join(ids, " "); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// other is an engine of another identity.
type other struct{ capsule.Engine }

func (other) Identity() capsule.Identity {
	return capsule.Identity{Name: "other", Ref: hashref.SumString("other"), Version: "1"}
}

func TestEpochsAreAppendedNeverRewritten(t *testing.T) {
	ctx := context.Background()
	r, s, set := open(t)
	first, err := s.RegistryHead(ctx, world.EpochRegistry)
	if err != nil || first.Revision != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := r.Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	if head, _ := s.RegistryHead(ctx, world.EpochRegistry); head != first {
		t.Fatalf("a second start moved the registry: %+v", head)
	}
	if _, err := s.Object(ctx, set[0].Identity().Ref); err != nil {
		t.Fatalf("the engine's object: %v", err)
	}
	grown := registry.New(s, capsule.Set{set[0], other{set[0]}}, time.Now)
	if err := grown.Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	head, _ := s.RegistryHead(ctx, world.EpochRegistry)
	o, err := s.Object(ctx, head.Head)
	want := `{"epochs":[{"epoch":1,"interpreters":[{"name":"starlark","ref":"` + set[0].Identity().Ref.String() + `"}]},{"epoch":2,"interpreters":[{"name":"other","ref":"` +
		hashref.SumString("other").String() + `"}]}]}`
	if err != nil || string(o.Payload) != want {
		t.Fatalf("%s\nwant %s", o.Payload, want)
	}
}

func TestLongNamesAreWarnedOf(t *testing.T) {
	r, _, _ := open(t)
	p, err := r.Publish(context.Background(), manifest(item(strings.Repeat("a", 60)+"...", nil)))
	if err != nil || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "66 bytes") {
		t.Fatalf("%+v, %v", p, err)
	}
}
