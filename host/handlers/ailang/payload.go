package ailang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ailang.dev/world/host/hashref"
)

// Bounds of a payload, in bytes unless said otherwise.
const (
	MaxPath     = 4096
	MaxArgsJSON = 64 << 10
	MaxStdin    = 64 << 10
	MaxArgv     = 32 // arguments
	MaxArg      = 1024
	MaxQuery    = 256
	MaxWords    = 16  // words of a query
	MaxLimit    = 500 // of what a search gives
)

// The limits of searches that ask for none.
const (
	dflBuiltins = 50
	dflExamples = 5
	// MaxExamples is the most examples that one search gives.
	MaxExamples = 20
)

// caps are the capabilities that a program may be given. What needs the network is not among
// them: there is none.
var caps = []string{"Clock", "Env", "FS", "IO", "Rand"}

// capFS lets a program write in the worktree.
const capFS = "FS"

// action is a decoded payload, ready to be done.
type action func(ctx context.Context, c *call) ([]byte, error)

type checkArgs struct {
	Path string `json:"path"`
}

type runArgs struct {
	Path     string   `json:"path"`
	ArgsJSON *string  `json:"args_json"`
	Stdin    string   `json:"stdin"`
	Argv     []string `json:"argv"`
	Caps     []string `json:"caps"`
}

type searchArgs struct {
	Op    string `json:"op"`
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

type cliArgs struct {
	Operation string `json:"operation"`
	Path      string `json:"path"`
}

// decode reads a payload: {path} to check, {path, args_json?, stdin?, argv?, caps?} to run,
// {op, query, limit?} to discover, {operation, path?} for the command line.
func decode(effect string, raw []byte) (action, error) {
	members, err := hashref.Members(raw)
	if err != nil {
		return nil, err
	}
	for name, v := range members {
		if v.Kind() == 'n' {
			return nil, fmt.Errorf("member %q must not be null", name)
		}
	}
	into := func(v any, needed ...string) error {
		for _, name := range needed {
			if members[name] == nil {
				return fmt.Errorf("the member %q is missing", name)
			}
		}
		return hashref.Decode(raw, v)
	}
	switch effect {
	case EffectCheck:
		var a checkArgs
		return a.do, into(&a, "path")
	case EffectRun:
		var a runArgs
		return a.do, into(&a, "path")
	case EffectCLI:
		var a cliArgs
		return a.do, into(&a, "operation")
	case EffectDiscover:
		var a searchArgs
		if err := into(&a, "op", "query"); err != nil {
			return nil, err
		}
		if _, given := members["limit"]; given && a.Limit < 1 {
			return nil, errors.New(`member "limit" must be at least 1`)
		}
		switch a.Op {
		case "builtins":
			return a.builtins, nil
		case "examples":
			return a.examples, nil
		}
		return nil, errors.New(`member "op" must be "builtins" or "examples"`)
	}
	return nil, fmt.Errorf("the ailang handler does not perform %s", effect)
}

// source tells what is wrong with a path as the source of a program: its shape, and what
// stands there. What comes of a change between this look and the run is confined.
func (c *call) source(p string) error {
	switch {
	case p == "" || p[0] == '-' || p[0] == '/' || slices.Contains(strings.Split(p, "/"), ".."):
		return refuse("path %s refused: it must be relative and non-empty, with no \"..\" segment and no leading \"-\"", quoted(p))
	case len(p) > MaxPath:
		return refuse("path %s is too long: %d bytes, at most %d", quoted(p), len(p), MaxPath)
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl):
		return refuse("path %s holds characters that do not print", quoted(p))
	case path.Ext(p) != ".ail":
		return refuse("path %s is no AILANG source: its name must end in .ail", quoted(p))
	}
	top, err := os.OpenRoot(c.tree)
	if err != nil {
		return refuse("the worktree cannot be opened")
	}
	defer top.Close()
	fi, err := top.Stat(p) // follows links, and none that leads out
	switch {
	case errors.Is(err, os.ErrNotExist):
		return refuse("path %s does not exist", quoted(p))
	case err != nil && strings.Contains(err.Error(), "escapes"):
		return refuse("path %s escapes the worktree", quoted(p))
	case err != nil:
		return refuse("path %s cannot be opened", quoted(p))
	case !fi.Mode().IsRegular():
		return refuse("path %s is not a regular file", quoted(p))
	}
	return nil
}

// quoted is a path as a refusal repeats it.
func quoted(p string) string {
	const most = 512
	if len(p) > most {
		p = strings.ToValidUTF8(p[:most], "") + "…"
	}
	return fmt.Sprintf("%q", p)
}

var capName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,31}$`)

// judge tells what is wrong with what a program is to be given.
func (a *runArgs) judge() error {
	switch {
	case len(a.Stdin) > MaxStdin:
		return refuse("stdin has %d bytes; at most %d", len(a.Stdin), MaxStdin)
	case len(a.Argv) > MaxArgv:
		return refuse("argv holds %d arguments; at most %d", len(a.Argv), MaxArgv)
	case a.ArgsJSON != nil && len(*a.ArgsJSON) > MaxArgsJSON:
		return refuse("args_json has %d bytes; at most %d", len(*a.ArgsJSON), MaxArgsJSON)
	case a.ArgsJSON != nil && !json.Valid([]byte(*a.ArgsJSON)):
		return refuse("args_json is not JSON")
	case len(a.Caps) > len(caps):
		return refuse("caps holds %d names; there are %s", len(a.Caps), strings.Join(caps, ", "))
	}
	for i, arg := range a.Argv {
		switch {
		case len(arg) > MaxArg:
			return refuse("argument %d of argv is %d bytes long; at most %d", i+1, len(arg), MaxArg)
		case strings.ContainsRune(arg, 0):
			return refuse("argument %d of argv holds a NUL", i+1)
		}
	}
	for i, name := range a.Caps {
		switch {
		case !capName.MatchString(name):
			return refuse("caps: %s is no name of a capability", quoted(name))
		case !slices.Contains(caps, name):
			return refuse("capability %s cannot be given: there are %s", name, strings.Join(caps, ", "))
		case slices.Contains(a.Caps[:i], name):
			return refuse("capability %s is named twice", name)
		}
	}
	return nil
}

// words splits a query, and tells what is wrong with it.
func (a *searchArgs) words() ([]string, error) {
	switch words := strings.Fields(strings.ToLower(a.Query)); {
	case len(a.Query) > MaxQuery:
		return nil, refuse("query has %d bytes; at most %d", len(a.Query), MaxQuery)
	case len(words) == 0:
		return nil, refuse("query is empty: name one or more words that all must occur")
	case len(words) > MaxWords:
		return nil, refuse("query has %d words; at most %d", len(words), MaxWords)
	default:
		return words, nil
	}
}

// holds tells whether a text, in small letters, holds all words.
func holds(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}
