package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/cli/shell"
	"ailang.dev/world/host/world"
)

func (a *app) sessionCommand() *cobra.Command {
	return group("session", "Mint, list and revoke sessions", `A session is who an agent is: an episode, with grants until a moment. Its credential, 64
hexadecimal digits, is shown once, when it is minted; the store keeps a hash alone, which
is the credential_id.`,
		a.sessionNewCommand(), a.sessionMintCommand(), a.sessionListCommand(), a.sessionRevokeCommand())
}

// ttl is a duration on the command line: seconds, or a number with s, m, h or d.
type ttl time.Duration

func (t *ttl) String() string { return time.Duration(*t).String() }
func (t *ttl) Type() string   { return "TTL" }
func (t *ttl) Set(s string) error {
	d, err := parseTTL(s)
	if err != nil {
		return err
	}
	*t = ttl(d)
	return nil
}

func parseTTL(s string) (time.Duration, error) {
	wrong := fmt.Errorf("must be seconds or a duration, for example 3600, 8h or 30d, at most %d days", authority.MaxTTL/(24*time.Hour))
	var d time.Duration
	unit, num := time.Second, s
	if days, ok := strings.CutSuffix(s, "d"); ok {
		unit, num = 24*time.Hour, days
	}
	if n, err := strconv.ParseInt(num, 10, 64); err == nil {
		if n <= 0 || n > int64(authority.MaxTTL/unit) {
			return 0, wrong
		}
		return time.Duration(n) * unit, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > authority.MaxTTL {
		return 0, wrong
	}
	return d, nil
}

// defaultTTL is how long a session lives unless told otherwise.
const defaultTTL = 8 * time.Hour

// mintFlags are the flags that all minting has.
type mintFlags struct {
	db, out    string
	ttl        ttl
	yes, force bool
	json       bool
}

func (f *mintFlags) add(c *cobra.Command) {
	f.ttl = ttl(defaultTTL)
	dbFlag(c, &f.db)
	c.Flags().Var(&f.ttl, "ttl", "how long it lives: seconds, or as 8h or 30d")
	c.Flags().StringVar(&f.out, "out", "", "`FILE` to write the credential to, for this user alone; without it, it is printed")
	c.Flags().BoolVar(&f.force, "force", false, "let --out replace a file")
	c.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	jsonFlag(c, &f.json)
}

// wish is a session as it is shown before it is minted.
func wish(episode string, grants []world.Grant, ttl time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A session of episode %s, for %s, that may:\n", episode, ttlText(ttl))
	for _, g := range grants {
		fmt.Fprintf(&b, "  %-16s in %s, budget %d\n", g.Effect, printable(g.Scope, false), g.Budget)
	}
	if len(grants) == 0 {
		b.WriteString("  call nothing; it may only read, and commit over REST\n")
	}
	return b.String()
}

func ttlText(d time.Duration) string {
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// minted is what minting tells.
type minted struct {
	// Credential is shown only if it was written nowhere.
	Credential string        `json:"credential,omitzero"`
	File       string        `json:"file,omitzero"`
	Session    world.Session `json:"session"`
	Worktree   any           `json:"worktree,omitzero"`
}

// mint mints a session and puts its credential where it belongs. The file is prepared
// first; a session whose credential cannot be written is revoked again.
func (a *app) mint(ctx context.Context, ops admin.Ops, r admin.MintRequest, out string, over bool) (minted, error) {
	if out == "" {
		m, err := ops.Mint(ctx, r)
		return minted{Credential: m.Credential, Session: m.Session}, err
	}
	file, err := newSessionFile(a.path(out), over)
	if err != nil {
		return minted{}, err
	}
	defer file.discard()
	m, err := ops.Mint(ctx, r)
	if err != nil {
		return minted{}, err
	}
	if err := file.write(m.Credential); err != nil {
		if rerr := ops.Revoke(context.WithoutCancel(ctx), m.Session.ID); rerr != nil {
			return minted{}, errors.Join(err, rerr)
		}
		return minted{}, err
	}
	return minted{File: file.path, Session: m.Session}, nil
}

// showMinted prints what minting made. A bare credential stands alone on stdout.
func (a *app) showMinted(m minted, asJSON bool) error {
	if asJSON {
		return writeJSON(a.stdout, m)
	}
	w := io.Writer(a.stdout)
	if m.File == "" {
		fmt.Fprintln(a.stdout, m.Credential)
		w = a.stderr
	}
	rows := [][]string{{"credential_id", m.Session.ID.Hex()}, {"episode", m.Session.Episode}, {"expires", when(m.Session.Expires)}}
	if m.File != "" {
		rows = append(rows, []string{"session file", m.File})
	}
	table(w, rows)
	if m.File != "" {
		fmt.Fprintf(a.stderr, "next: ailang-worldd tools list --session %s\n", shell.Word(m.File))
	} else {
		fmt.Fprintln(a.stderr, "the credential is not shown again")
	}
	return nil
}
