package sandbox

// Config is what a Sandbox is made of.
type Config struct {
	// Command starts this program so that it calls Main. Its first element is a path.
	Command []string
	// Groups lets control groups be used where they can be had.
	NoGroups bool
	Logf     func(format string, args ...any)
}

// Sandbox starts confined commands. It is safe for concurrent use.
type Sandbox struct {
	cfg    Config
	groups groups
	trees  trees
	hooks  hooks
}

// hooks are the points at which tests stage races; nil in production.
type hooks struct {
	walked func() // the tree was looked at, nothing started yet
}

// New makes a Sandbox. It looks for control groups that can be used, and changes nothing.
func New(cfg Config) *Sandbox {
	s := &Sandbox{cfg: cfg}
	if !cfg.NoGroups {
		s.groups = findGroups()
	}
	return s
}
