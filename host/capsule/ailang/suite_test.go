package ailang

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/ailang/ailangtest"
	"ailang.dev/world/host/capsule/capsuletest"
)

// standin is the path of the program that stands in for a release; see testdata/standin.
var standin string

func TestMain(m *testing.M) {
	daemons := map[string]func(program, dir string) error{
		holdVerb: hold, tightVerb: tight,
		bareVerb: without("user", "pid"), networkVerb: without("net"), noexecVerb: withoutExecutableMemory,
	}
	if len(os.Args) == 4 && daemons[os.Args[1]] != nil {
		if err := daemons[os.Args[1]](os.Args[2], os.Args[3]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code, err := withStandin(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func withStandin(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "standin-*")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if standin, err = ailangtest.Build(dir); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func release(t testing.TB, version, fault string) string {
	return ailangtest.Release(t, standin, version, fault)
}

func testConfig(t testing.TB) Config {
	return Config{Archive: filepath.Join(t.TempDir(), "world.db.archive"), Temp: cmp.Or(MemoryFolder(), t.TempDir()), Slots: capsule.NewSlots(capsule.MaxSubprocesses), Logf: t.Logf}
}

func pin(t testing.TB, cfg Config, path string) *Engine {
	t.Helper()
	e, err := Pin(t.Context(), cfg, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func body(statement string) []byte { return ailangtest.Source(statement) }

func program(statement string) capsuletest.Program {
	return capsuletest.Program{Source: body(statement)}
}

// TestEngine is the whole suite.
func TestEngine(t *testing.T) {
	capsuletest.Run(t, language(), func(t *testing.T) capsule.Engine {
		e, err := Pin(t.Context(), testConfig(t), standin)
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
}

func language() capsuletest.Language {
	lang := capsuletest.Language{
		Echo: body("echo"), Length: body("length"),
		Compute:  program("compute"),
		Steady:   `{"float":"1.1 1e+21 0.3333333333333333","hash":"c6976e81","keys":["10","a","z","{}","é"],"map":{"10":3,"a":1,"z":0,"{}":4,"é":2}}`,
		Remember: program("remember"),
		Broken: map[string][]byte{
			"empty": nil, "no module": []byte("export func main(input: string) -> string =\n  echo\n"),
			"another module": bytes.Replace(body("echo"), []byte("host/capsule/main"), []byte("host/capsule/other"), 1),
			"no main":        []byte("module host/capsule/main\n"), "main of a wrong shape": []byte("module host/capsule/main\nexport func main(n: int) -> string =\n  echo\n"),
			"main is not exported": []byte("module host/capsule/main\nfunc main(input: string) -> string =\n  echo\n"),
			"undefined name":       body("shell ls"), "two statements": body("echo\n  echo"), "not UTF-8": body("say \xff"), "NUL": []byte("\x00"),
		},
		Fails: program("fail broken on purpose"), FailText: "broken on purpose",
		NotText: map[string]capsuletest.Program{
			"nothing": program("raw"), "not UTF-8": program("raw 7bff7d"), "half a letter": program("raw c3"),
		},
		Endless:   program("loop"),
		Long:      program("sleep"),
		Gigabytes: map[string]capsuletest.Program{"taken": program("take 4096"), "a nested call": program("nest")},
		TooMuch:   program(fmt.Sprintf("print %d", capsule.MaxOutput+1)),
		MaxInput:  MaxArgument - len(`""`),
		Full:      program(fmt.Sprintf("print %d", capsule.MaxOutput)),
		Hostile: map[string]capsuletest.Program{
			"panics": program("panic"), "writes for ever": program("print 100000000"), "noise": program("noise"),
			"leaves a process": program("leave hostile"), "many processes": program("grow"), "wrecks its folder": program("wreck"),
			"a long line":   {Source: []byte("--" + strings.Repeat("x", capsule.MaxSource-2))},
			"many lines":    {Source: bytes.Repeat([]byte("\n"), capsule.MaxSource)},
			"only quotes":   {Source: body("echo"), Input: strings.Repeat(`"`, MaxArgument/2)},
			"shell letters": {Source: body("echo"), Input: "$(reboot) `reboot` ; && | \n -- --caps FS"},
			"a flag":        {Source: body("echo"), Input: "--caps=FS"},
		},
	}
	lang.Unreachable = map[string]capsuletest.Program{}
	for _, what := range []string{"IO", "FS", "Net", "Clock", "Env", "Process", "Random"} {
		lang.Unreachable[what] = program("reach " + what)
	}
	return lang
}

// These verbs make this test binary a daemon that pins a program, with its files in a folder.
const (
	holdVerb    = "hold-a-run"
	tightVerb   = "tight-limits"
	bareVerb    = "without-namespaces"
	networkVerb = "without-network-namespaces"
	noexecVerb  = "without-executable-memory"
)

func daemon(program, dir string, logf func(string, ...any)) (*Engine, error) {
	return Pin(context.Background(), Config{Archive: filepath.Join(dir, "archive"), Temp: dir, Slots: capsule.NewSlots(1), Logf: logf}, program)
}

func silent(string, ...any) {}

// hold has a run under way, and tells its process.
func hold(program, dir string) error {
	e, err := daemon(program, dir, silent)
	if err != nil {
		return err
	}
	e.started = func(pid int) { fmt.Println(pid) }
	_, _ = e.Run(context.Background(), capsule.NewSource(body("sleep")), []byte("{}"))
	return nil
}

// tightFiles is a hard limit on open files that is lower than a run's.
const tightFiles = 64

// tight has a run tell its surroundings under a lower hard limit.
func tight(program, dir string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: tightFiles, Max: tightFiles}); err != nil {
		return err
	}
	e, err := daemon(program, dir, silent)
	if err != nil {
		return err
	}
	defer e.Close()
	out, err := e.Run(context.Background(), capsule.NewSource(body("surroundings")), []byte("{}"))
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(out)
	return err
}

// without pins where there are no namespaces of some kinds, and prints what the operator
// reads.
func without(kinds ...string) func(program, dir string) error {
	return func(program, dir string) error {
		for _, kind := range kinds {
			if err := os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0); err != nil {
				return err
			}
		}
		return pinAloud(program, dir)
	}
}

// withoutExecutableMemory is the same where no memory may be executed.
func withoutExecutableMemory(program, dir string) error {
	if err := os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("2"), 0); err != nil {
		return err
	}
	return pinAloud(program, dir)
}

func pinAloud(program, dir string) error {
	e, err := daemon(program, dir, func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	if err != nil {
		return err
	}
	for range 2 {
		if _, err := e.Run(context.Background(), capsule.NewSource(body("echo")), []byte("{}")); err != nil {
			return err
		}
	}
	return e.Close()
}
