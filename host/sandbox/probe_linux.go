package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/world"
)

// probeTime bounds a probe.
const probeTime = 10 * time.Second

// probeLimits are those of a probe; nothing is run.
func probeLimits() Limits {
	return Limits{Wall: probeTime, CPU: probeTime, Memory: 256 << 20, Processes: 16, FileSize: 1 << 20, OpenFiles: 64, Output: 64 << 10, Keep: 4 << 10, Temp: 1 << 20}
}

// Probe makes a sandbox, runs nothing in it, and says what this host granted. Control groups
// that can be made but not entered are not used from then on; so it is not to be called while
// anything runs.
func (s *Sandbox) Probe(ctx context.Context) Report {
	s.groups.sweep()
	landlock, err := s.tryOut(ctx)
	if no := (*groupError)(nil); errors.As(err, &no) {
		s.groups = groups{}
		landlock, err = s.tryOut(ctx)
	}
	rep := Report{Groups: s.groups.walled(), Landlock: landlock}
	if err != nil {
		rep.Missing = append(rep.Missing, missing(err))
		return rep
	}
	if rep.Landlock == 0 {
		rep.Weaker = append(rep.Weaker, Missing{"Landlock", "the kernel does not have it, or it is not on",
			"files are walled off by mounts alone; for the second wall boot with landlock in the list lsm= (Linux 5.13 and later)"})
	}
	if !rep.Groups {
		rep.Weaker = append(rep.Weaker, Missing{"control groups", "none can be made for memory and pids",
			"memory and processes are watched every few hundredths of a second instead; run the daemon as a systemd service with Delegate=yes and DelegateSubgroup=daemon"})
	}
	return rep
}

func (s *Sandbox) tryOut(ctx context.Context) (landlock int, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	r, err := s.start(ctx, &Spec{Argv: []string{"probe"}, Limits: probeLimits()}, true)
	if err != nil {
		return 0, err
	}
	_, err = r.Wait()
	return r.landlock, err
}

// missing says what an error of a probe means to an operator.
func missing(err error) Missing {
	m := Missing{What: "confinement", Why: err.Error(), How: "see docs/sandbox.md"}
	var s *StepError
	var w *world.Error
	switch {
	case errors.As(err, &w) && w.Msg != "":
		m.Why = w.Msg
	case errors.As(err, &s):
		m.What, m.Why, m.How = s.Step, s.Why, stepHow(s.Step)
	case strings.HasPrefix(err.Error(), "namespaces: "):
		m.What, m.How = "user namespaces", userNamespaces()
	}
	return m
}

func stepHow(step string) string {
	switch {
	case step == "mount proc":
		return "/proc is partly covered, as container engines do it; start the container with its /proc whole (docker: --security-opt systempaths=unconfined), or run the daemon outside"
	case step == "capabilities", step == "mount namespace", step == "UTS namespace":
		return "user namespaces are granted without rights in them; " + userNamespaces()
	case step == "seccomp":
		return "the kernel needs CONFIG_SECCOMP_FILTER, on amd64 or arm64"
	case strings.HasPrefix(step, "mount"), step == "pivot_root", step == "new root":
		return "mounts are refused in user namespaces here, or the kernel is older than 5.14; a container engine's system call filter does that too (docker: --security-opt seccomp=unconfined)"
	}
	return "see docs/sandbox.md"
}

// userNamespaces says what stands in the way of user namespaces, as far as it can be seen.
func userNamespaces() string {
	settings := []struct{ path, bad, say string }{
		{"/proc/sys/user/max_user_namespaces", "0", "set the sysctl user.max_user_namespaces to 1000 or more"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "set the sysctl kernel.unprivileged_userns_clone to 1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"set the sysctl kernel.apparmor_restrict_unprivileged_userns to 0, or give ailang-worldd an AppArmor profile with `userns,`"},
	}
	for _, s := range settings {
		if text, err := os.ReadFile(s.path); err == nil && strings.TrimSpace(string(text)) == s.bad {
			return s.say
		}
	}
	if kernelBefore(5, 14) {
		return "the kernel is older than 5.14; use a newer one"
	}
	return "a container engine's system call filter may forbid them (docker: --security-opt seccomp=unconfined)"
}

func kernelBefore(major, minor int) bool {
	var u unix.Utsname
	var x, y int
	if unix.Uname(&u) != nil {
		return false
	}
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &x, &y); n != 2 {
		return false
	}
	return x < major || x == major && y < minor
}
