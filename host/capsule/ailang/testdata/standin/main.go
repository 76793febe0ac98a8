// Command standin speaks the command line of an AILANG release, to the letter that the
// engine and the tools use of it, for a language of one statement. It refuses every flag and
// value that neither uses, so that the tests pin the command line.
//
// What is appended to the executable, a NUL, "STANDIN" and a JSON object, makes it another
// release: {"version","fault"}. A fault is something that a broken release may do.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// release is what tells one release from another.
type release struct {
	Version string `json:"version"`
	Fault   string `json:"fault"`
}

var mark = []byte("\x00STANDIN")

func thisRelease() release {
	r := release{Version: "AILANG v0.0.0-standin\nCommit: 0000000\n"}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		self, serr := os.Executable()
		if serr != nil {
			return r
		}
		if f, err = os.Open(self); err != nil {
			return r
		}
	}
	defer f.Close()
	if _, err := f.Seek(-512, io.SeekEnd); err != nil {
		return r
	}
	tail, err := io.ReadAll(f)
	if err != nil {
		return r
	}
	if i := bytes.LastIndex(tail, mark); i >= 0 {
		if err := json.Unmarshal(tail[i+len(mark):], &r); err != nil {
			panic(err)
		}
	}
	return r
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == orphanVerb {
		orphan(os.Args[2])
		return
	}
	r := thisRelease()
	err := errors.New("usage: ailang run|check|builtins|iface|prompt|doctor|--help|--version")
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "--version":
			err = version(r, os.Args[2:])
		case "check":
			err = check(r, os.Args[2:])
		case "run":
			err = run(r, os.Args[2:])
		default:
			if f := tools[os.Args[1]]; f != nil {
				err = f(r, os.Args[2:])
			}
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

func version(r release, args []string) error {
	if len(args) > 0 {
		return errors.New("--version takes nothing")
	}
	switch r.Fault {
	case "version hangs":
		forever()
	case "version floods":
		flood(os.Stdout)
	case "version fails":
		return errors.New("no version today")
	case "version says nothing":
		return nil
	case "version is no text":
		r.Version = "\xff\xfe"
	}
	_, err := fmt.Print(r.Version)
	return err
}

func check(r release, args []string) error {
	if len(args) != 1 {
		return errors.New("check takes one file")
	}
	_, err := load(args[0])
	switch r.Fault {
	case "check talks": // a release may report where it likes, and at any length
		if err == nil {
			fmt.Println("no errors found")
		} else {
			fmt.Printf("Error: %v\n", err)
		}
		for i := range 60 {
			fmt.Printf("note %d: %s\n", i, strings.Repeat("n", 50))
		}
		if err != nil {
			os.Exit(1)
		}
	case "check floods":
		flood(os.Stdout)
	}
	return err
}

func run(r release, args []string) error {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	quiet := f.Bool("quiet", false, "")
	caps := f.String("caps", "unset", "")
	entry := f.String("entry", "unset", "")
	text := f.String("args-json", "unset", "")
	switch err := f.Parse(args); {
	case err != nil:
		return err
	case !*quiet || *entry != "main":
		return fmt.Errorf("--quiet %v --entry %q: only quiet and main are known", *quiet, *entry)
	case f.NArg() == 0 || f.NArg() > 1 && f.Arg(1) != "--":
		return errors.New("run takes one file, and the program's arguments behind --")
	case f.Arg(0) == "host/capsule/main.ail" && *caps != "":
		return fmt.Errorf("--caps %q: the engine gives none", *caps)
	}
	if err := invoked.grant(*caps); err != nil {
		return err
	}
	if f.NArg() > 1 {
		invoked.argv = f.Args()[2:]
	}
	s, err := load(f.Arg(0))
	if err != nil {
		return err
	}
	input, err := s.input(*text)
	if err != nil {
		return err
	}
	if done, err := fault(r.Fault); done {
		return err
	}
	return s.do(input)
}

// statement is the one that main's body has.
type statement struct {
	verb, arg string
	takes     string // what main takes: "string", "json", or ""
}

// signatures are those that main may have, with what it takes.
var signatures = map[string]string{
	"export func main(input: string) -> string =": "string",
	"export func main(input: json) -> string =":   "json",
	"export func main() -> string =":              "",
}

// input is what main is given for --args-json.
func (s statement) input(text string) (string, error) {
	switch s.takes {
	case "string":
		var v *string
		if err := json.Unmarshal([]byte(text), &v); err != nil || v == nil {
			return "", fmt.Errorf("--args-json is no JSON string: %v", err)
		}
		return *v, nil
	case "json":
		if !json.Valid([]byte(text)) {
			return "", errors.New("--args-json is no JSON")
		}
		return text, nil
	}
	if text != "unset" {
		return "", errors.New("main takes no argument")
	}
	return "", nil
}

// load reads a source: comments and blank lines, the module's line, main's line, a
// statement.
func load(path string) (statement, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return statement{}, err
	}
	if !utf8.Valid(text) {
		return statement{}, fmt.Errorf("%s: is no UTF-8", path)
	}
	var lines []string
	var at []int
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			lines, at = append(lines, line), append(at, i+1)
		}
	}
	module := strings.TrimSuffix(filepath.ToSlash(path), ".ail")
	switch {
	case len(lines) == 0 || lines[0] != "module "+module:
		return statement{}, fmt.Errorf("%s:1: the file must begin with module %s", path, module)
	case len(lines) < 2:
		return statement{}, fmt.Errorf("%s: there is no main", path)
	case len(lines) != 3:
		return statement{}, fmt.Errorf("%s:%d: main has one statement", path, at[len(at)-1])
	}
	takes, ok := signatures[lines[1]]
	if !ok {
		return statement{}, fmt.Errorf("%s:%d: no signature of main: %s", path, at[1], lines[1])
	}
	verb, arg, _ := strings.Cut(lines[2], " ")
	if verbs[verb] == nil {
		return statement{}, fmt.Errorf("%s:%d:3: undefined name %q", path, at[2], verb)
	}
	return statement{verb, arg, takes}, nil
}

func (s statement) do(input string) error {
	text, err := verbs[s.verb](s.arg, input)
	if err != nil {
		return fmt.Errorf("%s: %w", s.verb, err)
	}
	if text == nil {
		return nil
	}
	_, err = fmt.Println(*text)
	return err
}
