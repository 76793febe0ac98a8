package git

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
)

// scratchPrefix begins the name of each call's private folder.
const scratchPrefix = "ailang-worldd-git-"

// call is one effect at work, with its private folder:
//
//	git/      what git takes for the repository: our configuration, and links to the real refs
//	empty/    the worktree of runs that need none, home, and all of PATH
//	tree/     copies of what changed in the worktree (snapshot.go)
//	objects/  new objects that are not kept
//	lock      held while the call lasts, so that what a crash leaves can be told from it
type call struct {
	h       *Handler
	episode string
	repo    repository
	policy  *policy.Policy
	stamp   stamp
	scratch string
	lock    *os.File
	sha256  bool // the repository's object names are of sha256
}

func (c *call) dir(names ...string) string {
	return filepath.Join(append([]string{c.scratch}, names...)...)
}

// begin opens the episode's repository for one call. The caller ends it.
func (h *Handler) begin(ctx context.Context, episode string) (*call, error) {
	repo, err := locate(h.root, episode)
	if err != nil {
		return nil, err
	}
	pol := h.cfg.Policy.For(episode)
	c := &call{h: h, episode: episode, repo: repo, policy: pol, stamp: stamp{Tool: h.stamp, PolicyDigest: pol.Digest()}}
	if c.scratch, err = os.MkdirTemp(h.cfg.Scratch, scratchPrefix); err != nil {
		return nil, err
	}
	if err := c.prepare(ctx); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

func (c *call) end() {
	os.RemoveAll(c.scratch)
	if c.lock != nil {
		c.lock.Close()
	}
}

// prepare fills the private folder.
func (c *call) prepare(ctx context.Context) error {
	var err error
	if c.lock, err = os.OpenFile(c.dir("lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := syscall.Flock(int(c.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	for _, d := range []string{"git", "git/info", "git/logs", "empty", "tree", "objects", "objects/info"} {
		if err := os.Mkdir(c.dir(d), 0o700); err != nil {
			return err
		}
	}
	text := map[string]string{
		"git/HEAD": c.repo.head, "git/config": "[core]\n\trepositoryFormatVersion = 0\n",
		"objects/info/alternates": c.repo.objects + "\n",
	}
	for name, text := range text {
		if err := os.WriteFile(c.dir(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := c.link(); err != nil {
		return err
	}
	for _, name := range []string{"shallow", "info/exclude", "info/attributes"} {
		if err := copyWhole(filepath.Join(c.repo.common, name), c.dir("git", name), MaxAttributes); err != nil {
			return err
		}
	}
	if err := copyWhole(filepath.Join(c.repo.dir, "index"), c.dir("git", "index"), MaxIndex); err != nil {
		return err
	}
	config, err := c.settings(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(c.dir("git", "config"), []byte(config), 0o600)
}

// link lets git find the real refs, their logs, and the parts of a split index. Those that
// are there were seen to be what they are called.
func (c *call) link() error {
	links := map[string]string{"refs": filepath.Join(c.repo.common, "refs")}
	for name, at := range map[string]string{
		"packed-refs": filepath.Join(c.repo.common, "packed-refs"),
		"logs/refs":   filepath.Join(c.repo.common, "logs/refs"),
		"logs/HEAD":   filepath.Join(c.repo.dir, "logs/HEAD"),
	} {
		if _, err := os.Lstat(at); err == nil {
			links[name] = at
		}
	}
	shared, err := filepath.Glob(filepath.Join(escapeGlob(c.repo.dir), "sharedindex.*"))
	if err != nil {
		return err
	}
	for _, at := range shared[:min(len(shared), maxLinked)] {
		if fi, err := os.Lstat(at); err == nil && fi.Mode().IsRegular() {
			links[filepath.Base(at)] = at
		}
	}
	for name, at := range links {
		if err := os.Symlink(at, c.dir("git", name)); err != nil {
			return err
		}
	}
	return nil
}

// escapeGlob makes a pattern that matches a path alone.
func escapeGlob(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// copyWhole copies a regular file of at most max bytes with its time, by which git judges
// whether what it says of files can be believed. One that is not there is no error.
func copyWhole(src, dst string, max int64) error {
	in, err := os.OpenFile(src, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() || fi.Size() > max {
		return untrusted(src, "%s in the repository is not a file of at most %d bytes", filepath.Base(src), max)
	}
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, io.LimitReader(in, max)); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Chtimes(dst, fi.ModTime(), fi.ModTime())
}

// sweepScratch removes folders of calls that did not end: those whose lock nobody holds.
func sweepScratch(dir string) {
	if dir == "" {
		dir = os.TempDir()
	}
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	for seen := 0; seen < maxSweep; {
		names, err := d.Readdirnames(maxSweep)
		for _, name := range names {
			seen++
			if strings.HasPrefix(name, scratchPrefix) {
				sweepOne(filepath.Join(dir, name))
			}
		}
		if err != nil {
			return
		}
	}
}

// unlocked is how old a folder without a lock is before it is nobody's.
const unlocked = time.Minute

func sweepOne(dir string) {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() || !ours(fi) {
		return
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) && time.Since(fi.ModTime()) > unlocked {
		os.RemoveAll(dir) // its call was killed while it made or removed the folder
	}
	if err != nil {
		return
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		os.RemoveAll(dir)
	}
}

// ours tells whether a file belongs to the user that this process runs as.
func ours(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// emptyTree is the name of the tree without entries, which every git knows.
func (c *call) emptyTree() string {
	if c.sha256 {
		return hashref.SumString("tree 0\x00").Hex()
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}
