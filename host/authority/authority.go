// Package authority answers one question, "who is calling": it mints session credentials
// and users' tokens, resolves an Authorization header to a live session, and revokes; it
// verifies the access tokens of OpenID Connect issuers, and counts users' calls against the
// rates of their plans. It keeps no credential, only hashes, and decides nothing about
// effects. Answers spec/03-authority.md and spec/19-tasks.md.
package authority

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds.
const (
	CredentialSize    = 32              // random bytes; 64 hexadecimal digits on the wire
	CredentialTimeout = 3 * time.Second // one look-up of a credential
	MaxGrants         = 256             // grants of one session
	MaxTTL            = 10 * 365 * 24 * time.Hour
)

// Texts that a denied caller is told, the same on every surface.
const (
	MsgAbsent    = "session credential is absent: send Authorization: Bearer <session-credential>"
	MsgMalformed = "malformed Authorization header: expected Bearer <64-hex-credential>"
	MsgUnknown   = "unknown session credential"
	MsgExpired   = "session credential has expired"
)

// sessionStore is what authority needs of the store.
type sessionStore interface {
	Session(ctx context.Context, id world.Ref) (world.Session, error)
	PutSession(ctx context.Context, s world.Session) error
}

// Authority resolves and mints sessions of one store.
type Authority struct {
	Store sessionStore
	Now   func() time.Time
}

// Resolve finds the live session that the Authorization header lines name. Errors:
// KindSessionAbsent, KindSessionBad, KindSessionUnknown (also a revoked one),
// KindSessionExpired, each with its text; KindTimeout after CredentialTimeout.
func (a *Authority) Resolve(ctx context.Context, authorization []string) (world.Session, error) {
	const op = "authority.Resolve"
	if len(authorization) == 0 {
		return world.Session{}, world.Errorf(world.KindSessionAbsent, op, MsgAbsent)
	}
	id, ok := credentialID(authorization)
	if !ok {
		return world.Session{}, world.Errorf(world.KindSessionBad, op, MsgMalformed)
	}
	ctx, cancel := context.WithTimeout(ctx, CredentialTimeout)
	defer cancel()
	s, err := a.Store.Session(ctx, id)
	switch {
	case world.KindOf(err) == world.KindNotFound:
		return world.Session{}, world.Errorf(world.KindSessionUnknown, op, MsgUnknown)
	case err != nil:
		return world.Session{}, err
	case s.Revoked:
		return world.Session{}, world.Errorf(world.KindSessionUnknown, op, MsgUnknown)
	case !s.LiveAt(a.Now()):
		return world.Session{}, world.Errorf(world.KindSessionExpired, op, MsgExpired)
	}
	return s, nil
}

// credentialID reads exactly one header line "Bearer <64 hex>"; the scheme's case is free,
// as HTTP has it.
func credentialID(lines []string) (world.Ref, bool) {
	if len(lines) != 1 {
		return hashref.None, false
	}
	scheme, token, ok := strings.Cut(lines[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return hashref.None, false
	}
	return CredentialID(strings.TrimLeft(token, " "))
}

// CredentialID is the id under which a credential's session is kept: the hash of its
// bytes. ok is false for what is no credential.
func CredentialID(token string) (id world.Ref, ok bool) {
	raw, err := hex.DecodeString(token)
	if err != nil || len(raw) != CredentialSize {
		return hashref.None, false
	}
	return hashref.Sum(raw), true
}

// Mint makes a session and gives its credential, which is shown this once.
func (a *Authority) Mint(ctx context.Context, episode string, grants []world.Grant, ttl time.Duration) (string, world.Session, error) {
	if err := CheckMint(episode, grants, ttl); err != nil {
		return "", world.Session{}, err
	}
	raw := make([]byte, CredentialSize)
	if _, err := rand.Read(raw); err != nil {
		return "", world.Session{}, fmt.Errorf("authority.Mint: %w", err)
	}
	now := a.Now().UTC()
	s := world.Session{ID: hashref.Sum(raw), Episode: episode, Grants: grants, Created: now, Expires: now.Add(ttl)}
	if err := a.Store.PutSession(ctx, s); err != nil {
		return "", world.Session{}, err
	}
	return hex.EncodeToString(raw), s, nil
}

// CheckMint tells what is wrong with a wish for a session.
func CheckMint(episode string, grants []world.Grant, ttl time.Duration) error {
	const op = "authority.Mint"
	if err := world.CheckEpisode(episode); err != nil {
		return world.Errorf(world.KindBadRequest, op, "%v", err)
	}
	if IsUserEpisode(episode) {
		return world.Errorf(world.KindBadRequest, op, "episode %s is a user's; tokens are for users", episode)
	}
	if len(grants) > MaxGrants {
		return world.Errorf(world.KindBadRequest, op, "at most %d grants, not %d", MaxGrants, len(grants))
	}
	for _, g := range grants {
		if err := g.Check(); err != nil {
			return world.Errorf(world.KindBadRequest, op, "grant %s: %v", g, err)
		}
	}
	if ttl <= 0 || ttl > MaxTTL {
		return world.Errorf(world.KindBadRequest, op, "ttl must be more than 0 and at most %v, for example 8h", MaxTTL)
	}
	return nil
}
