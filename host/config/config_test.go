package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

const full = `# a comment
exec:
  profiles:
    go-test:
      description: Runs the tests of packages.
      argv: [go, test]
      args: {max: 8, max_bytes: 256, pattern: '\./[a-z/.]*', flags: false}
      read_only: [/usr/local/go, /home/u/go/pkg/mod]
      env: {GOFLAGS: "-mod=mod"}
      limits: {timeout: 5m, cpu: 10m, memory: 2GiB, processes: 256, file_size: 256MiB, open_files: 512, output: 16MiB, keep: 32KiB, temp: 1GiB}
      job: true
    lint:
      argv: [/usr/bin/true]
policy:
  deny: [deploy/, "*.pem"]
  allow: [docs/public/]
  episodes:
    - match: "ci-*"
      allow: [.github/]
      deny: [src]
plans:
  some:
    tasks: true
    grants: ["Skills.Use=public:unlimited", "Corpus.Search=a:b:10/day", "X=y:3"]
    rates:
      default: {requests: 6, per: 1m, burst: 3}
      expensive: {requests: 2, per: 1h}
issuers:
  - issuer: https://id.example
    audience: world
    algorithms: [ES256]
    jwks: https://id.example/keys
    leeway: 30s
    plan_claim: plan
    plans: [{value: gold, plan: some}]
    default_plan: some
`

func TestRead(t *testing.T) {
	got, err := Read("world.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Profiles: []exec.Profile{{
			Name: "go-test", Description: "Runs the tests of packages.", Argv: []string{"go", "test"},
			Args:     exec.Args{Max: 8, MaxBytes: 256, Pattern: `\./[a-z/.]*`},
			ReadOnly: []string{"/usr/local/go", "/home/u/go/pkg/mod"}, Env: map[string]string{"GOFLAGS": "-mod=mod"},
			Limits: exec.Limits{Timeout: 5 * time.Minute, CPU: 10 * time.Minute, Memory: 2 << 30, Processes: 256, FileSize: 256 << 20,
				OpenFiles: 512, Output: 16 << 20, Keep: 32 << 10, Temp: 1 << 30},
			Job: true,
		}, {Name: "lint", Argv: []string{"/usr/bin/true"}}},
		Policy: policy.Config{Rules: policy.Rules{Deny: []string{"deploy/", "*.pem"}, Allow: []string{"docs/public/"}},
			Episodes: []policy.Episode{{Match: "ci-*", Rules: policy.Rules{Allow: []string{".github/"}, Deny: []string{"src"}}}}},
		Plans: authority.Plans{"some": {Name: "some", Tasks: true,
			Grants: []authority.PlanGrant{
				{Grant: world.Grant{Effect: "Skills.Use", Scope: "public", Budget: authority.Unlimited}},
				{Grant: world.Grant{Effect: "Corpus.Search", Scope: "a:b", Budget: 10}, Daily: true}, {Grant: world.Grant{Effect: "X", Scope: "y", Budget: 3}},
			},
			Rates: map[string]authority.Rate{"default": {Requests: 6, Per: time.Minute, Burst: 3}, "expensive": {Requests: 2, Per: time.Hour, Burst: 2}}}},
		Issuers: []authority.IssuerConfig{{URL: "https://id.example", Audience: "world", Algorithms: []string{"ES256"}, JWKS: "https://id.example/keys",
			Leeway: 30 * time.Second, PlanClaim: "plan", Plans: []authority.ClaimPlan{{Value: "gold", Plan: "some"}}, DefaultPlan: "some"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, empty := range []string{"", "# nothing\n", "exec: {}\n", "exec:\n"} {
		if got, err := Read("x", []byte(empty)); err != nil || cmp.Diff(&Config{}, got) != "" {
			t.Errorf("%q: %+v %v", empty, got, err)
		}
	}
}

// Each mistake is told with the file, the line and the key.
func TestMistakes(t *testing.T) {
	const head = "exec:\n  profiles:\n    p:\n      argv: [true-program]\n"
	for _, c := range []struct{ text, want string }{
		{"exec:\n  profile: {}\n", `^w.yaml:2: .*unknown field "profile".*docs/configuration.md`},
		{head + "      agrs: {}\n", `^w.yaml:5: .*unknown field "agrs"`},
		{head + "      argv: [x]\n", `^w.yaml:5: .*argv.*already`},
		{"exec: [1]\n", `^w.yaml:1: `},
		{"exec:\n  profiles:\n    p:\n      argv: {a: b}\n", `^w.yaml:4: `},
		{head + "      job: perhaps\n", `^w.yaml:5: `},
		{head + "      args: {max: many}\n", `^w.yaml:5: `},
		{"a: b: c\n", `^w.yaml:1: `},
		{"exec: {}\n---\nexec: {}\n", `^w.yaml: holds more than one document`},
		{"policy:\n  allow: !tag\n", `^w.yaml: cannot be read as YAML`},
		{strings.Repeat("#", MaxSize+1), `^w.yaml: is larger than`},
		{head + "      limits:\n        memory: lots\n", `^w.yaml:6: exec.profiles.p.limits.memory: "lots" is no size; write for example`},
		{head + "      limits:\n        memory: 0\n", `^w.yaml:6: exec.profiles.p.limits.memory: "0" is no size`},
		{head + "      limits:\n        temp: 9999999999GiB\n", `^w.yaml:6: exec.profiles.p.limits.temp: `},
		{head + "      limits:\n        timeout: soon\n", `^w.yaml:6: exec.profiles.p.limits.timeout: "soon" is no length of time`},
		{head + "      limits:\n        timeout: 1m\n", `^w.yaml:6: exec.profiles.p.limits.timeout: must be at most 8s; a longer run needs job: true`},
		{head + "      limits:\n        keep: 1GiB\n", `^w.yaml:6: exec.profiles.p.limits.keep: must be at most`},
		{head + "      limits:\n        processes: -1\n", `^w.yaml:6: exec.profiles.p.limits.processes: must not be negative`},
		{head + "      args:\n        max: 1\n        pattern: '('\n", `^w.yaml:7: exec.profiles.p.args.pattern: is not a valid RE2`},
		{head + "      args:\n        max: 1\n        pattern: 'a)|(?:b'\n", `^w.yaml:7: exec.profiles.p.args.pattern: is not a valid RE2`},
		{head + "      args: {max: 65}\n", `^w.yaml:5: exec.profiles.p.args.max: must be from 0 to 64`},
		{head + "      read_only:\n        - relative\n", `^w.yaml:\d: exec.profiles.p.read_only: "relative" must be an absolute path`},
		{"exec:\n  profiles:\n    p:\n      job: true\n", `^w.yaml:\d: exec.profiles.p.argv: must name a program`},
		{"exec:\n  profiles:\n    P:\n      argv: [x]\n", `^w.yaml:\d: exec.profiles.P.name: "P" must be`},
		{"policy:\n  deny:\n    - ok\n    - a[b\n", `^w.yaml:4: policy.deny.1: pattern "a\[b" is not a valid glob`},
		{"policy:\n  episodes:\n    - match: a\n      allow:\n        - ../x\n", `^w.yaml:5: policy.episodes.0.allow.0: pattern "../x" has a`},
		{"plans:\n  Bad: {}\n", `^w.yaml:2: plans.Bad: the name must be`},
		{"plans:\n  a:\n    grants:\n      - nonsense\n", `^w.yaml:4: plans.a.grants.0: "nonsense" must be EFFECT=SCOPE:BUDGET`},
		{"plans:\n  a:\n    grants: [\"X=y:unlimited/day\"]\n", `^w.yaml:3: plans.a.grants.0: .*or unlimited`},
		{"plans:\n  a:\n    rates:\n      cheap: {requests: 1, per: 1m}\n", `^w.yaml:4: plans.a.rates.cheap: the classes are default and expensive`},
		{"plans:\n  a:\n    rates:\n      default: {requests: 1}\n", `^w.yaml:4: plans.a.rates.default.per: "" is no length`},
		{"plans:\n  a:\n    rates:\n      default: {requests: 0, per: 1m}\n", `^w.yaml:4: plans.a.rates.default: requests must be from 1`},
		{"plans: {}\n", `^w.yaml:1: plans: names no plan; leave the section out`},
		{"exec: {}\nplans:\n", `^w.yaml:2: plans: names no plan`},
		{"plans:\n  a:\n    rates:\n      default: {requests: 2.9, per: 1m}\n", `^w.yaml:4: "2.9" must be a whole number`},
		{"plans:\n  a:\n    rates:\n      default:\n        requests: 2\n        per: 1m\n        burst: 0\n", `^w.yaml:5: plans.a.rates.default: burst must be from 1`},
		{head + "      limits:\n        processes: 1e3\n", `^w.yaml:6: "1e3" must be a whole number`},
		{head + "      args: {max: '3'}\n", `^w.yaml:5: "'3'" must be a whole number`},
		{"plans:\n  a:\n    rates:\n      default: {requests: 1, per: 10ms}\n", `^w.yaml:4: plans.a.rates.default: per must be from 1s`},
		{"issuers:\n  - issuer: http://id.example\n    audience: a\n    default_plan: free\n", `^w.yaml:2: issuers.0.issuer: "http://id.example" must be an https URL`},
		{"issuers:\n  - issuer: https://id.example\n    default_plan: free\n", `^w.yaml:\d: issuers.0.audience: must be given`},
		{"issuers:\n  - issuer: https://id.example\n    audience: a\n    default_plan: gold\n", `^w.yaml:4: issuers.0.default_plan: there is no plan "gold"`},
		{"issuers:\n  - issuer: https://id.example\n    audience: a\n    algorithms: [none]\n    default_plan: free\n", `^w.yaml:4: issuers.0.algorithms: "none" is not one of`},
		{"issuers:\n  - issuer: https://id.example\n    audience: a\n    leeway: soon\n    default_plan: free\n", `^w.yaml:4: issuers.0.leeway: "soon" is no length`},
		{"models:\n  Bad: {backend: extractive}\n", `^w.yaml:2: models.Bad.name: "Bad" must be`},
		{"calendars: [gozo.yaml]\n", `^w.yaml:1: calendars.0: "gozo.yaml" must be an absolute path`},
		{"calendars: [/a.yaml, /a.yaml]\n", `^w.yaml:1: calendars.1: "/a.yaml" stands there twice`},
		{"models:\n  a: {}\n", `^w.yaml:2: models.a.url: must be https`},
		{"models:\n  a:\n    backend: magic\n", `^w.yaml:3: models.a.backend: "magic" must be openai or extractive`},
		{"models:\n  a: {backend: extractive, url: \"https://a.example\"}\n", `^w.yaml:2: models.a.backend: an extractive model has no other key`},
		{"models:\n  a:\n    url: http://example.org/v1\n    model: m\n", `^w.yaml:3: models.a.url: plain http is for this machine alone`},
		{"models:\n  a:\n    url: https://u:p@example.org/v1\n    model: m\n", `^w.yaml:3: models.a.url: must be https://host.* without user`},
		{"models:\n  a:\n    url: https://example.org/v1?k=v\n    model: m\n", `^w.yaml:3: models.a.url: .*query`},
		{"models:\n  a:\n    url: ftp://example.org\n    model: m\n", `^w.yaml:3: models.a.url: must begin with https`},
		{"models:\n  a:\n    url: https://example.org/v1\n", `^w.yaml:\d: models.a.model: must be what the endpoint calls`},
		{"models:\n  a:\n    url: https://example.org/v1\n    model: m\n    key_file: key\n", `^w.yaml:5: models.a.key_file: "key" must be an absolute path`},
		{"models:\n  a:\n    url: https://example.org/v1\n    model: m\n    timeout: 2m\n", `^w.yaml:5: models.a.timeout: must be at most 1m50s`},
		{"models:\n  a:\n    url: https://example.org/v1\n    model: m\n    timeout: soon\n", `^w.yaml:5: models.a.timeout: "soon" is no length`},
		{"models:\n  a:\n    url: https://example.org/v1\n    model: m\n    max_answer: 2GiB\n", `^w.yaml:5: models.a.max_answer: must be at most 1048576 bytes`},
		{"models:\n  a:\n    url: https://example.org/v1\n    model: m\n    max_answer: many\n", `^w.yaml:5: models.a.max_answer: "many" is no size`},
		{"models:\n  a:\n    url: https://example.org/v1\n    model: m\n    max_tokens: 5000\n", `^w.yaml:5: models.a.max_tokens: must be from 1 to 4096`},
		{"models:\n  a:\n    url: https://example.org/v1\n    model: m\n    temperature: .nan\n", `^w.yaml:5: models.a.temperature: must be from 0 to 2`},
		{"models:\n  a:\n    url: https://example.org/v1\n    model: m\n    tokens_field: tokens\n", `^w.yaml:5: models.a.tokens_field: "tokens" must be`},
		{"models:\n  a:\n    url: https://example.org/v1\n    model: m\n    headers: {Authorization: x}\n", `^w.yaml:5: models.a.headers: "Authorization" cannot be set so`},
		{"models:\n  a:\n    url: https://example.org/v1\n    model: m\n    headers: {X-A: \"a\\nb\"}\n", `^w.yaml:5: models.a.headers: "X-A" cannot be set so`},
		{"policy:\n  episodes:\n    - deny: [x]\n", `^w.yaml:3: policy.episodes.0.match: .*is empty`},
	} {
		got, err := Read("w.yaml", []byte(c.text))
		if got != nil || world.KindOf(err) != world.KindBadRequest || !regexp.MustCompile(c.want).MatchString(world.Message(err)) {
			t.Errorf("%.200q:\n got  %q\n want %s", c.text, world.Message(err), c.want)
		}
	}
}

// FuzzRead: whatever the text, there is a configuration or an error for the operator.
func FuzzRead(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("exec:\n  profiles:\n    \"1\": {argv: []}\n    \"a.b'$[0]\": {argv: [x], limits: {memory: x}}\n"))
	f.Add([]byte("policy: {deny: [&a x, *a]}\n? a\n: b\n<<: {}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Read("w.yaml", text)
		if (c == nil) == (err == nil) || err != nil && (world.KindOf(err) != world.KindBadRequest || !strings.HasPrefix(world.Message(err), "w.yaml")) {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	})
}

var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// The page's examples are read, and hold every key that there is.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := fence.FindAllSubmatch(page, -1)
	if len(examples) == 0 {
		t.Fatal("no examples")
	}
	for _, m := range examples {
		if _, err := Read("example", m[1]); err != nil {
			t.Errorf("%v\n%s", err, m[1])
		}
	}
	for _, key := range []string{"exec", "profiles", "description", "argv", "args", "max", "max_bytes", "pattern", "flags", "read_only", "env", "limits",
		"timeout", "cpu", "memory", "processes", "file_size", "open_files", "output", "keep", "temp", "job", "policy", "deny", "allow", "episodes", "match",
		"plans", "tasks", "grants", "rates", "requests", "per", "burst", "issuers", "issuer", "audience", "algorithms", "jwks", "leeway", "plan_claim", "default_plan",
		"models", "backend", "url", "model", "key_file", "max_answer", "max_tokens", "tokens_field", "temperature", "headers"} {
		if !regexp.MustCompile(`(?m)\b` + key + `:`).Match(examples[0][1]) {
			t.Errorf("the first example lacks the key %s", key)
		}
		if !strings.Contains(string(page), "`"+key) && !strings.Contains(string(page), "."+key+"`") {
			t.Errorf("the page does not tell of %s", key)
		}
	}
}
