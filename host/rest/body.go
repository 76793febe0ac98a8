package rest

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// The wire types of a commit. Structs are pointers so that null and absence can be told.
type (
	commitBody struct {
		InvocationID text          `json:"invocationId"`
		ObservedHead reference     `json:"observedHead"`
		Objects      []*objectBody `json:"objects"`
		NextWorld    *worldBody    `json:"nextWorld"`
		Entry        *entryBody    `json:"entry"`
	}
	objectBody struct {
		Hash          reference `json:"hash"`
		InterfaceHash reference `json:"interfaceHash"`
		SemanticID    text      `json:"semanticId"`
		Provenance    text      `json:"provenance"`
		Payload       octets    `json:"payload"`
	}
	worldBody struct {
		Ref       reference `json:"ref"`
		Revision  integer   `json:"revision"`
		StateRoot reference `json:"stateRoot"`
		LogHead   reference `json:"logHead"`
	}
	entryBody struct {
		Header        *headerBody `json:"header"`
		EntryHash     reference   `json:"entryHash"`
		TransitionRef reference   `json:"transitionRef"`
	}
	headerBody struct {
		EntryIndex     integer   `json:"entryIndex"`
		SemanticsEpoch integer   `json:"semanticsEpoch"`
		TransitionFn   reference `json:"transitionFn"`
		Interpreter    reference `json:"interpreter"`
		PrevEntryHash  reference `json:"prevEntryHash"`
		WrittenBy      text      `json:"writtenBy"`
	}
)

// decodeCommit reads a body into a commit that keeps every law which needs no store. Its
// errors are KindBadRequest and begin with the path of the field at fault.
func decodeCommit(raw []byte) (store.Commit, error) {
	if b := bytes.TrimLeft(raw, " \t\r\n"); len(b) == 0 || b[0] != '{' {
		return store.Commit{}, bad("body", "must be one JSON object")
	}
	var body commitBody
	if err := hashref.Decode(raw, &body); err != nil {
		return store.Commit{}, decodeError(err)
	}
	var k checker
	c := k.commit(&body)
	if k.err != nil {
		return store.Commit{}, k.err
	}
	canonical, err := hashref.Canonical(raw)
	if err != nil {
		return store.Commit{}, bad("body", "%v", err)
	}
	c.Digest = hashref.Sum(canonical)
	return c, nil
}

// checker turns wire values into the store's and keeps the first fault it meets.
type checker struct{ err error }

func (k *checker) fault(path, format string, args ...any) {
	if k.err == nil {
		k.err = bad(path, format, args...)
	}
}

func (k *checker) commit(b *commitBody) store.Commit {
	c := store.Commit{
		Invocation:   k.invocation(b.InvocationID),
		ObservedHead: k.refOrEmpty("observedHead", b.ObservedHead),
		Objects:      k.objects(b.Objects),
	}
	if b.NextWorld == nil {
		k.fault("nextWorld", "must be an object")
		return c
	}
	c.NextWorld = world.World{
		Ref:       k.ref("nextWorld.ref", b.NextWorld.Ref),
		Revision:  k.integer("nextWorld.revision", b.NextWorld.Revision),
		StateRoot: k.ref("nextWorld.stateRoot", b.NextWorld.StateRoot),
		LogHead:   k.ref("nextWorld.logHead", b.NextWorld.LogHead),
	}
	if b.Entry == nil {
		k.fault("entry", "must be an object")
		return c
	}
	c.Entry = world.Entry{
		Header:        k.header(b.Entry.Header),
		EntryHash:     k.ref("entry.entryHash", b.Entry.EntryHash),
		TransitionRef: k.ref("entry.transitionRef", b.Entry.TransitionRef),
	}
	return c
}

func (k *checker) invocation(t text) world.InvocationID {
	if t.s != "" && !validRESTID(t.s) {
		k.fault("invocationId", "must be %s<id>, printable and at most %d bytes", world.RESTPrefix, MaxInvocationID)
	}
	return world.InvocationID(t.s)
}

func (k *checker) objects(list []*objectBody) []world.Object {
	if list == nil {
		k.fault("objects", "must be an array")
	}
	if len(list) > store.MaxBatchObjects {
		k.fault("objects", "must be at most %d", store.MaxBatchObjects)
		return nil
	}
	out := make([]world.Object, 0, len(list))
	for i, o := range list {
		path := "objects[" + strconv.Itoa(i) + "]"
		if o == nil {
			k.fault(path, "must be an object")
			return nil
		}
		out = append(out, k.object(path, o))
	}
	return out
}

func (k *checker) object(path string, o *objectBody) world.Object {
	obj := world.Object{
		ObjectMeta: world.ObjectMeta{
			Hash:          k.ref(path+".hash", o.Hash),
			InterfaceHash: k.ref(path+".interfaceHash", o.InterfaceHash),
			SemanticID:    k.text(path+".semanticId", o.SemanticID),
			Provenance:    k.text(path+".provenance", o.Provenance),
		},
		Payload: o.Payload.b,
	}
	if !o.Payload.given {
		k.fault(path+".payload", "is missing")
	}
	if world.ReservedSemanticID(obj.SemanticID) {
		k.fault(path+".semanticId", "%q is reserved for the daemon", obj.SemanticID)
	}
	k.ownWriter(path+".provenance", obj.Provenance)
	return obj
}

func (k *checker) header(h *headerBody) world.EntryHeader {
	if h == nil {
		k.fault("entry.header", "must be an object")
		return world.EntryHeader{}
	}
	out := world.EntryHeader{
		EntryIndex:     k.integer("entry.header.entryIndex", h.EntryIndex),
		SemanticsEpoch: k.integer("entry.header.semanticsEpoch", h.SemanticsEpoch),
		TransitionFn:   k.ref("entry.header.transitionFn", h.TransitionFn),
		Interpreter:    k.ref("entry.header.interpreter", h.Interpreter),
		PrevEntryHash:  k.refOrEmpty("entry.header.prevEntryHash", h.PrevEntryHash),
		WrittenBy:      k.text("entry.header.writtenBy", h.WrittenBy),
	}
	if out.PrevEntryHash.IsNone() && out.EntryIndex != 0 {
		k.fault("entry.header.prevEntryHash", "%v", hashref.ErrRef)
	}
	k.ownWriter("entry.header.writtenBy", out.WrittenBy)
	return out
}

// ownWriter refuses a text by which the daemon signs what it wrote itself.
func (k *checker) ownWriter(path, s string) {
	if strings.HasPrefix(plain(s), world.WriterPrefix) {
		k.fault(path, "must not begin with %q, which is reserved for the daemon", world.WriterPrefix)
	}
}

func (k *checker) text(path string, t text) string {
	if !t.given {
		k.fault(path, "is missing")
	}
	if why := textFault(t.s, store.MaxText); why != "" {
		k.fault(path, "%s", why)
	}
	return t.s
}

func (k *checker) ref(path string, r reference) world.Ref {
	if ref := k.refOrEmpty(path, r); !ref.IsNone() {
		return ref
	}
	k.fault(path, "%v", hashref.ErrRef)
	return hashref.None
}

func (k *checker) refOrEmpty(path string, r reference) world.Ref {
	if !r.given {
		k.fault(path, "is missing")
	}
	return r.ref
}

func (k *checker) integer(path string, i integer) int64 {
	if !i.given {
		k.fault(path, "is missing")
	}
	return i.n
}

// decodeError names the field that the decoder stopped at, in the words of this surface:
// the decoder's own speak of Go types.
func decodeError(err error) error {
	var sem *json.SemanticError
	var syn *jsontext.SyntacticError
	switch {
	case errors.As(err, &syn) && errors.Is(syn.Err, jsontext.ErrDuplicateName):
		return bad(fieldPath(syn.JSONPointer), "is given more than once")
	case errors.As(err, &syn):
		return bad("body", "is not valid JSON at byte %d: %v", syn.ByteOffset, syn.Err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return bad("body", "is not valid JSON: it ends too early")
	case !errors.As(err, &sem):
		return bad("body", "is not valid JSON")
	}
	path := fieldPath(sem.JSONPointer)
	switch sem.Err {
	case errString, errInteger, errBase64, hashref.ErrRef:
		return bad(path, "%v", sem.Err)
	case json.ErrUnknownName:
		return bad(path, "is not a field of a commit")
	}
	if sem.JSONPointer == "/objects" {
		return bad(path, "must be an array")
	}
	return bad(path, "must be an object")
}

// maxPathShown bounds, in bytes, how much of a sender's own field name is told back.
const maxPathShown = 120

// fieldPath writes a JSON pointer as the contract's paths are written, objects[0].hash.
func fieldPath(p jsontext.Pointer) string {
	var b strings.Builder
	parent := ""
	for tok := range p.Tokens() {
		switch {
		case parent == "objects" && b.Len() == len(parent):
			b.WriteString("[" + tok + "]")
		case b.Len() > 0:
			b.WriteString("." + tok)
		default:
			b.WriteString(tok)
		}
		parent = tok
	}
	path := b.String()
	if path == "" {
		return "body"
	}
	if len(path) > maxPathShown {
		path = strings.ToValidUTF8(path[:maxPathShown], "") + "…"
	}
	if strings.IndexFunc(path, func(c rune) bool { return !unicode.IsPrint(c) }) >= 0 {
		return strconv.Quote(path)
	}
	return path
}

// plain is a text as a person reads it at a glance: without case, spaces and characters
// that are not seen, so that none of them makes a look-alike of what is reserved.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.C, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}
