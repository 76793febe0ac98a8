package sandbox

import (
	"fmt"
	"strings"
)

// Missing is something that this host does not let a command be confined with.
type Missing struct{ What, Why, How string }

// Report is what this host can enforce.
type Report struct {
	// Missing is what no command can be run without; empty if commands can be confined.
	Missing []Missing
	// Weaker is what is done in another way, or not at all.
	Weaker []Missing
	// Landlock is the version of the second wall; 0 is none.
	Landlock int
	// Groups tells that a control group bounds memory and processes.
	Groups bool
}

// OK tells whether commands can be confined.
func (r Report) OK() bool { return len(r.Missing) == 0 }

// Text is the report for an operator, a few lines.
func (r Report) Text() string {
	var b strings.Builder
	list := func(title string, all []Missing) {
		for _, m := range all {
			fmt.Fprintf(&b, "%s: %s: %s\n  %s\n", title, m.What, m.Why, m.How)
		}
	}
	list("missing", r.Missing)
	list("weaker", r.Weaker)
	if b.Len() == 0 {
		return "commands are confined by all that there is\n"
	}
	return b.String()
}
