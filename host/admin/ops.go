// Package admin is what an operator may ask of a store: genesis, sessions, transitions, approvals.
// Local answers from an open store; Server offers the same over the unix socket of a
// running daemon, and host/client dials it, so that the command line does not care which.
// It never serves agents. Answers spec/11-cli.md.
package admin

import (
	"context"
	"time"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// MaxSessions bounds one listing of sessions; there may be more, and a narrower listing
// shows them.
const MaxSessions = 20_000

// MaxGoal bounds, in bytes, the text of a genesis.
const MaxGoal = 16 << 10

// Ops is what an operator may ask. Errors are *world.Error with a message for people.
type Ops interface {
	// Status tells what answers: the store's id, where the log stands, which process.
	Status(ctx context.Context) (Status, error)
	// Genesis commits the first entry. A store that has one is KindHeadConflict.
	Genesis(ctx context.Context, goal string) (store.Committed, error)
	// Mint makes a session; the credential in the answer is shown this once.
	Mint(ctx context.Context, r MintRequest) (Minted, error)
	// Sessions lists sessions in order of minting; episode "" means all but users'. More than
	// MaxSessions are KindTooLarge, and none is left out.
	Sessions(ctx context.Context, episode string) ([]world.Session, error)
	// Lookup resolves a credential, for idempotent set-up: KindSessionUnknown and
	// KindSessionExpired as authority has them.
	Lookup(ctx context.Context, credential string) (world.Session, error)
	// Revoke revokes one session; an id that is not there is KindNotFound.
	Revoke(ctx context.Context, id world.Ref) error
	// RevokeEpisode revokes all of an episode's, and tells how many it was.
	RevokeEpisode(ctx context.Context, episode string) (int, error)
	// MintToken makes a user's token; what it is shown as is in the answer this once. Tokens
	// lists those of a subject, or all for "". RevokeToken forgets one, RevokeSubject all of a
	// subject.
	MintToken(ctx context.Context, r TokenRequest) (MintedToken, error)
	Tokens(ctx context.Context, subject string) ([]authority.Token, error)
	RevokeToken(ctx context.Context, id world.Ref) error
	RevokeSubject(ctx context.Context, subject string) (int, error)
	// Publish, Remove, Transitions and Check are the registry's.
	Publish(ctx context.Context, m registry.Manifest) (registry.Published, error)
	Remove(ctx context.Context, ids []string) (registry.Published, error)
	Transitions(ctx context.Context) (*registry.Snapshot, error)
	Check(ctx context.Context, m registry.Manifest) ([]string, error)
	// Approvals lists what people were asked, oldest first, and Approval one with what it is
	// bound to. DecideApproval grants or denies one that is pending.
	Approvals(ctx context.Context) ([]approvals.Approval, error)
	Approval(ctx context.Context, id string) (ApprovalDetail, error)
	DecideApproval(ctx context.Context, id string, d approvals.Decision) (approvals.Approval, error)
	// PutDocuments stores the objects of a corpus's documents, durably. An object of another
	// kind is KindBadRequest, and nothing is stored.
	PutDocuments(ctx context.Context, objects []world.Object) error
	// Close gives up the store or the connection.
	Close() error
}

// ApprovalDetail is an approval with what it is bound to.
type ApprovalDetail struct {
	approvals.Approval
	Bound approvals.Subject `json:"bound"`
}

// Status is what answers an operator.
type Status struct {
	StoreID string `json:"store_id"`
	PID     int    `json:"pid"`
	URL     string `json:"url"` // of the daemon; "" when the store is opened directly
	// WorkspaceRoot is the folder of the episodes' worktrees, without symlinks; "" if none is
	// served.
	WorkspaceRoot string    `json:"workspace_root"`
	Head          world.Ref `json:"head"` // none before genesis
	Entries       int64     `json:"entries"`
	// Interpreter is the AILANG binary that .ail sources are published under; none without
	// one.
	Interpreter world.Ref `json:"interpreter"`
	// Effects are what the daemon can perform, in order; none when the store is opened
	// directly.
	Effects []string `json:"effects"`
}

// MintRequest asks for a session.
type MintRequest struct {
	Episode string
	Grants  []world.Grant
	TTL     time.Duration
}

// mintWire is a MintRequest on the socket. Durations have no JSON form of their own.
type mintWire struct {
	Episode string        `json:"episode"`
	Grants  []world.Grant `json:"grants"`
	TTL     string        `json:"ttl"` // as time.Duration writes it; nanoseconds may be beyond 2^53
}

// MarshalJSON writes the request for the socket.
func (r MintRequest) MarshalJSON() ([]byte, error) {
	return hashref.Marshal(mintWire{r.Episode, r.Grants, r.TTL.String()})
}

// UnmarshalJSON reads what MarshalJSON wrote, and nothing else.
func (r *MintRequest) UnmarshalJSON(text []byte) error {
	var w mintWire
	if err := hashref.Decode(text, &w); err != nil {
		return err
	}
	ttl, err := time.ParseDuration(w.TTL)
	*r = MintRequest{Episode: w.Episode, Grants: w.Grants, TTL: ttl}
	return err
}

// Minted is a fresh session and its credential.
type Minted struct {
	Credential string        `json:"credential"`
	Session    world.Session `json:"session"`
}

// TokenRequest asks for a user's token.
type TokenRequest struct {
	Subject string `json:"subject"`
	Plan    string `json:"plan"`
	TTL     string `json:"ttl"` // as time.Duration writes it
}

// MintedToken is a fresh token and what it is shown as.
type MintedToken struct {
	Credential string          `json:"credential"`
	Token      authority.Token `json:"token"`
}

// Local answers from a store that this process has open.
type Local struct {
	Store     store.Store
	Authority *authority.Authority
	Users     *authority.Users
	Registry  *registry.Registry
	Book      *approvals.Book
	// Info is the part of Status that this process knows of itself.
	Info Status
	// Shut is called by Close.
	Shut func() error
}

var _ Ops = (*Local)(nil)

// Status implements Ops.
func (l *Local) Status(ctx context.Context) (Status, error) {
	st := l.Info
	st.StoreID = l.Store.ID()
	head, err := l.Store.Head(ctx)
	if err != nil && world.KindOf(err) != world.KindNoWorld {
		return Status{}, err
	}
	st.Head, st.Entries = head.World, head.Next
	return st, nil
}

// Genesis implements Ops. The entry's transition is the genesis object itself: nothing
// ran, and what the log begins with is what was wished for.
func (l *Local) Genesis(ctx context.Context, goal string) (store.Committed, error) {
	if len(goal) > MaxGoal {
		return store.Committed{}, world.Errorf(world.KindBadRequest, "admin.Genesis", "goal must be at most %d bytes", MaxGoal)
	}
	if head, err := l.Store.Head(ctx); err == nil {
		return store.Committed{}, &world.Error{Op: "admin.Genesis", Kind: world.KindHeadConflict,
			Msg: "this store has a genesis already; its head is " + head.World.String()}
	}
	payload, err := hashref.Marshal(map[string]string{"goal": goal})
	if err != nil {
		return store.Committed{}, world.Errorf(world.KindBadRequest, "admin.Genesis", "goal must be valid UTF-8")
	}
	obj := world.NewObject(world.SemGenesis, "genesis", payload)
	header := world.EntryHeader{
		SemanticsEpoch: 1, TransitionFn: obj.Hash, Interpreter: obj.Hash,
		PrevEntryHash: hashref.Zero, WrittenBy: "genesis",
	}
	hash := world.ComputeEntryHash(header, obj.Hash)
	return l.Store.Commit(ctx, store.Commit{
		Objects:   []world.Object{obj},
		Entry:     world.Entry{Header: header, EntryHash: hash, TransitionRef: obj.Hash},
		NextWorld: world.World{Ref: world.ComputeWorldRef(0, obj.Hash, hash), StateRoot: obj.Hash, LogHead: hash},
	})
}

// Mint implements Ops.
func (l *Local) Mint(ctx context.Context, r MintRequest) (Minted, error) {
	cred, s, err := l.Authority.Mint(ctx, r.Episode, r.Grants, r.TTL)
	return Minted{Credential: cred, Session: s}, err
}

// Sessions implements Ops.
func (l *Local) Sessions(ctx context.Context, episode string) ([]world.Session, error) {
	all := []world.Session{}
	var after world.Ref
	for {
		if len(all) >= MaxSessions {
			return nil, world.Errorf(world.KindTooLarge, "admin.Sessions", "there are more than %d sessions; list those of one episode with --episode", MaxSessions)
		}
		page, err := l.Store.Sessions(ctx, episode, after, store.MaxPage)
		if err != nil {
			return nil, err
		}
		for _, s := range page {
			if episode != "" || !authority.IsUserEpisode(s.Episode) { // a user has one each day
				all = append(all, s)
			}
		}
		if len(page) < store.MaxPage {
			break
		}
		after = page[len(page)-1].ID
	}
	return all, nil
}

// Lookup implements Ops.
func (l *Local) Lookup(ctx context.Context, credential string) (world.Session, error) {
	return l.Authority.Resolve(ctx, []string{"Bearer " + credential})
}

// Revoke implements Ops.
func (l *Local) Revoke(ctx context.Context, id world.Ref) error {
	err := l.Store.RevokeSession(ctx, id)
	if world.KindOf(err) == world.KindNotFound {
		return &world.Error{Op: "admin.Revoke", Kind: world.KindNotFound, Err: err,
			Msg: "no session has the credential_id " + id.Hex() + "; `session list` shows those there are"}
	}
	return err
}

// RevokeEpisode implements Ops.
func (l *Local) RevokeEpisode(ctx context.Context, episode string) (int, error) {
	if err := world.CheckEpisode(episode); err != nil {
		return 0, world.Errorf(world.KindBadRequest, "admin.RevokeEpisode", "%v", err)
	}
	if authority.IsUserEpisode(episode) {
		return 0, world.Errorf(world.KindBadRequest, "admin.RevokeEpisode", "episode %s is a user's; revoke the user's tokens with `token revoke`", episode)
	}
	return l.Store.RevokeEpisode(ctx, episode)
}

// MintToken implements Ops.
func (l *Local) MintToken(ctx context.Context, r TokenRequest) (MintedToken, error) {
	ttl, err := time.ParseDuration(r.TTL)
	if err != nil {
		return MintedToken{}, world.Errorf(world.KindBadRequest, "admin.MintToken", "ttl %q is no length of time", r.TTL)
	}
	cred, t, err := l.Users.MintToken(ctx, r.Subject, r.Plan, ttl)
	return MintedToken{Credential: cred, Token: t}, err
}

// Tokens implements Ops.
func (l *Local) Tokens(ctx context.Context, subject string) ([]authority.Token, error) {
	return l.Users.Tokens(ctx, subject)
}

// RevokeToken implements Ops.
func (l *Local) RevokeToken(ctx context.Context, id world.Ref) error {
	return l.Users.RevokeToken(ctx, id)
}

// RevokeSubject implements Ops.
func (l *Local) RevokeSubject(ctx context.Context, subject string) (int, error) {
	return l.Users.RevokeSubject(ctx, subject)
}

// Publish implements Ops.
func (l *Local) Publish(ctx context.Context, m registry.Manifest) (registry.Published, error) {
	return l.Registry.Publish(ctx, m)
}

// Remove implements Ops.
func (l *Local) Remove(ctx context.Context, ids []string) (registry.Published, error) {
	return l.Registry.Remove(ctx, ids)
}

// Transitions implements Ops.
func (l *Local) Transitions(ctx context.Context) (*registry.Snapshot, error) {
	return l.Registry.Snapshot(ctx)
}

// Check implements Ops.
func (l *Local) Check(ctx context.Context, m registry.Manifest) ([]string, error) {
	return l.Registry.Check(ctx, m)
}

// Approvals implements Ops.
func (l *Local) Approvals(ctx context.Context) ([]approvals.Approval, error) { return l.Book.List(ctx) }

// Approval implements Ops.
func (l *Local) Approval(ctx context.Context, id string) (ApprovalDetail, error) {
	a, err := l.Book.Find(ctx, id)
	if err != nil {
		return ApprovalDetail{}, err
	}
	s, err := l.Book.Subject(ctx, a)
	return ApprovalDetail{a, s}, err
}

// DecideApproval implements Ops.
func (l *Local) DecideApproval(ctx context.Context, id string, d approvals.Decision) (approvals.Approval, error) {
	return l.Book.Decide(ctx, id, d)
}

// PutDocuments implements Ops.
func (l *Local) PutDocuments(ctx context.Context, objects []world.Object) error {
	for _, o := range objects {
		if o.SemanticID != world.SemDocument || o.Hash != hashref.Sum(o.Payload) {
			return world.Errorf(world.KindBadRequest, "admin.PutDocuments", "object %s is no document", o.Hash)
		}
	}
	return l.Store.PutObjects(ctx, objects)
}

// Close implements Ops.
func (l *Local) Close() error {
	if l.Shut == nil {
		return nil
	}
	return l.Shut()
}
