package cli

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"ailang.dev/world/host/client"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// remoteFlags are the flags of every verb that asks a running daemon.
type remoteFlags struct {
	addr, session string
	json          bool
}

func (f *remoteFlags) add(c *cobra.Command) {
	f.addWithoutJSON(c)
	jsonFlag(c, &f.json)
}

func (f *remoteFlags) addWithoutJSON(c *cobra.Command) {
	c.Flags().StringVar(&f.addr, "addr", "", "the daemon's `URL` (default WORLD_ADDR, else "+DefaultAddr+")")
	c.Flags().StringVar(&f.session, "session", "", "session `FILE`, or its 64 digits (default WORLD_SESSION)")
}

// client makes the client that the flags ask for.
func (a *app) client(f remoteFlags) (*client.HTTP, error) {
	token, err := a.session(f.session)
	if err != nil {
		return nil, err
	}
	addr := f.addr
	if addr == "" {
		addr = a.env.Get("WORLD_ADDR")
	}
	if addr == "" {
		addr = DefaultAddr
	}
	return client.NewHTTP(addr, token)
}

// sessionClient is client for verbs that need a session.
func (a *app) sessionClient(f remoteFlags) (*client.HTTP, error) {
	c, err := a.client(f)
	if err == nil && !c.HasSession() {
		return nil, &cliError{kind: "Usage", msg: "a session is needed",
			hint: "name its file with --session or WORLD_SESSION; `ailang-worldd session mint` makes one, and so does `ailang-worldd up`"}
	}
	return c, err
}

// showRows prints an answer: its JSON as it came, or rows for people.
func (a *app) showRows(asJSON bool, text jsontext.Value, rows [][]string) error {
	if asJSON {
		return a.showJSON(text)
	}
	table(a.stdout, rows)
	return nil
}

// showJSON prints a JSON text on one line.
func (a *app) showJSON(text jsontext.Value) error {
	v := text.Clone()
	if err := v.Compact(); err != nil {
		return failf("the answer is no JSON: %v", err)
	}
	_, err := a.stdout.Write(append(inertJSON(v), '\n'))
	return err
}

// refArg reads a reference of the command line.
func refArg(cmd *cobra.Command, text string) (world.Ref, error) {
	ref, err := hashref.Parse(text)
	if err != nil {
		return hashref.None, usage(cmd, "a reference %v", err)
	}
	return ref, nil
}

// limitFlag adds --limit.
func limitFlag(c *cobra.Command, limit *int) {
	c.Flags().IntVar(limit, "limit", 100, "`N` items at most, 1 to "+strconv.Itoa(maxPage))
}

// maxPage is the largest page that a daemon gives.
const maxPage = 500

func checkLimit(cmd *cobra.Command, limit int) error {
	if limit < 1 || limit > maxPage {
		return usage(cmd, "--limit must be from 1 to %d", maxPage)
	}
	return nil
}
