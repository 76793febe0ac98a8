package exec

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

// Bounds of profiles.
const (
	MaxProfiles    = 64
	MaxDescription = 500       // bytes
	MaxExtra       = 64        // arguments that an agent may add
	MaxExtraBytes  = 4096      // bytes of one of them
	MaxPattern     = 1024      // bytes of a pattern
	MaxKeep        = 256 << 10 // bytes of each stream that an answer holds
	MaxTimeout     = 4 * time.Hour
)

// Profile is one command that the operator declares.
type Profile struct {
	Name        string
	Description string // for agents
	// Argv is the fixed part; the agent's arguments stand behind it. Its first element is a
	// name in PATH, an absolute path, or one with a slash from the top of the worktree. In it
	// and in Env {worktree} stands for the path of the worktree.
	Argv []string
	Args Args
	// ReadOnly are paths that the command sees beside the system's own.
	ReadOnly []string
	// Env is added to, and goes before, what every command gets: PATH, HOME, TMPDIR, LANG.
	Env    map[string]string
	Limits Limits
	// Job lets a run outlast its call.
	Job bool
}

// Args are the arguments that an agent may add. The zero value allows none.
type Args struct {
	Max      int    // how many
	MaxBytes int    // of one
	Pattern  string // an RE2 expression that the whole of each must match; "" is all printable text
	Flags    bool   // whether one may begin with "-"
}

// Limits are a profile's bounds; zero is the default of each.
type Limits struct {
	Timeout   time.Duration
	CPU       time.Duration
	Memory    int64
	Processes int
	FileSize  int64
	OpenFiles int
	Output    int64 // bytes that it may write; more ends it
	Keep      int   // bytes of each stream that an answer holds
	Temp      int64
}

// Defaults of a profile's limits. The time is that of a call, or of a job if the profile
// allows jobs.
var defaults = Limits{
	Memory: 1 << 30, Processes: 128, FileSize: 256 << 20, OpenFiles: 1024, Output: 64 << 20, Keep: 64 << 10, Temp: 256 << 20,
}

const (
	defaultCallTimeout = callTime
	defaultJobTimeout  = 10 * time.Minute
)

var profileName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// profile is a Profile that was checked.
type profile struct {
	Profile
	pattern *regexp.Regexp
	env     []string
	tool    world.Object
}

// fieldError says which part of a profile is wrong, in the words of the configuration.
type fieldError struct {
	Field string
	Text  string
}

func (e *fieldError) Error() string { return e.Field + " " + e.Text }

func wrong(field, format string, args ...any) error {
	return &fieldError{field, fmt.Sprintf(format, args...)}
}

// Field is the part of a profile that an error of Check is about: "argv", "args.pattern"; ""
// if it is about none.
func Field(err error) string {
	if e, ok := err.(*fieldError); ok {
		return e.Field
	}
	return ""
}

// Check tells what is wrong with a profile, without looking at this machine.
func (p *Profile) Check() error {
	switch {
	case !profileName.MatchString(p.Name):
		return wrong("name", "%q must be 1 to 64 of a-z, 0-9 and -, and not begin with -", p.Name)
	case len(p.Argv) == 0 || p.Argv[0] == "":
		return wrong("argv", "must name a program")
	case len(p.Description) > MaxDescription:
		return wrong("description", "is longer than %d bytes", MaxDescription)
	}
	for _, a := range p.Argv {
		if strings.ContainsRune(a, 0) {
			return wrong("argv", "holds a NUL")
		}
	}
	for _, path := range p.ReadOnly {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
			return wrong("read_only", "%q must be an absolute path without \"..\", and not /", path)
		}
	}
	for k, v := range p.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return wrong("env", "%q is no variable", k)
		}
	}
	if err := p.Args.check(); err != nil {
		return err
	}
	return p.Limits.check(p.Job)
}

func (a Args) check() error {
	switch {
	case a.Max < 0 || a.Max > MaxExtra:
		return wrong("args.max", "must be from 0 to %d", MaxExtra)
	case a.MaxBytes < 0 || a.MaxBytes > MaxExtraBytes:
		return wrong("args.max_bytes", "must be from 1 to %d", MaxExtraBytes)
	case len(a.Pattern) > MaxPattern:
		return wrong("args.pattern", "is longer than %d bytes", MaxPattern)
	}
	if _, err := a.compile(); err != nil {
		return wrong("args.pattern", "is not a valid RE2 expression: %v", err)
	}
	return nil
}

func (a Args) compile() (*regexp.Regexp, error) {
	// By itself first: in brackets "a)|(?:b" would be one that matches a beginning alone.
	if _, err := regexp.Compile(a.Pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`^(?:` + cmp.Or(a.Pattern, `[^\x00-\x1f\x7f]*`) + `)$`)
}

func (l Limits) check(job bool) error {
	most := MaxTimeout
	if !job {
		most = callTime
	}
	switch {
	case l.Timeout < 0 || l.Timeout > most:
		return wrong("limits.timeout", "must be at most %v; a longer run needs job: true, and then at most %v", callTime, MaxTimeout)
	case l.Keep < 0 || l.Keep > MaxKeep:
		return wrong("limits.keep", "must be at most %d bytes", MaxKeep)
	}
	for _, n := range []struct {
		name string
		v    int64
	}{{"cpu", int64(l.CPU)}, {"memory", l.Memory}, {"processes", int64(l.Processes)}, {"file_size", l.FileSize},
		{"open_files", int64(l.OpenFiles)}, {"output", l.Output}, {"temp", l.Temp}} {
		if n.v < 0 {
			return wrong("limits."+n.name, "must not be negative")
		}
	}
	return nil
}

// whole fills in the defaults.
func (l Limits) whole(job bool) sandbox.Limits {
	timeout := cmp.Or(l.Timeout, defaultCallTimeout)
	if job {
		timeout = cmp.Or(l.Timeout, defaultJobTimeout)
	}
	return sandbox.Limits{
		Wall: timeout, CPU: cmp.Or(l.CPU, 4*timeout), Memory: cmp.Or(l.Memory, defaults.Memory),
		Processes: cmp.Or(l.Processes, defaults.Processes), FileSize: cmp.Or(l.FileSize, defaults.FileSize),
		OpenFiles: cmp.Or(l.OpenFiles, defaults.OpenFiles), Output: cmp.Or(l.Output, defaults.Output),
		Keep: cmp.Or(l.Keep, defaults.Keep), Temp: cmp.Or(l.Temp, defaults.Temp),
	}
}

// baseEnv is what every command gets, and nothing of the daemon's own.
func baseEnv() map[string]string {
	return map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "TZ": "UTC"}
}

// prepare checks a profile against this machine.
func prepare(p Profile) (*profile, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	env := baseEnv()
	maps.Copy(env, p.Env)
	done := &profile{Profile: p}
	done.pattern, _ = p.Args.compile() // Check did
	for _, k := range slices.Sorted(maps.Keys(env)) {
		done.env = append(done.env, k+"="+env[k])
	}
	for _, path := range p.ReadOnly {
		if _, err := os.Stat(path); err != nil {
			return nil, wrong("read_only", "%q cannot be used: %v", path, err)
		}
	}
	return done, done.findProgram(env["PATH"])
}

// seen are the folders of programs that a command can see in any case.
var seen = []string{"/usr", "/bin", "/sbin"}

// findProgram tells whether the command will be found. One in the worktree cannot be looked
// for yet.
func (p *profile) findProgram(path string) error {
	name := p.Argv[0]
	if strings.Contains(name, "/") {
		if filepath.IsAbs(name) {
			return p.executable(name)
		}
		return nil
	}
	for _, dir := range filepath.SplitList(path) {
		if at := filepath.Join(dir, name); filepath.IsAbs(dir) && p.visible(at) && p.executable(at) == nil {
			return nil
		}
	}
	return wrong("argv", "names %q, which is in no folder of PATH=%s that the command can see; add its folder to env.PATH and to read_only", name, path)
}

func (p *profile) executable(at string) error {
	if !p.visible(at) {
		return wrong("argv", "names %s, which the command cannot see: add its folder to read_only", at)
	}
	if fi, err := os.Stat(at); err != nil || !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 {
		return wrong("argv", "names %s, which is no program", at)
	}
	return nil
}

func (p *profile) visible(at string) bool {
	return slices.ContainsFunc(slices.Concat(seen, p.ReadOnly), func(top string) bool {
		return at == top || strings.HasPrefix(at, top+"/")
	})
}

// placeholder stands for the worktree's path in what the operator declares.
const placeholder = "{worktree}"

// inTree is a declared list with the worktree's path in it.
func inTree(list []string, tree string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.ReplaceAll(s, placeholder, tree)
	}
	return out
}

// admit tells what is wrong with an agent's arguments; "" if nothing.
func (p *profile) admit(args []string) string {
	a := p.Args
	if len(args) > a.Max {
		if a.Max == 0 {
			return fmt.Sprintf("profile %q takes no arguments", p.Name)
		}
		return fmt.Sprintf("%d arguments; profile %q takes at most %d", len(args), p.Name, a.Max)
	}
	most := cmp.Or(a.MaxBytes, MaxExtraBytes)
	for i, arg := range args {
		at := fmt.Sprintf("argument %d", i+1)
		switch {
		case len(arg) > most:
			return fmt.Sprintf("%s is %d bytes long; profile %q takes at most %d", at, len(arg), p.Name, most)
		case !utf8.ValidString(arg) || strings.ContainsRune(arg, 0):
			return at + " is not text"
		case !a.Flags && strings.HasPrefix(arg, "-"):
			return fmt.Sprintf("%s begins with \"-\": profile %q takes no flags", at, p.Name)
		case !p.pattern.MatchString(arg):
			if a.Pattern == "" {
				return at + " holds characters that do not print"
			}
			return fmt.Sprintf("%s does not match what profile %q takes: %s", at, p.Name, a.Pattern)
		}
	}
	return ""
}

// usage is a profile in one line, for agents.
func (p *profile) usage() string {
	var b strings.Builder
	b.WriteString(p.Name + ": " + cmp.Or(p.Description, strings.Join(p.Argv, " ")))
	switch a := p.Args; {
	case a.Max == 0:
		b.WriteString(" (no arguments")
	case a.Pattern != "":
		fmt.Fprintf(&b, " (up to %d arguments that match %s", a.Max, a.Pattern)
	default:
		fmt.Fprintf(&b, " (up to %d arguments", a.Max)
	}
	if p.Args.Flags {
		b.WriteString(", flags too")
	}
	if p.Job {
		b.WriteString("; may become a job")
	}
	return b.String() + ")"
}
