// Package surface owns what the agent surfaces have in common and nothing else: the
// JSON-RPC 2.0 envelope with ids that are echoed byte for byte, bounded reading of a
// request and bounded writing of its answer, bounded calls into the host, and the one
// line that a refusal leaves on stderr. It knows no dialect, no session and no transition,
// decides no error text, and never imports a surface. Answers what spec/08-mcp.md and
// spec/09-a2a.md share.
package surface
