package cli

import (
	"context"
	"fmt"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/cli/shell"
	"ailang.dev/world/host/store/postgres"
)

func (a *app) approvalsCommand() *cobra.Command {
	return group("approvals", "List and decide what agents ask a person", `Some effects need a person's approval, and an agent may ask a question of its own. Each
approval is bound to exactly one request: this episode, this transition, this payload. A
granted one is used once, and not given back.`,
		a.approvalsListCommand(), a.approvalsShowCommand(), a.approvalsDecideCommand())
}

func (a *app) approvalsListCommand() *cobra.Command {
	var db, episode string
	var all, asJSON bool
	c := &cobra.Command{
		Use:     "list [--db FILE] [--all] [--episode NAME]",
		Short:   "List approvals that wait for a decision",
		Long:    `Lists what waits for a decision, oldest first; with --all also what was decided, used or has expired.`,
		Example: `  ailang-worldd approvals list --db world.db`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withOps(cmd, db, func(ctx context.Context, ops admin.Ops) error {
				book, err := ops.Approvals(ctx)
				if err != nil {
					return err
				}
				now, shown := time.Now(), []approvals.Approval{}
				for _, p := range book {
					p.State = p.At(now)
					if (all || p.State == approvals.Pending) && (episode == "" || p.Episode == episode) {
						shown = append(shown, p)
					}
				}
				if asJSON {
					return writeJSON(a.stdout, map[string]any{"approvals": shown})
				}
				if len(shown) == 0 {
					fmt.Fprintln(a.stderr, "nothing waits for a decision")
					return nil
				}
				rows := [][]string{{"ID", "STATE", "EPISODE", "TRANSITION", "EFFECT", "EXPIRES"}}
				for _, p := range shown {
					rows = append(rows, []string{p.ID, string(p.State), p.Episode, printable(p.Transition, false),
						printable(p.Effect+"="+p.Scope, false), when(p.Expires)})
				}
				table(a.stdout, rows)
				fmt.Fprintf(a.stderr, "next: ailang-worldd approvals show%s ID\n", withDB(db))
				return nil
			})
		},
	}
	readFlag(c, &db)
	c.Flags().BoolVar(&all, "all", false, "those that are decided, used or expired too")
	c.Flags().StringVar(&episode, "episode", "", "only those of the episode `NAME`")
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) approvalsShowCommand() *cobra.Command {
	var db string
	var asJSON bool
	c := &cobra.Command{
		Use:     "show [--db FILE] ID",
		Short:   "Show one approval, and what exactly is asked",
		Long:    `Shows who asks, and the payload that the approval is bound to, whole.`,
		Example: `  ailang-worldd approvals show --db world.db 9f86d081884c7d65`,
		Args:    exactly(1, "one ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withOps(cmd, db, func(ctx context.Context, ops admin.Ops) error {
				d, err := ops.Approval(ctx, args[0])
				if err != nil {
					return err
				}
				d.State = d.At(time.Now())
				if asJSON {
					return writeJSON(a.stdout, d)
				}
				a.showApproval(&d, db)
				return nil
			})
		},
	}
	readFlag(c, &db)
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) showApproval(d *admin.ApprovalDetail, db string) {
	rows := [][]string{{"approval", d.ID}, {"state", string(d.State)}, {"episode", d.Episode}, {"transition", printable(d.Transition, false)},
		{"source", d.Bound.TransitionFn.String()}, {"effect", printable(d.Effect+"="+d.Scope, false)}, {"asked", when(d.Asked)}, {"expires", when(d.Expires)}}
	if d.By != "" {
		rows = append(rows, []string{"decided", when(d.Decided) + " by " + printable(d.By, false)})
	}
	if d.Note != "" {
		rows = append(rows, []string{"note", printable(d.Note, false)})
	}
	if d.UsedBy != "" {
		rows = append(rows, []string{"used by", printable(string(d.UsedBy), false)})
	}
	table(a.stdout, rows)
	fmt.Fprintf(a.stdout, "payload:\n%s\n", printable(string(d.Bound.Payload), true))
	if d.State == approvals.Pending {
		fmt.Fprintf(a.stderr, "next: ailang-worldd approvals decide%s %s --grant, or --deny\n", withDB(db), d.ID)
	}
}

func (a *app) approvalsDecideCommand() *cobra.Command {
	var db, note string
	var grant, deny, asJSON bool
	d := ttl(approvals.GrantTTL)
	c := &cobra.Command{
		Use:   "decide [--db FILE] ID --grant | --deny [--note TEXT] [--ttl 1h]",
		Short: "Grant or deny an approval",
		Long: `Decides what waits. A grant holds for --ttl, and for one use. One that was granted and not
used yet can still be denied. The agent is told the note.`,
		Example: `  ailang-worldd approvals decide --db world.db 9f86d081884c7d65 --grant --note "go ahead"`,
		Args:    exactly(1, "one ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if grant == deny {
				return usage(cmd, "one of --grant and --deny is needed")
			}
			return a.withOps(cmd, db, func(ctx context.Context, ops admin.Ops) error {
				done, err := ops.DecideApproval(ctx, args[0], approvals.Decision{Grant: grant, By: userName(), Note: note, Seconds: int64(time.Duration(d) / time.Second)})
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.stdout, done)
				}
				if !grant {
					fmt.Fprintf(a.stdout, "approval %s is denied\n", done.ID)
					return nil
				}
				fmt.Fprintf(a.stdout, "approval %s is granted until %s, for one use\n", done.ID, when(done.Expires))
				return nil
			})
		},
	}
	readFlag(c, &db)
	c.Flags().BoolVar(&grant, "grant", false, "say yes")
	c.Flags().BoolVar(&deny, "deny", false, "say no")
	c.Flags().StringVar(&note, "note", "", "`TEXT` that is kept, and told to the agent")
	c.Flags().Var(&d, "ttl", "how long a grant holds: seconds, or as 8h or 2d")
	jsonFlag(c, &asJSON)
	return c
}

// withOps opens the store, or the daemon that has it, for one operation.
func (a *app) withOps(cmd *cobra.Command, db string, do func(ctx context.Context, ops admin.Ops) error) error {
	path, err := a.readPath(cmd, db)
	if err != nil {
		return err
	}
	ops, err := a.openOps(cmd.Context(), path, false)
	if err != nil {
		return err
	}
	defer ops.Close()
	return do(cmd.Context(), ops)
}

// withDB is the flag as it was given, for a command that is told to be typed next.
func withDB(db string) string {
	if db == "" {
		return ""
	}
	return " --db " + shell.Word(postgres.Display(db))
}

// userName is who decides, as the system calls this user.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}
