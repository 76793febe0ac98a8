package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

func (a *app) sessionRevokeCommand() *cobra.Command {
	var db, episode string
	var asJSON bool
	c := &cobra.Command{
		Use:   "revoke --db FILE CREDENTIAL_ID | --episode NAME",
		Short: "Revoke a session, or all of an episode",
		Long: `Revokes the session with that credential_id (64 hexadecimal digits, also as sha256:…), or
all sessions of an episode. It is unknown from the next request on. An id that is not
there is refused. Revoking again changes nothing.`,
		Example: `  ailang-worldd session revoke --db world.db 3f1c…
  ailang-worldd session revoke --db world.db --episode ep1`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := a.dbPath(cmd, db)
			if err != nil {
				return err
			}
			if (len(args) == 1) == (episode != "") || len(args) > 1 {
				return usage(cmd, "one CREDENTIAL_ID is needed, or --episode NAME for all of an episode")
			}
			var id world.Ref
			if episode == "" {
				if id, err = credentialID(cmd, args[0], "CREDENTIAL_ID", "session list"); err != nil {
					return err
				}
			}
			ops, err := a.openOps(cmd.Context(), path, false)
			if err != nil {
				return err
			}
			defer ops.Close()
			n := 1
			if episode != "" {
				n, err = revokeEpisode(cmd.Context(), ops, episode)
			} else {
				err = revokeOne(cmd.Context(), ops, id)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, map[string]int{"revoked": n})
			}
			fmt.Fprintf(a.stdout, "revoked %d session%s\n", n, plural(n))
			return nil
		},
	}
	dbFlag(c, &db)
	c.Flags().StringVar(&episode, "episode", "", "revoke all sessions of the episode `NAME`")
	jsonFlag(c, &asJSON)
	return c
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// credentialID reads a credential_id, or a token_id. What is none is not shown: it may be a credential.
func credentialID(cmd *cobra.Command, text, name, list string) (world.Ref, error) {
	ref, err := hashref.Parse("sha256:" + strings.TrimPrefix(strings.ToLower(text), "sha256:"))
	if err != nil {
		return hashref.None, usage(cmd, "a %s has 64 hexadecimal digits, as `%s` shows it", name, list)
	}
	return ref, nil
}

// revokeOne revokes a session. Its refusal does not repeat the id, which may be a
// credential that was taken for one.
func revokeOne(ctx context.Context, ops admin.Ops, id world.Ref) error {
	err := ops.Revoke(ctx, id)
	if world.KindOf(err) != world.KindNotFound {
		return err
	}
	e := &cliError{kind: world.KindNotFound.String(), msg: "no session has that credential_id",
		hint: "`ailang-worldd session list` shows those there are", cause: err}
	if real, ok := authority.CredentialID(id.Hex()); ok {
		if _, lerr := ops.Lookup(ctx, id.Hex()); lerr == nil {
			e.msg = "that is a session's credential, not its credential_id"
			e.hint = "its credential_id is " + real.Hex()
		}
	}
	return e
}

// revokeEpisode refuses an episode that no session was ever minted for: a slip of the pen
// must not look like a revocation.
func revokeEpisode(ctx context.Context, ops admin.Ops, episode string) (int, error) {
	n, err := ops.RevokeEpisode(ctx, episode)
	if err != nil || n > 0 {
		return n, err
	}
	all, err := ops.Sessions(ctx, episode)
	if err == nil && len(all) == 0 {
		err = &cliError{kind: world.KindNotFound.String(), msg: "no session was minted for episode " + episode,
			hint: "`ailang-worldd session list` shows those there are"}
	}
	return 0, err
}
