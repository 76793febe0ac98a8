package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/authority"
)

func (a *app) tokenCommand() *cobra.Command {
	return group("token", "Mint, list and revoke users' tokens", `A user token lets a person, or a program of theirs, send messages to skills on the task
endpoint (/api/v1/a2a) and call tools on /mcp/, by a plan: what it grants and how many calls
it allows stands in the configuration file. A token, 64 hexadecimal digits, is shown once,
when it is minted; the store keeps a hash alone, which is the token_id.`,
		a.tokenMintCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
}

// defaultTokenTTL is how long a token lives unless told otherwise.
const defaultTokenTTL = 30 * 24 * time.Hour

func (a *app) tokenMintCommand() *cobra.Command {
	var f mintFlags
	var subject, plan string
	c := &cobra.Command{
		Use:   "mint --db FILE --subject NAME --plan PLAN [--ttl 30d] [--out FILE] [--yes]",
		Short: "Mint a user's token",
		Long: `Mints a token and shows it, this once: alone on stdout, or in the file that --out names,
which only you can read. It is asked about on the terminal; without a terminal it needs
--yes.

All tokens of a subject are one user: they share its tasks, budgets and rates. Without a
configuration file the plans are free, pro, organization and enterprise. While no daemon
runs the plan is not looked up; a token of a plan that there is not may do nothing.`,
		Example: `  ailang-worldd token mint --db world.db --subject ada@example.org --plan pro --ttl 90d --out ~/.world-ada`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := a.dbPath(cmd, f.db)
			if err != nil {
				return err
			}
			if subject == "" {
				return usage(cmd, "--subject NAME is needed: whose token?")
			}
			if plan == "" {
				return usage(cmd, "--plan PLAN is needed, for example pro")
			}
			return a.mintUser(cmd, db, subject, plan, f)
		},
	}
	f.add(c)
	f.ttl = ttl(defaultTokenTTL)
	c.Flags().Lookup("ttl").DefValue = f.ttl.String()
	c.Flags().StringVar(&subject, "subject", "", "`NAME` of the user")
	c.Flags().StringVar(&plan, "plan", "", "the user's `PLAN`")
	return c
}

func (a *app) mintUser(cmd *cobra.Command, db, subject, plan string, f mintFlags) error {
	ctx := cmd.Context()
	life := time.Duration(f.ttl)
	if err := authority.CheckToken(subject, plan, life); err != nil {
		return err
	}
	if err := checkStore(db, false); err != nil {
		return err
	}
	wish := fmt.Sprintf("A token of user %s, for %s, by plan %s.\n", printable(subject, false), ttlText(life), plan)
	if err := a.confirm(ctx, f.yes, wish, "Mint it?"); err != nil {
		return err
	}
	ops, err := a.openOps(ctx, db, false)
	if err != nil {
		return err
	}
	defer ops.Close()
	m, err := a.mintToken(ctx, ops, admin.TokenRequest{Subject: subject, Plan: plan, TTL: life.String()}, f.out, f.force)
	if err != nil {
		return err
	}
	return a.showToken(m, f.json)
}

// mintedToken is what minting tells; the credential only if it was written nowhere.
type mintedToken struct {
	Credential string          `json:"credential,omitzero"`
	File       string          `json:"file,omitzero"`
	Token      authority.Token `json:"token"`
}

// mintToken mints a token and puts it where it belongs. The file is prepared first; a token
// that cannot be written is revoked again.
func (a *app) mintToken(ctx context.Context, ops admin.Ops, r admin.TokenRequest, out string, over bool) (mintedToken, error) {
	if out == "" {
		m, err := ops.MintToken(ctx, r)
		return mintedToken{Credential: m.Credential, Token: m.Token}, err
	}
	file, err := newSessionFile(a.path(out), over)
	if err != nil {
		return mintedToken{}, err
	}
	defer file.discard()
	m, err := ops.MintToken(ctx, r)
	if err != nil {
		return mintedToken{}, err
	}
	if err := file.write(m.Credential); err != nil {
		return mintedToken{}, errors.Join(err, ops.RevokeToken(context.WithoutCancel(ctx), m.Token.ID))
	}
	return mintedToken{File: file.path, Token: m.Token}, nil
}

func (a *app) showToken(m mintedToken, asJSON bool) error {
	if asJSON {
		return writeJSON(a.stdout, m)
	}
	w := io.Writer(a.stdout)
	rows := [][]string{
		{"token_id", m.Token.ID.Hex()}, {"subject", printable(m.Token.Subject, false)}, {"plan", m.Token.Plan},
		{"episode", m.Token.Episode}, {"expires", when(m.Token.Expires)},
	}
	if m.File == "" {
		fmt.Fprintln(a.stdout, m.Credential)
		w = a.stderr
	} else {
		rows = append(rows, []string{"token file", m.File})
	}
	table(w, rows)
	if m.File == "" {
		fmt.Fprintln(a.stderr, "the token is not shown again")
	}
	return nil
}

func (a *app) tokenListCommand() *cobra.Command {
	var db, subject string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list --db FILE [--subject NAME]",
		Short: "List users' tokens, by token_id",
		Long: `Lists users' tokens in order of minting: the token_id that revoke takes, the subject, the
plan, the episode of the user's calls in the log, and until when. Tokens that ended are
listed for 30 days; revoked ones are not.`,
		Example: `  ailang-worldd token list --db world.db --subject ada@example.org`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := a.dbPath(cmd, db)
			if err != nil {
				return err
			}
			ops, err := a.openOps(cmd.Context(), path, false)
			if err != nil {
				return err
			}
			defer ops.Close()
			all, err := ops.Tokens(cmd.Context(), subject)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, struct {
					Tokens []authority.Token `json:"tokens"`
				}{all})
			}
			if len(all) == 0 {
				fmt.Fprintln(a.stderr, "no tokens; `ailang-worldd token mint` makes one")
				return nil
			}
			rows := [][]string{{"TOKEN_ID", "SUBJECT", "PLAN", "EPISODE", "STATE", "EXPIRES"}}
			for _, t := range all {
				state := "live"
				if !time.Now().Before(t.Expires) {
					state = "expired"
				}
				rows = append(rows, []string{t.ID.Hex(), printable(t.Subject, false), t.Plan, t.Episode, state, when(t.Expires)})
			}
			table(a.stdout, rows)
			return nil
		},
	}
	dbFlag(c, &db)
	c.Flags().StringVar(&subject, "subject", "", "only those of the user `NAME`")
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	var db, subject string
	var asJSON bool
	c := &cobra.Command{
		Use:   "revoke --db FILE TOKEN_ID | --subject NAME",
		Short: "Revoke a token, or all of a user",
		Long: `Revokes the token with that token_id (64 hexadecimal digits, also as sha256:…), or all
tokens of a user. It is unknown from the next request on, and not listed any more. An id,
or a user, that has none is refused.`,
		Example: `  ailang-worldd token revoke --db world.db 3f1c…
  ailang-worldd token revoke --db world.db --subject ada@example.org`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := a.dbPath(cmd, db)
			if err != nil {
				return err
			}
			if (len(args) == 1) == (subject != "") || len(args) > 1 {
				return usage(cmd, "one TOKEN_ID is needed, or --subject NAME for all of a user")
			}
			ops, err := a.openOps(cmd.Context(), path, false)
			if err != nil {
				return err
			}
			defer ops.Close()
			n := 1
			if subject != "" {
				if n, err = ops.RevokeSubject(cmd.Context(), subject); err == nil && n == 0 {
					err = failf("there is no token of %s", printable(subject, false)).hinted("`ailang-worldd token list` shows those there are")
				}
			} else {
				err = a.revokeToken(cmd, ops, args[0])
			}
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, map[string]int{"revoked": n})
			}
			fmt.Fprintf(a.stdout, "revoked %d token%s\n", n, plural(n))
			return nil
		},
	}
	dbFlag(c, &db)
	c.Flags().StringVar(&subject, "subject", "", "revoke all tokens of the user `NAME`")
	jsonFlag(c, &asJSON)
	return c
}

// revokeToken revokes one. Its refusals do not repeat the id, which may be a token itself.
func (a *app) revokeToken(cmd *cobra.Command, ops admin.Ops, text string) error {
	id, err := credentialID(cmd, text, "TOKEN_ID", "token list")
	if err != nil {
		return err
	}
	return ops.RevokeToken(cmd.Context(), id)
}
