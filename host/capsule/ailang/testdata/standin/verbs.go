package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// verb is a statement. It gives main's text, or nil if it wrote itself.
type verb func(arg, input string) (*string, error)

var verbs map[string]verb

func init() {
	verbs = map[string]verb{
		"echo":         func(_, input string) (*string, error) { return &input, nil },
		"length":       func(_, input string) (*string, error) { return object(map[string]any{"length": len(input)}) },
		"compute":      compute,
		"remember":     remember,
		"fail":         func(arg, _ string) (*string, error) { return nil, errors.New(arg) },
		"loop":         func(_, _ string) (*string, error) { spin(); return nil, nil },
		"sleep":        func(_, _ string) (*string, error) { forever(); return nil, nil },
		"take":         take,
		"print":        printMany,
		"raw":          raw,
		"say":          func(arg, _ string) (*string, error) { return &arg, nil },
		"reach":        func(arg, _ string) (*string, error) { return nil, fmt.Errorf("effect %s needs a capability", arg) },
		"surroundings": surroundings,
		"leave":        leave,
		"stray":        stray,
		"nest":         func(_, _ string) (*string, error) { return nil, fmt.Errorf("%d", nest(0)) },
		"panic":        func(_, _ string) (*string, error) { panic("on purpose") },
		"noise":        func(_, _ string) (*string, error) { flood(os.Stderr); return nil, nil },
		"wreck":        wreck,
		"grow":         grow,
		"tell":         tell,
		"write":        write,
		"force":        force,
		"read":         read,
		"dial":         dial,
	}
}

func object(v any) (*string, error) {
	b, err := json.Marshal(v)
	s := string(b)
	return &s, err
}

func compute(_, input string) (*string, error) {
	m := map[string]int{}
	for i, k := range []string{"z", "a", "é", "10", input} {
		m[k] = i
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(maps.Keys(m)), ",")))
	return object(map[string]any{
		"map": m, "keys": slices.Sorted(maps.Keys(m)), "float": fmt.Sprint(0.1+0.2*float64(len(m)), 1e21, 1/3.0), "hash": hex.EncodeToString(sum[:4]),
	})
}

// remember counts its runs in every place that it can write to.
func remember(_, _ string) (*string, error) {
	seen := 0
	for _, dir := range []string{".", os.Getenv("HOME"), os.Getenv("TMPDIR"), filepath.Dir(os.Args[0])} {
		file := filepath.Join(dir, "seen")
		old, _ := os.ReadFile(file)
		seen += len(old)
		_ = os.WriteFile(file, append(old, 'x'), 0o600)
	}
	return object(map[string]int{"seen": seen})
}

func spin() {
	for n := 0; ; n++ {
		if n < 0 {
			return
		}
	}
}

func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// take takes so many MiB and uses them.
func take(arg, _ string) (*string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for range n {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	return object(map[string]int{"took": len(all)})
}

func printMany(arg, _ string) (*string, error) {
	n, err := strconv.Atoi(arg)
	s := strings.Repeat("x", n)
	return &s, err
}

// raw writes bytes, and no line end.
func raw(arg, _ string) (*string, error) {
	b, err := hex.DecodeString(arg)
	if err != nil {
		return nil, err
	}
	_, err = os.Stdout.Write(b)
	return nil, err
}

func flood(w io.Writer) {
	line := []byte(strings.Repeat("flood ", 10_000) + "\n")
	for {
		if _, err := w.Write(line); err != nil {
			forever()
		}
	}
}

func nest(n int) int {
	var frame [4096]byte
	frame[n%len(frame)] = 1
	if n < 0 {
		return n
	}
	return nest(n+1) + int(frame[(n+1)%len(frame)])
}

// surroundings tells all that it can see of where it runs.
func surroundings(_, _ string) (*string, error) {
	var files, fds []string
	_ = filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		files = append(files, path)
		return err
	})
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasSuffix(to, "/fd") {
			to, _, _ = strings.Cut(to, ":")
			fds = append(fds, e.Name()+" "+to)
		}
	}
	limits, _ := os.ReadFile("/proc/self/limits")
	status, _ := os.ReadFile("/proc/self/status")
	network, _ := os.Readlink("/proc/self/ns/net")
	memory, _ := os.Readlink("/proc/self/ns/ipc")
	stdin, err := io.ReadAll(os.Stdin)
	return object(map[string]any{
		"env": os.Environ(), "args": os.Args[:2], "files": files, "fds": fds, "limits": string(limits), "status": string(status),
		"namespaces": []string{network, memory}, "stdin": string(stdin), "stdinError": fmt.Sprint(err), "group": syscall.Getpgrp() == os.Getpid() || syscall.Getpgrp() == 0,
	})
}

const orphanVerb = "orphan"

// leave leaves a process behind: it has a session of its own and holds stdout, and its
// parent is gone. arg is in its command line.
func leave(arg, input string) (*string, error) {
	cmd := exec.Command("/proc/self/exe", orphanVerb, "parent:"+arg)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return &input, cmd.Run()
}

// stray is leave from another folder.
func stray(arg, input string) (*string, error) {
	if err := os.Chdir("/"); err != nil {
		return nil, err
	}
	return leave(arg, input)
}

func orphan(arg string) {
	token, parent := strings.CutPrefix(arg, "parent:")
	if !parent {
		forever()
	}
	cmd := exec.Command("/proc/self/exe", orphanVerb, token)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// grow starts processes as fast as it can, up to a number that the machine bears.
func grow(_, _ string) (*string, error) {
	for n := range 500 {
		if err := exec.Command("/proc/self/exe", orphanVerb, "grown").Start(); err != nil {
			return nil, fmt.Errorf("after %d: %w", n, err)
		}
	}
	forever()
	return nil, nil
}

// wreck makes its folder one that is hard to remove, and writes there all that it may.
func wreck(_, _ string) (*string, error) {
	_ = os.MkdirAll("a/b/c", 0o700)
	_ = os.WriteFile("a/b/big", make([]byte, 8<<20), 0o600)
	_ = os.Symlink("/", "a/b/root")
	_ = os.Chmod("a/b/c", 0)
	_ = os.Chmod(".", 0o500)
	return nil, errors.New("wrecked")
}

// fault does what a broken release does instead of running a source.
func fault(name string) (bool, error) {
	switch name {
	case "":
		return false, nil
	case "run hangs":
		forever()
	case "run floods stdout":
		flood(os.Stdout)
	case "run floods stderr":
		flood(os.Stderr)
	case "run exits with 3":
		fmt.Fprintln(os.Stderr, "\x1b[31mthree\x1b[0m\n at last")
		os.Exit(3)
	case "run says nonsense":
		fmt.Println("=> done in 3 ms")
	case "run says nothing":
	case "run says no text":
		_, err := os.Stdout.Write([]byte("{\"a\":\"\xff\"}\n"))
		return true, err
	case "run says two values":
		fmt.Println("{}\n{}")
	case "run has banner":
		fmt.Println("AILANG says hello\n{}")
	}
	return true, nil
}
