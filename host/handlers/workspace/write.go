package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Modes of what a write makes; both are independent of the umask.
const (
	newFileMode fs.FileMode = 0o644
	newDirMode  fs.FileMode = 0o755
)

// do answers a write.
func (a *writeArgs) do(ctx context.Context, c *call) ([]byte, error) {
	p, err := c.resolveForWrite(a.Path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := c.replace(ctx, p, []byte(a.Content), nil); err != nil {
		return nil, err
	}
	return hashref.Marshal(struct {
		OK      bool `json:"ok"`
		Created bool `json:"created"`
		Bytes   int  `json:"bytes"`
		stamp
	}{true, p.info == nil, len(a.Content), c.stamp})
}

// do answers an edit: the one place where old_text stands gets new_text.
func (a *editArgs) do(ctx context.Context, c *call) ([]byte, error) {
	if a.OldText == "" {
		return nil, refuse("old_text is empty; give the text to be replaced, or use write for a new file")
	}
	p, err := c.resolveForWrite(a.Path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	f, fi, err := p.openFile()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := wholeText(a.Path, f, fi.Size(), MaxEdit)
	if err != nil {
		return nil, err
	}
	at, err := locate(text, a.OldText, a.Path)
	if err != nil {
		return nil, err
	}
	if n := int64(len(text) - len(a.OldText) + len(a.NewText)); n > MaxEdit {
		return nil, tooLarge(a.Path, n, MaxEdit)
	}
	next := text[:at] + a.NewText + text[at+len(a.OldText):]
	if err := c.replace(ctx, p, []byte(next), fi); err != nil {
		return nil, err
	}
	return hashref.Marshal(struct {
		OK       bool `json:"ok"`
		Replaced int  `json:"replaced"`
		Line     int  `json:"line"`
		Bytes    int  `json:"bytes"`
		stamp
	}{true, 1, 1 + strings.Count(text[:at], "\n"), len(next), c.stamp})
}

// locate finds the one place of old in text.
func locate(text, old, asked string) (int, error) {
	n := strings.Count(text, old)
	at := strings.Index(text, old)
	if n == 1 && strings.Contains(text[at+1:], old) {
		n = 2 // the two overlap
	}
	switch {
	case n == 0 && strings.Contains(text, "\r\n") && strings.Contains(old, "\n") && !strings.Contains(old, "\r\n"):
		return 0, refuse("old_text not found in %s; its lines end in CRLF", shown(asked))
	case n == 0:
		return 0, refuse("old_text not found in %s", shown(asked))
	case n > 1:
		return 0, refuse("old_text occurs %d times; include more context so it is unique", n)
	}
	return at, nil
}

// resolveForWrite resolves a path that may be written: one that the policy admits both as
// it was spelled and as where it really leads, and that is a file or nothing.
func (c *call) resolveForWrite(asked string) (*place, error) {
	clean, err := cleaned(asked)
	if err != nil {
		return nil, err
	}
	if err := c.admit(asked, clean); err != nil {
		return nil, err
	}
	p, err := c.resolve(asked)
	if err != nil {
		return nil, err
	}
	if err := c.writable(p); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (c *call) admit(asked string, segs []string) error {
	pat := c.policy.Denies(segs)
	if slices.ContainsFunc(segs, func(s string) bool { return strings.HasPrefix(s, tempPrefix) }) {
		pat = tempPrefix + "*" // its files are this handler's own
	}
	if pat != "" {
		return refuse("path %s is protected: %s is read-only", quoted(asked), pat)
	}
	return nil
}

func (c *call) writable(p *place) error {
	if err := c.admit(p.asked, p.real()); err != nil {
		return err
	}
	switch {
	case p.isDir():
		return refuse("path %s is a directory", quoted(p.asked))
	case strings.HasSuffix(p.asked, "/"):
		return refuse("path %s ends in a slash, so it names a directory", quoted(p.asked))
	case len(p.names)+len(p.rest) > MaxDepth:
		return refuse("path %s leads through more than %d directories", quoted(p.asked), MaxDepth)
	case p.info == nil:
		return nil
	case !p.info.Mode().IsRegular():
		return refuse("path %s is %s, not a file", quoted(p.asked), special(p.info.Mode()))
	case p.info.Mode().Perm()&0o222 == 0:
		return refuse("path %s cannot be written: its mode is %04o", quoted(p.asked), p.info.Mode().Perm())
	}
	return nil
}

// replace puts content at a place in one step: a temporary file beside it, whole and on
// disk, takes its name. A crash before the rename leaves the old file and perhaps the
// temporary one, which later writes sweep away; after it, the new file. was, unless nil,
// is what the content was made from, and must still be there.
func (c *call) replace(ctx context.Context, p *place, content []byte, was fs.FileInfo) (err error) {
	made := 0
	defer func() {
		if err != nil {
			p.unmake(made)
		}
	}()
	if p.info != nil {
		return c.install(ctx, p, p.file, p.info.Mode().Perm(), content, was)
	}
	for len(p.rest) > 1 {
		if err := p.makeDir(p.rest[0]); err != nil {
			return pathError(p.asked, "written", err)
		}
		made++
		p.rest = p.rest[1:]
	}
	return c.install(ctx, p, p.rest[0], newFileMode, content, was)
}

// install is replace once the parent directory is open.
func (c *call) install(ctx context.Context, p *place, name string, mode fs.FileMode, content []byte, was fs.FileInfo) (err error) {
	dir := p.dir()
	temp := tempPrefix + token()
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return pathError(p.asked, "written", err)
	}
	renamed := false
	defer func() {
		f.Close()
		if !renamed {
			dir.Remove(temp)
		}
	}()
	if err := c.fill(f, content, mode); err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if c.h.hooks.written != nil {
		c.h.hooks.written()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.unchanged(name, was); err != nil {
		return pathError(p.asked, "written", err)
	}
	if err := dir.Rename(temp, name); err != nil {
		return pathError(p.asked, "written", err)
	}
	renamed = true
	sweep(dir, fi.ModTime())
	if err := syncDir(dir); err != nil {
		return &world.Error{Op: "workspace.install", Kind: world.KindUncertain,
			Msg: "the file was replaced, but whether that is on disk is not known", Err: err}
	}
	return nil
}

// fill writes the temporary file and sees it to disk.
func (c *call) fill(f *os.File, content []byte, mode fs.FileMode) error {
	write := (*os.File).Write
	if c.h.hooks.write != nil {
		write = c.h.hooks.write
	}
	if _, err := write(f, content); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Sync()
}

// unchanged looks at the name once more, so that what came there meanwhile is not lost.
func (p *place) unchanged(name string, was fs.FileInfo) error {
	fi, err := p.dir().Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && was == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return refuse("path %s was changed by someone else meanwhile; read it again", quoted(p.asked))
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return errChanged
	case was != nil && (!os.SameFile(fi, was) || fi.Size() != was.Size() || !fi.ModTime().Equal(was.ModTime())):
		return refuse("path %s was changed by someone else meanwhile; read it again", quoted(p.asked))
	}
	return nil
}

// makeDir makes a directory in the last one, sees it to disk, and opens it.
func (p *place) makeDir(name string) (err error) {
	dir := p.dir()
	if err := dir.Mkdir(name, newDirMode); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			dir.Remove(name)
		}
	}()
	fi, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return errChanged
	}
	if err := dir.Chmod(name, newDirMode); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	return p.push(name, fi)
}

// unmake removes directories that makeDir made, innermost first. One that someone put
// something into stays.
func (p *place) unmake(made int) {
	for ; made > 0; made-- {
		n := len(p.names)
		if n == 0 {
			return
		}
		name := p.names[n-1]
		p.pop()
		if p.dir().Remove(name) != nil {
			return
		}
	}
}

// sweep removes temporary files of writes that a crash ended, an hour older than now.
// What it cannot remove stays; such files are hidden from list, glob and grep.
func sweep(dir *os.Root, now time.Time) {
	f, err := dir.Open(".")
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxSweep)
	for _, name := range names {
		if !strings.HasPrefix(name, tempPrefix) {
			continue
		}
		fi, err := dir.Lstat(name)
		if err == nil && fi.Mode().IsRegular() && now.Sub(fi.ModTime()) > tempStale*time.Second {
			dir.Remove(name)
		}
	}
}

// syncDir sees the names in a directory to disk.
func syncDir(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// token is a name that cannot be guessed.
func token() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails: see crypto/rand
	return hex.EncodeToString(b)
}
