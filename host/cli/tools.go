package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"ailang.dev/world/host/client"
)

func (a *app) toolsCommand() *cobra.Command {
	return group("tools", "See what a session may call", "A tool is a transition as a session sees it.", a.toolsListCommand())
}

func (a *app) toolsListCommand() *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use:   "list --session FILE",
		Short: "List what a session may call, with arguments",
		Long: `Lists the transitions that the session's grants admit, in the order of the registry: id,
title, and the names of the arguments, those in brackets optional.`,
		Example: `  ailang-worldd tools list --session ~/.world-ep1`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.sessionClient(f)
			if err != nil {
				return err
			}
			tools, err := c.Tools(cmd.Context())
			if err != nil {
				return err
			}
			if f.json {
				if tools == nil {
					tools = []client.Tool{}
				}
				return writeJSON(a.stdout, map[string][]client.Tool{"tools": tools})
			}
			if len(tools) == 0 {
				fmt.Fprintln(a.stderr, "the session's grants admit nothing that is published")
				return nil
			}
			rows := [][]string{{"ID", "TITLE", "ARGUMENTS"}}
			for _, t := range tools {
				rows = append(rows, []string{printable(t.ID, false), printable(t.Title, false), argumentNames(t.InputSchema)})
			}
			table(a.stdout, rows)
			return nil
		},
	}
	f.add(c)
	return c
}

// argumentNames are the names of a schema's properties: the required first, in its order,
// then the others in brackets.
func argumentNames(schema jsontext.Value) string {
	var s struct {
		Properties map[string]jsontext.Value `json:"properties"`
		Required   []string                  `json:"required"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return "?"
	}
	names := slices.Clone(s.Required)
	var optional []string
	for name := range s.Properties {
		if !slices.Contains(s.Required, name) {
			optional = append(optional, "["+name+"]")
		}
	}
	slices.Sort(optional)
	if names = append(names, optional...); len(names) == 0 {
		return "-"
	}
	return printable(strings.Join(names, " "), false)
}
