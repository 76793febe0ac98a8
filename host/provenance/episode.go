package provenance

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Budget is what an episode may spend on an effect in a scope, and spent.
type Budget struct {
	Effect string `json:"effect"`
	Scope  string `json:"scope"`
	// Granted is the largest sum that one live session grants, or if none is live, that one
	// ever did; what is spent counts for all.
	Granted int64 `json:"granted"`
	Spent   int64 `json:"spent"`
}

// Episode is what an episode did.
type Episode struct {
	Name     string           `json:"name"`
	Sessions []world.Session  `json:"sessions"`
	Budgets  []Budget         `json:"budgets"`
	Calls    int64            `json:"calls"` // entries that its calls became
	ByTool   map[string]int64 `json:"byTool"`
	Refused  int64            `json:"refused"` // of them with ok:false, denials and failures among them
	Denied   int64            `json:"denied"`  // effects
	Failed   int64            `json:"failed"`  // effects
	First    int64            `json:"first"`   // entry; -1 if there is none
	Last     int64            `json:"last"`
}

// Episodes is a Reader that finds an episode's entries.
type Episodes interface {
	Reader
	EpisodeEntries(ctx context.Context, episode string, place int64, back bool, limit int) ([]int64, error)
}

// eachOf visits the entries of an episode that prove themselves, oldest first, or with back
// newest first, until visit says that it needs no more. What is damaged is passed over:
// verify tells of it.
func eachOf(ctx context.Context, s Episodes, episode string, back bool, visit func(*world.Entry) (enough bool, err error)) error {
	for place := cond(back, int64(math.MaxInt64), 0); ; {
		page, err := s.EpisodeEntries(ctx, episode, place, back, store.MaxPage)
		if err != nil {
			return err
		}
		for _, index := range page {
			e, err := s.Entry(ctx, index)
			if err != nil {
				if world.KindOf(err) == world.KindIntegrity {
					continue
				}
				return err
			}
			if enough, err := visit(&e); enough || err != nil {
				return err
			}
		}
		if len(page) < store.MaxPage {
			return nil
		}
		if place = page[len(page)-1]; !back {
			place++
		}
	}
}

// episodeStore is what an episode's story needs beside its entries.
type episodeStore interface {
	Episodes
	Sessions(ctx context.Context, episode string, after world.Ref, limit int) ([]world.Session, error)
	Spent(ctx context.Context, episode, effect, scope string) (int64, error)
}

// OfEpisode reads what an episode did: its entries, and no others. now tells which of its
// sessions are live. An episode that never was is KindNotFound.
func OfEpisode(ctx context.Context, s episodeStore, name string, now time.Time) (*Episode, error) {
	e := &Episode{Name: name, ByTool: map[string]int64{}, First: -1, Last: -1, Sessions: []world.Session{}, Budgets: []Budget{}}
	if err := e.sessions(ctx, s, now); err != nil {
		return nil, err
	}
	err := eachOf(ctx, s, name, false, func(entry *world.Entry) (bool, error) { return false, e.entry(ctx, s, entry) })
	if err != nil {
		return nil, err
	}
	if len(e.Sessions) == 0 && e.Calls == 0 {
		return nil, world.Errorf(world.KindNotFound, "provenance.Episode", "no session was minted for episode %q, and no call is its", name)
	}
	return e, nil
}

func (e *Episode) sessions(ctx context.Context, s episodeStore, now time.Time) error {
	for after := (world.Ref{}); ; {
		page, err := s.Sessions(ctx, e.Name, after, store.MaxPage)
		if err != nil {
			return err
		}
		e.Sessions = append(e.Sessions, page...)
		if len(page) < store.MaxPage {
			break
		}
		after = page[len(page)-1].ID
	}
	at := map[[2]string]int{}
	live := slices.ContainsFunc(e.Sessions, func(s world.Session) bool { return s.LiveAt(now) })
	for _, ses := range e.Sessions {
		for _, g := range ses.Grants {
			k := [2]string{g.Effect, g.Scope}
			if _, ok := at[k]; !ok {
				spent, err := s.Spent(ctx, e.Name, g.Effect, g.Scope)
				if err != nil {
					return err
				}
				at[k] = len(e.Budgets)
				e.Budgets = append(e.Budgets, Budget{Effect: g.Effect, Scope: g.Scope, Spent: spent})
			}
			if sum, _, _ := ses.Budget(g.Effect, g.Scope); !live || ses.LiveAt(now) {
				b := &e.Budgets[at[k]]
				b.Granted = max(b.Granted, sum)
			}
		}
	}
	return nil
}

func (e *Episode) entry(ctx context.Context, r Reader, entry *world.Entry) error {
	if !coordinated(entry) {
		return nil
	}
	var rec record
	if ok, err := read(ctx, r, entry.TransitionRef, &rec); !ok || err != nil || rec.EpisodeID != e.Name {
		return err
	}
	if e.Last = entry.Header.EntryIndex; e.First < 0 {
		e.First = e.Last
	}
	e.Calls++
	e.ByTool[rec.SkillID]++
	for _, rr := range rec.rounds() {
		for _, ref := range rr.Effects {
			var er effectRecord
			if ok, err := read(ctx, r, ref, &er); err != nil {
				return err
			} else if ok && !er.Allowed {
				e.Denied++
			} else if ok && er.Failed {
				e.Failed++
			}
		}
	}
	var out struct {
		OK *bool `json:"ok"`
	}
	if ok, err := read(ctx, r, rec.Output, &out); err != nil {
		return err
	} else if ok && out.OK != nil && !*out.OK {
		e.Refused++
	}
	return nil
}

// Trailer is the line that says where a change comes from, as commits carry it: the store,
// the episode, and the entries of its calls.
func Trailer(storeID string, e *Episode) string {
	return strings.Join([]string{"World-Provenance: store=" + storeID, "episode=" + e.Name, "entries=" + span(e.First, e.Last)}, " ")
}

func span(first, last int64) string { return itoa(int(first)) + "-" + itoa(int(last)) }
