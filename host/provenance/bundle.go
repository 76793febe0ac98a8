package provenance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// BundleFormat names the format of bundles: lines of JSON, the first a header.
const BundleFormat = "world/bundle/v1"

// Bounds of reading a bundle.
const (
	MaxBundleLine  = 32 << 20 // bytes of one line: a payload of 16 MiB in base64, and more
	MaxBundleItems = 5_000_000
)

// bundleLine is one line: exactly one of its parts is there.
type bundleLine struct {
	Header  *bundleHeader   `json:"header,omitempty"`
	Entry   *bundleEntry    `json:"entry,omitempty"`
	Object  *bundleObject   `json:"object,omitempty"`
	Call    *bundleCall     `json:"call,omitempty"`
	Session *bundleSessionV `json:"session,omitempty"`
	End     *bundleEnd      `json:"end,omitempty"`
}

// bundleEnd is the last line. Its sum is over all bytes before it: it shows that nothing was
// cut off or damaged on the way. What was altered on purpose the hashes of the chain show.
type bundleEnd struct {
	Sum world.Ref `json:"sum"`
}

type bundleHeader struct {
	Format  string `json:"format"`
	Store   string `json:"store"`
	Episode string `json:"episode"`
	First   int64  `json:"first"` // entry
	Last    int64  `json:"last"`
	Calls   int64  `json:"calls"` // entries of the episode among them
}

// bundleEntry is an entry with its world. Those between the episode's own are there too, so
// that the chain has no gap; what they stand on is not.
type bundleEntry struct {
	Entry world.Entry `json:"entry"`
	World world.World `json:"world"`
	Own   bool        `json:"own"`
}

type bundleObject struct {
	world.ObjectMeta
	Payload []byte `json:"payload"` // base64
}

type bundleCall struct {
	ID         world.InvocationID `json:"id"`
	EntryIndex int64              `json:"entryIndex"`
	Credential world.Ref          `json:"credential"`
	Digest     world.Ref          `json:"digest"`
}

type bundleSessionV struct{ world.Session }

// Export writes an episode as a bundle that can be verified alone. broken counts the links of
// its entries that do not hold in the store, what they lead to is not in the bundle, and the
// entries between them that do not. The credential itself is
// nowhere in it, as it is not in the store. An episode without entries is KindNotFound.
func Export(ctx context.Context, s episodeStore, storeID, episode string, w io.Writer, progress func(done, total int64)) (broken int, err error) {
	e, err := OfEpisode(ctx, s, episode, time.Time{}) // whose budgets nobody asks for
	if err != nil {
		return 0, err
	}
	if e.Calls == 0 {
		return 0, world.Errorf(world.KindNotFound, "provenance.Export", "episode %q has no entries", episode)
	}
	out := &bundleWriter{ctx: ctx, r: s, w: bufio.NewWriter(w), episode: episode, sum: hashref.NewSummer(), sent: map[world.Ref]bool{}}
	out.line(bundleLine{Header: &bundleHeader{BundleFormat, storeID, episode, e.First, e.Last, e.Calls}})
	for _, ses := range e.Sessions {
		out.line(bundleLine{Session: &bundleSessionV{ses}})
	}
	for i := e.First; i <= e.Last && out.err == nil; i++ {
		out.entry(i)
		if progress != nil {
			progress(i-e.First, e.Last-e.First+1)
		}
	}
	out.line(bundleLine{End: &bundleEnd{out.sum.Ref()}})
	if out.err != nil {
		return out.broken, out.err
	}
	return out.broken, out.w.Flush()
}

type bundleWriter struct {
	ctx     context.Context
	r       Reader
	w       *bufio.Writer
	episode string
	sum     *hashref.Summer
	sent    map[world.Ref]bool
	broken  int
	err     error
}

func (b *bundleWriter) line(l bundleLine) {
	if b.err != nil {
		return
	}
	text, err := json.Marshal(l)
	if err == nil {
		text = append(text, '\n')
		b.sum.Write(text) // it never fails
		_, err = b.w.Write(text)
	}
	b.err = err
}

func (b *bundleWriter) entry(index int64) {
	c, err := Explain(b.ctx, b.r, index)
	if err != nil {
		b.err = err
		return
	}
	own := c.Episode == b.episode
	b.line(bundleLine{Entry: &bundleEntry{c.Entry, c.World, own}})
	if !own {
		if coordinated(&c.Entry) && entryProblem(&c.Entry) != "" || worldProblem(&c.Entry, &c.World) != "" {
			b.broken++
		}
		return
	}
	b.broken += c.Broken
	inv, err := b.r.Invocation(b.ctx, c.Call)
	if err != nil {
		b.err = err
		return
	}
	b.line(bundleLine{Call: &bundleCall{inv.ID, inv.EntryIndex, inv.Credential, inv.Digest}})
	for _, l := range c.Links {
		b.object(l.Ref)
	}
}

// object sends an object once; what is none, or is not whole, is left out, and its absence
// told when the bundle is verified.
func (b *bundleWriter) object(ref world.Ref) {
	if ref.IsNone() || b.sent[ref] || b.err != nil {
		return
	}
	o, err := b.r.Object(b.ctx, ref)
	switch k := world.KindOf(err); {
	case err == nil:
	case k == world.KindNotFound, k == world.KindIntegrity:
		return
	default:
		b.err = err
		return
	}
	b.sent[ref] = true
	b.line(bundleLine{Object: &bundleObject{o.ObjectMeta, o.Payload}})
}

// Bundle is a bundle that was read. It is a Reader of what it holds.
type Bundle struct {
	Header bundleHeader

	entries  map[int64]bundleEntry
	objects  map[world.Ref]world.Object
	calls    map[world.InvocationID]bundleCall
	sessions map[world.Ref]world.Session
	byWorld  map[world.Ref]int64
	byHash   map[world.Ref]int64 // of the entry that a world has for its log head
	own      []int64
}

var _ Reader = (*Bundle)(nil)

// ReadBundle reads a bundle. Nothing of it is believed yet: Verify proves it. What was cut
// off or damaged, or is no bundle, is KindIntegrity.
func ReadBundle(r io.Reader) (*Bundle, error) {
	const op = "provenance.ReadBundle"
	b := &Bundle{entries: map[int64]bundleEntry{}, objects: map[world.Ref]world.Object{}, calls: map[world.InvocationID]bundleCall{}, sessions: map[world.Ref]world.Session{},
		byWorld: map[world.Ref]int64{}, byHash: map[world.Ref]int64{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), MaxBundleLine)
	sum, ended := hashref.NewSummer(), false
	for n := 1; lines.Scan(); n++ {
		var l bundleLine
		err := hashref.Decode(lines.Bytes(), &l)
		switch {
		case err != nil:
		case ended:
			err = errors.New("it stands after the end")
		case l.End != nil:
			if ended = true; sum.Ref() != l.End.Sum {
				err = errors.New("its sum is not that of the lines before it: the bundle was damaged on the way")
			}
		default:
			err = b.take(&l, n)
		}
		sum.Write(lines.Bytes()) // these never fail
		sum.Write([]byte{'\n'})
		if err == nil && n > MaxBundleItems {
			err = fmt.Errorf("more than %d lines", MaxBundleItems)
		}
		if err != nil {
			return nil, &world.Error{Op: op, Kind: world.KindIntegrity, Msg: fmt.Sprintf("line %d of the bundle: %v", n, err), Err: err}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, world.Errorf(world.KindBadRequest, op, "the bundle cannot be read: %v", err)
	}
	if !ended {
		return nil, &world.Error{Op: op, Kind: world.KindIntegrity, Msg: "the bundle has no end: it was cut off"}
	}
	return b, nil
}

func (b *Bundle) take(l *bundleLine, n int) error {
	switch {
	case (n == 1) != (l.Header != nil):
		return errors.New("a bundle begins with one header")
	case l.Header != nil:
		if l.Header.Format != BundleFormat {
			return fmt.Errorf("its format is %q, this program reads %q", l.Header.Format, BundleFormat)
		}
		b.Header = *l.Header
		// Verify goes over this stretch: it must be one that a bundle can hold.
		if first, last := b.Header.First, b.Header.Last; first < 0 || last < first || last-first >= MaxBundleItems {
			return fmt.Errorf("entries %d to %d are no stretch of a bundle", first, last)
		}
	case l.Entry != nil:
		i := l.Entry.Entry.Header.EntryIndex
		if i < b.Header.First || i > b.Header.Last {
			return fmt.Errorf("entry %d is not of the header's stretch, %d to %d", i, b.Header.First, b.Header.Last)
		}
		if _, there := b.entries[i]; there {
			return fmt.Errorf("entry %d stands twice", i)
		}
		b.entries[i] = *l.Entry
		b.byWorld[l.Entry.World.Ref], b.byHash[l.Entry.World.LogHead] = i, i
		if l.Entry.Own {
			b.own = append(b.own, i)
		}
	case l.Object != nil:
		b.objects[l.Object.Hash] = world.Object{ObjectMeta: l.Object.ObjectMeta, Payload: l.Object.Payload}
	case l.Call != nil:
		b.calls[l.Call.ID] = *l.Call
	case l.Session != nil:
		b.sessions[l.Session.ID] = l.Session.Session
	default:
		return errors.New("it is none of header, entry, object, call, session")
	}
	return nil
}

// Verify proves a bundle alone: the chain of all its entries, and everything that the
// episode's own stand on.
func (b *Bundle) Verify(ctx context.Context) (Report, error) {
	out := Report{From: b.Header.First, To: b.Header.Last, Breaks: []Break{}}
	broken := func(i int64, l Link) { out.broken(Break{i, l}) }
	for i := b.Header.First; i <= b.Header.Last; i++ {
		if ctx.Err() != nil {
			return out, world.Wrap(world.KindTimeout, "provenance.Verify", context.Cause(ctx))
		}
		for _, l := range b.between(i) {
			if out.Links++; !l.OK {
				broken(i, l)
			}
		}
	}
	if int64(len(b.own)) != b.Header.Calls {
		broken(-1, Link{What: "header", Problem: fmt.Sprintf("it tells of %d calls, the bundle has %d", b.Header.Calls, len(b.own))})
	}
	for _, i := range b.own {
		c, err := Explain(ctx, b, i)
		if err != nil {
			return out, err
		}
		out.Entries++
		out.Links += int64(len(c.Links))
		for _, l := range c.Links {
			if !l.OK {
				broken(i, l)
			}
		}
		if c.Episode != b.Header.Episode {
			broken(i, Link{What: "episode", Problem: "it is of episode " + c.Episode})
		}
	}
	out.Holds = out.Entries
	for _, br := range out.Breaks {
		if br.Index >= 0 {
			out.Holds = min(out.Holds, br.Index-out.From)
		}
	}
	return out, nil
}

// between is the links of an entry that only carries the chain on. Those of the episode's own
// are followed as in a store.
func (b *Bundle) between(i int64) []Link {
	e, ok := b.entries[i]
	if !ok {
		return []Link{{What: "entry", Problem: "it is not in the bundle"}}
	}
	if e.Own {
		return nil
	}
	var links []Link
	link := func(what string, ref world.Ref, problem string) {
		links = append(links, Link{What: what, Ref: ref, OK: problem == "", Problem: problem})
	}
	if coordinated(&e.Entry) {
		link("entry hash", e.Entry.EntryHash, entryProblem(&e.Entry))
	}
	if prev, before := b.entries[i-1]; before {
		problem := ""
		if prev.Entry.EntryHash != e.Entry.Header.PrevEntryHash {
			problem = "the entry before it is " + prev.Entry.EntryHash.String()
		}
		link("previous entry", e.Entry.Header.PrevEntryHash, problem)
	}
	link("world", e.World.Ref, worldProblem(&e.Entry, &e.World))
	return links
}

func absent(what string) error {
	return world.Errorf(world.KindNotFound, "provenance.Bundle", "%s is not in the bundle", what)
}

// Head implements Reader.
func (b *Bundle) Head(context.Context) (store.Head, error) {
	e := b.entries[b.Header.Last]
	return store.Head{World: e.World.Ref, LogHead: e.Entry.EntryHash, Next: b.Header.Last + 1}, nil
}

// World implements Reader.
func (b *Bundle) World(_ context.Context, ref world.Ref) (world.World, error) {
	if i, ok := b.byWorld[ref]; ok {
		return b.entries[i].World, nil
	}
	return world.World{}, absent("the world")
}

// Object implements Reader.
func (b *Bundle) Object(_ context.Context, ref world.Ref) (world.Object, error) {
	o, ok := b.objects[ref]
	if !ok {
		return o, absent("the object")
	}
	return o, nil
}

// ObjectMeta implements Reader.
func (b *Bundle) ObjectMeta(ctx context.Context, ref world.Ref) (world.ObjectMeta, error) {
	o, err := b.Object(ctx, ref)
	return o.ObjectMeta, err
}

// Entry implements Reader. The one before the first is not in a bundle; it is told by the
// hash that the first names.
func (b *Bundle) Entry(_ context.Context, index int64) (world.Entry, error) {
	if e, ok := b.entries[index]; ok {
		return e.Entry, nil
	}
	if index == b.Header.First-1 {
		return world.Entry{EntryHash: b.entries[b.Header.First].Entry.Header.PrevEntryHash}, nil
	}
	return world.Entry{}, absent(fmt.Sprint("entry ", index))
}

// Entries implements Reader.
func (b *Bundle) Entries(ctx context.Context, from int64, limit int) (all []world.Entry, err error) {
	for i := from; i < from+int64(limit); i++ {
		e, ok := b.entries[i]
		if !ok {
			break
		}
		all = append(all, e.Entry)
	}
	return all, nil
}

// Invocation implements Reader.
func (b *Bundle) Invocation(_ context.Context, id world.InvocationID) (store.Invocation, error) {
	c, ok := b.calls[id]
	if !ok {
		return store.Invocation{ID: id}, nil
	}
	return store.Invocation{ID: id, State: store.StateCommitted, Digest: c.Digest, Credential: c.Credential, EntryIndex: c.EntryIndex,
		World: b.entries[c.EntryIndex].World.Ref}, nil
}

// Session implements Reader.
func (b *Bundle) Session(_ context.Context, id world.Ref) (world.Session, error) {
	s, ok := b.sessions[id]
	if !ok {
		return s, absent("the session")
	}
	return s, nil
}

// Referrers implements Reader as far as a chain needs it: the world of an entry.
func (b *Bundle) Referrers(_ context.Context, ref world.Ref, after int64, _ int) ([]store.Referrer, error) {
	if i, ok := b.byHash[ref]; ok && after == 0 {
		return []store.Referrer{{Seq: 1, Kind: store.ReferrerWorld, Ref: b.entries[i].World.Ref}}, nil
	}
	return nil, nil
}
