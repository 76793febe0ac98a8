package sandbox

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groups are the control groups under which a run's own can be made: one folder of version
// 2, or one for memory and one for pids of version 1. Empty if there are none, and then
// memory is watched and processes are counted by an rlimit. The libraries for this bring a
// systemd client and an eBPF loader; four files are written here.
type groups struct {
	v2          string
	memory, pid string
}

func (g groups) walled() bool { return g.v2 != "" || g.memory != "" && g.pid != "" }

// groupName begins the name of each group that is made here; the number of this process
// follows, and something random.
const groupName = "ailang-world-"

func newGroupName() string { return fmt.Sprintf("%s%d-%s", groupName, os.Getpid(), rand.Text()) }

const (
	cgroupFS = "/sys/fs/cgroup"
	// groupEnd is how long the kernel may take to empty a group whose processes are dead,
	// and groupPoll how often it is looked at.
	groupEnd  = 2 * time.Second
	groupPoll = 5 * time.Millisecond
)

// findGroups looks for groups of this process in which it may make others. Of version 2
// that is its parent's, if it was given to this user whole (systemd: Delegate=yes and
// DelegateSubgroup=…), since a group with processes can have no groups with limits.
func findGroups() groups {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return groups{}
	}
	var g groups
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch controllers := strings.Split(parts[1], ","); {
		case parts[1] == "":
			g.v2 = usableV2(filepath.Join(cgroupFS, filepath.Dir(parts[2])))
		case slices.Contains(controllers, "memory"):
			g.memory = usableV1("memory", parts[2], "memory.limit_in_bytes")
		case slices.Contains(controllers, "pids"):
			g.pid = usableV1("pids", parts[2], "pids.current")
		}
	}
	return g
}

func usableV1(controller, own, file string) string {
	dir := filepath.Join(cgroupFS, controller, own)
	return tried(dir, file)
}

func usableV2(dir string) string {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return ""
	}
	for _, c := range []string{"memory", "pids"} {
		if !slices.Contains(strings.Fields(string(have)), c) &&
			os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0) != nil {
			return ""
		}
	}
	return tried(dir, "memory.max")
}

// tried is dir if a group can be made in it that has a certain file.
func tried(dir, file string) string {
	made := filepath.Join(dir, newGroupName())
	if os.Mkdir(made, 0o755) != nil {
		return ""
	}
	defer os.Remove(made)
	if _, err := os.Stat(filepath.Join(made, file)); err != nil {
		return ""
	}
	return dir
}

// group is the control group of one run; nil is none.
type group struct {
	v1   bool
	dirs []string // memory first
}

// make makes a run's group and sets its limits.
func (g groups) make(l Limits) (*group, error) {
	if !g.walled() {
		return nil, nil
	}
	name := newGroupName()
	run := &group{v1: g.v2 == ""}
	parents := []string{g.v2}
	if run.v1 {
		parents = []string{g.memory, g.pid}
	}
	for _, p := range parents {
		dir := filepath.Join(p, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, errors.Join(err, run.remove())
		}
		run.dirs = append(run.dirs, dir)
	}
	most := strconv.FormatInt(l.Memory, 10)
	settings := [][2]string{{"memory.max", most}, {"memory.swap.max", "0"}}
	if run.v1 {
		settings = [][2]string{{"memory.limit_in_bytes", most}, {"memory.memsw.limit_in_bytes", most}}
	}
	for i, s := range settings {
		err := os.WriteFile(filepath.Join(run.dirs[0], s[0]), []byte(s[1]), 0)
		if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) { // kernels without swap accounting lack the second
			return nil, errors.Join(err, run.remove())
		}
	}
	err := os.WriteFile(filepath.Join(run.last(), "pids.max"), []byte(strconv.Itoa(l.Processes+initThreads)), 0)
	if err != nil {
		return nil, errors.Join(err, run.remove())
	}
	return run, nil
}

func (g *group) last() string { return g.dirs[len(g.dirs)-1] }

// add puts a process into the group.
func (g *group) add(pid int) error {
	if g == nil {
		return nil
	}
	for _, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return err
		}
	}
	return nil
}

// crowded tells whether a process was refused because there were too many.
func (g *group) crowded() bool { return g != nil && g.count(g.last(), "pids.events", "max") > 0 }

// starved tells whether a process was killed because memory was used up.
func (g *group) starved() bool {
	if g == nil {
		return false
	}
	if g.v1 {
		return g.count(g.dirs[0], "memory.oom_control", "oom_kill") > 0
	}
	return g.count(g.dirs[0], "memory.events", "oom_kill") > 0
}

// count reads a number from a file of lines "name number"; 0 if it is not there.
func (g *group) count(dir, file, name string) int64 {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		var key string
		var n int64
		if _, err := fmt.Sscan(string(line), &key, &n); err == nil && key == name {
			return n
		}
	}
	return 0
}

// remove takes the group away once its processes are gone.
func (g *group) remove() error {
	if g == nil {
		return nil
	}
	var all error
	for _, dir := range g.dirs {
		end := time.Now().Add(groupEnd)
		err := unix.Rmdir(dir)
		for err == unix.EBUSY && time.Now().Before(end) {
			time.Sleep(groupPoll)
			err = unix.Rmdir(dir)
		}
		if err != nil && err != unix.ENOENT {
			all = errors.Join(all, &os.PathError{Op: "rmdir", Path: dir, Err: err})
		}
	}
	return all
}

// sweep removes the groups that a killed daemon left. One that was only just made by a daemon
// that lives is empty too, and is left alone.
func (g groups) sweep() {
	for _, dir := range []string{g.v2, g.memory, g.pid} {
		if dir == "" {
			continue
		}
		left, _ := filepath.Glob(filepath.Join(dir, groupName+"*"))
		for _, l := range left {
			var pid int
			n, _ := fmt.Sscanf(filepath.Base(l), groupName+"%d-", &pid)
			if n == 1 && unix.Kill(pid, 0) == unix.ESRCH {
				_ = unix.Rmdir(l) // it fails while anything is in it
			}
		}
	}
}
