package sandbox

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refused are system calls that no confined command has a use for, and that reach, or have
// reached through their faults, what is outside: those that mount, enter namespaces, look
// into other processes, load code into the kernel, set its clock, or open files by number.
var refused = []string{
	"mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr", "statmount", "listmount", "unshare", "setns",
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
	"keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "fanotify_init",
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "syslog",
	"open_by_handle_at", "name_to_handle_at", "quotactl", "quotactl_fd", "acct", "swapon", "swapoff", "reboot",
	"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "vhangup",
	"iopl", "ioperm", "lookup_dcookie", "nfsservctl", "_sysctl", "uselib", "ustat", "sysfs", "memfd_secret",
}

// unwalled are refused beside them where memory is only watched: what they take is no
// process's own.
var unwalled = []string{"memfd_create", "shmget"}

// namespaces are the flags of clone that make namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// newest is the last system call that the lists above were made with in mind. Later ones do
// not exist for a confined command. Numbers above 423 are the same on all architectures.
const newest = 462 // mseal

// makes are the flags of open with which its mode counts: O_CREAT, and O_TMPFILE without
// O_DIRECTORY, which is in it.
const makes = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// device is the bit that the types of device nodes have, and no other type that mknod makes.
const device = unix.S_IFCHR

// filterCalls puts a filter on the calling thread; what it starts inherits it. The thread
// must have no_new_privs.
func filterCalls(walled bool) error {
	insts, err := assembleFilter(walled)
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(insts))
	for i, in := range insts {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	return nil
}

func assembleFilter(walled bool) ([]bpf.RawInstruction, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	names := refused
	if !walled {
		names = append(append([]string{}, refused...), unwalled...)
	}
	const allow, deny = seccomp.ActionAllow, seccomp.ActionErrno
	missing := deny | seccomp.Action(unix.ENOSYS)
	noFamily := deny | seccomp.Action(unix.EAFNOSUPPORT)
	const setID = unix.S_ISUID | unix.S_ISGID
	p := seccomp.Policy{DefaultAction: allow, Syscalls: []seccomp.SyscallGroup{
		{Names: known(machine, names), Action: deny},
		// Their arguments cannot be seen; libraries fall back on clone and openat.
		{Names: known(machine, []string{"clone3", "openat2"}), Action: missing},
		{NamesWithCondtions: knownWhen(machine, []seccomp.NameWithConditions{
			when("clone", arg(0, seccomp.BitsSet, namespaces)),
			when("mknodat", arg(2, seccomp.BitsSet, device|setID)),
			when("mknod", arg(1, seccomp.BitsSet, device|setID)),
			// A file that runs as its owner would outlive the run, in the worktree: others could
			// start it.
			when("chmod", arg(1, seccomp.BitsSet, setID)),
			when("fchmod", arg(1, seccomp.BitsSet, setID)),
			when("fchmodat", arg(2, seccomp.BitsSet, setID)),
			when("fchmodat2", arg(2, seccomp.BitsSet, setID)),
			when("creat", arg(1, seccomp.BitsSet, setID)),
			when("open", arg(1, seccomp.BitsSet, makes), arg(2, seccomp.BitsSet, setID)),
			when("openat", arg(2, seccomp.BitsSet, makes), arg(3, seccomp.BitsSet, setID)),
			// The limit of processes has a hard end above its soft one: see child. The kernel
			// looks at the low half of these arguments alone, the filter at all of them.
			when("prlimit64", arg(1, seccomp.Equal, unix.RLIMIT_NPROC), arg(2, seccomp.NotEqual, 0)),
			when("prlimit64", arg(1, seccomp.GreaterThan, math.MaxUint32)),
			when("setrlimit", arg(0, seccomp.Equal, unix.RLIMIT_NPROC)),
			when("setrlimit", arg(0, seccomp.GreaterThan, math.MaxUint32)),
		}), Action: deny},
		{NamesWithCondtions: []seccomp.NameWithConditions{
			when("socket", arg(0, seccomp.NotEqual, unix.AF_UNIX)),
			when("socketpair", arg(0, seccomp.NotEqual, unix.AF_UNIX)),
		}, Action: noFamily},
	}}
	rest, err := p.Assemble()
	if err != nil {
		return nil, err
	}
	// The library lets another architecture's calls pass, as its own default says: they end
	// the process here, before its filter.
	first := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4}, // the architecture
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(machine.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)},
		bpf.LoadAbsolute{Off: 0, Size: 4}, // the call's number
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: newest, SkipTrue: 1},
		bpf.RetConstant{Val: uint32(missing)},
	}
	raw, err := bpf.Assemble(append(first, rest...))
	if err != nil {
		return nil, fmt.Errorf("the system call filter: %w", err)
	}
	return raw, nil
}

// known leaves out names that this architecture does not have.
func known(machine *arch.Info, names []string) []string {
	var all []string
	for _, n := range names {
		if _, ok := machine.SyscallNames[n]; ok {
			all = append(all, n)
		}
	}
	return all
}

func knownWhen(machine *arch.Info, all []seccomp.NameWithConditions) []seccomp.NameWithConditions {
	return slices.DeleteFunc(all, func(n seccomp.NameWithConditions) bool {
		_, ok := machine.SyscallNames[n.Name]
		return !ok
	})
}

func when(name string, conditions ...seccomp.Condition) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{Name: name, Conditions: conditions}
}

func arg(n uint32, op seccomp.Operation, value uint64) seccomp.Condition {
	return seccomp.Condition{Argument: n, Operation: op, Value: value}
}
