package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// maxBlameWrites bounds the changes of a file that --blame follows back.
const maxBlameWrites = 10_000

// fileQuery asks for the history of a file.
type fileQuery struct {
	path, episode, root string
	limit               int
	blame, json         bool
}

// fileStory is what is told of a file.
type fileStory struct {
	Path    string             `json:"path"`
	Episode string             `json:"episode"`
	Writes  []provenance.Write `json:"writes"`
	// Complete says that no earlier call wrote it.
	Complete bool `json:"complete"`
	// Disk is same, alike, other or gone: whether the file is what the last call left. alike
	// is one of which only that call's part and the size are known.
	Disk  string            `json:"disk,omitzero"`
	Lines []provenance.Line `json:"lines,omitempty"`
}

func (a *app) whyFile(cmd *cobra.Command, db string, q fileQuery) error {
	switch {
	case q.episode == "":
		return usage(cmd, "file:PATH needs --episode NAME: in whose worktree?")
	case !fs.ValidPath(filepath.ToSlash(filepath.Clean(q.path))):
		return usage(cmd, "file:PATH is relative to the top of the worktree")
	case q.limit < 1:
		return usage(cmd, "--limit must be at least 1")
	}
	if err := world.CheckEpisode(q.episode); err != nil {
		return usage(cmd, "%v", err)
	}
	root, err := a.worktreeOf(cmd, db, q)
	if err != nil {
		return err
	}
	return a.withReader(cmd, db, func(ctx context.Context, s store.Store) error {
		story := fileStory{Path: q.path, Episode: q.episode}
		// Every change back to the last that wrote the whole file says what should be there.
		writes, complete, err := provenance.Writes(ctx, s, q.episode, q.path, maxBlameWrites)
		if err != nil {
			return err
		}
		now, err := readInside(root, filepath.Clean(q.path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			story.Disk = "gone"
		case err != nil:
			return failf("cannot read the file: %v", bareIO(err)).hinted("it must be a regular file inside the worktree")
		case len(now) > provenance.MaxBlamed:
			return failf("the file has more than %d bytes; the lines of one up to that are told apart", provenance.MaxBlamed)
		default:
			lines, left := provenance.Blame(writes, now)
			story.Disk = string(left)
			if q.blame {
				story.Lines = lines
			}
		}
		story.Complete = complete && len(writes) <= q.limit
		story.Writes = writes[:min(len(writes), q.limit)]
		if q.json {
			return writeJSON(a.stdout, story)
		}
		a.showFile(&story)
		return nil
	})
}

// readInside reads a file of a worktree, which an agent may have filled with links and FIFOs:
// nothing outside is opened, nothing is waited for, and no more is read than can be shown.
func readInside(root, name string) ([]byte, error) {
	top, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	f, err := top.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(errors.New("it is no regular file"), err)
	}
	return io.ReadAll(io.LimitReader(f, provenance.MaxBlamed+1))
}

// worktreeOf is the folder of an episode: --worktree-root, or that of `up`.
func (a *app) worktreeOf(cmd *cobra.Command, db string, q fileQuery) (string, error) {
	root := q.root
	if root == "" {
		path, err := a.readPath(cmd, db)
		if err != nil {
			return "", err
		}
		root = filepath.Join(filepath.Dir(filepath.Dir(path)), "ws")
	}
	dir := filepath.Join(a.path(root), q.episode)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return "", failf("there is no worktree %s", dir).hinted("name the folder of the worktrees with --workspace-root")
	}
	return dir, nil
}

func (a *app) showFile(s *fileStory) {
	if len(s.Lines) > 0 {
		for i, l := range s.Lines {
			by := "        -"
			if l.Index > 0 {
				by = fmt.Sprintf("%9d", l.Index)
			}
			fmt.Fprintf(a.stdout, "%s %5d  %s\n", by, i+1, printable(strings.TrimRight(l.Text, "\r\n"), false))
		}
		fmt.Fprintln(a.stderr, "a number is the entry that wrote the line; - is a line that was there before, or that a command, a commit or a person wrote; next: ailang-worldd why NUMBER")
		return
	}
	for _, w := range s.Writes {
		fmt.Fprintf(a.stdout, "%6d  %-5s  %s  %s\n", w.Index, w.Op, printable(w.Tool, false), printable(w.Call, false))
	}
	switch {
	case len(s.Writes) == 0:
		fmt.Fprintf(a.stdout, "no call of episode %s wrote %s\n", s.Episode, printable(s.Path, false))
	case s.Disk == "same":
		fmt.Fprintln(a.stdout, "✓ the file is what the last of these left")
	case s.Disk == "alike":
		fmt.Fprintln(a.stdout, "! the file has what these wrote, and the size that the last of them left; what else it held is in no call, and not proved")
	case s.Disk == "gone":
		fmt.Fprintln(a.stdout, "✗ the file is not there any more")
	default:
		fmt.Fprintln(a.stdout, "✗ the file is not what the last of these left: a command, a commit or a person changed it")
	}
	if !s.Complete {
		fmt.Fprintln(a.stderr, "there are earlier ones; --limit shows more")
	}
}
