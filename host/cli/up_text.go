package cli

import (
	"fmt"
	"strings"

	"ailang.dev/world/host/cli/shell"
)

// showUp prints what up made and how to use it. It names the session's file and never
// holds the credential.
func (a *app) showUp(i *upInfo, asJSON bool) {
	if asJSON {
		writeJSON(a.stdout, i)
		return
	}
	var rows [][]string
	if i.UpWork != nil {
		verb := "re-used"
		if i.Worktree.New {
			verb = "new"
		}
		rows = append(rows, [][]string{
			{"episode", i.Episode},
			{"worktree", i.Worktree.Path + " (" + verb + ", branch " + branchText(i.Worktree.Branch) + ")"},
			{"session", i.SessionFile + " (until " + when(i.Expires) + ")"}}...)
	}
	if i.UpSkills != nil {
		rows = append(rows, i.skillRows()...)
	}
	rows = append(rows, []string{"store", i.Store}, []string{"MCP", i.MCP})
	if i.UpWork != nil {
		rows = append(rows, []string{"A2A", i.A2A})
	}
	fmt.Fprintln(a.stdout)
	table(a.stdout, append(rows, []string{"workbench", i.URL + "/workbench (for you, in a browser)"}))
	fmt.Fprint(a.stdout, i.guide())
}

func branchText(b string) string {
	if b == "" {
		return "none"
	}
	return b
}

// section is one way to connect.
type section struct {
	client, title string
	lines         []string
}

// sections are the ways to connect, each to be copied.
func (i *upInfo) sections() []section {
	var all []section
	if i.UpSkills != nil {
		all = i.skillSections()
	}
	if i.UpWork == nil {
		return all
	}
	file := shell.Word(i.SessionFile)
	// Inside double quotes a path in single quotes still is one word of $(cat …).
	token := "$(cat " + file + ")"
	return append(all, []section{
		{"cli", "Try it, from another terminal:", []string{
			"export WORLD_ADDR=" + i.URL + " WORLD_SESSION=" + file,
			i.program + " tools list",
			i.program + " call workspace-list",
			i.program + " log range"}},
		{"env", "For clients that take the session from the environment:", []string{
			`export WORLD_TOKEN="` + token + `"`}},
		{"claude", "Claude Code (keeps the session in its own configuration):", []string{
			"claude mcp add --transport http world " + i.MCP + ` --header "Authorization: Bearer ` + token + `"`}},
		{"codex", "Codex, in ~/.codex/config.toml:", []string{
			"[mcp_servers.world]",
			`url = "` + i.MCP + `"`,
			`bearer_token_env_var = "WORLD_TOKEN"`}},
		{"cursor", "Cursor, in .cursor/mcp.json:", []string{
			`{"mcpServers": {"world": {"url": "` + i.MCP + `",`,
			`  "headers": {"Authorization": "Bearer ${env:WORLD_TOKEN}"}}}}`}},
		{"mcp", "Any other MCP client (Streamable HTTP), for example in .mcp.json:", []string{
			`{"mcpServers": {"world": {"type": "http", "url": "` + i.MCP + `",`,
			`  "headers": {"Authorization": "Bearer ${WORLD_TOKEN}"}}}}`}},
	}...)
}

// guide is the text to copy from.
func (i *upInfo) guide() string {
	var b strings.Builder
	for _, s := range i.sections() {
		fmt.Fprintf(&b, "\n%s\n", s.title)
		for _, l := range s.lines {
			b.WriteString("  " + l + "\n")
		}
	}
	return b.String()
}
