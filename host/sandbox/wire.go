package sandbox

import "time"

// What passes between the two processes. Both are of one binary, so there is no version.

// maxOrder bounds the message in, in bytes of JSON.
const maxOrder = 8 << 20

// order is what the first process of a sandbox is told.
type order struct {
	Argv, Env []string
	Dir       string
	Tree      string
	// TreeReadOnly lets nothing in the tree be changed.
	TreeReadOnly bool
	ReadOnly     []bind
	// Protect are paths in the tree that are to be read-only, Cover those that are to be
	// hidden behind an empty file.
	Protect, Cover []string
	Hide           []string
	Limits         Limits
	// Walled says that a control group bounds memory; otherwise it is watched.
	Walled bool
	// Probe stops short of starting anything.
	Probe bool
	// Program says that what is executed is a descriptor, and not what Argv names.
	Program bool
}

// bind shows what is at From at the place To.
type bind struct{ From, To string }

// maxTold bounds all that one sandbox says: it tells of its time at most once a second.
const maxTold = 16 << 20

// report is what it says: once when the command was started, or could not be, once when it
// has ended, and between them of the time taken so far.
type report struct {
	// Running says that the report is of what goes on; CPU alone means anything.
	Running bool `json:",omitempty"`
	// Started says that the command runs.
	Started bool
	// Step is what could not be done, and Why; "" if all could.
	Step, Why string
	// Command says that it was the command which could not be started, not the sandbox.
	Command bool
	// Changed says that the tree was not as the order says.
	Changed bool
	// Landlock is the version of the second wall; 0 is none.
	Landlock int
	Exit     int
	Signal   int
	Limit    Limit
	CPU      time.Duration
}
