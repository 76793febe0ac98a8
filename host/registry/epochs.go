package registry

import (
	"context"
	"fmt"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Epochs says which interpreters each semantics epoch nominates. Epochs are only ever
// appended, and an interpreter is nominated by exactly one.
type Epochs struct {
	Epochs []Epoch `json:"epochs"`
}

// Epoch is one set of interpreters that came into force together.
type Epoch struct {
	Epoch        int64         `json:"epoch"`
	Interpreters []Interpreter `json:"interpreters"`
}

// Interpreter is one nominated engine.
type Interpreter struct {
	Name string    `json:"name"`
	Ref  world.Ref `json:"ref"`
}

// Of is the epoch that nominates an interpreter, or 0.
func (e *Epochs) Of(ref world.Ref) int64 {
	for _, ep := range e.Epochs {
		for _, in := range ep.Interpreters {
			if in.Ref == ref {
				return ep.Epoch
			}
		}
	}
	return 0
}

// Bootstrap makes sure that every engine of this daemon is nominated: the first start
// writes epoch 1, a later one with engines that no epoch nominates appends one epoch with
// just those. It stores the engines' objects too. Nothing is written if nothing is new. An
// engine that takes no new sources is not nominated: it was, when it did.
func (r *Registry) Bootstrap(ctx context.Context) error {
	var observed world.Ref
	cur := &Epochs{}
	if head, err := r.store.RegistryHead(ctx, world.EpochRegistry); err == nil {
		observed = head.Head
		if cur, err = r.readEpochs(ctx, head.Head); err != nil {
			return err
		}
	} else if world.KindOf(err) != world.KindNotFound {
		return err
	}
	next := Epoch{Epoch: int64(len(cur.Epochs)) + 1}
	var objects []world.Object
	for _, e := range r.engines {
		id := e.Identity()
		if cur.Of(id.Ref) != 0 || e.Extension() == "" {
			continue
		}
		next.Interpreters = append(next.Interpreters, Interpreter{Name: id.Name, Ref: id.Ref})
		if !id.Object.Hash.IsNone() {
			objects = append(objects, id.Object)
		}
	}
	if len(next.Interpreters) > 0 {
		grown := &Epochs{Epochs: append(append([]Epoch{}, cur.Epochs...), next)}
		obj := world.NewObject(world.SemEpochs, "daemon", hashref.MustMarshal(grown))
		if _, err := r.store.SwapRegistry(ctx, world.EpochRegistry, observed, obj.Hash, append(objects, obj)); err != nil {
			return fmt.Errorf("bootstrap of the epoch registry: %w", err)
		}
		cur = grown
	}
	r.mu.Lock()
	r.epochs = cur
	r.mu.Unlock()
	return nil
}

func (r *Registry) readEpochs(ctx context.Context, ref world.Ref) (*Epochs, error) {
	obj, err := r.store.Object(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("epoch registry %s: %w", ref, err)
	}
	var e Epochs
	if err := hashref.Decode(obj.Payload, &e); err != nil {
		return nil, &world.Error{Op: "registry.Epochs", Kind: world.KindIntegrity, Subject: ref.String(), Err: err}
	}
	return &e, nil
}

// epochOf is the epoch that nominates an engine of this daemon. Bootstrap comes first.
func (r *Registry) epochOf(id capsule.Identity) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epochs == nil {
		return 0
	}
	return r.epochs.Of(id.Ref)
}
