package sqlstore

import (
	"bytes"
	"context"
	"fmt"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// prepared is the objects of one write, made ready before it waits for the writer.
type prepared struct {
	objects []world.Object
	refs    [][]world.Ref // found in each payload
	bytes   int
	bad     error // the first object whose hash is not that of its payload
}

// prepare checks bounds and hashes. Only a broken bound is its error.
func prepare(op string, objects []world.Object) (*prepared, error) {
	if len(objects) > store.MaxBatchObjects {
		return nil, world.Errorf(world.KindTooLarge, op, "a write may bring at most %d objects, not %d", store.MaxBatchObjects, len(objects))
	}
	p := &prepared{objects: objects}
	for i := range objects {
		o := &objects[i]
		if len(o.Payload) > store.MaxPayload {
			return nil, world.Errorf(world.KindTooLarge, op, "objects[%d].payload has %d bytes, more than %d", i, len(o.Payload), store.MaxPayload)
		}
		if err := checkTexts(op, text{fmt.Sprintf("objects[%d].semanticId", i), o.SemanticID},
			text{fmt.Sprintf("objects[%d].provenance", i), o.Provenance}); err != nil {
			return nil, err
		}
		p.bytes += len(o.Payload)
	}
	p.refs = make([][]world.Ref, len(objects))
	for i := range objects {
		o := &objects[i]
		if sum := hashref.Sum(o.Payload); sum != o.Hash && p.bad == nil {
			p.bad = &world.Error{Op: op, Kind: world.KindInternal, Subject: fmt.Sprintf("objects[%d]", i),
				Err: fmt.Errorf("hash %q is not that of the payload, %s", o.Hash, sum)}
		}
		p.refs[i] = References(o.Payload)
	}
	return p, nil
}

// needs is what a write of these objects reads, and of an invocation's journal if it has one.
func (p *prepared) needs(id world.InvocationID) func(*Needs) {
	return func(n *Needs) {
		for i := range p.objects {
			n.Objects = append(n.Objects, p.objects[i].Hash)
		}
		needCall(id)(n)
	}
}

func needCall(id world.InvocationID) func(*Needs) {
	return func(n *Needs) {
		if id != "" {
			n.Calls = append(n.Calls, id)
		}
	}
}

// prepareProven is prepare, and refuses an object whose hash is wrong.
func prepareProven(op string, objects []world.Object) (*prepared, error) {
	p, err := prepare(op, objects)
	if err != nil {
		return nil, err
	}
	return p, p.bad
}

type text struct{ name, value string }

func checkTexts(op string, texts ...text) error {
	for _, t := range texts {
		if len(t.value) > store.MaxText {
			return world.Errorf(world.KindTooLarge, op, "%s has %d bytes, more than %d", t.name, len(t.value), store.MaxText)
		}
	}
	return nil
}

var refMark = []byte("sha256:")

// References are the distinct references in a payload, in order, at most store.MaxRefs.
func References(payload []byte) []world.Ref {
	var found []world.Ref
	var seen map[world.Ref]bool // only once a linear search is too long
	for len(found) < store.MaxRefs {
		i := bytes.Index(payload, refMark)
		if i < 0 || len(payload)-i < hashref.TextLen {
			break
		}
		ref, err := hashref.Parse(string(payload[i : i+hashref.TextLen]))
		if err != nil {
			payload = payload[i+len(refMark):]
			continue
		}
		payload = payload[i+hashref.TextLen:]
		if seen[ref] || seen == nil && contains(found, ref) {
			continue
		}
		if found == nil {
			found = make([]world.Ref, 0, min(1+bytes.Count(payload, refMark), store.MaxRefs))
		}
		found = append(found, ref)
		if len(found) == 16 {
			seen = make(map[world.Ref]bool)
			for _, r := range found {
				seen[r] = true
			}
		} else if seen != nil {
			seen[ref] = true
		}
	}
	return found
}

// PutObjects implements store.Writer.
func (s *Store) PutObjects(ctx context.Context, objects []world.Object) error {
	const op = "store.PutObjects"
	p, err := prepareProven(op, objects)
	if err != nil {
		return err
	}
	_, err = submit(ctx, s.writer, op, p.bytes, p.needs(""), func(t *txn) (struct{}, error) {
		return struct{}{}, t.putObjects(p)
	})
	return err
}
