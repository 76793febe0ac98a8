// Package registry owns what can be called: the transition registry with its descriptors,
// the epoch registry that nominates interpreters, manifests and their publication, and the
// one grant-filtered View that tools/list, the agent card and admission share. It runs no
// transition and performs no effect. Answers spec/07-calls.md.
package registry

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// MaxTransitions bounds one registry.
const MaxTransitions = 4096

// registryStore is what the registry needs of the store.
type registryStore interface {
	RegistryHead(ctx context.Context, name string) (store.RegistryHead, error)
	Object(ctx context.Context, ref world.Ref) (world.Object, error)
	SwapRegistry(ctx context.Context, name string, observed, next world.Ref, objects []world.Object) (store.RegistryHead, error)
}

// Registry reads and moves the two registries of one store.
type Registry struct {
	store   registryStore
	engines capsule.Set
	now     func() time.Time

	mu     sync.Mutex // guards the two caches, which are addressed by content
	latest *Snapshot
	epochs *Epochs
}

// New makes a registry over a store and the engines that sources are checked with.
func New(s registryStore, engines capsule.Set, now func() time.Time) *Registry {
	return &Registry{store: s, engines: engines, now: now}
}

// document is the registry object's payload.
type document struct {
	Transitions []*world.Descriptor `json:"transitions"`
}

// Snapshot is one state of the transition registry. It is never changed. A descriptor that
// did not change since the snapshot before keeps its pointer.
type Snapshot struct {
	Head     world.Ref // None: nothing was ever published
	Revision int64
	// Transitions are in byte order of their ids.
	Transitions []*world.Descriptor
}

// keep takes over the descriptors that are as they were, so that what is cached by their
// pointers stays of use.
func (s *Snapshot) keep(old *Snapshot) {
	for i, d := range s.Transitions {
		if was := old.Get(d.ID); was != nil && bytes.Equal(hashref.MustMarshal(was), hashref.MustMarshal(d)) {
			s.Transitions[i] = was
		}
	}
}

// Get finds a descriptor by id, or nil.
func (s *Snapshot) Get(id string) *world.Descriptor {
	i, ok := slices.BinarySearchFunc(s.Transitions, id, func(d *world.Descriptor, id string) int {
		return strings.Compare(d.ID, id)
	})
	if !ok {
		return nil
	}
	return s.Transitions[i]
}

// Snapshot reads the registry's head, and its object unless that head was read last time.
func (r *Registry) Snapshot(ctx context.Context) (*Snapshot, error) {
	head, err := r.store.RegistryHead(ctx, world.TransitionRegistry)
	if err != nil {
		if world.KindOf(err) == world.KindNotFound {
			return &Snapshot{}, nil
		}
		return nil, err
	}
	r.mu.Lock()
	cached := r.latest
	r.mu.Unlock()
	if cached != nil && cached.Head == head.Head {
		return cached, nil
	}
	obj, err := r.store.Object(ctx, head.Head)
	if err != nil {
		return nil, fmt.Errorf("transition registry %s: %w", head.Head, err)
	}
	var doc document
	if err := hashref.Decode(obj.Payload, &doc); err != nil {
		return nil, &world.Error{Op: "registry.Snapshot", Kind: world.KindIntegrity, Subject: head.Head.String(), Err: err}
	}
	snap := &Snapshot{Head: head.Head, Revision: head.Revision, Transitions: doc.Transitions}
	if cached != nil {
		snap.keep(cached)
	}
	r.mu.Lock()
	r.latest = snap
	r.mu.Unlock()
	return snap, nil
}

// View is what a session sees now: exactly the transitions whose access its live grants
// satisfy, in byte order of their ids. Seeing compares with what was granted, never with
// what is left, and costs nothing.
func (r *Registry) View(ctx context.Context, s world.Session) ([]*world.Descriptor, error) {
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	now := r.now()
	seen := make([]*world.Descriptor, 0, len(snap.Transitions))
	for _, d := range snap.Transitions {
		if denial, _ := s.Decide(d.Access, 0, now); denial == "" {
			seen = append(seen, d)
		}
	}
	return seen, nil
}
