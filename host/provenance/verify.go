package provenance

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// MaxBreaks bounds the broken links that a report tells of; all are counted.
const MaxBreaks = 100

// maxProved bounds what a verification remembers as proved already: sources, engines and
// sessions, which many entries share.
const maxProved = 10_000

// auditor reads every row of a store.
type auditor interface {
	Audit(ctx context.Context, report func(store.Hole)) (store.Audited, error)
}

// Scope says what to verify.
type Scope struct {
	From int64 // the first entry
	To   int64 // the last one; -1 is the newest
	// Deep reads every row of the store too, also what no entry stands on. The store must be
	// able to be audited.
	Deep bool
	// Progress, unless nil, is told how many entries were done, from any goroutine.
	Progress func(done, total int64)
}

// Break is one link that does not hold.
type Break struct {
	Index int64 `json:"index"` // of the entry; -1 for a row that no entry was asked for
	Link
}

// Report is what a verification found.
type Report struct {
	From    int64 `json:"from"`
	To      int64 `json:"to"` // From-1 for a log without entries
	Entries int64 `json:"entries"`
	Links   int64 `json:"links"` // that were followed
	// Broken counts those that do not hold; Breaks is the first of them, in order of the log.
	Broken int64   `json:"broken"`
	Breaks []Break `json:"breaks"`
	// Newest is the hash of the last of these entries, None if there are none. Whoever keeps it
	// elsewhere can tell later that the log still has it.
	Newest world.Ref `json:"newest"`
	// Holds is how many entries from From on have no broken link before the first that has.
	Holds int64          `json:"holds"`
	Audit *store.Audited `json:"audit,omitzero"`
}

// Verify follows every link of the entries of a scope. Broken ones are part of the report;
// an error says that the store could not be asked.
func Verify(ctx context.Context, r Reader, s Scope) (Report, error) {
	head, err := r.Head(ctx)
	if err != nil && world.KindOf(err) != world.KindNoWorld {
		return Report{}, err
	}
	if s.From > 0 && s.From >= head.Next {
		return Report{}, world.Errorf(world.KindNotFound, "provenance.Verify", "the log ends with entry %d", head.Next-1)
	}
	if s.To < 0 || s.To >= head.Next {
		s.To = head.Next - 1
	}
	v := &verification{r: r, scope: s, out: Report{From: s.From, To: s.To, Breaks: []Break{}}}
	if err := v.entries(ctx); err != nil {
		return v.out, err
	}
	if s.Deep {
		if err := v.deep(ctx); err != nil {
			return v.out, err
		}
	}
	v.close()
	if v.out.To < v.out.From {
		return v.out, nil
	}
	e, err := r.Entry(ctx, v.out.To)
	if world.KindOf(err) == world.KindIntegrity && err != nil {
		return v.out, nil // that it is broken was told
	}
	v.out.Newest = e.EntryHash
	return v.out, err
}

type verification struct {
	r      Reader
	scope  Scope
	next   atomic.Int64
	done   atomic.Int64
	proved proved

	mu  sync.Mutex
	out Report
}

// entries shares the entries out among as many goroutines as there are processors.
func (v *verification) entries(ctx context.Context) error {
	v.next.Store(v.scope.From)
	g, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for {
				i := v.next.Add(1) - 1
				if i > v.scope.To {
					return nil
				}
				if err := v.one(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

func (v *verification) one(ctx context.Context, index int64) error {
	c, err := explain(ctx, v.r, index, &v.proved)
	switch {
	case err == nil:
	case world.KindOf(err) == world.KindIntegrity, world.KindOf(err) == world.KindNotFound:
		c = &Chain{Index: index, Broken: 1, Links: []Link{{What: "entry", Problem: reason(err)}}}
	default:
		return err
	}
	v.mu.Lock()
	v.out.Entries++
	v.out.Links += int64(len(c.Links))
	for _, l := range c.Links {
		if !l.OK {
			v.out.broken(Break{index, l})
		}
	}
	v.mu.Unlock()
	if done := v.done.Add(1); v.scope.Progress != nil {
		v.scope.Progress(done, v.scope.To-v.scope.From+1)
	}
	return nil
}

// broken counts a break, and keeps the first ones in order of the log.
func (r *Report) broken(b Break) {
	r.Broken++
	at, _ := slices.BinarySearchFunc(r.Breaks, b, func(x, y Break) int { return cmp.Compare(x.Index, y.Index) })
	for at < len(r.Breaks) && r.Breaks[at].Index == b.Index {
		at++
	}
	if r.Breaks = slices.Insert(r.Breaks, at, b); len(r.Breaks) > MaxBreaks {
		r.Breaks = r.Breaks[:MaxBreaks]
	}
}

// deep reads every row.
func (v *verification) deep(ctx context.Context) error {
	a, ok := v.r.(auditor)
	if !ok {
		return world.Errorf(world.KindBadRequest, "provenance.Verify", "this store cannot be audited row by row")
	}
	holes := 0
	done, err := a.Audit(ctx, func(h store.Hole) {
		v.out.Broken++
		if holes++; holes <= MaxBreaks {
			v.out.Breaks = append(v.out.Breaks, Break{-1, Link{What: h.What, Problem: h.Reason}})
		}
	})
	v.out.Audit = &done
	return err
}

// close counts what holds.
func (v *verification) close() {
	v.out.Holds = v.out.Entries
	for _, b := range v.out.Breaks {
		if b.Index >= 0 {
			v.out.Holds = b.Index - v.out.From
			return
		}
	}
}

// proved is what was found whole once, and is not read again. The zero value is empty; nil
// remembers nothing.
type proved struct {
	mu   sync.Mutex
	refs map[world.Ref]bool
}

func (p *proved) has(ref world.Ref) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refs[ref]
}

func (p *proved) add(ref world.Ref) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs == nil {
		p.refs = make(map[world.Ref]bool)
	}
	if len(p.refs) < maxProved {
		p.refs[ref] = true
	}
}
