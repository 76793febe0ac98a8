package ailang

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ailang.dev/world/host/archive"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

func TestIdentity(t *testing.T) {
	const version = "AILANG v9.9.9\nCommit: abc\n\tBuilt: today"
	path := release(t, "\n "+version+" \n\n", "")
	e := pin(t, testConfig(t), path)
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := capsule.Identity{Name: "ailang", Ref: hashref.Sum(program), Version: version}
	if got := e.Identity(); got.Name != want.Name || got.Ref != want.Ref || got.Version != want.Version || !got.Object.Hash.IsNone() {
		t.Errorf("%+v, want %+v", got, want)
	}
	if ref, err := RefOf(path); err != nil || ref != want.Ref {
		t.Errorf("%v, %v", ref, err)
	}
	if _, err := RefOf(path + ".none"); world.KindOf(err) != world.KindBadRequest {
		t.Error(err)
	}
}

// TestArchived: what an earlier start pinned runs on, and takes nothing new; what is in the
// folder besides is no engine.
func TestArchived(t *testing.T) {
	cfg := testConfig(t)
	if all, err := Archived(cfg, world.Ref{}); err != nil || len(all) != 0 {
		t.Fatalf("before there is a folder: %v, %v", all, err)
	}
	old, err := Pin(t.Context(), cfg, release(t, "old", ""))
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	now := pin(t, cfg, standin)
	damaged := hashref.SumString("damaged")
	for _, name := range []string{"README", strings.ToUpper(hashref.SumString("x").Hex()), "abcd", damaged.Hex(), ".new-123"} {
		if err := os.WriteFile(filepath.Join(cfg.Archive, name), []byte("not this"), 0o500); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Archived(cfg, now.Identity().Ref)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, e := range all {
		defer e.Close()
		if e.Extension() != "" || e.Identity().Name != Name {
			t.Errorf("%q, %+v", e.Extension(), e.Identity())
		}
		_, err := e.Run(t.Context(), capsule.NewSource(body("echo")), []byte("{}"))
		switch e.Identity().Ref {
		case damaged:
			if world.KindOf(err) != world.KindEngineMissing || e.Prove() == nil || e.Identity().Version != "unknown" {
				t.Errorf("damaged: %v, %+v", err, e.Identity())
			}
		case old.Identity().Ref:
			if err != nil || e.Prove() != nil || e.Identity().Version != "old" {
				t.Errorf("old: %v, %+v", err, e.Identity())
			}
		default:
			t.Errorf("%+v", e.Identity())
		}
	}
}

// TestPinMendsTheArchive: a copy that was damaged is replaced by the binary itself, one
// that is sound is left as it is, and nothing half written stays.
func TestPinMendsTheArchive(t *testing.T) {
	cfg := testConfig(t)
	e := pin(t, cfg, standin)
	path := archive.Path(cfg.Archive, e.Identity().Ref)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	pin(t, cfg, standin)
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("a sound copy was replaced: %v", err)
	}
	if err := errors.Join(os.Chmod(path, 0o700), os.Truncate(path, 100)); err != nil {
		t.Fatal(err)
	}
	mended := pin(t, cfg, standin)
	for _, e := range []*Engine{e, mended} {
		if _, err := e.Run(t.Context(), capsule.NewSource(body("echo")), []byte("{}")); err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(cfg.Archive)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if st, err := os.Stat(cfg.Archive); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

func TestPrepare(t *testing.T) {
	e := newEngine(testConfig(t), hashref.SumString("x"), "", false)
	defer e.Close()
	for name, tt := range map[string]struct{ text, want string }{
		"plain":            {"module a/b\nx\n", "module host/capsule/main\nx\n"},
		"prepared":         {"module host/capsule/main\nx\n", "module host/capsule/main\nx\n"},
		"after comments":   {"-- module c\n\n  // d\n\t\nmodule a\n", "-- module c\n\n  // d\n\t\nmodule host/capsule/main\n"},
		"with a remark":    {"  module\ta/b  -- here\r\nx", "  module\thost/capsule/main  -- here\r\nx"},
		"carriage returns": {"module a\r\nx\r\n", "module host/capsule/main\r\nx\r\n"},
		"one line":         {"module a", "module host/capsule/main"},
		"only the first":   {"module a\nmodule b\n", "module host/capsule/main\nmodule b\n"},
	} {
		got, err := e.Prepare([]byte(tt.text))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
		}
		if again, err := e.Prepare(got); err != nil || string(again) != string(got) {
			t.Errorf("%s: again %q, %v", name, again, err)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "comments": "-- module a\n", "code first": "func x\nmodule a\n", "no name": "module\n", "another word": "modules a\n",
		"too large": "module a\n" + strings.Repeat("x", capsule.MaxSource-9),
	} {
		if out, err := e.Prepare([]byte(text)); world.KindOf(err) != world.KindConvention || world.Message(err) == "" || out != nil {
			t.Errorf("%s: %.40q, %v", name, out, err)
		}
	}
}

// TestPinKeepsWhatWasThere: a pin that fails takes out of the archive only what it put there.
func TestPinKeepsWhatWasThere(t *testing.T) {
	cfg := testConfig(t)
	e := pin(t, cfg, standin)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Pin(ctx, cfg, standin); err == nil {
		t.Error("pinned without a context")
	}
	if err := e.Prove(); err != nil {
		t.Error(err)
	}
	other := release(t, "another", "")
	if _, err := Pin(ctx, cfg, other); err == nil {
		t.Error("pinned without a context")
	}
	if entries, err := os.ReadDir(cfg.Archive); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
