package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/cli/worktree"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// scopeWorktree is the scope of every effect in an episode's worktree.
const scopeWorktree = "worktree"

// scopeOperator is who is asked: whoever decides approvals.
const scopeOperator = "operator"

// preset is a set of effects for one kind of work, each granted with the same budget.
type preset struct {
	name    string
	about   string
	effects []string
	served  []string // granted too where the daemon is known to perform them
}

// scopeOf is the scope in which a preset grants an effect.
func scopeOf(effect string) string {
	if strings.HasPrefix(effect, "Human.") {
		return scopeOperator
	}
	return scopeWorktree
}

// declared are effects that only a daemon that was started for them performs.
var declared = []string{"Workspace.Exec", "Ailang.Check", "Ailang.Run", "Ailang.Discover", "Ailang.CLI"}

// presets are all there are.
var presets = []preset{
	{name: "read", about: "look at the worktree and its history", effects: []string{"Workspace.Read", "Git.Read"}},
	{name: "coding", about: "look at the worktree, change it and commit, and ask a person", effects: codingEffects, served: declared},
	{name: "all", about: "as coding, whatever the daemon serves", effects: slices.Concat(codingEffects, declared)},
}

var codingEffects = []string{"Workspace.Read", "Workspace.Write", "Git.Read", "Git.Commit", "Human.Approve", "Human.PollApproval"}

// presetGrants are a preset's grants, for a daemon that is known to perform some effects; ok
// is false if there is none of that name.
func presetGrants(name string, budget int64, performs []string) (grants []world.Grant, ok bool) {
	for _, p := range presets {
		if p.name != name {
			continue
		}
		for _, e := range slices.Concat(p.effects, p.served) {
			if slices.Contains(p.effects, e) || slices.Contains(performs, e) {
				grants = append(grants, world.Grant{Effect: e, Scope: scopeOf(e), Budget: budget})
			}
		}
		return grants, true
	}
	return nil, false
}

func presetHelp() string {
	var b strings.Builder
	for _, p := range presets {
		fmt.Fprintf(&b, "  %-8s %s: %s\n", p.name, p.about, strings.Join(p.effects, ", "))
		if len(p.served) > 0 {
			fmt.Fprintf(&b, "           and, if a daemon runs that serves them: %s\n", strings.Join(p.served, ", "))
		}
	}
	return b.String()
}

const defaultBudget = 10_000

// newFlags are the flags of session new.
type newFlags struct {
	mintFlags
	root, repo, preset string
	budget             int64
}

func (a *app) sessionNewCommand() *cobra.Command {
	var f newFlags
	c := &cobra.Command{
		Use:   "new EPISODE --db FILE [--workspace-root FOLDER] [--repo FOLDER] [--preset coding] [--budget N] [--ttl 8h] [--out FILE] [--yes]",
		Short: "Make an episode's git worktree and a session for it",
		Long: `Makes FOLDER/EPISODE a git worktree of the repository, on a new branch world/EPISODE at
HEAD, and mints a session that may work in it. A worktree that is there is used as it is.

Presets, each effect in scope worktree with the same --budget:
` + presetHelp(),
		Example: `  ailang-worldd session new fix-docs --db world.db --workspace-root ~/worktrees --repo ~/src/site --out ~/.world-fix-docs`,
		Args:    exactly(1, "one EPISODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.sessionNew(cmd, args[0], f)
		},
	}
	f.add(c)
	c.Flags().StringVar(&f.root, "workspace-root", "", "`FOLDER` that holds the worktrees; without it, the running daemon's")
	c.Flags().StringVar(&f.repo, "repo", ".", "top `FOLDER` of the git repository")
	c.Flags().StringVar(&f.preset, "preset", "coding", "what it may do; see above")
	c.Flags().Int64Var(&f.budget, "budget", defaultBudget, "budget of each effect")
	return c
}

func (a *app) sessionNew(cmd *cobra.Command, episode string, f newFlags) error {
	ctx := cmd.Context()
	db, err := a.dbPath(cmd, f.db)
	if err != nil {
		return err
	}
	st, served := a.served(ctx, db)
	switch {
	case f.root == "" && st.WorkspaceRoot != "":
		f.root = st.WorkspaceRoot
	case f.root == "":
		return usage(cmd, "--workspace-root FOLDER is needed: where do worktrees go?")
	case served && !sameFolder(a.path(f.root), st.WorkspaceRoot):
		return failf("the daemon that serves this store (process %d) has its worktrees in %q, not in %s: it would not find this one", st.PID, st.WorkspaceRoot, a.path(f.root)).
			hinted("leave --workspace-root, or start serve with this one")
	}
	if f.budget < 0 || f.budget > hashref.MaxInt {
		return usage(cmd, "--budget must be from 0 to 2^53-1")
	}
	grants, ok := presetGrants(f.preset, f.budget, st.Effects)
	if !ok {
		return usage(cmd, "there is no preset %q", f.preset)
	}
	r := admin.MintRequest{Episode: episode, Grants: grants, TTL: time.Duration(f.ttl)}
	if err := authority.CheckMint(r.Episode, r.Grants, r.TTL); err != nil {
		return err
	}
	if err := checkStore(db, false); err != nil {
		return err
	}
	root := a.path(f.root)
	if !isFolder(root) {
		return failf("the workspace root %s is no folder", root).hinted("mkdir -p it, and start serve with it")
	}
	repo, err := a.openRepo(ctx, f.repo)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%sin a worktree of %s on branch %s.\n", wish(episode, grants, r.TTL), repo.Top, worktree.BranchOf(episode))
	if err := a.confirm(ctx, f.yes, what, "Make it?"); err != nil {
		return err
	}
	ops, err := a.openOps(ctx, db, false)
	if err != nil {
		return err
	}
	defer ops.Close()
	if f.out != "" && !f.force { // seen before a worktree is made
		if _, err := os.Lstat(a.path(f.out)); !errors.Is(err, fs.ErrNotExist) {
			return failf("%s is there already", a.path(f.out)).hinted("name another file, or replace it with --force")
		}
	}
	tree, err := a.ensureWorktree(ctx, repo, root, episode)
	if err != nil {
		return err
	}
	m, err := a.mint(ctx, ops, r, f.out, f.force)
	if err != nil {
		return err
	}
	m.Worktree = tree
	if !f.json {
		fmt.Fprintf(a.stderr, "worktree %s, branch %s\n", tree.Path, tree.Branch)
	}
	return a.showMinted(m, f.json)
}

// served tells of the daemon that serves a store; ok is false if none does.
func (a *app) served(ctx context.Context, db string) (st admin.Status, ok bool) {
	ops, err := a.dial(ctx, db)
	if err != nil {
		return st, false
	}
	defer ops.Close()
	st, err = ops.Status(ctx)
	return st, err == nil
}

// sameFolder tells whether two paths lead to one folder.
func sameFolder(a, b string) bool {
	x, xerr := os.Stat(a)
	y, yerr := os.Stat(b)
	return xerr == nil && yerr == nil && os.SameFile(x, y)
}

func (a *app) openRepo(ctx context.Context, repo string) (*worktree.Repo, error) {
	r, err := worktree.Open(ctx, a.env.Environ, a.path(repo))
	return r, treeError(err)
}

func (a *app) ensureWorktree(ctx context.Context, repo *worktree.Repo, root, episode string) (worktree.Made, error) {
	defer a.progress("git is checking out the worktree of " + episode)()
	tree, err := repo.Ensure(ctx, root, episode)
	return tree, treeError(err)
}

// treeError gives a refusal of worktree this package's form.
func treeError(err error) error {
	var e *worktree.Error
	if errors.As(err, &e) {
		return &cliError{kind: "Worktree", msg: e.Msg, hint: e.Hint, cause: e.Err}
	}
	return err
}
