package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"ailang.dev/world/host/world"
)

// Bounds of a specification.
const (
	MaxArgs     = 4096      // elements of Argv, and of Env
	MaxArgBytes = 512 << 10 // bytes of Argv and Env together
	MaxPaths    = 256       // read-only paths
	MaxStdin    = 1 << 20   // bytes
	MaxKeep     = 512 << 10 // bytes of one stream that can be kept
)

// Spec is one command and all that it may see and use.
type Spec struct {
	// Argv is the command. A name without a slash is looked up in the PATH of Env.
	Argv []string
	// Program is executed in place of what Argv names, which then is a name and no more. It is
	// open for reading, and must be a file whose content nobody can change: sealed memory.
	Program *os.File
	// Dir is the working folder: the writable tree or below, or "" for /tmp.
	Dir string
	// Env is the whole environment.
	Env []string
	// Stdin is what the command can read; nothing more comes.
	Stdin []byte
	// Tree is the one folder that can be written to, or worked in; nil is none.
	Tree *Tree
	// ReadOnly are files and folders that are visible beside the system's own.
	ReadOnly []string
	// Hide are folders, free of symbolic links, that are not visible where something named above
	// holds them, by whatever name it shows them.
	Hide   []string
	Limits Limits
}

// Tree is a folder that a command works in, and may change.
type Tree struct {
	// Path is absolute and free of symbolic links.
	Path string
	// Denied tells whether a path in it, given as its segments, may not be changed; nil is no
	// path.
	Denied func(segments []string) bool
	// ReadOnly lets nothing in it be changed.
	ReadOnly bool
}

// writable tells whether a command may change anything in it.
func (t *Tree) writable() bool { return t != nil && !t.ReadOnly }

// Limits bound a run. Each must be set.
type Limits struct {
	Wall      time.Duration // from start to end
	CPU       time.Duration // of all processes together
	Memory    int64         // bytes of all processes and of what they keep in /tmp
	Processes int           // processes and threads at once
	FileSize  int64         // bytes of one file
	OpenFiles int           // descriptors of one process
	Output    int64         // bytes written to stdout and stderr together; the first one more ends it
	Keep      int           // bytes of each stream that are kept
	Temp      int64         // bytes in /tmp
}

// Limit names what ended a run, or was met by it.
type Limit string

// The limits that a result can name.
const (
	LimitNone      Limit = ""
	LimitTimeout   Limit = "timeout"
	LimitMemory    Limit = "memory"
	LimitOutput    Limit = "output"
	LimitProcesses Limit = "processes"
	LimitCPU       Limit = "cpu"
	LimitFileSize  Limit = "file_size"
)

// Result is how a run ended.
type Result struct {
	// Exit is the command's exit code, -1 if it did not exit by itself.
	Exit int
	// Signal names the signal that ended it, or "".
	Signal string
	Limit  Limit
	Stdout Output
	Stderr Output
	// Removed are the paths in the tree that may not be made, were made, and are gone again,
	// at most MaxRemoved of them.
	Removed []string
	// CPU is the processor time of all processes; Wall is from start to end.
	CPU, Wall time.Duration
}

// MaxRemoved is how many removed paths a result names.
const MaxRemoved = 32

// Output is what came of one stream.
type Output struct {
	Text []byte // the beginning and the end; a line between them tells of what was left out
	Left int64  // bytes that were left out
}

func (s *Spec) check() error {
	const op = "sandbox.Start"
	size := 0
	for _, list := range [][]string{s.Argv, s.Env} {
		if len(list) > MaxArgs {
			return world.Errorf(world.KindTooLarge, op, "%d arguments or variables; at most %d", len(list), MaxArgs)
		}
		for _, a := range list {
			if strings.ContainsRune(a, 0) {
				return world.Errorf(world.KindBadRequest, op, "an argument or a variable holds a NUL")
			}
			size += len(a) + 1
		}
	}
	switch {
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return world.Errorf(world.KindBadRequest, op, "no command")
	case size > MaxArgBytes:
		return world.Errorf(world.KindTooLarge, op, "arguments and variables are %d bytes; at most %d", size, MaxArgBytes)
	case len(s.Stdin) > MaxStdin:
		return world.Errorf(world.KindTooLarge, op, "stdin is %d bytes; at most %d", len(s.Stdin), MaxStdin)
	case len(s.ReadOnly) > MaxPaths || len(s.Hide) > MaxPaths:
		return world.Errorf(world.KindTooLarge, op, "too many paths; at most %d", MaxPaths)
	}
	for _, p := range s.paths() {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			return world.Errorf(world.KindBadRequest, op, "path %q is not absolute and clean", p)
		}
	}
	return s.Limits.check()
}

// paths are all that must be absolute.
func (s *Spec) paths() []string {
	all := append(append([]string{}, s.ReadOnly...), s.Hide...)
	if s.Tree != nil {
		all = append(all, s.Tree.Path)
	}
	if s.Dir != "" {
		all = append(all, s.Dir)
	}
	return all
}

func (l Limits) check() error {
	for name, v := range map[string]int64{
		"wall": int64(l.Wall), "cpu": int64(l.CPU), "memory": l.Memory, "processes": int64(l.Processes), "file_size": l.FileSize,
		"open_files": int64(l.OpenFiles), "output": l.Output, "keep": int64(l.Keep), "temp": l.Temp,
	} {
		if v <= 0 {
			return world.Errorf(world.KindBadRequest, "sandbox.Start", "limit %s is not set", name)
		}
	}
	if l.Keep > MaxKeep {
		return world.Errorf(world.KindTooLarge, "sandbox.Start", "limit keep is %d; at most %d", l.Keep, MaxKeep)
	}
	return nil
}
