// Package calendar performs Calendar.Day: what a day is in the liturgical calendar, its
// readings and its saints. The scope is general-roman, over which particular calendars are
// laid. It owns the payload, which calendars there are, and the form of the answer; roman has
// the rules of the calendar, lectionary the table of readings, and when the words for a date.
// It looks at nothing but the clock and the zones of the system, or, where it has none, those compiled in. Answers spec/20-calendar.md.
package calendar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // zones are known wherever the daemon runs

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/handlers/calendar/roman"
	"ailang.dev/world/host/handlers/calendar/when"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

// Effect is the one effect, and Scope its one scope.
const (
	Effect = "Calendar.Day"
	Scope  = roman.General
)

// Bounds.
const (
	MaxRange = 31 // days of one answer
	maxName  = 64 // bytes of a zone or a calendar
	maxYears = 64 // computed years that are kept
)

// Version is the behaviour of this handler as its tool object names it.
const Version = "1"

const provenance = "handler:calendar"

// Config is what a Handler is made of.
type Config struct {
	Now    func() time.Time
	Policy *policy.Set // whose digest answers name; nil is what is built in
	// Calendars are an operator's own, beside those that ship.
	Calendars []*roman.Calendar
}

// Handler performs Calendar.Day. It is safe for concurrent use.
type Handler struct {
	cfg     Config
	tool    world.Object
	almanac func() (*almanac, error)
}

// New makes a handler.
func New(c Config) (*Handler, error) {
	if c.Policy == nil {
		c.Policy = policy.Default()
	}
	digests, err := roman.Digests()
	if err != nil {
		return nil, fmt.Errorf("calendar.New: %w", err)
	}
	for _, own := range c.Calendars {
		if digests[own.ID] != "" {
			return nil, world.Errorf(world.KindBadRequest, "calendar.New", "there is a calendar %q already: give yours another id", own.ID)
		}
		digests[own.ID] = own.Digest
	}
	h := &Handler{cfg: c, almanac: sync.OnceValues(func() (*almanac, error) { return newAlmanac(c.Calendars) })}
	h.tool = world.NewObject(world.SemTool, provenance, hashref.MustMarshal(struct {
		Handler   string            `json:"handler"`
		Version   string            `json:"version"`
		Effects   []string          `json:"effects"`
		Calendars map[string]string `json:"calendars"` // digests of their files
	}{"calendar", Version, []string{Effect}, digests}))
	return h, nil
}

// Objects are what answers refer to, for the daemon to store before it serves.
func (h *Handler) Objects() []world.Object {
	return append([]world.Object{h.tool}, h.cfg.Policy.Objects()...)
}

// Effects is Calendar.Day.
func (h *Handler) Effects() []string { return []string{Effect} }

// Ready is always, for the one scope.
func (h *Handler) Ready(_ context.Context, _, effect, scope string) error {
	if effect != Effect {
		return world.Errorf(world.KindNoHandler, "calendar.Ready", "the calendar handler does not perform %s", effect)
	}
	if scope != Scope {
		return world.Errorf(world.KindNoHandler, "calendar.Ready", "%s has the scope %s alone; the payload's `calendar` names a particular calendar", Effect, Scope)
	}
	return nil
}

// payload is what is asked.
type payload struct {
	When     json.RawMessage `json:"when"`
	Zone     string          `json:"zone"`
	Calendar string          `json:"calendar"`
	Want     []string        `json:"want"`
}

const wanted = `the payload must be {when, zone?, calendar?, want?}: when is a text or {from, to}, want a list of "readings" and "saints"`

// answered is what every answer has.
type answered struct {
	OK           bool   `json:"ok"`
	Refused      string `json:"refused,omitzero"`
	Tool         string `json:"tool"`
	PolicyDigest string `json:"policy_digest"`
}

// about is what an answer says beside its days.
type about struct {
	answered
	Calendar     string `json:"calendar"`
	CalendarName string `json:"calendar_name"`
	Zone         string `json:"zone"`
	Today        string `json:"today"`
}

// refusal is an answer that says why there is no day.
type refusal struct{ error }

// Perform finds the day, or the days.
func (h *Handler) Perform(_ context.Context, r broker.Request) ([]byte, error) {
	a := answered{OK: true, Tool: h.tool.Hash.String(), PolicyDigest: h.cfg.Policy.For(r.Episode).Digest()}
	out, err := h.answer(r.Payload, a)
	if no, ok := err.(refusal); ok {
		a.OK, a.Refused = false, no.Error()
		return json.Marshal(a)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

func (h *Handler) answer(raw []byte, a answered) (any, error) {
	var p payload
	var one string
	var some struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	err := hashref.Decode(raw, &p)
	switch {
	case err != nil:
	case bytes.HasPrefix(p.When, []byte(`"`)):
		err = hashref.Decode(p.When, &one)
	case bytes.HasPrefix(p.When, []byte("{")):
		err = hashref.Decode(p.When, &some)
	default:
		err = errors.New("when is neither a text nor an object")
	}
	if err != nil || slices.ContainsFunc(p.Want, func(w string) bool { return w != "readings" && w != "saints" }) {
		return nil, &world.Error{Op: "calendar.Day", Kind: world.KindBadRequest, Err: err, Msg: wanted}
	}
	if p.Calendar == "" {
		p.Calendar = Scope
	}
	if p.Zone == "" {
		p.Zone = "UTC"
	}
	al, err := h.almanac()
	if err != nil {
		return nil, err
	}
	if al.calendars[p.Calendar] == nil {
		return nil, refusal{fmt.Errorf("there is no calendar %.*q; there are %s", maxName, p.Calendar, strings.Join(al.names(), ", "))}
	}
	zone, err := loadZone(p.Zone)
	if err != nil {
		return nil, refusal{err}
	}
	today := when.On(h.cfg.Now(), zone)
	said := about{a, p.Calendar, al.calendars[p.Calendar].Name, p.Zone, today.Format(time.DateOnly)}
	if some.From == "" && some.To == "" {
		t, err := al.books[p.Calendar].Parse(one, today)
		if err != nil {
			return nil, refusal{err}
		}
		return struct {
			about
			day
		}{said, al.day(p, t)}, nil
	}
	return al.span(p, said, [2]string{some.From, some.To}, today)
}

// span answers a range of days.
func (a *almanac) span(p payload, said about, ends [2]string, today time.Time) (any, error) {
	var at [2]time.Time
	for i, text := range ends {
		var err error
		if at[i], err = a.books[p.Calendar].Parse(text, today); err != nil {
			return nil, refusal{err}
		}
	}
	from, to := at[0].Format(time.DateOnly), at[1].Format(time.DateOnly)
	n := int(at[1].Sub(at[0]).Hours())/24 + 1
	if n < 1 {
		return nil, refusal{fmt.Errorf("the range runs backwards: from %s to %s", from, to)}
	}
	if n > MaxRange {
		return nil, refusal{fmt.Errorf("the range from %s to %s has %d days; at most %d are answered at once", from, to, n, MaxRange)}
	}
	out := struct {
		about
		From string `json:"from"`
		To   string `json:"to"`
		Days []day  `json:"days"`
	}{about: said, From: from, To: to}
	for i := range n {
		out.Days = append(out.Days, a.day(p, at[0].AddDate(0, 0, i)))
	}
	return out, nil
}

// loadZone finds a zone by its name in the IANA data base. "Local" is none: it is the host's own.
func loadZone(name string) (*time.Location, error) {
	if len(name) <= maxName && name != "Local" {
		if z, err := time.LoadLocation(name); err == nil {
			return z, nil
		}
	}
	return nil, fmt.Errorf("there is no time zone %.*q; write an IANA name, such as UTC, Europe/Malta or America/New_York, with its capitals", maxName, name)
}
