package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/cli/worktree"
	"ailang.dev/world/host/world"
)

// setupClients are what setup knows to write for.
var setupClients = []string{"claude", "codex", "cursor", "mcp", "cli"}

func (a *app) setupCommand() *cobra.Command {
	var episode, home, addr string
	var asJSON bool
	c := &cobra.Command{
		Use:   "setup CLIENT [--episode NAME]",
		Short: "Print how to connect a client to what up made: claude, codex, cursor, mcp, cli",
		Long: `Prints the configuration of one client for an episode that up made: claude, codex, cursor,
mcp (any other client of Streamable HTTP) or cli (this program). Nothing is written, and the
credential is not in it: it stays in its file.`,
		Example: `  ailang-worldd setup codex --episode site`,
		Args:    exactly(1, "one of "+strings.Join(setupClients, ", ")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(setupClients, args[0]) {
				return usage(cmd, "%q is none of %s", args[0], strings.Join(setupClients, ", "))
			}
			info, err := a.setup(cmd, home, episode, addr)
			if err != nil {
				return err
			}
			chosen := []section{}
			for _, s := range info.sections() {
				if s.client == args[0] || s.client == "env" && args[0] != "claude" && args[0] != "cli" {
					chosen = append(chosen, s)
				}
			}
			if asJSON {
				texts := []string{}
				for _, s := range chosen {
					texts = append(texts, strings.Join(s.lines, "\n"))
				}
				return writeJSON(a.stdout, map[string]any{"episode": info.Episode, "url": info.URL, "session_file": info.SessionFile, "texts": texts})
			}
			for _, s := range chosen {
				fmt.Fprintln(a.stderr, s.title)
				fmt.Fprintln(a.stdout, strings.Join(s.lines, "\n"))
			}
			return nil
		},
	}
	c.Flags().StringVar(&episode, "episode", "", "`NAME` of the episode (default made of this folder's name)")
	c.Flags().StringVar(&home, "home", "", "`FOLDER` of up (default $XDG_DATA_HOME/ailang-world)")
	c.Flags().StringVar(&addr, "addr", "", "the daemon's `URL`; without it, the one that serves up's store")
	jsonFlag(c, &asJSON)
	return c
}

// setup finds the session's file and the daemon.
func (a *app) setup(cmd *cobra.Command, home, episode, addr string) (*upInfo, error) {
	dir, err := a.dataHome(home)
	if err != nil {
		return nil, err
	}
	if episode == "" {
		if episode = worktree.EpisodeOf(a.path(".")); episode == "" {
			return nil, usage(cmd, "--episode NAME is needed")
		}
	}
	if err := world.CheckEpisode(episode); err != nil {
		return nil, usage(cmd, "--episode: %v", err)
	}
	plan := upPlan{home: dir, episode: episode}
	if _, err := os.Stat(plan.sessionFile()); errors.Is(err, fs.ErrNotExist) {
		return nil, failf("up has made no session for episode %s", episode).hinted("run `ailang-worldd up --episode %s` in its repository", episode)
	}
	if addr == "" {
		addr = "http://" + DefaultBind
		if ops, err := a.dial(cmd.Context(), plan.db()); err == nil {
			defer ops.Close()
			if st, err := ops.Status(cmd.Context()); err == nil && st.URL != "" {
				addr = st.URL
			}
		}
	}
	info := &upInfo{UpWork: &UpWork{Episode: episode, SessionFile: plan.sessionFile()}, program: a.env.program()}
	info.connect(strings.TrimSuffix(addr, "/"))
	return info, nil
}
