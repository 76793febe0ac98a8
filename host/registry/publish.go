package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Published tells what a publication or removal did.
type Published struct {
	Revision  int64     `json:"revision"`
	Head      world.Ref `json:"head"`
	Unchanged bool      `json:"unchanged"`
	Added     []string  `json:"added"`
	Updated   []string  `json:"updated"`
	Removed   []string  `json:"removed"`
	Kept      int       `json:"kept"` // transitions that stayed as they were
	Warnings  []string  `json:"warnings"`
}

// Summary is the line that tells a person which state the registry is in now.
func (p Published) Summary() string {
	word := "published"
	if p.Unchanged {
		word = "UNCHANGED"
	}
	return fmt.Sprintf("transition registry %s at revision %d (head %s)", word, p.Revision, p.Head)
}

// Publish checks every source under its engine, merges the manifest into the registry by
// id and moves the head by compare-and-swap. Nothing is stored unless all of it is sound;
// a manifest that changes nothing writes nothing. Works before genesis; is no log entry.
// Errors: KindBadRequest names the transition and field; KindHeadConflict if another
// publication came between.
func (r *Registry) Publish(ctx context.Context, m Manifest) (Published, error) {
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return Published{}, err
	}
	descs, sources, err := r.resolve(ctx, m, snap)
	if err != nil {
		return Published{}, err
	}
	var p Published
	next := slices.Clone(snap.Transitions)
	for _, d := range descs {
		if n := len(ToolName(d.ID)); n > MaxToolName {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s: its MCP tool name has %d bytes; a session that sees it gets no tools on /mcp/ (at most %d)", d.ID, n, MaxToolName))
		}
		old := snap.Get(d.ID)
		switch {
		case old == nil:
			p.Added = append(p.Added, d.ID)
			next = append(next, d)
		case string(hashref.MustMarshal(old)) != string(hashref.MustMarshal(d)):
			p.Updated = append(p.Updated, d.ID)
			next[slices.Index(next, old)] = d
		}
	}
	if len(next) > MaxTransitions {
		return Published{}, bad("the registry would hold more than %d transitions", MaxTransitions)
	}
	return r.move(ctx, snap, next, sources, p)
}

// Remove takes transitions out of the registry. An id that is not in it is KindNotFound,
// and nothing is removed. Their sources and entries stay.
func (r *Registry) Remove(ctx context.Context, ids []string) (Published, error) {
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return Published{}, err
	}
	var p Published
	next := slices.Clone(snap.Transitions)
	for _, id := range ids {
		i := slices.IndexFunc(next, func(d *world.Descriptor) bool { return d.ID == id })
		if i < 0 {
			return Published{}, world.Errorf(world.KindNotFound, "registry.Remove", "transition %q is not in the registry", id)
		}
		next = slices.Delete(next, i, i+1)
		p.Removed = append(p.Removed, id)
	}
	return r.move(ctx, snap, next, nil, p)
}

// move writes the next registry object, unless it is the one there is.
func (r *Registry) move(ctx context.Context, snap *Snapshot, next []*world.Descriptor, sources []world.Object, p Published) (Published, error) {
	slices.SortFunc(next, func(a, b *world.Descriptor) int { return strings.Compare(a.ID, b.ID) })
	p.Kept = len(next) - len(p.Added) - len(p.Updated)
	payload, err := hashref.Marshal(document{Transitions: next})
	if err != nil {
		return Published{}, err
	}
	obj := world.NewObject(world.SemTransitions, "publish", payload)
	if obj.Hash == snap.Head {
		p.Unchanged, p.Revision, p.Head = true, snap.Revision, snap.Head
		return p, nil
	}
	head, err := r.store.SwapRegistry(ctx, world.TransitionRegistry, snap.Head, obj.Hash, append(sources, obj))
	var conflict *world.HeadConflictError
	if errors.As(err, &conflict) {
		return Published{}, &world.Error{Op: "registry.Publish", Kind: world.KindHeadConflict,
			Msg: "the transition registry was moved by another publication; publish again", Err: err}
	}
	if err != nil {
		return Published{}, err
	}
	p.Revision, p.Head = head.Revision, head.Head
	return p, nil
}

// resolve makes descriptors and source objects of a manifest.
func (r *Registry) resolve(ctx context.Context, m Manifest, snap *Snapshot) ([]*world.Descriptor, []world.Object, error) {
	if len(m.Text) > MaxManifest {
		return nil, nil, world.Errorf(world.KindTooLarge, "registry.Publish", "manifest is larger than %d bytes", MaxManifest)
	}
	items, err := parseManifest(m.Text)
	if err != nil {
		return nil, nil, err
	}
	var descs []*world.Descriptor
	var sources []world.Object
	for i := range items {
		it := &items[i]
		src, eng, err := r.source(ctx, it, m.Files, snap)
		if err != nil {
			return nil, nil, err
		}
		epoch := r.epochOf(eng.Identity())
		if it.SemanticsEpoch != 0 && it.SemanticsEpoch != epoch {
			return nil, nil, bad("transition %q: semanticsEpoch %d does not nominate this daemon's %s interpreter; epoch %d does",
				it.ID, it.SemanticsEpoch, eng.Identity().Name, epoch)
		}
		if it.DeclaredEffects == nil {
			it.DeclaredEffects = []world.Need{}
		}
		descs = append(descs, &world.Descriptor{
			ID: it.ID, Title: it.Title, Description: it.Description,
			TransitionFn: src.Ref, Interpreter: eng.Identity().Ref, SemanticsEpoch: epoch,
			InputSchema: it.InputSchema, OutputSchema: it.OutputSchema,
			Access: *it.Access, DeclaredEffects: it.DeclaredEffects,
			TextArgument: it.TextArgument, Annotations: it.Annotations, RateClass: it.RateClass,
		})
		sources = append(sources, world.NewObject(world.SemSource, "publish", src.Text))
	}
	return descs, sources, nil
}

// remedy says what a daemon needs for sources of an ending that it may have an engine for.
var remedy = map[string]string{
	".ail": "; they need --ailang-bin, given to the daemon that serves the store or, while none does, to the command that publishes",
}

// source finds an item's text and engine, and checks the one under the other.
func (r *Registry) source(ctx context.Context, it *manifestItem, files map[string][]byte, snap *Snapshot) (capsule.Source, capsule.Engine, error) {
	if it.TransitionFn != "" {
		return r.storedSource(ctx, it, snap)
	}
	eng := r.engines.ByExtension(extension(it.TransitionFnFile))
	if eng == nil {
		return capsule.Source{}, nil, bad("transition %q: transitionFnFile %q: no engine of this daemon runs %q files%s",
			it.ID, it.TransitionFnFile, extension(it.TransitionFnFile), remedy[extension(it.TransitionFnFile)])
	}
	text, ok := files[it.TransitionFnFile]
	if !ok {
		return capsule.Source{}, nil, bad("transition %q: transitionFnFile %q did not come with the manifest", it.ID, it.TransitionFnFile)
	}
	if len(text) > capsule.MaxSource {
		return capsule.Source{}, nil, bad("transition %q: transitionFnFile %q is larger than %d bytes", it.ID, it.TransitionFnFile, capsule.MaxSource)
	}
	what := it.ID + ": " + it.TransitionFnFile
	if p, ok := eng.(capsule.Preparer); ok {
		var err error
		if text, err = p.Prepare(text); err != nil {
			return capsule.Source{}, nil, refusedSource(what, err)
		}
	}
	src := capsule.NewSource(text)
	if err := eng.Check(ctx, src); err != nil {
		return capsule.Source{}, nil, refusedSource(what, err)
	}
	return src, eng, nil
}

// storedSource is a source already in the store. It has no file ending, so its engine is
// the one it was published under before, or else the first whose check it passes.
func (r *Registry) storedSource(ctx context.Context, it *manifestItem, snap *Snapshot) (capsule.Source, capsule.Engine, error) {
	ref := hashref.MustParse(it.TransitionFn)
	obj, err := r.store.Object(ctx, ref)
	if err != nil {
		if world.KindOf(err) == world.KindNotFound {
			return capsule.Source{}, nil, bad("transition %q: transitionFn %s is not in the store; give transitionFnFile", it.ID, ref)
		}
		return capsule.Source{}, nil, err
	}
	src := capsule.Source{Ref: ref, Text: obj.Payload}
	for _, d := range snap.Transitions {
		if e := r.engines.ByRef(d.Interpreter); d.TransitionFn == ref && e != nil {
			return src, e, nil
		}
	}
	var last error
	for _, e := range r.engines {
		if e.Extension() == "" {
			continue
		}
		if last = e.Check(ctx, src); last == nil {
			return src, e, nil
		}
	}
	return capsule.Source{}, nil, refusedSource(it.ID+": "+ref.String(), last)
}

func refusedSource(what string, err error) error {
	msg := world.Message(err)
	if msg == "" {
		msg = "its engine could not check it"
	}
	return &world.Error{Op: "registry.Publish", Kind: world.KindBadRequest, Msg: what + ": " + msg, Err: err}
}

// Check tells whether a manifest could be published, without publishing it: the ids of its
// transitions, or the error that Publish would give.
func (r *Registry) Check(ctx context.Context, m Manifest) ([]string, error) {
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	descs, _, err := r.resolve(ctx, m, snap)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(descs))
	for i, d := range descs {
		ids[i] = d.ID
	}
	return ids, nil
}
