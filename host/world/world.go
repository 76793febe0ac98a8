// Package world is the vocabulary of the whole tree: references, objects, worlds, log
// entries, grants, sessions, transition descriptors, and the closed list of error kinds.
// It has no logic beyond reading, checking and comparing these values, and does no I/O.
// Every other package speaks in its terms. Answers spec/01-entities.md.
package world

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
)

// Version is the daemon's version as health, the agent card and MCP's serverInfo tell it.
const Version = "0.1.0"

// Ref is a content address, sha256:<64 hex>.
type Ref = hashref.Ref

// Object is an immutable payload with the metadata it was first stored with. Hash is
// always the reference of Payload. Storing an object again changes nothing.
type Object struct {
	ObjectMeta
	Payload []byte
}

// ObjectMeta is an object without its payload, in the field order of the wire.
type ObjectMeta struct {
	Hash          Ref    `json:"hash"`
	InterfaceHash Ref    `json:"interfaceHash"`
	SemanticID    string `json:"semanticId"`
	Provenance    string `json:"provenance"`
}

// NewObject addresses a payload. The interface hash is the reference of the semantic id.
func NewObject(semanticID, provenance string, payload []byte) Object {
	return Object{
		ObjectMeta: ObjectMeta{
			Hash:          hashref.Sum(payload),
			InterfaceHash: hashref.SumString(semanticID),
			SemanticID:    semanticID,
			Provenance:    provenance,
		},
		Payload: payload,
	}
}

// Semantic ids of the objects that the daemon itself writes. A REST commit may not bring
// objects with these (see ReservedSemanticID).
const (
	SemInput       = "world/invocation-input/v1"
	SemOutput      = "world/invocation-output/v1"
	SemPlanV1      = "world/effect-plan/v1"
	SemPlanV2      = "world/effect-plan/v2"
	SemSource      = "world/transition-source/v1"
	SemRecordV1    = "world/invocation-record/v1"
	SemRecordV2    = "world/invocation-record/v2"
	SemRecordV3    = "world/invocation-record/v3"
	SemRequest     = "world/effect-request/v1"
	SemEffect      = "world/effect-record/v1"
	SemResult      = "world/effect-result/v1"
	SemInterpreter = "world/interpreter/v1"
	SemTool        = "world/tool/v1"
	SemPolicy      = "world/policy/v1"
	SemGenesis     = "world/genesis/v1"
	SemEpochs      = "world/epoch-registry/v1"
	SemTransitions = "world/transition-registry/v1"
	SemSchema      = "world/json-schema/v1"
	SemApprovals   = "world/approvals/v1"
	SemApproval    = "world/approval-subject/v1"
	SemUser        = "world/user/v1"
	SemDocument    = "world/document/v1"
)

var reserved = map[string]bool{
	SemInput: true, SemOutput: true, SemPlanV1: true, SemPlanV2: true, SemSource: true,
	SemRecordV1: true, SemRecordV2: true, SemRecordV3: true, SemRequest: true, SemEffect: true,
	SemResult: true, SemInterpreter: true, SemTool: true, SemPolicy: true, SemGenesis: true,
	SemEpochs: true, SemTransitions: true, SemSchema: true, SemApprovals: true, SemApproval: true, SemUser: true, SemDocument: true,
}

// ReservedSemanticID tells whether only the daemon may write objects of this kind.
func ReservedSemanticID(id string) bool { return reserved[id] }

// Names of registry heads.
const (
	EpochRegistry      = SemEpochs
	TransitionRegistry = SemTransitions
	ApprovalRegistry   = SemApprovals
)

// World is one state of the world: what the log had led to after Revision+1 entries.
type World struct {
	Ref       Ref   `json:"ref"`
	Revision  int64 `json:"revision"`
	StateRoot Ref   `json:"stateRoot"`
	LogHead   Ref   `json:"logHead"`
}

// EntryHeader is what an entry says of itself, in the field order of the wire.
type EntryHeader struct {
	EntryIndex     int64  `json:"entryIndex"`
	SemanticsEpoch int64  `json:"semanticsEpoch"`
	TransitionFn   Ref    `json:"transitionFn"`
	Interpreter    Ref    `json:"interpreter"`
	PrevEntryHash  Ref    `json:"prevEntryHash"`
	WrittenBy      string `json:"writtenBy"`
}

// Entry is one element of the append-only, hash-linked log.
type Entry struct {
	Header        EntryHeader `json:"header"`
	EntryHash     Ref         `json:"entryHash"`
	TransitionRef Ref         `json:"transitionRef"`
}

// ComputeEntryHash is the hash of a coordinator entry: the reference of the canonical
// JSON of its header and transitionRef (spec/01-entities.md). Entries that came by a REST
// commit name their own.
func ComputeEntryHash(h EntryHeader, transitionRef Ref) Ref {
	if by, err := jsontext.AppendQuote(nil, h.WrittenBy); err == nil && plain(h.EntryIndex) && plain(h.SemanticsEpoch) {
		t := make(canonical, 0, 512)
		return hashref.Sum(t.text(`{"entryIndex":`).int(h.EntryIndex).text(`,"interpreter":`).ref(h.Interpreter).
			text(`,"prevEntryHash":`).ref(h.PrevEntryHash).text(`,"semanticsEpoch":`).int(h.SemanticsEpoch).
			text(`,"transitionFn":`).ref(h.TransitionFn).text(`,"transitionRef":`).ref(transitionRef).
			text(`,"writtenBy":`).text(string(by)).text("}"))
	}
	return hashref.Sum(hashref.MustMarshal(struct { // which panics
		EntryHeader
		TransitionRef Ref `json:"transitionRef"`
	}{h, transitionRef}))
}

// ComputeWorldRef is the reference of a coordinator world.
func ComputeWorldRef(revision int64, stateRoot, logHead Ref) Ref {
	if plain(revision) {
		t := make(canonical, 0, 256)
		return hashref.Sum(t.text(`{"logHead":`).ref(logHead).text(`,"revision":`).int(revision).text(`,"stateRoot":`).ref(stateRoot).text("}"))
	}
	return hashref.Sum(hashref.MustMarshal(struct { // which panics
		LogHead   Ref   `json:"logHead"`
		Revision  int64 `json:"revision"`
		StateRoot Ref   `json:"stateRoot"`
	}{logHead, revision, stateRoot}))
}

// canonical is a canonical JSON text that is put together by hand, for the two that each
// call needs while the writer waits. Tests hold it to hashref.Marshal.
type canonical []byte

func (t canonical) text(s string) canonical { return append(t, s...) }
func (t canonical) int(v int64) canonical   { return strconv.AppendInt(t, v, 10) }

func (t canonical) ref(r Ref) canonical {
	t, _ = r.AppendText(append(t, '"')) // it never fails
	return append(t, '"')
}

// plain tells whether a number may stand in canonical JSON; it is then written in digits.
func plain(v int64) bool { return -hashref.MaxInt <= v && v <= hashref.MaxInt }

// Surface names the door a call came in by.
type Surface string

// The three agent surfaces.
const (
	SurfaceMCP   Surface = "mcp"
	SurfaceA2A   Surface = "a2a"
	SurfaceTasks Surface = "tasks"
)

// WriterPrefix begins the writtenBy of every coordinator entry; REST commits may not
// use it.
const WriterPrefix = "coordinator:"

// Writer is the writtenBy of entries, and the provenance of objects, made through s.
func (s Surface) Writer() string { return WriterPrefix + string(s) }

// RESTPrefix begins the invocation id of every REST commit that has one.
const RESTPrefix = "rest:"

// JobPrefix begins the id under which the journal keeps account of a job: work that goes on
// after its call.
const JobPrefix = "job:"

// InvocationID names one call for ever: a2a:<episode>:<task>, task:<episode>:<uuid> or
// rest:<id>; job:<id> is no call, but what one left running. "" is no id.
type InvocationID string

// TaskInvocation is the id of a call on the task endpoint.
func TaskInvocation(episode, task string) InvocationID {
	return InvocationID("task:" + episode + ":" + task)
}

// Episode is whose call it is; "" if the id is none of an episode's call.
func (id InvocationID) Episode() string {
	surface, rest, _ := strings.Cut(string(id), ":")
	episode, _, ok := strings.Cut(rest, ":")
	if !ok || surface != "a2a" && surface != "task" || CheckEpisode(episode) != nil {
		return ""
	}
	return episode
}

// AgentInvocation is the id of a call on /a2a/ or /mcp/.
func AgentInvocation(episode, task string) InvocationID {
	return InvocationID("a2a:" + episode + ":" + task)
}
