package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/world"
)

// Bounds of looking at a tree.
const (
	maxNames   = 2_000_000 // names looked at
	maxDepth   = 200       // directories below the tree
	maxMounts  = 4096      // paths that are protected or covered
	ctxEvery   = 1000      // names between two looks at the context
	maxRelPath = 4000      // bytes of a path in the tree, so that it can be named to the kernel
)

// inode is what a name leads to.
type inode struct{ dev, ino uint64 }

// found is what a look at a tree found of what must not change.
type found struct {
	protect []string          // what is denied: directories and files
	cover   []string          // sockets and FIFOs
	links   map[string]string // denied symbolic links, with their targets
	// known is what was mounted over, so that no command could take it away. Links are not
	// in it: what is made when one is gone may be given its inode.
	known map[inode]bool
}

// look walks a tree for what is denied and for sockets and FIFOs. It does not go into what
// is denied, and follows no link.
func look(ctx context.Context, t *Tree) (*found, error) {
	f := &found{links: map[string]string{}, known: map[inode]bool{}}
	err := walk(ctx, t, nil, func(dir *os.File, rel string, e fs.DirEntry, denied bool) error {
		switch {
		case denied && e.Type() == fs.ModeSymlink:
			target, err := readlinkAt(dir, e.Name())
			if err != nil {
				return err
			}
			f.links[rel] = target
			return nil
		case denied:
			f.protect = append(f.protect, rel)
		case isDoor(e):
			f.cover = append(f.cover, rel)
		}
		if denied || isDoor(e) {
			id, err := identity(dir, e.Name())
			if err != nil {
				return err
			}
			f.known[id] = true
		}
		if len(f.protect)+len(f.cover) > maxMounts {
			return &world.Error{Op: "sandbox.look", Kind: world.KindTooLarge, Subject: t.Path,
				Msg:  fmt.Sprintf("the worktree holds more than %d protected paths, sockets and FIFOs", maxMounts),
				Hint: "allow what may be changed, for example node_modules/, in the policy"}
		}
		return nil
	})
	return f, err
}

// trees are those in which commands run. Runs that overlap share what was found before the
// first of them: what one of them plants must not pass for what was there, in the eyes of
// the next.
type trees struct {
	mu sync.Mutex
	m  map[string]*shared
}

type shared struct {
	users int // guarded by trees.mu
	mu    sync.Mutex
	base  *found
}

// enter looks at a tree for a run: now is what is to be mounted, base what sweep compares
// with. leave must be called when the run has swept.
func (s *trees) enter(ctx context.Context, t *Tree) (now, base *found, err error) {
	s.mu.Lock()
	e := s.m[t.Path]
	if e == nil {
		if s.m == nil {
			s.m = make(map[string]*shared)
		}
		e = &shared{}
		s.m[t.Path] = e
	}
	e.users++
	s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if now, err = look(ctx, t); err != nil {
		s.leave(t)
		return nil, nil, err
	}
	if e.base == nil {
		e.base = now
	}
	return now, e.base, nil
}

// alone tells whether no other run is in the tree.
func (s *trees) alone(t *Tree) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[t.Path].users == 1
}

func (s *trees) leave(t *Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.m[t.Path]
	if e.users--; e.users == 0 {
		delete(s.m, t.Path)
	}
}

// isDoor tells whether a name may lead to another process.
func isDoor(e fs.DirEntry) bool { return e.Type()&(fs.ModeSocket|fs.ModeNamedPipe) != 0 }

// sweep takes away what is denied and was not there before, puts back denied links, and
// names what it touched. With doors it takes away new sockets and FIFOs too, without a word:
// nobody is left behind them, and a later run could not, since they would be covered.
func (f *found) sweep(ctx context.Context, t *Tree, doors bool) ([]string, error) {
	root, err := os.OpenRoot(t.Path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var fresh, dead, deep []string
	tooDeep := func(rel string) { deep = append(deep, rel) }
	err = walk(ctx, t, tooDeep, func(dir *os.File, rel string, e fs.DirEntry, denied bool) error {
		if !denied && !(doors && isDoor(e)) {
			return nil
		}
		if target, there := f.links[rel]; there && denied && e.Type() == fs.ModeSymlink {
			if now, err := readlinkAt(dir, e.Name()); err == nil && now == target {
				return nil
			}
		}
		id, err := identity(dir, e.Name())
		switch {
		case err != nil || f.known[id]:
		case denied:
			fresh = append(fresh, rel)
		default:
			dead = append(dead, rel)
		}
		return err
	})
	// What is too deep to be looked into was made meanwhile: no run begins in such a tree.
	top, terr := root.Open(".")
	if terr != nil {
		return nil, errors.Join(err, terr)
	}
	defer top.Close()
	away := &remover{ctx: ctx, top: int(top.Fd())}
	fresh = append(fresh, deep...)
	for _, rel := range slices.Concat(fresh, dead) {
		err = errors.Join(err, away.remove(rel))
	}
	for rel, target := range f.links {
		if now, lerr := root.Readlink(rel); lerr == nil && now == target {
			continue
		}
		fresh = append(fresh, rel)
		err = errors.Join(err, away.remove(rel), root.MkdirAll(path.Dir(rel), 0o755), root.Symlink(target, rel))
	}
	slices.Sort(fresh)
	return slices.Compact(fresh), err
}

// walk visits every name of a tree but those below what is denied. A directory that is too
// deep is an error, or if deep is not nil handed to it and not gone into.
func walk(ctx context.Context, t *Tree, deep func(rel string), visit func(dir *os.File, rel string, e fs.DirEntry, denied bool) error) error {
	fd, err := unix.Open(t.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &world.Error{Op: "sandbox.walk", Kind: world.KindNotFound, Subject: t.Path, Msg: "the worktree cannot be opened", Err: err}
	}
	top := os.NewFile(uintptr(fd), t.Path)
	defer top.Close()
	w := &walker{ctx: ctx, tree: t, deep: deep, visit: visit, most: maxNames}
	return w.dir(top, nil)
}

type walker struct {
	ctx   context.Context
	tree  *Tree
	deep  func(rel string)
	visit func(dir *os.File, rel string, e fs.DirEntry, denied bool) error
	n     int
	most  int // names
}

func (w *walker) dir(dir *os.File, above []string) error {
	entries, err := w.read(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if w.n++; w.n > w.most {
			return w.tooLarge("holds more than %d names", w.most)
		}
		if w.n%ctxEvery == 0 && w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		segs := append(above, e.Name())
		rel := strings.Join(segs, "/")
		if len(rel) > maxRelPath {
			if w.deep != nil {
				w.deep(strings.Join(above, "/"))
				return nil
			}
			return w.tooLarge("holds a path of more than %d bytes", maxRelPath)
		}
		denied := w.tree.Denied != nil && w.tree.Denied(segs)
		err := w.visit(dir, rel, e, denied)
		if err == nil && e.IsDir() && !denied {
			err = w.sub(dir, e.Name(), segs)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it went away meanwhile
			return err
		}
	}
	return nil
}

// read reads a whole directory, in one go as far as its bound lets it: what is renamed in it
// meanwhile must not slip by.
func (w *walker) read(dir *os.File) ([]fs.DirEntry, error) {
	var all []fs.DirEntry
	for {
		some, err := dir.ReadDir(ctxEvery)
		all = append(all, some...)
		switch {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		case w.n+len(all) > w.most:
			return nil, w.tooLarge("holds more than %d names", w.most)
		case w.ctx.Err() != nil:
			return nil, w.ctx.Err()
		}
	}
}

// sub goes into a directory. One that its owner may not read is readable meanwhile: what a
// command may change, it may make readable too.
func (w *walker) sub(dir *os.File, name string, segs []string) error {
	if len(segs) > maxDepth && w.deep != nil {
		w.deep(strings.Join(segs, "/"))
		return nil
	}
	if len(segs) > maxDepth {
		return w.tooLarge("is more than %d directories deep", maxDepth)
	}
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|flags, 0)
	if err == unix.EACCES {
		var restore func()
		if restore, err = unlock(dir, name); err == nil {
			defer restore()
			fd, err = unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|flags, 0)
		}
	}
	switch err {
	case nil:
	case unix.ENOTDIR, unix.ELOOP, unix.ENOENT:
		return nil // it is something else by now
	default:
		return &os.PathError{Op: "open", Path: strings.Join(segs, "/"), Err: err}
	}
	sub := os.NewFile(uintptr(fd), name)
	defer sub.Close()
	return w.dir(sub, segs)
}

// unlock makes a directory readable to its owner until restore is called.
func unlock(dir *os.File, name string) (restore func(), err error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	at := fmt.Sprintf("/proc/self/fd/%d", fd) // a descriptor like this has no mode to change
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = unix.Chmod(at, 0o700)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return func() {
		_ = unix.Chmod(at, st.Mode&0o7777) // if it is gone, so be it
		unix.Close(fd)
	}, nil
}

func (w *walker) tooLarge(format string, args ...any) error {
	return &world.Error{Op: "sandbox.walk", Kind: world.KindTooLarge, Subject: w.tree.Path,
		Msg: "the worktree " + fmt.Sprintf(format, args...)}
}

func identity(dir *os.File, name string) (inode, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return inode{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return inode{uint64(st.Dev), st.Ino}, nil
}

func readlinkAt(dir *os.File, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err == unix.EINVAL { // it is no link any more
		return "", errChanged
	}
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}
