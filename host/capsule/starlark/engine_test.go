package starlark

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/capsuletest"
	"ailang.dev/world/host/world"
)

func trustAll(world.Ref) bool { return true }

func newEngine(t testing.TB, trusted func(world.Ref) bool) *Engine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Trusted: trusted, WorkerCommand: []string{self, workerVerb}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestInWorkers is the whole suite for sources that nobody vouches for.
func TestInWorkers(t *testing.T) {
	capsuletest.Run(t, language(), func(t *testing.T) capsule.Engine { return newEngine(t, nil) })
}

// TestInProcess is the suite for sources that ship inside the binary, without what those
// are trusted not to do.
func TestInProcess(t *testing.T) {
	lang := language()
	const why = "sources that are trusted run in this process; those that are not run in workers, see TestInWorkers"
	lang.Without = map[string]string{"long": why, "gigabytes": why, "hostile": why}
	capsuletest.Run(t, lang, func(t *testing.T) capsule.Engine { return newEngine(t, trustAll) })
}

func language() capsuletest.Language {
	text := capsuletest.Text
	returns := func(expr string) capsuletest.Program { return text("def main(text):\n    return " + expr + "\n") }
	return capsuletest.Language{
		Echo:    []byte("def main(text):\n    return text\n"),
		Length:  []byte("def main(text):\n    return '{\"length\":%d}' % len(text)\n"),
		Compute: text(computeMain),
		Steady: `{"float":"0.30000000000000004 1e+21 0.3333333333333333","hash":119659539,"items":[["z",0],["é",2],["10",3],["a",9]],` +
			`"order":{"10":3,"a":9,"z":0,"é":2},"set":[3,1,2],"sorted":["10","a","z","é"],"sum":1999000}`,
		Remember: text("SEEN = []\n\ndef note(n, kept = []):\n    SEEN.append(n)\n    kept.append(n)\n    return {\"seen\": len(SEEN), \"kept\": len(kept)}\n\ndef main(text):\n    return json.encode(note(1))\n"),
		Unreachable: map[string]capsuletest.Program{
			"open": returns(`open("/etc/passwd").read()`), "read": returns(`read("/etc/passwd")`), "os": returns(`os.environ`),
			"environment": returns(`getenv("HOME")`), "import": text("import os\n"), "load": text("load(\"/etc/passwd\", \"x\")\n\ndef main(text):\n    return x\n"),
			"load in main": returns("load(\"a\", \"b\")"), "time": returns(`str(time.now())`), "now": returns(`str(now())`), "random": returns(`str(random.random())`),
			"math": returns(`str(math.pi)`), "print": text("def main(text):\n    print(text)\n    return text\n"), "print at the top": text("print(1)\n\ndef main(text):\n    return text\n"),
			"print by name": returns(`str([print][0]("x"))`), "eval": returns(`eval("1")`), "exec": returns(`exec("ls")`), "http": returns(`http.get("http://127.0.0.1/")`),
			"proto": returns(`proto.file("x")`), "struct": returns(`struct(a = 1).a`), "module": returns(`module("x")`), "globals": returns(`str(globals())`),
			"attributes of functions": returns(`str(dir(main) + dir(len) + dir(std.args)) if dir(main) + dir(len) + dir(std.args) else '{"reached":false}'`),
			"rebinding std":           text("def main(text):\n    std.args = len\n    return text\n"),
			"the specs of std":        text("def main(text):\n    std.string(\"a\").name = \"b\"\n    return text\n"),
		},
		Broken: map[string][]byte{
			"empty": nil, "syntax": []byte("def main(text):\n    return }\n"), "tabs": []byte("def main(text):\n\treturn text\n    return 1\n"),
			"no main": []byte("def Main(text):\n    return text\n"), "no parameter": []byte("def main():\n    return \"{}\"\n"),
			"two parameters": []byte("def main(a, b):\n    return a\n"), "a default": []byte("def main(a = \"\"):\n    return a\n"),
			"varargs": []byte("def main(*a):\n    return a\n"), "also kwargs": []byte("def main(a, **k):\n    return a\n"), "keyword only": []byte("def main(a, *, b):\n    return a\n"),
			"main is text": []byte("main = \"{}\"\n"), "main is a builtin": []byte("main = len\n"), "undefined name": []byte("def main(text):\n    return txt\n"),
			"fails at the top": []byte("X = 1 // 0\n\ndef main(text):\n    return text\n"), "endless at the top": []byte("X = [i for i in range(1000000000)]\n\ndef main(text):\n    return text\n"),
			"not UTF-8": []byte("def main(text):\n    return \"\xff\"\n"), "NUL": []byte("\x00"), "while": []byte("def main(text):\n    while True:\n        pass\n"),
		},
		Fails: text("def main(text):\n    fail(\"broken on purpose\")\n"), FailText: "broken on purpose",
		NotText: map[string]capsuletest.Program{
			"None": returns("None"), "a dict": returns("json.decode(text)"), "bytes": returns(`b"{}"`), "a number": returns("1"),
			"half a letter": returns(`"é"[:1]`), "nothing": text("def main(text):\n    pass\n"),
		},
		Endless: text("def main(text):\n    n = 0\n    for i in range(1 << 40):\n        n += i\n    return str(n)\n"),
		// One builtin call that counts for centuries and takes no memory.
		Long:      returns("str(max(range(1 << 62)))"),
		Gigabytes: gigabytes(returns),
		TooMuch:   returns(`"x" * (4 * 1024 * 1024 + 1)`),
		Hostile:   hostile(),
	}
}

const computeMain = `
def main(text):
    d = {}
    for key in ["z", "a", "é", "10"]:
        d[key] = len(d)
    d.pop("a")
    d["a"] = 9
    return json.encode({
        "items": d.items(), "order": d, "sorted": sorted(d), "set": set([3, 1, 3, 2]),
        "hash": hash("".join(d.keys())), "float": "%s %s %s" % (0.1 + 0.2, 1e21, 1.0 / 3),
        "sum": sum(range(2000)),
    })

def sum(numbers):
    total = 0
    for n in numbers:
        total += n
    return total
`

func gigabytes(returns func(string) capsuletest.Program) map[string]capsuletest.Program {
	all := make(map[string]capsuletest.Program)
	for name, expr := range map[string]string{
		"list of a range": `str(len(list(range(1 << 31))))`,
		"a repeated text": `str(len(["x" * ((1 << 30) - 1) for _ in range(4)]))`,
		"a repeated list": `str(len([[0] * ((1 << 27) - 1) for _ in range(4)]))`,
		"a sorted range":  `str(len(sorted(range(1 << 31))))`,
		"a wide format":   `str(len("{}".format("x" * (1 << 29)) + "y" * (1 << 29)))`,
		"a join":          `str(len(("x" * (1 << 20)).join(["y"] * (1 << 14))))`,
		"a replacement":   `str(len(("x" * (1 << 20)).replace("x", "y" * (1 << 14))))`,
		"a zip of ranges": `str(len(zip(range(1 << 30), range(1 << 30))))`,
		"split letters":   `str(len(list(("x" * (1 << 28)).elems())))`,
		"nested reprs":    `str(len(repr(repr(repr(repr(repr(repr("\\" * (1 << 24)))))))))`,
	} {
		all[name] = returns(expr)
	}
	return all
}

// hostile sources are aimed at the parser, the resolver, the compiler, the Go stack, hash
// tables and the JSON module.
func hostile() map[string]capsuletest.Program {
	const mib = capsule.MaxSource - 64
	in := func(open, middle, shut string) capsuletest.Program {
		n := mib / (len(open) + len(shut))
		return capsuletest.Text("X = " + strings.Repeat(open, n) + middle + strings.Repeat(shut, n) + "\ndef main(text):\n    return text\n")
	}
	body := func(lines ...string) capsuletest.Program {
		return capsuletest.Text("def main(text):\n    " + strings.Join(lines, "\n    ") + "\n")
	}
	nest := []string{"v = []", "for _ in range(450000):", "    v = [v]"}
	tuples := []string{"v = ()", "for _ in range(450000):", "    v = (v,)"}
	calls := func() capsuletest.Program {
		var b strings.Builder
		b.WriteString("def f0():\n    return 1\n")
		for i := 1; b.Len() < mib; i++ {
			fmt.Fprintf(&b, "def f%d(): return f%d()\n", i, i-1)
			if b.Len() > mib-100 {
				fmt.Fprintf(&b, "def main(text): return str(f%d())\n", i)
				break
			}
		}
		return capsuletest.Text(b.String())
	}
	return map[string]capsuletest.Program{
		"parentheses":      in("(", "1", ")"),
		"lists":            in("[", "1", "]"),
		"dicts":            in("{1:", "1", "}"),
		"only opened":      in("(", "", ""),
		"minus":            in("-", "1", ""),
		"not":              in("not ", "1", ""),
		"lambdas":          in("lambda:", "1", ""),
		"a long sum":       in("1+", "1", ""),
		"a long or":        in("0 or ", "1", ""),
		"conditionals":     in("1 if 0 else ", "1", ""),
		"attributes":       in("", "json", ".a"),
		"calls":            in("", "len", "()"),
		"indices":          in("", "[]", "[0]"),
		"comprehensions":   in("[0 for x in ", "[]", "]"),
		"elif":             capsuletest.Text("def main(text):\n if 0:pass\n" + strings.Repeat(" elif 0:pass\n", mib/14) + " return text\n"),
		"ifs":              ifs(),
		"a chain of calls": calls(),
		"str of nested":    body(append(nest, "return str(v)")...),
		"json of nested":   body(append(nest, "return json.encode(v)")...),
		"equal nested":     body("v = []", "for _ in range(200000):", "    v = [v]", "w = []", "for _ in range(200000):", "    w = [w]", "return str(v == w)"),
		"hash of nested":   body(append(tuples, "return str({v: 1}[v])")...),
		"frozen nested":    capsuletest.Text("def f():\n    v = []\n    for _ in range(450000):\n        v = [v]\n    return v\n\nX = f()\n\ndef main(text):\n    return str(len(X))\n"),
		"json too deep":    {Source: []byte("def main(text):\n    return str(json.decode(text))\n"), Input: strings.Repeat("[", capsule.MaxInput)},
		"json made deep":   body(`return str(json.decode("[" * 100000000))`),
		"json doubles":     body("v = [0]", "for _ in range(60):", "    v = [v, v]", "return json.encode(v)"),
		"str doubles":      body("v = [0]", "for _ in range(60):", "    v = [v, v]", "return str(v)"),
		"a cycle":          body("v = []", "v.append(v)", "return str(v) + json.encode(v)"),
		"a huge number":    body("x = 3", "for _ in range(22):", "    x = x * x", "return str(x)"),
		"a huge power":     body(`return str(int("9" * 10000000))`),
		"equal hashes":     body(`d = {}`, `for i in range(100000):`, `    d[i << 64] = i`, `return str(len(d))`),
		"many globals":     capsuletest.Text(globals(mib)),
		"a huge traceback": capsuletest.Text("def main(text):\n    fail(\"x\" * (1 << 26))\n"),
		"a huge message":   capsuletest.Text("def f():\n    fail(\"\\n\" * (1 << 26))\nX = f()\n"),
	}
}

func ifs() capsuletest.Program {
	var b strings.Builder
	b.WriteString("def main(text):\n")
	for i := 1; b.Len()+i < capsule.MaxSource-4096; i++ {
		b.WriteString(strings.Repeat(" ", i) + "if 1:\n")
		if next := b.Len() + i; next >= capsule.MaxSource-8192 {
			b.WriteString(strings.Repeat(" ", i+1) + "return text\n")
			break
		}
	}
	return capsuletest.Text(b.String())
}

func globals(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size-64; i++ {
		fmt.Fprintf(&b, "g%d=%d\n", i, i)
	}
	b.WriteString("def main(text):\n    return text\n")
	return b.String()
}
