// Package approvals keeps the book of what people were asked: under the registry head
// world/approvals/v1 stands one object that lists each approval, and names the book before
// it. It owns what an approval is bound to, how long it holds, and that it is used once. It
// asks and tells nobody: handlers, the broker and the operator's commands do. Answers
// spec/15-approvals.md.
package approvals

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Bounds of the book.
const (
	MaxOpen        = 256            // approvals that are pending or granted, and unexpired
	MaxEpisodeOpen = 16             // of one episode
	MaxEnded       = 256            // others that the newest book still lists; older ones stand in earlier books
	MaxNote        = 1 << 10        // bytes of a decision's note
	PendingTTL     = 24 * time.Hour // within which a question can be decided
	GrantTTL       = time.Hour      // within which a granted approval can be used, unless the decision says otherwise
	MaxGrantTTL    = 30 * 24 * time.Hour
	maxTries       = 16 // of a move of the head against others
)

// State is how far an approval got.
type State string

// The states. An approval whose time is over is expired, whatever the book says of it.
const (
	Pending State = "pending"
	Granted State = "granted"
	Denied  State = "denied"
	Used    State = "used"
	Expired State = "expired"
)

// Subject is what an approval is bound to; its hash is the approval's. Two requests that
// differ in anything here need two approvals. Its fields are in canonical order.
type Subject struct {
	Effect       string         `json:"effect"`
	Episode      string         `json:"episode"`
	Payload      jsontext.Value `json:"payload"` // canonical
	Scope        string         `json:"scope"`
	Transition   string         `json:"transition"`
	TransitionFn world.Ref      `json:"transitionFn"`
}

// object is the subject as it is stored.
func (s Subject) object() world.Object {
	return world.NewObject(world.SemApproval, provenance, hashref.Ordered(s))
}

const provenance = "approvals"

// Approval is one line of the book.
type Approval struct {
	ID         string             `json:"id"` // 16 hex digits
	Subject    world.Ref          `json:"subject"`
	Episode    string             `json:"episode"`
	Transition string             `json:"transition"`
	Effect     string             `json:"effect"`
	Scope      string             `json:"scope"`
	State      State              `json:"state"`
	Asked      time.Time          `json:"asked"`
	Expires    time.Time          `json:"expires"`
	Decided    time.Time          `json:"decided,omitzero"`
	By         string             `json:"by,omitzero"`
	Note       string             `json:"note,omitzero"`
	UsedBy     world.InvocationID `json:"usedBy,omitzero"`
}

// At is the state at a moment.
func (a *Approval) At(now time.Time) State {
	if a.State != Used && !now.Before(a.Expires) {
		return Expired
	}
	return a.State
}

// book is the payload of the head's object.
type book struct {
	Approvals []Approval `json:"approvals"` // oldest first
	Previous  world.Ref  `json:"previous"`  // "" for the first
}

// bookStore is what a Book needs of the store.
type bookStore interface {
	RegistryHead(ctx context.Context, name string) (store.RegistryHead, error)
	Object(ctx context.Context, ref world.Ref) (world.Object, error)
	SwapRegistry(ctx context.Context, name string, observed, next world.Ref, objects []world.Object) (store.RegistryHead, error)
}

// Book reads and moves the head. It is safe for concurrent use.
type Book struct {
	Store bookStore
	Now   func() time.Time
}

// Ask gives the approval of a subject that is pending, granted or denied and unexpired, or
// asks anew. A book that is full is KindCapacity.
func (b *Book) Ask(ctx context.Context, s Subject) (Approval, error) {
	const op = "approvals.Ask"
	subject := s.object()
	var got Approval
	err := b.move(ctx, op, func(now time.Time, k *book) ([]world.Object, error) {
		open, own := 0, 0
		for _, a := range k.Approvals {
			state := a.At(now)
			if a.Subject == subject.Hash && (state == Pending || state == Granted || state == Denied) {
				got = a
				return nil, errNothing
			}
			if state == Pending || state == Granted {
				open++
				if a.Episode == s.Episode {
					own++
				}
			}
		}
		if open >= MaxOpen || own >= MaxEpisodeOpen {
			return nil, world.Errorf(world.KindCapacity, op, "%d approvals are open, %d of them of this episode: at most %d and %d; they must be decided, used or expire first",
				open, own, MaxOpen, MaxEpisodeOpen)
		}
		id, err := newID()
		if err != nil {
			return nil, err
		}
		got = Approval{ID: id, Subject: subject.Hash, Episode: s.Episode, Transition: s.Transition, Effect: s.Effect, Scope: s.Scope,
			State: Pending, Asked: now, Expires: now.Add(PendingTTL)}
		k.Approvals = append(k.Approvals, got)
		return []world.Object{subject}, nil
	})
	return got, err
}

// Take uses up the granted approval of a subject, for an invocation. Without one, ok is
// false. It is used up for ever, also if what it was for then fails.
func (b *Book) Take(ctx context.Context, s Subject, by world.InvocationID) (ok bool, err error) {
	subject := s.object().Hash
	err = b.move(ctx, "approvals.Take", func(now time.Time, k *book) ([]world.Object, error) {
		ok = false
		for i := range k.Approvals {
			if a := &k.Approvals[i]; a.Subject == subject && a.At(now) == Granted {
				a.State, a.UsedBy, ok = Used, by, true
				return nil, nil
			}
		}
		return nil, errNothing
	})
	return ok && err == nil, err
}

// Decision is what a person says.
type Decision struct {
	Grant bool   `json:"grant"`
	By    string `json:"by"`
	Note  string `json:"note"`
	// Seconds is how long a grant holds; 0 means GrantTTL.
	Seconds int64 `json:"seconds"`
}

// Decide grants or denies what is pending. A granted one that is not used can still be
// denied. What is not there is KindNotFound, what is over KindBadRequest.
func (b *Book) Decide(ctx context.Context, id string, d Decision) (Approval, error) {
	const op = "approvals.Decide"
	switch {
	case len(d.Note) > MaxNote:
		return Approval{}, world.Errorf(world.KindBadRequest, op, "the note must be at most %d bytes", MaxNote)
	case !utf8.ValidString(d.Note) || !utf8.ValidString(d.By):
		return Approval{}, world.Errorf(world.KindBadRequest, op, "the note, and the name of who decides, must be UTF-8 text")
	case d.Seconds < 0 || d.Seconds > int64(MaxGrantTTL/time.Second):
		return Approval{}, world.Errorf(world.KindBadRequest, op, "an approval holds at most %d days", MaxGrantTTL/(24*time.Hour))
	}
	holds := GrantTTL
	if d.Seconds > 0 {
		holds = time.Duration(d.Seconds) * time.Second
	}
	var got Approval
	err := b.move(ctx, op, func(now time.Time, k *book) ([]world.Object, error) {
		i := slices.IndexFunc(k.Approvals, func(a Approval) bool { return a.ID == id })
		if i < 0 {
			return nil, world.Errorf(world.KindNotFound, op, "there is no approval %q; `approvals list` shows those there are", id)
		}
		a := &k.Approvals[i]
		if state := a.At(now); state != Pending && (state != Granted || d.Grant) {
			return nil, world.Errorf(world.KindBadRequest, op, "approval %s is %s, and cannot be decided any more", id, state)
		}
		a.State, a.Decided, a.By, a.Note = Denied, now, d.By, d.Note
		if d.Grant {
			a.State, a.Expires = Granted, now.Add(holds)
		}
		got = *a
		return nil, nil
	})
	return got, err
}

// List is the newest book, oldest approval first.
func (b *Book) List(ctx context.Context) ([]Approval, error) {
	k, _, err := b.read(ctx)
	return k.Approvals, err
}

// Find is one approval; one that the newest book does not list is KindNotFound.
func (b *Book) Find(ctx context.Context, id string) (Approval, error) {
	k, _, err := b.read(ctx)
	if err != nil {
		return Approval{}, err
	}
	for _, a := range k.Approvals {
		if a.ID == id {
			return a, nil
		}
	}
	return Approval{}, world.Errorf(world.KindNotFound, "approvals.Find", "there is no approval %q", id)
}

// Subject reads what an approval is bound to.
func (b *Book) Subject(ctx context.Context, a Approval) (Subject, error) {
	o, err := b.Store.Object(ctx, a.Subject)
	if err != nil {
		return Subject{}, err
	}
	var s Subject
	if err := hashref.DecodeKnown(o.Payload, &s); err != nil {
		return Subject{}, &world.Error{Op: "approvals.Subject", Kind: world.KindIntegrity, Subject: a.Subject.String(), Err: err}
	}
	return s, nil
}

// errNothing says that a move has nothing to write.
var errNothing = errors.New("nothing to change")

// read is the newest book, and its object.
func (b *Book) read(ctx context.Context) (book, world.Ref, error) {
	head, err := b.Store.RegistryHead(ctx, world.ApprovalRegistry)
	if world.KindOf(err) == world.KindNotFound {
		return book{Approvals: []Approval{}}, hashref.None, nil
	}
	if err != nil {
		return book{}, hashref.None, err
	}
	o, err := b.Store.Object(ctx, head.Head)
	if err != nil {
		return book{}, hashref.None, fmt.Errorf("approvals: the book %s: %w", head.Head, err)
	}
	var k book
	if err := hashref.DecodeKnown(o.Payload, &k); err != nil {
		return book{}, hashref.None, &world.Error{Op: "approvals.read", Kind: world.KindIntegrity, Subject: head.Head.String(), Err: err}
	}
	return k, head.Head, nil
}

// move writes a book that change made out of the newest one, again if another was faster.
func (b *Book) move(ctx context.Context, op string, change func(now time.Time, k *book) ([]world.Object, error)) error {
	for try := 1; ; try++ {
		k, observed, err := b.read(ctx)
		if err != nil {
			return err
		}
		now := b.Now().UTC().Truncate(time.Second)
		objects, err := change(now, &k)
		if errors.Is(err, errNothing) {
			return nil
		}
		if err != nil {
			return err
		}
		k.Previous = observed
		k.trim(now)
		o := world.NewObject(world.SemApprovals, provenance, hashref.MustMarshal(k))
		_, err = b.Store.SwapRegistry(ctx, world.ApprovalRegistry, observed, o.Hash, append(objects, o))
		if world.KindOf(err) != world.KindHeadConflict || try == maxTries {
			return err
		}
	}
}

// trim leaves out the oldest of what is over.
func (k *book) trim(now time.Time) {
	ended := 0
	for i := len(k.Approvals) - 1; i >= 0; i-- {
		switch k.Approvals[i].At(now) {
		case Pending, Granted:
			continue
		}
		if ended++; ended > MaxEnded {
			k.Approvals = slices.Delete(k.Approvals, i, i+1)
		}
	}
}

func newID() (string, error) {
	raw := make([]byte, 8)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	return hex.EncodeToString(raw), nil
}

// ValidID tells whether a text has the form of an approval's id.
func ValidID(id string) bool {
	return len(id) == 16 && strings.Trim(id, "0123456789abcdef") == ""
}
