package escape

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// targets are what an attempt may reach for, given to it as JSON.
type targets struct {
	Tree    string // the worktree
	Outside string // a folder beside it, with the file secret and the folder .git
	Secret  string // what the file holds, and the victim's environment
	Victim  int    // a process outside
	TCP     string // where it listens
	UDP     string
	Unix    string // an abstract name, without its NUL
	Hidden  string // a folder inside a read-only path, that is to be hidden
	ShmKey  int
}

func (t targets) secret() string { return filepath.Join(t.Outside, "secret") }

// reads is a try to read the secret.
func (t targets) reads(paths ...string) string {
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(t.Secret)) {
			return "read " + p
		}
	}
	return ""
}

// makes is a try to make a file outside.
func makes(paths ...string) string {
	for _, p := range paths {
		if f, err := os.OpenFile(p, os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
			f.Close()
			os.Remove(p)
			return "made " + p
		}
	}
	return ""
}

// calls tries system calls; the first that is not refused is told.
func calls(all ...call) string {
	for _, c := range all {
		if _, _, e := unix.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5]); e != unix.EPERM && e != unix.ENOSYS && e != unix.EACCES {
			return fmt.Sprintf("%s: %v", c.name, e)
		}
	}
	return ""
}

type call struct {
	name string
	nr   uintptr
	args [6]uintptr
}

func str(s string) uintptr {
	b := append([]byte(s), 0)
	p := &b[0]
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(p))
}

var kept [][]byte // what system calls were given stays where it is

// attempts are tried one by one. Each gives what it reached, or "" if it was held. They run
// as programs of their own, inside and, as a control, outside.
var attempts = map[string]func(targets) string{
	"absolute path":  func(t targets) string { return t.reads(t.secret()) },
	"other worktree": func(t targets) string { return t.reads(filepath.Join(filepath.Dir(t.Tree), "other", "secret")) },
	"hidden folder":  func(t targets) string { return t.reads(filepath.Join(t.Hidden, "secret")) },
	"symbolic link":  symbolicLink,
	"dot dot": func(t targets) string {
		return t.reads(filepath.Join("..", "..", "outside", "secret"), strings.Repeat("../", 40)+t.secret())
	},
	"proc self root": func(t targets) string {
		return t.reads("/proc/self/root"+t.secret(), "/proc/self/cwd/../../outside/secret", "/proc/thread-self/root"+t.secret())
	},
	"proc pid root":                 procRoots,
	"proc pid":                      procMarks,
	"proc 1":                        procOne,
	"hard link":                     func(t targets) string { return linked(t.secret(), "stolen", t.Secret) },
	"hard link to a protected file": protectedLink,
	"O_TMPFILE":                     tmpFile,
	"device node":                   deviceNode,
	"inherited descriptor":          descriptors,
	"environment":                   environment,
	"ptrace":                        ptrace,
	"signal outside":                func(t targets) string { return ifNil(unix.Kill(t.Victim, 0), "signalled the victim") },
	"tcp":                           func(t targets) string { return dials("tcp", t.TCP) },
	"udp":                           func(t targets) string { return dials("udp", t.UDP) },
	"netlink and raw sockets":       sockets,
	"abstract socket":               func(t targets) string { return dials("unix", "@"+t.Unix) },
	"socket file":                   func(t targets) string { return dials("unix", filepath.Join(t.Tree, "sock")) },
	"fifo":                          fifo,
	"shared memory":                 sharedMemory,
	"write git hook":                func(targets) string { return makes(".git/hooks/post-checkout", ".git/new") },
	"write git config":              func(targets) string { return writes(".git/config", "sub/.git/config", "linked/.git") },
	"attributes of protected files": protectedAttributes,
	"rename git":                    renameGit,
	"rename above git":              renameAbove,
	"unmount git":                   unmount,
	"remount":                       remount,
	"namespaces":                    namespaces,
	"setns":                         setns,
	"chroot":                        chroot,
	"write system":                  func(targets) string { return makes("/usr/x", "/etc/x", "/bin/x", "/x", "/dev/x", "/var/x", "/lib/x") },
	"write proc sys":                procSys,
	"control groups":                controlGroups,
	"become root":                   becomeRoot,
	"file handle":                   fileHandle,
	"kernel calls":                  kernelCalls,
	"32-bit calls":                  oldCalls,
	"set-user-id file":              setUserID,
	"raise limits":                  raiseLimits,
	"other daemon binary": func(targets) string {
		return ifNil(openClose(fmt.Sprintf("/proc/%d/exe", os.Getppid())), "opened the binary of its parent")
	},
}

func ifNil(err error, text string) string {
	if err == nil {
		return text
	}
	return ""
}

func openClose(path string) error {
	f, err := os.Open(path)
	if err == nil {
		f.Close()
	}
	return err
}

func symbolicLink(t targets) string {
	os.Remove("way")
	if err := os.Symlink(t.Outside, "way"); err != nil {
		return ""
	}
	defer os.Remove("way")
	if got := t.reads("way/secret"); got != "" {
		return got
	}
	return makes("way/made")
}

func procRoots(t targets) string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if d == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		if got := t.reads(d+"/root"+t.secret(), d+"/cwd/secret"); got != "" {
			return got
		}
	}
	return ""
}

// procMarks looks for the victim by what stands in its environment.
func procMarks(t targets) string {
	dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, d := range dirs {
		if b, err := os.ReadFile(d); err == nil && bytes.Contains(b, []byte("VICTIM="+t.Secret)) {
			return "read " + d
		}
	}
	return ""
}

func procOne(targets) string {
	if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", os.Getppid()), os.O_RDWR, 0); err == nil {
		f.Close()
		return "opened the memory of process 1"
	}
	for _, p := range []string{"environ", "maps", "root/.", "cwd/.", "fd/0", "fd/3", "fd/4"} {
		p = fmt.Sprintf("/proc/%d/", os.Getppid()) + p
		if openClose(p) == nil {
			return "opened " + p
		}
		if to, err := os.Readlink(p); err == nil {
			return p + " leads to " + to
		}
	}
	return ""
}

func linked(from, to, holds string) string {
	os.Remove(to)
	if err := os.Link(from, to); err != nil {
		return ""
	}
	defer os.Remove(to)
	if b, err := os.ReadFile(to); err == nil && strings.Contains(string(b), holds) {
		return "linked " + from
	}
	return ""
}

func protectedLink(targets) string {
	if got := linked(".git/config", "config", ""); got != "" {
		return got
	}
	return ifNil(os.Rename(".git/config", "config"), "moved .git/config away")
}

func tmpFile(t targets) string {
	for _, dir := range []string{t.Outside, "/usr", "/etc", "/"} {
		if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600); err == nil {
			unix.Close(fd)
			return "a file in " + dir
		}
	}
	return ""
}

// deviceNode makes the node of the memory device, which every kernel has: in the tree and in
// the run's own folders.
func deviceNode(targets) string {
	for _, at := range []string{"node", "/tmp/node", "/dev/shm/node"} {
		for _, kind := range []uint32{unix.S_IFCHR, unix.S_IFBLK} {
			if unix.Mknod(at, kind|0o666, int(unix.Mkdev(1, 5))) == nil {
				os.Remove(at)
				return "made a device " + at
			}
		}
	}
	return ""
}

func descriptors(t targets) string {
	for fd := 3; fd < 512; fd++ {
		buf := make([]byte, 64)
		if n, err := unix.Pread(fd, buf, 0); err == nil && bytes.Contains(buf[:n], []byte(t.Secret)) {
			return "read descriptor " + strconv.Itoa(fd)
		}
	}
	return ""
}

func environment(targets) string {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name == "LD_PRELOAD" || strings.HasPrefix(name, "GIT_") || name == "SECRET_OF_DAEMON" {
			return "saw " + v
		}
	}
	return ""
}

func ptrace(t targets) string {
	runtime.LockOSThread()
	for _, pid := range []int{t.Victim, 1, os.Getppid()} {
		if syscall.PtraceAttach(pid) == nil {
			_ = syscall.PtraceDetach(pid)
			return fmt.Sprintf("traced %d", pid)
		}
		var b [8]byte
		local := []unix.Iovec{{Base: &b[0], Len: 8}}
		if _, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0); err == nil || err == unix.EFAULT {
			return fmt.Sprintf("read the memory of %d", pid)
		}
	}
	return ""
}

func dials(network, address string) string {
	c, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return ""
	}
	c.Close()
	return "reached " + network + " " + address
}

func sockets(targets) string {
	for name, s := range map[string][3]int{"netlink": {unix.AF_NETLINK, unix.SOCK_RAW, 0}, "inet": {unix.AF_INET, unix.SOCK_STREAM, 0},
		"inet6": {unix.AF_INET6, unix.SOCK_DGRAM, 0}, "packet": {unix.AF_PACKET, unix.SOCK_RAW, 0}, "vsock": {unix.AF_VSOCK, unix.SOCK_STREAM, 0}, "alg": {unix.AF_ALG, unix.SOCK_SEQPACKET, 0}} {
		if fd, err := unix.Socket(s[0], s[1], s[2]); err == nil {
			unix.Close(fd)
			return "a socket of family " + name
		}
	}
	return ""
}

// fifo writes to a pipe in the worktree that a process outside reads.
func fifo(t targets) string {
	f, err := os.OpenFile(filepath.Join(t.Tree, "pipe"), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Mode()&fs.ModeNamedPipe == 0 {
		return ""
	}
	_, err = f.Write([]byte("x"))
	return ifNil(err, "wrote to a pipe that another process reads")
}

func sharedMemory(t targets) string {
	id, err := unix.SysvShmGet(t.ShmKey, 0, 0)
	return ifNil(err, fmt.Sprintf("shared memory %d", id))
}

func writes(paths ...string) string {
	for _, p := range paths {
		if f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			f.Close()
			return "opened " + p
		}
		if os.Truncate(p, 0) == nil {
			return "cut " + p
		}
	}
	return ""
}

func protectedAttributes(targets) string {
	for _, p := range []string{".git/config", ".git", "linked/.git"} {
		switch {
		case os.Chmod(p, 0o700) == nil:
			return "changed the mode of " + p
		case os.Chtimes(p, time.Time{}, time.Unix(1, 0)) == nil:
			return "changed the times of " + p
		case unix.Setxattr(p, "user.x", []byte("1"), 0) == nil:
			return "gave an attribute to " + p
		case os.Lchown(p, os.Getuid(), os.Getgid()) == nil:
			return "changed the owner of " + p
		}
	}
	return ""
}

func renameGit(targets) string {
	for _, p := range []string{".git", "sub/.git", "linked/.git"} {
		if os.Rename(p, "elsewhere") == nil {
			_ = os.Rename("elsewhere", p)
			return "moved " + p
		}
		if os.Mkdir("other.git", 0o755); unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, "other.git", unix.RENAME_EXCHANGE) == nil {
			_ = unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, "other.git", unix.RENAME_EXCHANGE)
			return "exchanged " + p
		}
	}
	os.Remove("other.git")
	return ""
}

// renameAbove moves the folder that holds a .git, and tries to change it at its new place.
func renameAbove(targets) string {
	if os.Rename("sub", "moved") != nil {
		return ""
	}
	defer os.Rename("moved", "sub")
	if got := writes("moved/.git/config"); got != "" {
		return got
	}
	return makes("moved/.git/new")
}

func unmount(targets) string {
	for _, p := range []string{".git", "sub/.git", "/usr", "/proc", "/"} {
		if unix.Unmount(p, unix.MNT_DETACH) == nil {
			return "unmounted " + p
		}
	}
	return ""
}

func remount(targets) string {
	for _, p := range []string{".git", "/usr", "/", "/proc"} {
		if unix.Mount("", p, "", unix.MS_REMOUNT|unix.MS_BIND, "") == nil {
			return "remounted " + p
		}
		if unix.MountSetattr(unix.AT_FDCWD, p, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}) == nil {
			return "made writable " + p
		}
	}
	return ifNil(unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""), "mounted")
}

func namespaces(targets) string {
	flags := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID)
	got := calls(call{"unshare", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUSER | unix.CLONE_FS}})
	if got == "unshare: "+syscall.Errno(unix.EINVAL).Error() { // a process with threads may not; a new one may
		got = ""
	}
	if got != "" {
		return got
	}
	cmd := &syscall.ProcAttr{Env: []string{}, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Cloneflags: flags}}
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, cmd)
	if err != nil {
		return ""
	}
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	return "started a process in new namespaces"
}

func setns(targets) string {
	for _, p := range []string{"/proc/1/ns/mnt", "/proc/1/ns/net", "/proc/1/ns/pid", "/proc/self/ns/net"} {
		fd, err := unix.Open(p, unix.O_RDONLY, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, 0); err == nil || err == unix.EINVAL {
			return "entered " + p
		}
	}
	return ""
}

func chroot(t targets) string {
	if os.Mkdir("jail", 0o755) != nil || unix.Chroot("jail") != nil {
		os.Remove("jail")
		return ""
	}
	return "changed the root"
}

func procSys(targets) string {
	for _, p := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/self/oom_score_adj", "/proc/self/uid_map", "/proc/sys/vm/drop_caches"} {
		if f, err := os.OpenFile(p, os.O_WRONLY, 0); err == nil {
			f.Close()
			return "opened " + p
		}
	}
	return ""
}

func controlGroups(targets) string {
	files, _ := filepath.Glob("/sys/fs/cgroup/*")
	if len(files) > 0 {
		return "sees " + files[0]
	}
	return ""
}

func becomeRoot(targets) string {
	if os.Getuid() != 0 && (unix.Setuid(0) == nil || unix.Setresgid(0, 0, 0) == nil) {
		return "changed its user"
	}
	all := [2]unix.CapUserData{{Effective: ^uint32(0), Permitted: ^uint32(0)}, {}}
	if unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &all[0]) == nil {
		return "took capabilities"
	}
	var own [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &own[0]); err != nil || own[0].Permitted|own[0].Effective|own[1].Permitted != 0 {
		return "has capabilities"
	}
	n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || n != 1 {
		return "may gain privileges by what it executes"
	}
	return ""
}

// fileHandle opens the root by its number, as a process with rights can on any mount.
func fileHandle(t targets) string {
	for _, p := range []string{t.Tree, "/usr"} {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, p, 0)
		if err != nil {
			continue
		}
		dir, err := unix.Open(p, unix.O_RDONLY, 0)
		if err != nil {
			continue
		}
		defer unix.Close(dir)
		if fd, err := unix.OpenByHandleAt(dir, h, unix.O_RDONLY); err == nil {
			unix.Close(fd)
			return "opened a file by its handle"
		}
	}
	return ""
}

func kernelCalls(targets) string {
	var buf [256]byte
	at := uintptr(unsafe.Pointer(&buf[0]))
	kept = append(kept, buf[:])
	return calls(
		call{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uintptr{1, at}},
		call{"bpf", unix.SYS_BPF, [6]uintptr{0, at, 64}},
		call{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [6]uintptr{at, 0, ^uintptr(0), ^uintptr(0)}},
		call{"userfaultfd", unix.SYS_USERFAULTFD, [6]uintptr{1}},
		call{"keyctl", unix.SYS_KEYCTL, [6]uintptr{0, ^uintptr(2)}},
		call{"add_key", unix.SYS_ADD_KEY, [6]uintptr{str("user"), str("x"), at, 1, ^uintptr(2)}},
		call{"kexec_load", unix.SYS_KEXEC_LOAD, [6]uintptr{}},
		call{"init_module", unix.SYS_INIT_MODULE, [6]uintptr{at, 1, at}},
		call{"clone3", unix.SYS_CLONE3, [6]uintptr{at, 64}},
		call{"fsopen", unix.SYS_FSOPEN, [6]uintptr{str("tmpfs")}},
		call{"open_tree", unix.SYS_OPEN_TREE, [6]uintptr{^uintptr(99), str("/"), 1}},
		call{"pidfd_getfd", unix.SYS_PIDFD_GETFD, [6]uintptr{^uintptr(0)}},
		call{"a call that is newer than the filter", 1000, [6]uintptr{}}, // no kernel has it
		call{"sethostname", unix.SYS_SETHOSTNAME, [6]uintptr{at, 1}},
	)
}

func raiseLimits(targets) string {
	for what, name := range map[int]string{unix.RLIMIT_NPROC: "processes", unix.RLIMIT_FSIZE: "file size", unix.RLIMIT_NOFILE: "open files", unix.RLIMIT_CORE: "core"} {
		var has unix.Rlimit
		if unix.Getrlimit(what, &has) != nil {
			continue
		}
		if what == unix.RLIMIT_NPROC && unix.Setrlimit(what, &unix.Rlimit{Cur: has.Max, Max: has.Max}) == nil && has.Cur != has.Max {
			return "raised " + name + " to the hard limit"
		}
		if has.Max != unix.RLIM_INFINITY && unix.Setrlimit(what, &unix.Rlimit{Cur: has.Max + 1, Max: has.Max + 1}) == nil {
			return "raised " + name
		}
	}
	return ""
}

// setUserID makes a file that would run as its owner, whoever starts it.
func setUserID(targets) string {
	defer os.Remove("own")
	dir, err := unix.Open(".", unix.O_RDONLY, 0)
	if err != nil || os.WriteFile("own", nil, 0o755) != nil {
		return ""
	}
	defer unix.Close(dir)
	for name, do := range map[string]func() error{
		"chmod":     func() error { return unix.Chmod("own", 0o4755) },
		"fchmodat":  func() error { return unix.Fchmodat(dir, "own", 0o2755, 0) },
		"fchmodat2": func() error { return unix.Fchmodat(dir, "own", 0o6755, unix.AT_SYMLINK_NOFOLLOW) },
		"open": func() error {
			_ = os.Remove("own")
			fd, err := unix.Open("own", unix.O_CREAT|unix.O_WRONLY, 0o4755)
			unix.Close(fd)
			return err
		},
		"openat2": func() error {
			_ = os.Remove("own")
			fd, err := unix.Openat2(dir, "own", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o4755})
			unix.Close(fd)
			return err
		},
		"mknod": func() error { _ = os.Remove("own"); return unix.Mknod("own", unix.S_IFREG|0o4755, 0) },
		"O_TMPFILE": func() error {
			fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_WRONLY, 0o4755)
			unix.Close(fd)
			return err
		},
	} {
		_ = os.WriteFile("own", nil, 0o755)
		if err := do(); err == nil {
			return "made one with " + name
		}
	}
	return ""
}

// doomed are programs that end by a limit. They give nothing back.
var doomed = map[string]func(targets){
	"fork bomb": func(targets) {
		for {
			_, _ = syscall.ForkExec("/proc/self/exe", []string{"x", "attempt", "fork bomb", "{}"}, &syscall.ProcAttr{Env: []string{}})
		}
	},
	"memory bomb": func(targets) {
		for {
			b := make([]byte, 16<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
		}
	},
	"memory bomb in /tmp": func(targets) {
		for i := 0; ; i++ {
			if os.WriteFile(fmt.Sprintf("/tmp/%d", i), make([]byte, 8<<20), 0o600) != nil {
				// The folder is full; what is left is the process's own memory.
				kept = append(kept, bytes.Repeat([]byte{1}, 16<<20))
			}
		}
	},
	"shared memory bomb": func(targets) {
		for {
			b, err := unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
			if err != nil {
				os.Exit(1)
			}
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
		}
	},
	"output flood": func(targets) {
		b := bytes.Repeat([]byte("flood\n"), 10_000)
		for {
			_, _ = os.Stdout.Write(b)
			_, _ = os.Stderr.Write(b)
		}
	},
	"big file": func(targets) {
		_ = syscall.Exec("/bin/dd", []string{"dd", "if=/dev/zero", "of=big", "bs=1M"}, nil)
	},
	"busy": func(targets) {
		for range 4 {
			go func() {
				for i := 0; i >= 0; i++ {
					i %= 1000
				}
			}()
		}
		select {}
	},
	"deaf": func(targets) {
		signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
		beat()
	},
	"daemon": func(targets) {
		attr := &syscall.ProcAttr{Env: []string{}, Files: []uintptr{}, Sys: &syscall.SysProcAttr{Setsid: true}}
		_, err := syscall.ForkExec("/proc/self/exe", []string{"x", "attempt", "daemon again", "{}"}, attr)
		if err != nil {
			os.Exit(1)
		}
		time.Sleep(300 * time.Millisecond)
	},
	"daemon again": func(targets) {
		attr := &syscall.ProcAttr{Env: []string{}, Files: []uintptr{}, Sys: &syscall.SysProcAttr{Setsid: true}}
		_, _ = syscall.ForkExec("/proc/self/exe", []string{"x", "attempt", "deaf", "{}"}, attr)
	},
	// plant makes protected names in every spelling.
	"plant": func(targets) {
		for _, dir := range planted {
			if os.MkdirAll(dir, 0o755) == nil {
				_ = os.WriteFile(filepath.Join(dir, "evil"), []byte("evil"), 0o755)
			}
		}
		_ = os.WriteFile(".gitmodule\u017f", []byte("evil"), 0o644)
		_ = os.Remove("link.pem") // a protected link
		_ = os.WriteFile("link.pem", []byte("evil"), 0o644)
		_ = os.Chmod("a\nb", 0o000)
	},
	// race flips a name between a folder with a protected one in it and a link that leads out.
	"race": func(t targets) {
		end := time.Now().Add(1500 * time.Millisecond)
		for time.Now().Before(end) {
			_ = os.MkdirAll("flip/.git/hooks", 0o755)
			_ = os.MkdirAll("flip/.github", 0o755)
			_ = os.Rename("flip", "flop")
			_ = os.Symlink(t.Outside, "flip")
			_ = os.Rename("flip", "flap")
			_ = os.Remove("flap")
			_ = os.Rename("flop", "flip")
			_ = os.Remove("flip/.github")
			if os.Symlink(t.Outside, "flip/.github") == nil {
				_ = os.Remove("flip/.github")
			}
		}
		_ = os.RemoveAll("flip")
		_ = os.Symlink(t.Outside, "flip")
		_ = os.Symlink(t.Outside, ".github") // a new protected link that leads out
	},
}

// planted are names that are all protected ones in disguise.
var planted = []string{".GIT", ".Github/workflows", ".g\u200cit", ".claude. ", "sub/deep/.git/hooks", "a\nb/.git", "\x1b[31m/.vscode", ".vſcode", "git~1", ".pi"}

// beat writes to a file as long as it lives.
func beat() {
	for {
		_ = os.WriteFile("beat", []byte(time.Now().String()), 0o644)
		time.Sleep(10 * time.Millisecond)
	}
}

// oldCalls asks for its process id by the way of 32-bit programs, whose calls have other
// numbers: getpid's is 20.
func oldCalls(targets) string {
	if runtime.GOARCH != "amd64" {
		return ""
	}
	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return ""
	}
	copy(code, []byte{0x53, 0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0x5b, 0xc3}) // push rbx; mov eax, 20; int 0x80; pop rbx; ret
	entry := &code[0]
	fn := unsafe.Pointer(&entry)
	(*(*func())(unsafe.Pointer(&fn)))()
	return "called"
}
