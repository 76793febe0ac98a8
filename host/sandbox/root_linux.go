package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The system's own, as far as programs need it to run.
var (
	systemDirs  = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
	systemFiles = []string{"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone",
		"/etc/os-release", "/etc/debian_version", "/etc/mime.types", "/etc/protocols", "/etc/services", "/etc/mtab", "/etc/login.defs",
		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/ca-certificates"}
)

// devices are the device files that are shown.
func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
}

// base is where the new root is put together; what is there is covered meanwhile. It is a
// folder that every system has, and none that a source of ours is opened in later.
const base = "/usr"

const (
	rootBytes  = 4 << 20 // the root's own folders and small files
	rootInodes = 20_000
	shmBytes   = 64 << 20
	tempInodes = 1 << 20
)

// piece is one mount to come: detached, with the place it goes to.
type piece struct {
	fd   int
	to   string
	file bool
	// veil covers what is at its place, if there is anything, and is made read-only at the end.
	veil bool
}

// build makes the root and moves into it.
func (b *box) build() error {
	unix.Umask(0o022)
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return step("UTS namespace", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return step("mount namespace", err)
	}
	pieces, links, err := b.pieces()
	if err != nil {
		return err
	}
	err = unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,nr_inodes=%d,mode=0755", rootBytes, rootInodes))
	if err != nil {
		return step("mount tmpfs", err)
	}
	fd, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return step("new root", err)
	}
	r := newRoot(fd)
	if err := r.furnish(links); err != nil {
		return step("new root", err)
	}
	slices.SortStableFunc(pieces, func(x, y piece) int { return cmp.Compare(x.to, y.to) })
	for _, p := range pieces {
		if err := r.attach(p); err != nil {
			return step("mount "+p.to, err)
		}
	}
	if err := b.protect(r); err != nil {
		return err
	}
	for _, p := range pieces {
		if p.veil {
			if err := readOnly(p.fd, 0); err != nil {
				return step("mount "+p.to, err)
			}
		}
		unix.Close(p.fd)
	}
	return r.enter()
}

// pieces opens all that will be shown, while the old root is still there.
func (b *box) pieces() (all []piece, links map[string]string, err error) {
	links = map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1",
		"/dev/stderr": "/proc/self/fd/2", "/var/tmp": "/tmp"}
	add := func(from, to string, attr uint64) error {
		p, err := clone(from, to, attr)
		if err == nil {
			all = append(all, p)
		}
		return err
	}
	const quiet = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	for _, p := range slices.Concat(systemDirs, systemFiles) {
		target, err := os.Readlink(p)
		if err == nil {
			links[p] = target
			continue
		}
		if err := add(p, p, quiet|unix.MOUNT_ATTR_RDONLY); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return nil, nil, step("mount "+p, err)
		}
	}
	for _, d := range devices() {
		if err := add(d, d, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return nil, nil, step("mount "+d, err)
		}
	}
	for _, m := range b.order.ReadOnly {
		if err := add(m.From, m.To, quiet|unix.MOUNT_ATTR_RDONLY); err != nil {
			return nil, nil, step("mount "+m.To, err)
		}
	}
	if t := b.order.Tree; t != "" {
		attr := uint64(quiet)
		if b.order.TreeReadOnly {
			attr |= unix.MOUNT_ATTR_RDONLY
		}
		if err := add(t, t, attr); err != nil {
			return nil, nil, step("mount "+t, err)
		}
	}
	fresh, err := b.fresh()
	return append(all, fresh...), links, err
}

// fresh makes the file systems of the run's own.
func (b *box) fresh() ([]piece, error) {
	var all []piece
	add := func(kind, to string, attr int, veil bool, options map[string]string) error {
		fd, err := newMount(kind, attr, options)
		if err == nil {
			all = append(all, piece{fd: fd, to: to, veil: veil})
		}
		return step("mount "+kind, err)
	}
	const quiet = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	memory := func(size int64, inodes int, mode string) map[string]string {
		return map[string]string{"size": strconv.FormatInt(size, 10), "nr_inodes": strconv.Itoa(inodes), "mode": mode}
	}
	err := errors.Join(
		// Read-only: much of it answers to the number of the user, whatever its capabilities.
		add("proc", "/proc", quiet|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY, false, nil),
		add("tmpfs", "/tmp", quiet, false, memory(b.order.Limits.Temp, tempInodes, "1777")),
		add("tmpfs", "/dev/shm", quiet|unix.MOUNT_ATTR_NOEXEC, false, memory(min(shmBytes, b.order.Limits.Temp), rootInodes, "1777")),
	)
	for _, h := range b.order.Hide {
		err = errors.Join(err, add("tmpfs", h, quiet|unix.MOUNT_ATTR_NOEXEC, true, memory(rootBytes, rootInodes, "0755")))
	}
	return all, err
}

// clone opens a file or folder with all that is mounted below it as a detached mount.
func clone(from, to string, attr uint64) (piece, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return piece{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return piece{}, err
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE})
	return piece{fd: fd, to: to, file: st.Mode&unix.S_IFMT != unix.S_IFDIR}, err
}

func readOnly(fd int, flags uint) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// newMount makes a file system, detached.
func newMount(kind string, attr int, options map[string]string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for k, v := range options {
		if err := unix.FsconfigSetString(fs, k, v); err != nil {
			return -1, fmt.Errorf("%s=%s: %w", k, v, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
}

// root is the new root while it is put together. Every path is resolved in it.
type root struct{ fd int }

func newRoot(fd int) *root { return &root{fd} }

// inside opens a path of the new root, whatever links lead to.
func (r *root) inside(path string, flags uint64) (int, error) {
	rel := cmp.Or(strings.TrimPrefix(path, "/"), ".")
	return unix.Openat2(r.fd, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
}

// folder opens a folder of the new root, and makes it if it is not there.
func (r *root) folder(path string) (int, error) {
	fd, err := r.inside(path, unix.O_DIRECTORY)
	if err != unix.ENOENT {
		return fd, err
	}
	parent, err := r.folder(filepath.Dir(path))
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, filepath.Base(path), 0o755); err != nil {
		return -1, fmt.Errorf("mkdir %s: %w", path, err)
	}
	return r.inside(path, unix.O_DIRECTORY)
}

// file opens a file of the new root, and makes it if it is not there.
func (r *root) file(path, content string) (int, error) {
	fd, err := r.inside(path, 0)
	if err != unix.ENOENT {
		return fd, err
	}
	parent, err := r.folder(filepath.Dir(path))
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	fd, err = unix.Openat(parent, filepath.Base(path), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return -1, fmt.Errorf("make %s: %w", path, err)
	}
	_, err = unix.Write(fd, []byte(content))
	unix.Close(fd)
	if err != nil {
		return -1, err
	}
	return r.inside(path, 0)
}

func (r *root) attach(p piece) error {
	var at int
	var err error
	switch {
	case p.veil:
		at, err = r.inside(p.to, unix.O_DIRECTORY)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			return nil
		}
	case p.file:
		at, err = r.file(p.to, "")
	default:
		at, err = r.folder(p.to)
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.MoveMount(p.fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// furnish makes the links and the small files: the system's own lists of users are nobody's
// business.
func (r *root) furnish(links map[string]string) error {
	for at, target := range links {
		parent, err := r.folder(filepath.Dir(at))
		if err != nil {
			return err
		}
		err = unix.Symlinkat(target, parent, filepath.Base(at))
		unix.Close(parent)
		if err != nil {
			return fmt.Errorf("link %s: %w", at, err)
		}
	}
	uid, gid := os.Getuid(), os.Getgid()
	users, groups := "", ""
	if uid != 0 {
		users = "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
	}
	if gid != 0 {
		groups = "root:x:0:\n"
	}
	for path, content := range map[string]string{
		"/etc/passwd": users + fmt.Sprintf("user:x:%d:%d:user:/tmp:/bin/sh\n", uid, gid) + "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"/etc/group":  groups + fmt.Sprintf("user:x:%d:\n", gid) + "nogroup:x:65534:\n",
		"/etc/hosts":  "127.0.0.1 localhost\n::1 localhost\n", "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"/etc/hostname": "sandbox\n",
	} {
		fd, err := r.file(path, content)
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
	return nil
}

// empty is a file that stands for what is covered; it is gone when the root is done.
const empty = "/.empty"

// protect mounts what is denied in the tree onto itself, read-only, and covers what would
// lead to other processes.
func (b *box) protect(r *root) error {
	o := b.order
	if len(o.Protect)+len(o.Cover) == 0 {
		return nil
	}
	tree, err := r.inside(o.Tree, unix.O_DIRECTORY)
	if err != nil {
		return step("mount "+o.Tree, err)
	}
	defer unix.Close(tree)
	nothing, err := r.file(empty, "")
	if err != nil {
		return step("new root", err)
	}
	defer unix.Close(nothing)
	for i, rel := range slices.Concat(o.Protect, o.Cover) {
		from := nothing
		at, err := unix.Openat2(tree, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
		if err == nil {
			if i < len(o.Protect) {
				from = at
			}
			err = onto(from, at)
			unix.Close(at)
		}
		switch err {
		case nil:
		case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EAGAIN:
			return &stepError{step: "protect " + rel, err: err, changed: true}
		default:
			return step("protect "+rel, err)
		}
	}
	return step("new root", unix.Unlinkat(r.fd, strings.TrimPrefix(empty, "/"), 0))
}

// onto mounts what one descriptor stands for, read-only, over what another does; a link is
// ELOOP.
func onto(from, at int) error {
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}
	fd, err := unix.OpenTree(from, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return err
	}
	return unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// enter makes the new root the only one there is.
func (r *root) enter() error {
	for _, do := range []func() error{
		func() error { return unix.Fchdir(r.fd) },
		func() error { return unix.PivotRoot(".", ".") },
		func() error { return unix.Unmount(".", unix.MNT_DETACH) },
		func() error { return unix.Chdir("/") },
		func() error { return readOnlyAt("/") },
	} {
		if err := do(); err != nil {
			return step("pivot_root", err)
		}
	}
	return unix.Close(r.fd)
}

func readOnlyAt(path string) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}
