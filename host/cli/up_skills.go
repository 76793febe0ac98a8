package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/cli/shell"
	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// What up mints for users: a token of this user, by this plan.
const (
	upUser     = "local"
	upUserPlan = "pro"
)

func (p upPlan) tokenFile() string { return filepath.Join(p.home, "tokens", upUser) }

// works tells whether a pack is for work in a repository.
func (p upPlan) works() bool {
	return slices.ContainsFunc(p.packs, func(pack packs.Pack) bool { return !forUsers(pack) })
}

// forUsers tells whether all of a pack are skills that users may call.
func forUsers(p packs.Pack) bool {
	var items []struct {
		Access world.Need `json:"access"`
	}
	if json.Unmarshal(p.Manifest, &items) != nil {
		return false // not of one that ships
	}
	for _, it := range items {
		if it.Access.Effect != authority.SkillsEffect {
			return false
		}
	}
	return true
}

// choosePacks is a plan for the packs that are named, or for all that are always published.
func choosePacks(names []string) (upPlan, error) {
	if len(names) == 0 {
		return upPlan{packs: packs.All()}, nil
	}
	var plan upPlan
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		p, err := packs.Load(name)
		if err != nil {
			return plan, err
		}
		plan.packs = append(plan.packs, p)
		plan.skills = plan.skills || forUsers(p)
	}
	return plan, nil
}

// admitsUsers tells whether the plan of the token that up mints is there.
func (p upPlan) admitsUsers(plans authority.Plans) error {
	if plans == nil || !p.skills || plans[upUserPlan].Tasks {
		return nil
	}
	return failf("up mints a token by the plan %s, which the configuration does not have, or not with tasks: true", upUserPlan).
		hinted("add it; or leave --pack, publish with `ailang-worldd transitions publish --pack`, and mint a token by a plan of yours")
}

// servedBy tells whether a daemon that is there already can perform what the packs' skills
// plan.
func (p upPlan) servedBy(st admin.Status) error {
	for _, pack := range p.packs {
		var items []struct {
			Declared []world.Need `json:"declaredEffects"`
		}
		if err := json.Unmarshal(pack.Manifest, &items); err != nil {
			return err
		}
		for _, it := range items {
			for _, n := range it.Declared {
				if forUsers(pack) && !slices.Contains(st.Effects, n.Effect) {
					return failf("the daemon at %s (process %d) serves this store and cannot perform %s", st.URL, st.PID, n.Effect).
						hinted("stop it, and run up again")
				}
			}
		}
	}
	return nil
}

// UpSkills is what was set up for users.
type UpSkills struct {
	Skills       []string  `json:"skills"`
	TokenFile    string    `json:"token_file"`
	TokenID      world.Ref `json:"token_id"`
	TokenExpires time.Time `json:"token_expires"`
}

// prepareSkills sees to the library, where skills search one, and to a token.
func (a *app) prepareSkills(ctx context.Context, ops admin.Ops, plan upPlan) (*UpSkills, error) {
	if plan.searches() {
		if err := a.fillLibrary(ctx, ops, plan.db()); err != nil {
			return nil, err
		}
	}
	t, err := a.ensureToken(ctx, ops, plan.tokenFile())
	if err != nil {
		return nil, err
	}
	info := &UpSkills{TokenFile: plan.tokenFile(), TokenID: t.ID, TokenExpires: t.Expires}
	for _, p := range plan.packs {
		if !forUsers(p) {
			continue
		}
		var items []struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(p.Manifest, &items); err != nil {
			return nil, err
		}
		for _, it := range items {
			info.Skills = append(info.Skills, it.ID)
		}
	}
	return info, nil
}

// searches tells whether a skill of the packs searches the library.
func (p upPlan) searches() bool {
	return slices.ContainsFunc(p.packs, func(pack packs.Pack) bool {
		return forUsers(pack) && strings.Contains(string(pack.Manifest), `"`+corpus.EffectSearch+`"`)
	})
}

// fillLibrary puts the documents that ship into the library, unless they are there.
func (a *app) fillLibrary(ctx context.Context, ops admin.Ops, db string) error {
	base, err := a.beside(ctx, db)
	if err != nil {
		return err
	}
	done := a.progress("filling the library with the starter documents")
	res, err := AddStarter(ctx, base, ops)
	done()
	if err != nil {
		return err
	}
	if res.Failures > 0 {
		return failf("%d of the starter documents could not be added: %s: %s", res.Failures, res.Failed[0].Path, res.Failed[0].Reason)
	}
	if n := res.Added + res.Replaced; n > 0 {
		fmt.Fprintf(a.stderr, "added %d starter document%s to the corpus %s\n", n, plural(n), LibraryCorpus)
	}
	return nil
}

// ensureToken finds the token of up's file, if it is live and of the plan that up mints by;
// else it mints one, and replaces the file.
func (a *app) ensureToken(ctx context.Context, ops admin.Ops, file string) (authority.Token, error) {
	secret, err := a.readSession(file)
	if err == nil {
		id, _ := authority.CredentialID(secret)
		all, err := ops.Tokens(ctx, upUser)
		if err != nil {
			return authority.Token{}, err
		}
		for _, t := range all {
			if t.ID == id && t.Plan == upUserPlan && time.Now().Before(t.Expires) {
				return t, os.Chmod(file, 0o600)
			}
		}
	} else if _, serr := os.Lstat(file); !errors.Is(serr, fs.ErrNotExist) {
		fmt.Fprintf(a.stderr, "the token file %s is of no use (%v); a new token is minted\n", file, err)
	}
	m, err := a.mintToken(ctx, ops, admin.TokenRequest{Subject: upUser, Plan: upUserPlan, TTL: upTTL.String()}, file, true)
	return m.Token, err
}

// firstQuestion is what up shows how to ask.
const firstQuestion = "What is grace?"

// skillSections are the ways to call skills, each to be copied.
func (i *upInfo) skillSections() []section {
	file := shell.Word(i.TokenFile)
	var all []section
	if slices.Contains(i.Skills, "catholic_qa") {
		all = append(all, section{"ask", "Ask a question, from another terminal:", []string{
			"export WORLD_ADDR=" + i.URL + " WORLD_SESSION=" + file,
			i.program + ` call catholic_qa --arg question="` + firstQuestion + `"`}})
	}
	return append(all, section{"curl", "The same over the task endpoint, as any program may:", []string{
		"curl -s " + i.Tasks + ` -H "Authorization: Bearer $(cat ` + file + `)" -H 'Content-Type: application/json' \`,
		`  -d '{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","kind":"message","messageId":"'$(date +%s)'",`,
		`       "metadata":{"skillId":"` + i.Skills[0] + `"},"parts":[{"kind":"text","text":"` + firstQuestion + `"}]}}}'`}})
}

// skillRows tell of what was set up for users.
func (i *upInfo) skillRows() [][]string {
	return [][]string{
		{"skills", strings.Join(i.Skills, " ")},
		{"token", i.TokenFile + " (user " + upUser + ", plan " + upUserPlan + ", until " + when(i.TokenExpires) + ")"},
		{"tasks", i.Tasks},
	}
}
