package world

import "strconv"

// kindNames are the names that the operator reads on stderr, in the order of the list.
var kindNames = [...]string{
	"Internal",
	"BadRequest", "NotFound", "TooLarge", "HeadConflict", "Timeout", "Uncertain", "IndexMissing",
	"SessionAbsent", "SessionBad", "SessionUnknown", "SessionExpired",
	"NotAuthorized", "PinMismatch", "TaskIDUsed", "NoWorld", "EngineMissing", "NoHandler", "Convention",
	"Execution", "BadOutput", "Deadline", "Canceled", "Unconfirmed", "NotCommitted", "Capacity", "EffectsUnrecorded",
	"Integrity", "StoreFull", "Locked", "Schema",
}

// String is the kind's name without its prefix, for logs; never for clients.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
	return kindNames[k]
}
