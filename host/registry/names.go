package registry

import "strings"

// MaxToolName is the longest MCP tool name, in bytes, that a session's surface may hold.
const MaxToolName = 64

// escaper writes a transition's id as a tool name. Every byte that it changes becomes an
// underscore and a letter, and the underscore itself is one of those, so that no two ids
// share a name.
var escaper = strings.NewReplacer("_", "_u", ".", "_d", "/", "_s")

// ToolName is the name under which a transition is a tool.
func ToolName(id string) string { return escaper.Replace(id) }

// ToolNameLen is len(ToolName(id)).
func ToolNameLen(id string) int {
	n := len(id)
	for i := range len(id) {
		if c := id[i]; c == '_' || c == '.' || c == '/' {
			n++
		}
	}
	return n
}

// TransitionID is the id whose tool name is name; false if there is none.
func TransitionID(name string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch c := name[i]; c {
		case '.', '/':
			return "", false
		case '_':
			i++
			if i == len(name) {
				return "", false
			}
			switch name[i] {
			case 'u':
				b.WriteByte('_')
			case 'd':
				b.WriteByte('.')
			case 's':
				b.WriteByte('/')
			default:
				return "", false
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}
