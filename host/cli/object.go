package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/world"
)

func (a *app) objectCommand() *cobra.Command {
	return group("object", "Look at objects", "An object is an immutable payload, addressed by its hash.", a.objectGetCommand(), a.objectFindCommand())
}

func (a *app) objectGetCommand() *cobra.Command {
	var f remoteFlags
	var payload bool
	c := &cobra.Command{
		Use:   "get REF [--payload]",
		Short: "Show an object, or write its payload",
		Long: `Shows what kind of object it is and where it came from. With --payload its bytes go to
stdout as they are, after they were checked against the reference. A payload that is no
text is not written to a terminal.`,
		Example: `  ailang-worldd object get sha256:… --payload > file`,
		Args:    exactly(1, "one REF"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := refArg(cmd, args[0])
			if err != nil {
				return err
			}
			c, err := a.client(f)
			if err != nil {
				return err
			}
			o, text, err := c.Object(cmd.Context(), ref, payload)
			if err != nil {
				return err
			}
			if payload && !f.json {
				return a.showPayload(o.Payload)
			}
			return a.showRows(f.json, text, [][]string{
				{"hash", o.Hash.String()}, {"semanticId", printable(o.SemanticID, false)},
				{"interfaceHash", o.InterfaceHash.String()}, {"provenance", printable(o.Provenance, false)},
			})
		},
	}
	f.add(c)
	c.Flags().BoolVar(&payload, "payload", false, "write the payload to stdout; with --json, as base64")
	return c
}

func (a *app) showPayload(payload []byte) error {
	if isTerminal(a.stdout) {
		if text := string(payload); !utf8.Valid(payload) || printable(text, true) != text {
			return failf("the payload is no text, and stdout is a terminal").hinted("write it to a file: … --payload > FILE")
		}
		if len(payload) > 0 && payload[len(payload)-1] != '\n' {
			payload = append(payload, '\n')
		}
	}
	_, err := a.stdout.Write(payload)
	return err
}

func (a *app) objectFindCommand() *cobra.Command {
	var f remoteFlags
	var after string
	var limit int
	c := &cobra.Command{
		Use:   "find SEMANTIC-ID [--after REF] [--limit N]",
		Short: "List objects of one kind",
		Long: `Lists the objects with a semantic id, in ascending order of their hash. A page that is
full says on stderr how to go on.`,
		Example: `  ailang-worldd object find world/effect-record/v1`,
		Args:    exactly(1, "one SEMANTIC-ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usage(cmd, "a SEMANTIC-ID is not empty")
			}
			if err := checkLimit(cmd, limit); err != nil {
				return err
			}
			var from world.Ref
			if after != "" {
				var err error
				if from, err = refArg(cmd, after); err != nil {
					return err
				}
			}
			c, err := a.client(f)
			if err != nil {
				return err
			}
			items, text, err := c.ObjectsBySemanticID(cmd.Context(), args[0], from, limit)
			if err != nil {
				return err
			}
			if f.json {
				return a.showJSON(text)
			}
			rows := [][]string{}
			for _, o := range items {
				rows = append(rows, []string{o.Hash.String(), printable(o.Provenance, false)})
			}
			table(a.stdout, rows)
			if len(items) == limit {
				fmt.Fprintf(a.stderr, "there may be more: --after %s\n", items[len(items)-1].Hash)
			} else if len(items) == 0 {
				fmt.Fprintf(a.stderr, "no object%s has that semantic id\n", strings.Repeat(" past that one", min(len(after), 1)))
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().StringVar(&after, "after", "", "go on behind the object `REF`")
	limitFlag(c, &limit)
	return c
}
