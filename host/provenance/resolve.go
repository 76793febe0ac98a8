package provenance

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Bounds of a resolution.
const (
	MaxFound  = 100 // entries that are told of one reference, unless more are asked for
	MostFound = 100_000
	maxDepth  = 4 // objects between a reference and an entry: result, effect record, record
	maxSteps  = 2000
)

// Found is the entries that a query leads to.
type Found struct {
	Entries []int64 `json:"entries"` // in order of the log
	// More says that there are more than are told.
	More bool `json:"more"`
	// Is says what the query named.
	Is string `json:"is"`
}

// IsEntry is what Found says of an entry's own hash.
const IsEntry = "an entry"

// Resolve finds the entries of a query: an index, "head", an invocation's id, or a
// reference to an entry, a world or an object. What leads nowhere is KindNotFound, what
// has no such form KindBadRequest.
//
// Of a reference at most so many entries are told; below 1 means MaxFound, and more than
// MostFound are never.
func Resolve(ctx context.Context, r Reader, query string, most int) (Found, error) {
	const op = "provenance.Resolve"
	switch {
	case query == "head":
		h, err := r.Head(ctx)
		return Found{Entries: []int64{h.Next - 1}, Is: "the head"}, err
	case strings.HasPrefix(query, "sha256:"):
		ref, err := hashref.Parse(query)
		if err != nil {
			return Found{}, world.Errorf(world.KindBadRequest, op, "%q is no reference: %v", query, err)
		}
		if most < 1 {
			most = MaxFound
		}
		return resolveRef(ctx, r, ref, min(most, MostFound))
	case strings.Contains(query, ":"):
		return resolveCall(ctx, r, world.InvocationID(query))
	}
	i, err := strconv.ParseInt(query, 10, 64)
	if err != nil || i < 0 {
		return Found{}, world.Errorf(world.KindBadRequest, op,
			"%q is none of: an entry's index, head, sha256:…, an invocation id such as a2a:episode:task, file:PATH", query)
	}
	if _, err := r.Entry(ctx, i); err != nil {
		return Found{}, err
	}
	return Found{Entries: []int64{i}, Is: "an index"}, nil
}

func resolveCall(ctx context.Context, r Reader, id world.InvocationID) (Found, error) {
	const op = "provenance.Resolve"
	inv, err := r.Invocation(ctx, id)
	if err != nil {
		return Found{}, err
	}
	switch inv.State {
	case store.StateCommitted:
		return Found{Entries: []int64{inv.EntryIndex}, Is: "an invocation"}, nil
	case store.StateOpen:
		named := []string{}
		for _, e := range inv.Effects {
			named = append(named, e.EffectID+" "+cond(e.Record.IsNone(), "has no outcome, request "+e.Request.String(), "is recorded in "+e.Record.String()))
		}
		return Found{}, world.Errorf(world.KindNotFound, op, "%s never became an entry; its effects: %s", id, strings.Join(named, "; "))
	}
	return Found{}, world.Errorf(world.KindNotFound, op, "the journal has no invocation %q", id)
}

func cond[T any](b bool, yes, no T) T {
	if b {
		return yes
	}
	return no
}

// resolveRef climbs from a reference to the entries that stand on it, by the index of
// references: nothing is searched.
func resolveRef(ctx context.Context, r Reader, ref world.Ref, most int) (Found, error) {
	if ref == hashref.Zero {
		return Found{}, world.Errorf(world.KindNotFound, "provenance.Resolve", "that reference stands for nothing: it is what the first entry has in the place of one before it")
	}
	if w, err := r.World(ctx, ref); err == nil {
		return Found{Entries: []int64{w.Revision}, Is: "a world"}, nil
	} else if world.KindOf(err) != world.KindNotFound {
		return Found{}, err
	}
	c := &climb{ctx: ctx, r: r, most: most, seen: map[world.Ref]bool{ref: true}, found: map[int64]bool{}}
	is := "a reference"
	if m, err := r.ObjectMeta(ctx, ref); err == nil {
		is = "an object: " + m.SemanticID
	} else if world.KindOf(err) != world.KindNotFound {
		return Found{}, err
	} else {
		// An entry's own hash is the log head of its world.
		named, err := r.Referrers(ctx, ref, 0, 16)
		if err != nil {
			return Found{}, err
		}
		for _, n := range named {
			if n.Kind != store.ReferrerWorld {
				continue
			}
			w, err := r.World(ctx, n.Ref)
			if err != nil {
				return Found{}, err
			}
			if w.LogHead == ref {
				return Found{Entries: []int64{w.Revision}, Is: IsEntry}, nil
			}
		}
	}
	if err := c.from(ref, 0); err != nil {
		return Found{}, err
	}
	if len(c.found) == 0 {
		return Found{}, world.Errorf(world.KindNotFound, "provenance.Resolve", "no entry stands on %s", ref)
	}
	return Found{Entries: slices.Sorted(maps.Keys(c.found)), More: c.more, Is: is}, nil
}

type climb struct {
	ctx   context.Context
	r     Reader
	seen  map[world.Ref]bool
	found map[int64]bool
	more  bool
	most  int // entries
	steps int
}

func (c *climb) from(ref world.Ref, depth int) error {
	for after := int64(0); ; {
		named, err := c.r.Referrers(c.ctx, ref, after, store.MaxPage)
		if err != nil {
			return err
		}
		for _, n := range named {
			after = n.Seq
			if c.steps++; c.steps > max(maxSteps, 4*c.most) || len(c.found) >= c.most {
				c.more = true
				return nil
			}
			switch n.Kind {
			case store.ReferrerEntry:
				c.found[n.Index] = true
			case store.ReferrerWorld:
				w, err := c.r.World(c.ctx, n.Ref)
				if err != nil {
					return err
				}
				c.found[w.Revision] = true
			case store.ReferrerObject:
				if depth < maxDepth && !c.seen[n.Ref] {
					c.seen[n.Ref] = true
					if err := c.from(n.Ref, depth+1); err != nil {
						return err
					}
				}
			}
		}
		if len(named) < store.MaxPage {
			return nil
		}
	}
}
