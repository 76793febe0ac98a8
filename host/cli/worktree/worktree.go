package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ailang.dev/world/host/cli/shell"
)

// Repo is a checkout that worktrees can be made of.
type Repo struct {
	Top    string // its folder, absolute and without symlinks
	common string // the folder that all its worktrees share
	git    *git
}

// Open looks at a repository. What cannot be used is an *Error with the way out.
func Open(ctx context.Context, environ []string, path string) (*Repo, error) {
	g, err := newGit(environ)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		var st os.FileInfo
		if st, err = os.Stat(real); err == nil && !st.IsDir() {
			err = errors.New("it is not a folder")
		}
	}
	if err != nil {
		return nil, &Error{Msg: fmt.Sprintf("cannot use %s as a repository: %v", path, cause(err)), Hint: "name a git checkout with --repo"}
	}
	r := &Repo{git: g}
	kind, err := r.ask(ctx, real, "rev-parse", "--is-bare-repository", "--is-inside-work-tree")
	switch {
	case said(err, "not a git repository"):
		return nil, &Error{Msg: real + " is not a git repository", Err: err,
			Hint: "name one with --repo, or make it one: git init, git add, git commit"}
	case said(err, "dubious ownership"):
		return nil, &Error{Msg: real + " belongs to another user, so git will not use it", Err: err,
			Hint: "if you trust it: " + shell.Line("git", "config", "--global", "--add", "safe.directory", real)}
	case err != nil:
		return nil, gitError(real, err)
	case strings.HasPrefix(kind, "true"):
		return nil, &Error{Msg: real + " is a bare repository", Hint: "clone it, and name the clone with --repo"}
	case !strings.HasSuffix(kind, "true"):
		return nil, &Error{Msg: real + " is the inside of a repository, not a checkout", Hint: "name the checkout's top folder with --repo"}
	}
	if r.Top, err = r.ask(ctx, real, "rev-parse", "--show-toplevel"); err != nil {
		return nil, gitError(real, err)
	}
	if r.Top != real {
		return nil, &Error{Msg: fmt.Sprintf("%s is a sub-folder of the repository %s", real, r.Top),
			Hint: "if the whole repository is meant: --repo " + shell.Word(r.Top)}
	}
	if _, err := r.ask(ctx, real, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		if _, err := r.ask(ctx, real, "rev-parse", "--verify", "--quiet", "HEAD"); err == nil {
			return nil, &Error{Msg: "the repository " + real + " names a commit at HEAD that it does not hold", Hint: "it is damaged; look with " + shell.Line("git", "-C", real, "fsck"), Err: err}
		}
		return nil, &Error{Msg: "the repository " + real + " has no commit yet", Hint: "commit something first; a worktree begins at HEAD", Err: err}
	}
	if r.common, err = r.commonDir(ctx, real); err != nil {
		return nil, gitError(real, err)
	}
	return r, nil
}

func (r *Repo) ask(ctx context.Context, dir string, args ...string) (string, error) {
	return r.git.run(ctx, askTimeout, dir, args...)
}

func (r *Repo) commonDir(ctx context.Context, dir string) (string, error) {
	p, err := r.ask(ctx, dir, "rev-parse", "--git-common-dir")
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(dir, p)
	}
	return filepath.EvalSymlinks(p)
}

// Made is an episode's worktree.
type Made struct {
	Path   string `json:"path"`
	Branch string `json:"branch"` // "" when its HEAD is on none
	New    bool   `json:"new"`
}

// BranchOf is the branch that an episode's worktree is made on.
func BranchOf(episode string) string { return branchFolder + "/" + episode }

const branchFolder = "world"

// Ensure makes <root>/<episode> a worktree of the repository on a new branch at HEAD, or
// finds that it is one. Whatever stands in the way is an *Error; nothing is removed.
func (r *Repo) Ensure(ctx context.Context, root, episode string) (Made, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return Made{}, &Error{Msg: fmt.Sprintf("cannot use the workspace root %s: %v", root, cause(err)), Err: err}
	}
	path := filepath.Join(root, episode)
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.add(ctx, path, episode)
	case err != nil:
		return Made{}, &Error{Msg: fmt.Sprintf("cannot use %s: %v", path, cause(err)), Err: err}
	case !st.IsDir():
		return Made{}, &Error{Msg: path + " is in the way: an episode's worktree must be a real folder",
			Hint: "move it away, or choose another episode"}
	}
	names, err := os.ReadDir(path)
	if err != nil {
		return Made{}, &Error{Msg: fmt.Sprintf("cannot read %s: %v", path, cause(err)), Err: err}
	}
	if len(names) == 0 {
		return r.add(ctx, path, episode)
	}
	return r.reuse(ctx, path)
}

// reuse checks that a folder is a worktree of this repository.
func (r *Repo) reuse(ctx context.Context, path string) (Made, error) {
	elsewhere := "move it away, or choose another episode"
	if _, err := os.Lstat(filepath.Join(path, ".git")); err != nil {
		return Made{}, &Error{Msg: path + " is in the way: it is a folder with files, but no git worktree", Hint: elsewhere, Err: err}
	}
	common, err := r.commonDir(ctx, path)
	if err != nil {
		return Made{}, &Error{Msg: fmt.Sprintf("%s is a worktree that git no longer knows: its repository was moved, or the worktree was pruned", path), Err: err,
			Hint: fmt.Sprintf("if the repository was moved: %s; if it was pruned: move %s away and begin again", shell.Line("git", "-C", r.Top, "worktree", "repair", path), path)}
	}
	if common != r.common {
		return Made{}, &Error{Msg: fmt.Sprintf("%s is a worktree of another repository (%s), not of %s", path, common, r.Top), Hint: elsewhere}
	}
	known, err := r.list(ctx)
	if err != nil {
		return Made{}, gitError(r.Top, err)
	}
	for _, w := range known {
		if w.path == path {
			return Made{Path: path, Branch: w.branch}, nil
		}
	}
	return Made{}, &Error{Msg: fmt.Sprintf("%s is inside the repository %s, or a copy of one of its worktrees, but none of its worktrees", path, r.Top), Hint: elsewhere}
}

// add makes a new worktree.
func (r *Repo) add(ctx context.Context, path, episode string) (Made, error) {
	branch := BranchOf(episode)
	known, err := r.list(ctx)
	if err != nil {
		return Made{}, gitError(r.Top, err)
	}
	for _, w := range known {
		switch {
		case w.path == path:
			return Made{}, &Error{Msg: fmt.Sprintf("the worktree %s was deleted, but %s still lists it", path, r.Top),
				Hint: fmt.Sprintf("tell git so: %s; its branch %s keeps what was committed", shell.Line("git", "-C", r.Top, "worktree", "prune"), branch)}
		case w.branch == branch && w.gone:
			return Made{}, &Error{Msg: fmt.Sprintf("the branch %s was checked out in %s, which is gone", branch, w.path),
				Hint: fmt.Sprintf("to go on with it here: %s && %s", shell.Line("git", "-C", r.Top, "worktree", "prune"), shell.Line("git", "-C", r.Top, "worktree", "add", path, branch))}
		case w.branch == branch:
			return Made{}, &Error{Msg: fmt.Sprintf("the branch %s is checked out in %s, not in %s; another home may be using it", branch, w.path, path),
				Hint: "choose another episode"}
		}
	}
	if _, err := r.ask(ctx, r.Top, "rev-parse", "--verify", "--quiet", "refs/heads/"+branchFolder); err == nil {
		return Made{}, &Error{Msg: fmt.Sprintf("the repository %s has a branch named %s, so git cannot make %s beside it", r.Top, branchFolder, branch),
			Hint: "rename that branch: " + shell.Line("git", "-C", r.Top, "branch", "-m", branchFolder, "world-branch")}
	}
	if _, err := r.ask(ctx, r.Top, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err == nil {
		return Made{}, &Error{Msg: fmt.Sprintf("the repository %s has a branch %s already, but no worktree for it", r.Top, branch),
			Hint: fmt.Sprintf("to go on with it: %s; to begin anew, rename or delete it, or choose another episode", shell.Line("git", "-C", r.Top, "worktree", "add", path, branch))}
	}
	if _, err := r.git.run(ctx, addTimeout, r.Top, "worktree", "add", "--quiet", "-b", branch, path, "HEAD"); err != nil {
		// The branch was not there before; without its worktree it would be in the way of the
		// next try.
		if _, lerr := os.Lstat(path); errors.Is(lerr, fs.ErrNotExist) {
			_, _ = r.ask(context.WithoutCancel(ctx), r.Top, "branch", "-D", branch)
		}
		return Made{}, gitError(r.Top, err)
	}
	return Made{Path: path, Branch: branch, New: true}, nil
}

// listed is one worktree that a repository knows of.
type listed struct {
	path, branch string
	gone         bool // git would prune it
}

func (r *Repo) list(ctx context.Context) ([]listed, error) {
	out, err := r.ask(ctx, r.Top, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}
	var all []listed
	for _, line := range strings.Split(out, "\x00") {
		key, value, _ := strings.Cut(line, " ")
		switch {
		case key == "worktree":
			all = append(all, listed{path: value})
		case key == "branch" && len(all) > 0:
			all[len(all)-1].branch = strings.TrimPrefix(value, "refs/heads/")
		case key == "prunable" && len(all) > 0:
			all[len(all)-1].gone = true
		}
	}
	return all, nil
}

func gitError(where string, err error) error {
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	return &Error{Msg: fmt.Sprintf("git, in %s: %v", where, err), Err: err}
}

// cause takes operation and path off an error of package os.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
