package cli

import (
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/world"
)

func (a *app) sessionMintCommand() *cobra.Command {
	var f mintFlags
	var episode string
	var grants []string
	c := &cobra.Command{
		Use:   "mint --db FILE --episode NAME [--grant EFFECT=SCOPE:BUDGET]… [--ttl 8h] [--out FILE] [--yes]",
		Short: "Mint a session with grants of your choice",
		Long: `Mints a session and shows its credential, this once: alone on stdout, or in the file
that --out names, which only you can read. What is granted is shown first, and asked about
on the terminal; without a terminal it needs --yes.

Two grants of one effect and scope add up. What an episode spent counts for all its
sessions.`,
		Example: `  ailang-worldd session mint --db world.db --episode ep1 \
    --grant Workspace.Read=worktree:1000 --grant Workspace.Write=worktree:100 --ttl 8h --out ~/.world-ep1`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := a.dbPath(cmd, f.db)
			if err != nil {
				return err
			}
			if episode == "" {
				return usage(cmd, "--episode NAME is needed: whose session?")
			}
			r := admin.MintRequest{Episode: episode, Grants: []world.Grant{}, TTL: time.Duration(f.ttl)}
			for _, text := range grants {
				g, err := world.ParseGrant(text)
				if err != nil {
					return usage(cmd, "%v", err)
				}
				r.Grants = append(r.Grants, g)
			}
			return a.mintSession(cmd, db, r, f)
		},
	}
	f.add(c)
	c.Flags().StringVar(&episode, "episode", "", "`NAME` of the episode it belongs to")
	c.Flags().StringArrayVar(&grants, "grant", nil, "what it may do, `EFFECT=SCOPE:BUDGET`; repeatable")
	return c
}

func (a *app) mintSession(cmd *cobra.Command, db string, r admin.MintRequest, f mintFlags) error {
	ctx := cmd.Context()
	if err := authority.CheckMint(r.Episode, r.Grants, r.TTL); err != nil {
		return err
	}
	if err := checkStore(db, false); err != nil {
		return err
	}
	if err := a.confirm(ctx, f.yes, wish(r.Episode, r.Grants, r.TTL), "Mint it?"); err != nil {
		return err
	}
	ops, err := a.openOps(ctx, db, false)
	if err != nil {
		return err
	}
	defer ops.Close()
	m, err := a.mint(ctx, ops, r, f.out, f.force)
	if err != nil {
		return err
	}
	return a.showMinted(m, f.json)
}
