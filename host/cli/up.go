package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/cli/worktree"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/handlers/ailang"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/tasks"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// What up grants.
const (
	upPreset = "coding"
	upBudget = 1_000_000
	upTTL    = 30 * 24 * time.Hour
)

// upFlags are the flags of up.
type upFlags struct {
	home, db, repo, episode, bind, ailang, config string
	packs                                         []string
	json                                          bool
	tools                                         toolFlags
	watch                                         watchFlags
}

// upPlan is what up is going to see to.
type upPlan struct {
	home    string
	url     string // of a database; "" is the file under home
	packs   []packs.Pack
	repo    *worktree.Repo // nil if no pack works in one
	episode string
	skills  bool     // a pack is for users of the task endpoint
	effects []string // what the daemon can perform
}

func (p upPlan) db() string          { return cmp.Or(p.url, filepath.Join(p.home, "store", "world.db")) }
func (p upPlan) workspace() string   { return filepath.Join(p.home, "ws") }
func (p upPlan) sessionFile() string { return filepath.Join(p.home, "sessions", p.episode) }

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up [--repo FOLDER] [--episode NAME] [--pack NAME]…",
		Short: "Set up everything for a git repository or for skills, and serve",
		Long: `Sees to it that there is a store with a genesis, the tools that ship are published, the
repository has a worktree for the episode on a branch world/EPISODE, and a session for it is
in a file that only you can read; then serves, and says how to connect an agent. What is
there already is used as it is, so it can be run again at any time.

If a daemon serves the store already, it adds worktree and session to that, and exits 0.

The session may read, write and commit in the worktree, and use all else that the daemon
serves (preset coding, budget 1000000, 30 days).
Everything is kept under --home, by default $XDG_DATA_HOME/ailang-world.

With --pack NAME those packs are published that are named, and no others. magisterium is for
users, not for repositories: questions, documents, readings and saints. It works in any
folder; up then fills the library with the starter documents, puts a user's token (plan pro,
30 days) in a file that only you can read, and prints a first question.

With --config, agents may also run the commands that the file declares, and with
--tool-ailang-bin use the AILANG toolchain; see serve --help.`,
		Example: `  cd ~/src/site && ailang-worldd up
  ailang-worldd up --repo ~/src/site --episode fix-docs
  ailang-worldd up --pack magisterium`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.up(cmd, f) },
	}
	c.Flags().StringVar(&f.db, "db", "", "postgres://USER@HOST/DATABASE that keeps the world, instead of a file under --home")
	c.Flags().StringVar(&f.home, "home", "", "`FOLDER` for store, worktrees and sessions (default $XDG_DATA_HOME/ailang-world)")
	c.Flags().StringVar(&f.repo, "repo", ".", "top `FOLDER` of the git repository")
	c.Flags().StringVar(&f.episode, "episode", "", "`NAME` of the episode (default made of the repository's folder)")
	c.Flags().StringArrayVar(&f.packs, "pack", nil, "publish the pack `NAME`, not those that are always published; repeatable")
	bindFlag(c, &f.bind)
	ailangFlag(c, &f.ailang)
	configFlag(c, &f.config)
	f.tools.add(c)
	f.watch.add(c)
	jsonFlag(c, &f.json)
	return c
}

func (a *app) up(cmd *cobra.Command, f upFlags) error {
	ctx := cmd.Context()
	if f.episode != "" {
		if err := world.CheckEpisode(f.episode); err != nil {
			return usage(cmd, "--episode: %v", err)
		}
	}
	plan, err := choosePacks(f.packs)
	if err != nil {
		return usage(cmd, "--pack: %v", world.Message(err))
	}
	if f.db != "" {
		if plan.url, err = a.dbPath(cmd, f.db); err != nil {
			return err
		}
		if !postgres.IsURL(plan.url) {
			return usage(cmd, "--db takes a postgres:// URL here; a file is put under --home")
		}
	}
	end, err := f.watch.begin(ctx, a)
	if err != nil {
		return fatal(err)
	}
	defer end()
	if err := a.planUp(ctx, f, &plan); err != nil {
		return err
	}
	if plan.url != "" {
		if _, served := a.served(ctx, plan.url); served {
			_, err := a.joinUp(ctx, plan, f)
			return err
		}
	}
	for {
		done := a.progress("opening the store " + postgres.Display(plan.db()))
		core, err := daemon.OpenCore(ctx, a.coreConfig(plan.db(), f.ailang))
		done()
		switch {
		case err == nil:
			defer a.closeCore(core)
			return a.serveUp(ctx, core, plan, f)
		case world.KindOf(err) != world.KindLocked:
			return fatal(err)
		}
		if joined, err := a.joinUp(ctx, plan, f); joined || err != nil {
			return err
		}
	}
}

// serveUp prepares an open store and serves it.
func (a *app) serveUp(ctx context.Context, core *daemon.Core, plan upPlan, f upFlags) error {
	cfg := daemon.Config{Bind: f.bind}
	if plan.works() {
		cfg.WorkspaceRoot, cfg.Git = plan.workspace(), worktree.FindGit(a.env.Environ)
	}
	f.tools.set(a, &cfg)
	if err := a.configure(&cfg, f.config); err != nil {
		return fatal(err)
	}
	if err := plan.admitsUsers(cfg.Plans); err != nil {
		return fatal(err)
	}
	plan.effects = cfg.Effects()
	info, err := a.prepare(ctx, core.Ops(""), plan)
	if err != nil {
		return err
	}
	return fatal(a.run(ctx, core, cfg, func(url string) {
		if !f.json {
			a.listening(url, false)
		}
		info.connect(url)
		a.showUp(info, f.json)
		if !f.json {
			fmt.Fprintln(a.stderr, "serving; end it with Ctrl-C")
		}
	}))
}

// planUp looks at everything that up needs before it writes anything but folders.
func (a *app) planUp(ctx context.Context, f upFlags, plan *upPlan) error {
	home, err := a.dataHome(f.home)
	if err != nil {
		return err
	}
	folders := []string{home, filepath.Join(home, "store")}
	if plan.works() {
		if err := a.planWork(ctx, f, plan); err != nil {
			return err
		}
		folders = append(folders, filepath.Join(home, "ws"), filepath.Join(home, "sessions"))
	}
	if plan.skills {
		folders = append(folders, filepath.Join(home, "tokens"))
	}
	for _, d := range folders {
		if err := privateFolder(d); err != nil {
			return err
		}
	}
	if plan.home, err = filepath.EvalSymlinks(home); err != nil {
		return failf("cannot use the folder %s: %v", home, bareIO(err))
	}
	return checkStore(plan.db(), true)
}

// planWork finds the repository and names the episode.
func (a *app) planWork(ctx context.Context, f upFlags, plan *upPlan) (err error) {
	if plan.repo, err = a.openRepo(ctx, f.repo); err != nil {
		return err
	}
	if plan.episode = f.episode; plan.episode == "" {
		if plan.episode = worktree.EpisodeOf(plan.repo.Top); plan.episode == "" {
			return failf("the folder name of %s makes no episode name", plan.repo.Top).hinted("choose one with --episode")
		}
	}
	return nil
}

// joinUp adds an episode to the daemon that serves the store. joined is false if it was a
// command that had the store, which ended meanwhile.
func (a *app) joinUp(ctx context.Context, plan upPlan, f upFlags) (joined bool, err error) {
	ops, err := a.openOpsWith(ctx, plan.db(), true, f.ailang)
	if err != nil {
		return false, fatal(err)
	}
	defer ops.Close()
	st, err := ops.Status(ctx)
	if err != nil || st.URL == "" {
		return false, fatal(err)
	}
	if plan.works() && st.WorkspaceRoot != plan.workspace() {
		return false, fatal(failf("the daemon at %s (process %d) serves this store with the workspace root %q, not %q: its tools would not find the worktree",
			st.URL, st.PID, st.WorkspaceRoot, plan.workspace()).hinted("stop it, and run up again"))
	}
	if f.tools.bin != "" && !slices.Contains(st.Effects, ailang.EffectRun) {
		return false, fatal(failf("the daemon at %s (process %d) serves this store without an AILANG toolchain", st.URL, st.PID).
			hinted("stop it, and run up again; or leave --tool-ailang-bin"))
	}
	if err := plan.servedBy(st); err != nil {
		return false, fatal(err)
	}
	plan.effects = st.Effects
	info, err := a.prepare(ctx, ops, plan)
	if err != nil {
		return false, err
	}
	info.Joined = true
	info.connect(st.URL)
	if !f.json {
		fmt.Fprintf(a.stdout, "a daemon serves this store already, at %s (process %d)\n", st.URL, st.PID)
	}
	a.showUp(info, f.json)
	return true, nil
}

// upInfo is what up tells. Of what was not set up nothing is told.
type upInfo struct {
	URL    string `json:"url"`
	MCP    string `json:"mcp"`
	A2A    string `json:"a2a,omitzero"`
	Tasks  string `json:"tasks,omitzero"`
	Joined bool   `json:"joined"` // a daemon was serving already
	Store  string `json:"store"`
	*UpWork
	*UpSkills

	program string // as the person who runs up can start it
}

// UpWork is what was set up for work in a repository.
type UpWork struct {
	Episode      string        `json:"episode"`
	Worktree     worktree.Made `json:"worktree"`
	SessionFile  string        `json:"session_file"`
	CredentialID world.Ref     `json:"credential_id"`
	Expires      time.Time     `json:"expires"`
}

func (i *upInfo) connect(url string) {
	i.URL, i.MCP = url, url+"/mcp/"
	if i.UpWork != nil {
		i.A2A = url + "/a2a/"
	}
	if i.UpSkills != nil {
		i.Tasks = url + tasks.Path
	}
}

// prepare sees to genesis, packs, and what these need: worktree and session, library and token.
func (a *app) prepare(ctx context.Context, ops admin.Ops, plan upPlan) (*upInfo, error) {
	st, err := ops.Status(ctx)
	if err != nil {
		return nil, err
	}
	if st.Head.IsNone() {
		if _, err := ops.Genesis(ctx, "made by up"); err != nil && world.KindOf(err) != world.KindHeadConflict {
			return nil, err
		}
	}
	if err := a.publishPacks(ctx, ops, plan.packs); err != nil {
		return nil, err
	}
	info := &upInfo{Store: postgres.Display(plan.db()), program: a.env.program()}
	if plan.works() {
		if info.UpWork, err = a.prepareWork(ctx, ops, plan); err != nil {
			return nil, err
		}
	}
	if plan.skills {
		if info.UpSkills, err = a.prepareSkills(ctx, ops, plan); err != nil {
			return nil, err
		}
	}
	return info, nil
}

func (a *app) prepareWork(ctx context.Context, ops admin.Ops, plan upPlan) (*UpWork, error) {
	tree, err := a.ensureWorktree(ctx, plan.repo, plan.workspace(), plan.episode)
	if err != nil {
		return nil, err
	}
	s, err := a.ensureSession(ctx, ops, plan)
	if err != nil {
		return nil, err
	}
	return &UpWork{Episode: plan.episode, Worktree: tree, SessionFile: plan.sessionFile(), CredentialID: s.ID, Expires: s.Expires}, nil
}

func (a *app) publishPacks(ctx context.Context, ops admin.Ops, chosen []packs.Pack) error {
	defer a.progress("publishing the tools that ship")()
	for _, p := range chosen {
		done, err := ops.Publish(ctx, registry.Manifest{Text: p.Manifest, Files: p.Files})
		if err != nil {
			return err
		}
		if changed := append(done.Added, done.Updated...); len(changed) > 0 {
			fmt.Fprintf(a.stderr, "published %s: %s\n", p.Name, strings.Join(changed, " "))
		}
	}
	return nil
}

// ensureSession finds the session of the episode's file, if it is live, the episode's and
// has all that up grants; else it mints one, and replaces the file.
func (a *app) ensureSession(ctx context.Context, ops admin.Ops, plan upPlan) (world.Session, error) {
	file := plan.sessionFile()
	grants, _ := presetGrants(upPreset, upBudget, plan.effects)
	token, err := a.readSession(file)
	if err == nil {
		s, err := ops.Lookup(ctx, token)
		switch k := world.KindOf(err); {
		case err == nil && s.Episode == plan.episode && grantsAll(s, grants):
			return s, os.Chmod(file, 0o600)
		case err == nil && s.Episode == plan.episode:
			fmt.Fprintf(a.stderr, "the session in %s lacks effects that up grants now; a new session is minted\n", file)
		case err == nil, k == world.KindSessionUnknown, k == world.KindSessionExpired:
		default:
			return world.Session{}, err
		}
	} else if _, serr := os.Lstat(file); !errors.Is(serr, fs.ErrNotExist) {
		fmt.Fprintf(a.stderr, "the session file %s is of no use (%v); a new session is minted\n", file, err)
	}
	m, err := a.mint(ctx, ops, admin.MintRequest{Episode: plan.episode, Grants: grants, TTL: upTTL}, file, true)
	return m.Session, err
}

// grantsAll tells whether a session may use every effect of some grants, whatever its budget.
func grantsAll(s world.Session, grants []world.Grant) bool {
	for _, g := range grants {
		if _, _, scoped := s.Budget(g.Effect, g.Scope); !scoped {
			return false
		}
	}
	return true
}
