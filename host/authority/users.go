package authority

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Bounds of users' tokens.
const (
	MaxSubject     = 256      // bytes of a subject
	MaxBearer      = 16 << 10 // bytes of a bearer token
	MaxTokens      = 20_000   // tokens of one listing
	tokenRemembers = 30 * Day // how long an ended token is still told from an unknown one
	sessionLives   = 2 * Day  // of a user's day, from when it began; past it no call of that day is under way
	allowanceKept  = 2 * Day  // how long a day's allowance is kept after the day began
	userEpisode    = "u-"     // begins the episodes of users
	userDigits     = 32       // of the subject's hash in the episode
	kindToken      = "token"  // in the store
	kindAllowance  = "allowance"
)

// User is who a bearer token stands for: a subject of an issuer. Tokens that are minted
// here have no issuer.
type User struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// Episode is the one episode of a user.
func (u User) Episode() string {
	return userEpisode + u.object().Hash.Hex()[:userDigits]
}

var userEpisodes = regexp.MustCompile(`^u-[0-9a-f]{32}$`)

// IsUserEpisode tells whether an episode is a user's: no session can be minted for it.
func IsUserEpisode(name string) bool { return userEpisodes.MatchString(name) }

// Token is a minted token without what it is shown as.
type Token struct {
	ID      world.Ref `json:"token_id"` // the hash of what is shown
	Subject string    `json:"subject"`
	Plan    string    `json:"plan"`
	Episode string    `json:"episode"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// tokenBody is a token as it is kept.
type tokenBody struct {
	Created string `json:"created"`
	Expires string `json:"expires"`
	Plan    string `json:"plan"`
	Subject string `json:"subject"`
}

// userStore is what users need of the store.
type userStore interface {
	Kept(ctx context.Context, kind string, key world.Ref) (store.Kept, error)
	KeptAll(ctx context.Context, kind string, after int64, limit int) ([]store.Kept, error)
	Keep(ctx context.Context, k store.Kept, replace bool) (store.Kept, error)
	DropKept(ctx context.Context, kind string, key world.Ref) error
	Spent(ctx context.Context, episode, effect, scope string) (int64, error)
	Session(ctx context.Context, id world.Ref) (world.Session, error)
	PutSession(ctx context.Context, s world.Session) error
	PutObjects(ctx context.Context, objects []world.Object) error
}

// Users resolves and mints users' tokens of one store.
type Users struct {
	Store userStore
	Now   func() time.Time
	// Plans are those there are; nil where they are not known, and nothing is resolved.
	Plans Plans
	// Issuers are the OpenID Connect providers whose access tokens are accepted.
	Issuers []*Issuer
}

// Resolve finds the user that the Authorization header lines name, as a session: its grants
// are those of the user's plan, with what is left of the day's budgets. Errors are those of
// Authority.Resolve. A plan that there is not grants nothing.
func (u *Users) Resolve(ctx context.Context, authorization []string) (world.Session, error) {
	const op = "authority.Users.Resolve"
	if len(authorization) == 0 {
		return world.Session{}, world.Errorf(world.KindSessionAbsent, op, MsgAbsent)
	}
	bearer, ok := bearerOf(authorization)
	if !ok {
		return world.Session{}, world.Errorf(world.KindSessionBad, op, MsgMalformed)
	}
	ctx, cancel := context.WithTimeout(ctx, CredentialTimeout)
	defer cancel()
	if id, ok := CredentialID(bearer); ok {
		t, err := u.token(ctx, id)
		if err != nil {
			return world.Session{}, err
		}
		if !u.Now().Before(t.Expires) {
			return world.Session{}, world.Errorf(world.KindSessionExpired, op, MsgExpired)
		}
		return u.session(ctx, User{Subject: t.Subject}, t)
	}
	if len(u.Issuers) == 0 || strings.Count(bearer, ".") != 2 {
		return world.Session{}, world.Errorf(world.KindSessionBad, op, MsgMalformed)
	}
	who, t, err := u.verify(ctx, bearer)
	if err != nil {
		return world.Session{}, err
	}
	t.Episode = who.Episode()
	return u.session(ctx, who, t)
}

// token is a minted token, an ended one too.
func (u *Users) token(ctx context.Context, id world.Ref) (Token, error) {
	k, err := u.Store.Kept(ctx, kindToken, id)
	if world.KindOf(err) == world.KindNotFound {
		return Token{}, world.Errorf(world.KindSessionUnknown, "authority.Users.Resolve", MsgUnknown)
	}
	if err != nil {
		return Token{}, err
	}
	return tokenOf(k)
}

func tokenOf(k store.Kept) (Token, error) {
	var b tokenBody
	bad := func(err error) (Token, error) {
		return Token{}, &world.Error{Op: "authority.Users", Kind: world.KindIntegrity, Subject: "token " + k.Key.Hex(), Err: err}
	}
	if err := hashref.DecodeKnown(k.Body, &b); err != nil {
		return bad(err)
	}
	t := Token{ID: k.Key, Subject: b.Subject, Plan: b.Plan, Episode: User{Subject: b.Subject}.Episode()}
	for _, m := range []struct {
		text string
		to   *time.Time
	}{{b.Created, &t.Created}, {b.Expires, &t.Expires}} {
		var err error
		if *m.to, err = time.Parse(time.RFC3339Nano, m.text); err != nil {
			return bad(err)
		}
	}
	return t, nil
}

// session is what a user may do now. It stands in the store, one for each day and plan, so
// that each call leads to who asked and what was granted: under an id that is the hash of no
// credential.
func (u *Users) session(ctx context.Context, who User, t Token) (world.Session, error) {
	s := world.Session{Episode: t.Episode, Created: u.Now().UTC(), Grants: []world.Grant{}}
	for _, g := range u.Plans[t.Plan].Grants {
		if g.Daily {
			before, err := u.spentBefore(ctx, t.Episode, g.Grant)
			if err != nil {
				return world.Session{}, err
			}
			g.Budget = min(before+g.Budget, Unlimited)
		}
		s.Grants = append(s.Grants, g.Grant)
	}
	day := s.Created.Truncate(Day)
	s.Expires = day.Add(sessionLives)
	s.ID = hashref.Sum(hashref.MustMarshal(userDay{day.Format(time.DateOnly), s.Grants, t.Plan, who}))
	if err := u.record(ctx, who, s); err != nil {
		return world.Session{}, err
	}
	s.Plan, s.Expires = t.Plan, t.Expires
	return s, nil
}

// userDay is what the id of a user's session is the hash of.
type userDay struct {
	Day    string        `json:"day"`
	Grants []world.Grant `json:"grants"`
	Plan   string        `json:"plan"`
	User   User          `json:"user"`
}

// record sees to it that a session is in the store, and who it is of.
func (u *Users) record(ctx context.Context, who User, s world.Session) error {
	_, err := u.Store.Session(ctx, s.ID)
	if world.KindOf(err) != world.KindNotFound {
		return err
	}
	if err := u.Store.PutObjects(ctx, []world.Object{who.object()}); err != nil {
		return err
	}
	err = u.Store.PutSession(ctx, s)
	if world.KindOf(err) == world.KindBadRequest { // another call of the same moment was first
		_, err = u.Store.Session(ctx, s.ID)
	}
	return err
}

// object is the user as it is stored; its hash begins with the digits of the episode.
func (u User) object() world.Object {
	return world.NewObject(world.SemUser, "authority", hashref.Ordered(u))
}

// allowance is what was spent of an effect before a day began. The first call of a day
// fixes it, for all that follow.
type allowance struct {
	Spent int64 `json:"spent"`
}

func (u *Users) spentBefore(ctx context.Context, episode string, g world.Grant) (int64, error) {
	day := u.Now().UTC().Truncate(Day)
	key := hashref.SumString(strings.Join([]string{episode, g.Effect, g.Scope, day.Format(time.DateOnly)}, "\x00"))
	k, err := u.Store.Kept(ctx, kindAllowance, key)
	if world.KindOf(err) == world.KindNotFound {
		var spent int64
		if spent, err = u.Store.Spent(ctx, episode, g.Effect, g.Scope); err == nil {
			k, err = u.Store.Keep(ctx, store.Kept{Kind: kindAllowance, Key: key, Expires: day.Add(allowanceKept), Body: hashref.Ordered(allowance{spent})}, false)
		}
	}
	if err != nil {
		return 0, err
	}
	var a allowance
	if err := hashref.DecodeKnown(k.Body, &a); err != nil {
		return 0, &world.Error{Op: "authority.Users", Kind: world.KindIntegrity, Subject: "allowance of " + episode, Err: err}
	}
	return a.Spent, nil
}

// MintToken makes a token and gives what it is shown as, this once.
func (u *Users) MintToken(ctx context.Context, subject, plan string, ttl time.Duration) (string, Token, error) {
	if err := u.checkMint(subject, plan, ttl); err != nil {
		return "", Token{}, err
	}
	raw := make([]byte, CredentialSize)
	if _, err := rand.Read(raw); err != nil {
		return "", Token{}, fmt.Errorf("authority.MintToken: %w", err)
	}
	now := u.Now().UTC()
	t := Token{ID: hashref.Sum(raw), Subject: subject, Plan: plan, Episode: User{Subject: subject}.Episode(), Created: now, Expires: now.Add(ttl)}
	_, err := u.Store.Keep(ctx, store.Kept{Kind: kindToken, Key: t.ID, Expires: t.Expires.Add(tokenRemembers), Body: hashref.Ordered(tokenBody{
		Created: t.Created.Format(time.RFC3339Nano), Expires: t.Expires.Format(time.RFC3339Nano), Plan: plan, Subject: subject,
	})}, false)
	if err != nil {
		return "", Token{}, err
	}
	return hex.EncodeToString(raw), t, nil
}

func (u *Users) checkMint(subject, plan string, ttl time.Duration) error {
	if err := CheckToken(subject, plan, ttl); err != nil {
		return err
	}
	if _, there := u.Plans[plan]; !there && u.Plans != nil {
		return world.Errorf(world.KindBadRequest, "authority.MintToken", "there is no plan %q; there are %s", plan, strings.Join(u.Plans.Names(), ", "))
	}
	return nil
}

// CheckToken tells what is wrong with a wish for a token, without knowing the plans.
func CheckToken(subject, plan string, ttl time.Duration) error {
	const op = "authority.MintToken"
	if why := checkSubject(subject); why != "" {
		return world.Errorf(world.KindBadRequest, op, "subject %q %s", subject, why)
	}
	if why := CheckPlanName(plan); why != "" {
		return world.Errorf(world.KindBadRequest, op, "plan %q %s", plan, why)
	}
	if ttl <= 0 || ttl > MaxTTL {
		return world.Errorf(world.KindBadRequest, op, "ttl must be more than 0 and at most %v, for example 720h", MaxTTL)
	}
	return nil
}

func checkSubject(subject string) string {
	bad := func(r rune) bool { return r == 0xfffd || !unicode.IsPrint(r) } // marks that only turn or hide text are not
	if subject == "" || len(subject) > MaxSubject || strings.IndexFunc(subject, bad) >= 0 || strings.TrimSpace(subject) != subject {
		return fmt.Sprintf("must be 1 to %d bytes of printable text, without spaces around it", MaxSubject)
	}
	return ""
}

// Tokens lists minted tokens in order of minting, those that ended lately too; subject ""
// means all. More than MaxTokens are KindTooLarge.
func (u *Users) Tokens(ctx context.Context, subject string) ([]Token, error) {
	all := []Token{}
	for after := int64(0); ; {
		page, err := u.Store.KeptAll(ctx, kindToken, after, store.MaxPage)
		if err != nil {
			return nil, err
		}
		for _, k := range page {
			t, err := tokenOf(k)
			if err != nil {
				return nil, err
			}
			if after = k.Place; subject == "" || subject == t.Subject {
				all = append(all, t)
			}
		}
		if len(all) > MaxTokens {
			return nil, world.Errorf(world.KindTooLarge, "authority.Tokens", "there are more than %d tokens; list those of one subject with --subject", MaxTokens)
		}
		if len(page) < store.MaxPage {
			return all, nil
		}
	}
}

// RevokeToken forgets a token: it is unknown from the next request on.
func (u *Users) RevokeToken(ctx context.Context, id world.Ref) error {
	err := u.Store.DropKept(ctx, kindToken, id)
	if world.KindOf(err) == world.KindNotFound {
		return &world.Error{Op: "authority.RevokeToken", Kind: world.KindNotFound, Err: err, Msg: "no token has that token_id"}
	}
	return err
}

// RevokeSubject forgets all tokens of a subject, and tells how many it was.
func (u *Users) RevokeSubject(ctx context.Context, subject string) (int, error) {
	all, err := u.Tokens(ctx, subject)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, t := range all {
		switch err := u.RevokeToken(ctx, t.ID); {
		case err == nil:
			n++
		case world.KindOf(err) != world.KindNotFound: // another revoked it meanwhile
			return n, err
		}
	}
	return n, nil
}

// bearerOf is the one token of exactly one header line "Bearer <token>".
func bearerOf(lines []string) (string, bool) {
	if len(lines) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(lines[0], " ")
	token = strings.TrimLeft(token, " ")
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != "" && len(token) <= MaxBearer && !strings.ContainsAny(token, " \t")
}

// Callers resolves both: the minted sessions of agents, and users.
type Callers struct {
	Sessions *Authority
	Users    *Users
}

// Resolve is Authority.Resolve, and Users.Resolve for what is no session's credential.
func (c Callers) Resolve(ctx context.Context, authorization []string) (world.Session, error) {
	s, err := c.Sessions.Resolve(ctx, authorization)
	switch world.KindOf(err) {
	case world.KindSessionUnknown, world.KindSessionBad:
		user, uerr := c.Users.Resolve(ctx, authorization)
		if world.KindOf(uerr) == world.KindSessionBad {
			return world.Session{}, err
		}
		return user, uerr
	}
	return s, err
}
