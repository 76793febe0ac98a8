package ailang

import (
	"bytes"
	"regexp"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
)

// module is the name that every stored source has, and sourcePath the file it is run from:
// the binary wants the two to agree.
const (
	module     = "host/capsule/main"
	sourcePath = module + Extension
)

// moduleLine is a line that names the module: its lead, the name, and what follows.
var moduleLine = regexp.MustCompile(`^([ \t]*module[ \t]+)([^\s;]+)(.*)$`)

// Prepare rewrites the line that names the module to the name that it is run under. The
// line is the first that is neither blank nor a comment.
func (e *Engine) Prepare(text []byte) ([]byte, error) {
	for at := 0; at < len(text); {
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i
		}
		line := text[at:end]
		if s := bytes.TrimSpace(line); len(s) == 0 || bytes.HasPrefix(s, []byte("--")) || bytes.HasPrefix(s, []byte("//")) {
			at = end + 1
			continue
		}
		m := moduleLine.FindSubmatchIndex(line)
		if m == nil {
			break
		}
		out := append([]byte(nil), text[:at+m[4]]...)
		out = append(out, module...)
		out = append(out, text[at+m[5]:]...)
		if len(out) > capsule.MaxSource {
			return nil, world.Errorf(world.KindConvention, "ailang.Prepare", "a source has at most %d bytes, with its module named %s", capsule.MaxSource, module)
		}
		return out, nil
	}
	return nil, world.Errorf(world.KindConvention, "ailang.Prepare", "the source must begin with a line `module NAME`; it is stored as %s", module)
}
