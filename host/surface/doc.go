// Package surface owns what the agent surfaces have in common and nothing else: the door a
// request comes in by (who it is from, how long it may take, where a refusal is told to the
// operator), the JSON-RPC 2.0 envelope with ids that are echoed byte for byte, the bounded
// reading of a request and writing of its answer, and bounded calls into the host. It knows
// no dialect, no grant and no transition, decides no text that a caller reads, and never
// imports a surface. Answers what spec/08-mcp.md and spec/09-a2a.md share.
package surface
