package repos

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// profile is one of exec.profiles of the configuration.
type profile struct {
	Description string            `yaml:"description"`
	Argv        []string          `yaml:"argv"`
	ReadOnly    []string          `yaml:"read_only,omitempty"`
	Env         map[string]string `yaml:"env,omitempty"`
	Limits      map[string]any    `yaml:"limits,omitempty"`
	Job         bool              `yaml:"job"`
}

// outside runs what the profile declares in a folder, without the daemon.
func (p profile) outside(t *testing.T, dir string) result {
	t.Helper()
	vars := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": t.TempDir(), "TMPDIR": t.TempDir(), "LANG": "C.UTF-8", "TZ": "UTC"}
	maps.Copy(vars, p.Env)
	if vars["GOCACHE"] != "" { // what is compiled already is compiled already
		vars["GOCACHE"] = strings.TrimSpace(outside(t, dir, os.Environ(), []string{"go", "env", "GOCACHE"}).stdout)
	}
	var env []string
	for k, v := range vars {
		env = append(env, k+"="+strings.ReplaceAll(v, "{worktree}", dir))
	}
	argv := slices.Clone(p.Argv)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "{worktree}", dir)
	}
	for _, d := range filepath.SplitList(vars["PATH"]) {
		if at := filepath.Join(d, argv[0]); !strings.Contains(argv[0], "/") && executable(at) {
			argv[0] = at
		}
	}
	return outside(t, dir, env, argv)
}

func executable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

// tally is what a test suite says of itself.
type tally struct{ passed, failed int }

// repository is one day's place of work.
type repository struct {
	programs []string
	fill     func(t *testing.T, dir string)
	profiles func(t *testing.T) map[string]profile // build, test and soak
	count    func(r result) tally
	// least is how many tests pass at least, or the suite was not the package's own.
	least int

	// find is an expression that grep finds in one place of the file; the passage there is
	// replaced by broken, which some test notices.
	find, file, passage, broken string

	// testFile is what the agent adds: one more test.
	testFile, testText string
}

var (
	goCase    = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): `)
	unityLine = regexp.MustCompile(`(?m)^(\d+) Tests (\d+) Failures (\d+) Ignored`)
	tapPassed = regexp.MustCompile(`(?m)^# pass +(\d+)$`)
	tapFailed = regexp.MustCompile(`(?m)^# fail +(\d+)$`)
)

func countGo(r result) tally {
	var n tally
	for _, m := range goCase.FindAllStringSubmatch(r.stdout, -1) {
		if m[1] == "PASS" {
			n.passed++
		} else {
			n.failed++
		}
	}
	return n
}

func countUnity(r result) tally {
	var n tally
	for _, m := range unityLine.FindAllStringSubmatch(r.stdout, -1) {
		all, failed, ignored := number(m[1]), number(m[2]), number(m[3])
		n.passed += all - failed - ignored
		n.failed += failed
	}
	return n
}

func countTAP(r result) tally {
	var n tally
	if m := tapPassed.FindStringSubmatch(r.stdout); m != nil {
		n.passed = number(m[1])
	}
	if m := tapFailed.FindStringSubmatch(r.stdout); m != nil {
		n.failed = number(m[1])
	}
	return n
}

func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		panic(err) // the expressions admit digits alone
	}
	return n
}

// soak is a test command that runs again and again, longer than a call may take.
func soak(p profile, test string) profile {
	p.Description = "Runs all tests again and again for ten seconds."
	p.Argv = []string{"sh", "-c", "end=$(($(date +%s) + 10)); n=0; while [ $(date +%s) -lt $end ]; do " + test + " >/tmp/out 2>&1 || { cat /tmp/out; exit 1; }; n=$((n+1)); done; echo soaked"}
	return p
}

func goProfiles(t *testing.T) map[string]profile {
	path, readOnly := programPath(t, "go")
	base := profile{ReadOnly: readOnly, Job: true, Env: map[string]string{
		"PATH": path, "GOFLAGS": "-buildvcs=false", "GOCACHE": "{worktree}/.cache/go", "GOPATH": "/tmp/go", "GOPROXY": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GO111MODULE": "on",
	}, Limits: map[string]any{"timeout": "4m", "memory": "4GiB", "processes": 512, "keep": "256KiB", "temp": "1GiB"}}
	build, test := base, base
	build.Description, build.Argv = "Compiles all packages.", []string{"go", "build", "./..."}
	test.Description, test.Argv = "Runs all tests.", []string{"go", "test", "-count=1", "-v", "./..."}
	return map[string]profile{"build": build, "test": test, "soak": soak(base, "go test -count=1 ./...")}
}

// unityMake builds and runs each program of tests/, which the project's own build does by
// CMake alone.
const unityMake = `CASES := $(filter-out build/unity_setup,$(patsubst tests/%.c,build/%,$(wildcard tests/*.c)))
FLAGS := -I. -Itests/unity/src

check: $(CASES)
	@cd tests && rc=0; for t in $(CASES); do ../$$t || rc=1; done; exit $$rc
build/%: tests/%.c cJSON.c build/lib/unity.o build/lib/utils.o
	@$(CC) $(FLAGS) -o $@ $< build/lib/unity.o build/lib/utils.o -lm
build/lib/unity.o: tests/unity/src/unity.c
	@mkdir -p build/lib && $(CC) $(FLAGS) -c -o $@ $<
build/lib/utils.o: cJSON_Utils.c
	@mkdir -p build/lib && $(CC) $(FLAGS) -c -o $@ $<
`

func cProfiles(*testing.T) map[string]profile {
	base := profile{Job: true, Limits: map[string]any{"timeout": "4m", "keep": "256KiB"}}
	build, test := base, base
	build.Description, build.Argv = "Builds the library, and its test program, and runs it.", []string{"make", "all", "test"}
	test.Description, test.Argv = "Builds and runs all unit tests.", []string{"make", "-s", "-f", "unit.mk", "check"}
	return map[string]profile{"build": build, "test": test, "soak": soak(base, "make -s -f unit.mk check")}
}

func npmProfiles(t *testing.T) map[string]profile {
	modules := npmModules(t)
	path, readOnly := programPath(t, "node")
	tape := filepath.Join(modules, "tape", "bin", "tape")
	base := profile{ReadOnly: append(readOnly, modules), Job: true, Env: map[string]string{"PATH": path, "NODE_PATH": modules},
		Limits: map[string]any{"timeout": "4m", "keep": "256KiB"}}
	build, test := base, base
	build.Description, build.Argv = "Checks the syntax of the sources.", []string{"node", "--check", "index.js"}
	test.Description, test.Argv = "Runs all tests.", []string{"node", tape, "test/**/*.js"}
	return map[string]profile{"build": build, "test": test, "soak": soak(base, "node "+tape+" 'test/**/*.js'")}
}

var repositories = map[string]repository{
	"go module with vendored dependencies": {
		programs: []string{"go"},
		fill: func(t *testing.T, dir string) {
			module("github.com/spf13/cast", "v1.7.1", "h1:cuNEagBQEHWN1FnbGEjCXL2szYEXqfJPbP2HNUaca9Y=")(t, dir)
			if r := outside(t, dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod"), []string{"go", "mod", "vendor"}); r.exit != 0 {
				t.Fatalf("go mod vendor: %s", r.stderr)
			}
			add(t, dir, map[string]string{".gitignore": "\n.cache/\n"})
		},
		profiles: goProfiles, count: countGo, least: 140,
		find: `^func ToBoolE\(`, file: "caste.go", passage: "\tcase nil:\n\t\treturn false, nil\n", broken: "\tcase nil:\n\t\treturn true, nil\n",
		testFile: "day_test.go", testText: "package cast\n\nimport \"testing\"\n\nfunc TestDay(t *testing.T) {\n\tif ToInt(\"7\") != 7 {\n\t\tt.Fatal(\"7\")\n\t}\n}\n",
	},
	"c program": {
		programs: []string{"go", "gcc", "make"},
		fill: func(t *testing.T, dir string) {
			module("github.com/DaveGamble/cJSON", "v1.7.18", "h1:AQ111MAJJnaJWoHorUTkYNLmMlL8lgTZ2yrpI3zz3uE=")(t, dir)
			add(t, dir, map[string]string{"unit.mk": unityMake})
		},
		profiles: cProfiles, count: countUnity, least: 150,
		find: `^CJSON_PUBLIC\(cJSON_bool\) cJSON_IsTrue\(`, file: "cJSON.c",
		passage: "    return (item->type & 0xff) == cJSON_True;\n", broken: "    return (item->type & 0xff) != cJSON_True;\n",
		testFile: "tests/day.c", testText: `#include "unity/src/unity.h"
#include "common.h"

static void a_true_is_true(void)
{
    cJSON *item = cJSON_Parse("true");
    TEST_ASSERT_TRUE(cJSON_IsTrue(item));
    cJSON_Delete(item);
}

int CJSON_CDECL main(void)
{
    UNITY_BEGIN();
    RUN_TEST(a_true_is_true);
    return UNITY_END();
}
`,
	},
	"npm package": {
		programs: []string{"node", "npm"},
		fill:     npmPackage("minimist"),
		profiles: npmProfiles, count: countTAP, least: 150,
		find: `^function isNumber\(`, file: "index.js", passage: "if ((/^0x[0-9a-f]+$/i).test(x)) { return true; }", broken: "if ((/^0x[0-9a-f]+$/i).test(x)) { return false; }",
		testFile: "test/day.js", testText: "'use strict';\n\nvar parse = require('../');\nvar test = require('tape');\n\ntest('day', function (t) {\n\tt.equal(parse(['--day', '7']).day, 7);\n\tt.end();\n});\n",
	},
}

func TestADaysWork(t *testing.T) {
	for name, r := range repositories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			need(t, append(r.programs, "git")...)
			d := newDay(t, r)
			before := d.checkout()
			d.start()
			d.agent = newAgent(t, d.url, d.token)
			d.look()
			all := d.buildAndTest()
			d.breakAndRepair(all)
			d.addATest(all)
			d.ask()
			d.commitIt()
			d.soak()
			d.stop()
			if after := d.checkout(); after != before {
				t.Errorf("the main checkout was touched:\n%s\nbefore:\n%s", after, before)
			}
			d.provenance()
			d.questions()
		})
	}
}

func (n tally) String() string { return fmt.Sprintf("%d passed, %d failed", n.passed, n.failed) }
