package world

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Descriptor is one published transition: what may be called, by whom it is seen, what
// it may plan. Its JSON is an element of the registry object.
type Descriptor struct {
	ID              string         `json:"id"`
	Title           string         `json:"title"`
	Description     string         `json:"description"`
	TransitionFn    Ref            `json:"transitionFn"`
	Interpreter     Ref            `json:"interpreter"`
	SemanticsEpoch  int64          `json:"semanticsEpoch"`
	InputSchema     jsontext.Value `json:"inputSchema"`
	OutputSchema    jsontext.Value `json:"outputSchema"`
	Access          Need           `json:"access"`
	DeclaredEffects []Need         `json:"declaredEffects"`
	TextArgument    string         `json:"textArgument,omitempty"`
	Annotations     *Annotations   `json:"annotations,omitempty"`
	RateClass       string         `json:"rateClass,omitempty"`
}

// Annotations are the hints that MCP shows with a tool. They carry no authority.
type Annotations struct {
	ReadOnlyHint    *bool `json:"readOnlyHint,omitempty"`
	DestructiveHint *bool `json:"destructiveHint,omitempty"`
	IdempotentHint  *bool `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool `json:"openWorldHint,omitempty"`
}

// Pure tells whether the transition may plan no effect.
func (d *Descriptor) Pure() bool { return len(d.DeclaredEffects) == 0 }

// Declares tells whether a planned effect is one that the transition declared.
func (d *Descriptor) Declares(n Need) bool {
	_, ok := d.Declared(n)
	return ok
}

// Declared is the declaration of a planned effect, which says whether it needs an approval.
func (d *Descriptor) Declared(n Need) (Need, bool) {
	for _, e := range d.DeclaredEffects {
		if e.Effect == n.Effect && e.Scope == n.Scope && e.Cost == n.Cost {
			return e, true
		}
	}
	return Need{}, false
}

var transitionID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)

// CheckTransitionID tells what is wrong with a transition's id; "" is nothing.
func CheckTransitionID(id string) string {
	if len(id) > MaxTransitionID || !transitionID.MatchString(id) {
		return "must be 1 to 256 of A-Z a-z 0-9 . _ / -, beginning with a letter or digit"
	}
	return ""
}

// readers are the effects that leave everything as it was.
var readers = map[string]bool{"Workspace.Read": true, "Git.Read": true}

// EffectReads tells whether an effect only reads, so that calls that plan no other may
// run side by side in one episode.
func EffectReads(effect string) bool {
	return readers[effect] || strings.HasPrefix(effect, "Corpus.") || strings.HasPrefix(effect, "Calendar.")
}
