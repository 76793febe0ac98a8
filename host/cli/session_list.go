package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/world"
)

func (a *app) sessionListCommand() *cobra.Command {
	var db, episode string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list --db FILE [--episode NAME]",
		Short: "List sessions, by credential_id",
		Long: `Lists the store's sessions in order of minting: the credential_id that revoke takes, the
episode, whether it is live, until when, and its grants.`,
		Example: `  ailang-worldd session list --db world.db --episode ep1`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := a.dbPath(cmd, db)
			if err != nil {
				return err
			}
			if episode != "" {
				if err := world.CheckEpisode(episode); err != nil {
					return usage(cmd, "%v", err)
				}
			}
			ops, err := a.openOps(cmd.Context(), path, false)
			if err != nil {
				return err
			}
			defer ops.Close()
			all, err := ops.Sessions(cmd.Context(), episode)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, struct {
					Sessions []world.Session `json:"sessions"`
				}{all})
			}
			if len(all) == 0 {
				fmt.Fprintln(a.stderr, "no sessions; `ailang-worldd session mint` makes one")
				return nil
			}
			rows := [][]string{{"CREDENTIAL_ID", "EPISODE", "STATE", "EXPIRES", "GRANTS"}}
			for _, s := range all {
				rows = append(rows, []string{s.ID.Hex(), s.Episode, sessionState(s, time.Now()), when(s.Expires), grantList(s.Grants)})
			}
			table(a.stdout, rows)
			return nil
		},
	}
	dbFlag(c, &db)
	c.Flags().StringVar(&episode, "episode", "", "only those of the episode `NAME`")
	jsonFlag(c, &asJSON)
	return c
}

func sessionState(s world.Session, now time.Time) string {
	switch {
	case s.Revoked:
		return "revoked"
	case !s.LiveAt(now):
		return "expired"
	}
	return "live"
}

func grantList(grants []world.Grant) string {
	if len(grants) == 0 {
		return "-"
	}
	parts := make([]string, len(grants))
	for i, g := range grants {
		parts[i] = printable(g.Effect+"="+g.Scope, false) + ":" + budgetText(g.Budget)
	}
	return strings.Join(parts, " ")
}

// countless is half of authority.Unlimited: nobody spends so much of it that less is left.
const countless = authority.Unlimited / 2

// budgetText is a budget as people write it.
func budgetText(n int64) string {
	if n > countless {
		return "unlimited"
	}
	return strconv.FormatInt(n, 10)
}
