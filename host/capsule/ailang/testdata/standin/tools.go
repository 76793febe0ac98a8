package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
)

// program is what a run was given beside its source.
type program struct {
	caps, argv []string
}

var invoked program

// capabilities are those that this release knows.
var capabilities = []string{"IO", "FS", "Env", "Clock", "Rand"}

// grant takes the list of --caps.
func (p *program) grant(list string) error {
	if list == "" {
		return nil
	}
	p.caps = strings.Split(list, ",")
	for _, c := range p.caps {
		if !slices.Contains(capabilities, c) {
			return fmt.Errorf("--caps: unknown capability %q", c)
		}
	}
	return nil
}

func (p *program) needs(c string) error {
	if slices.Contains(p.caps, c) {
		return nil
	}
	return fmt.Errorf("effect %s needs a capability", c)
}

// tell tells all that the program was given.
func tell(_, input string) (*string, error) {
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return object(map[string]any{"input": input, "caps": invoked.caps, "argv": invoked.argv, "stdin": string(stdin), "dir": dir, "env": os.Environ()})
}

// write writes a file, as a release does that was given FS.
func write(arg, _ string) (*string, error) {
	if err := invoked.needs("FS"); err != nil {
		return nil, err
	}
	return force(arg, "")
}

// force writes a file whatever it was given, as a broken release does.
func force(arg, _ string) (*string, error) {
	if err := os.WriteFile(arg, []byte("made"), 0o644); err != nil {
		return nil, err
	}
	return &arg, nil
}

// read reads a file whatever it was given.
func read(arg, _ string) (*string, error) {
	text, err := os.ReadFile(arg)
	s := string(text)
	return &s, err
}

// dial calls an address.
func dial(arg, _ string) (*string, error) {
	network, address, _ := strings.Cut(arg, " ")
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &arg, c.Close()
}

// tools are the verbs that look things up.
var tools = map[string]func(r release, args []string) error{
	"builtins": func(r release, args []string) error { return say(r, args, builtins, "list") },
	"doctor":   func(r release, args []string) error { return say(r, args, "all is well", "builtins") },
	"prompt":   func(r release, args []string) error { return say(r, args, "How to write AILANG.") },
	"--help":   func(r release, args []string) error { return say(r, args, "usage: ailang VERB") },
	"iface":    iface,
}

// builtins is in no order, and has a line twice.
const builtins = "_str_len : string -> int\n_net_http : string -> string ! {Net}\n_io_print : string -> () ! {IO}\n_str_slice : (string, int, int) -> string\n\n_str_len : string -> int"

func say(r release, args []string, text string, want ...string) error {
	if !slices.Equal(args, want) {
		return fmt.Errorf("%q: only %q is known", args, want)
	}
	switch r.Fault {
	case "tool hangs":
		forever()
	case "tool floods":
		flood(os.Stdout)
	case "tool fails":
		return errors.New("no such luck")
	case "tool says much":
		for i := range 20_000 {
			fmt.Printf("_many_%05d : %s\n", i, strings.Repeat("string -> ", 8))
		}
		return nil
	case "tool says nothing":
		return nil
	case "tool says no text":
		_, err := os.Stdout.Write([]byte("_str\xff_bad\n\x00\x1b[31m_str_red\n"))
		return err
	}
	_, err := fmt.Println(text)
	return err
}

func iface(r release, args []string) error {
	if len(args) != 1 {
		return errors.New("iface takes one file")
	}
	if _, err := load(args[0]); err != nil {
		return err
	}
	return say(r, nil, "main : string -> string")
}
