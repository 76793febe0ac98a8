package calendar

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/handlers/calendar/roman"
	"ailang.dev/world/host/world"
)

var now = time.Date(2026, time.December, 1, 23, 30, 0, 0, time.UTC)

func handler(t testing.TB) *Handler {
	t.Helper()
	h, err := New(Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func perform(h *Handler, payload string) (map[string]any, error) {
	out, err := h.Perform(context.Background(), broker.Request{Need: world.Need{Effect: Effect, Scope: Scope}, Payload: []byte(payload)})
	if err != nil {
		return nil, err
	}
	var v map[string]any
	return v, json.Unmarshal(out, &v)
}

func TestDay(t *testing.T) {
	h := handler(t)
	got, err := perform(h, `{"when":"Easter 2027","want":["readings","saints"]}`)
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]any{"ok": true, "date": "2027-03-28", "weekday": "Sunday", "season": "easter", "week": 1.0, "liturgical_year": 2027.0, "sunday_cycle": "B", "weekday_cycle": "I",
		"psalter_week": 1.0, "calendar": "general-roman", "zone": "UTC", "today": "2026-12-01", "tool": h.Objects()[0].Hash.String()} {
		if got[k] != want {
			t.Errorf("%s is %v, want %v", k, got[k], want)
		}
	}
	if len(got["readings"].([]any)) != 2 || len(got["saints"].([]any)) != 0 || len(got["celebrations"].([]any)) != 1 {
		t.Errorf("%v", got)
	}
	plain, err := perform(h, `{"when":"2027-10-04"}`)
	if err != nil || plain["readings"] != nil || plain["saints"] != nil {
		t.Errorf("what was not asked for is there: %v %v", plain, err)
	}
	// The zone decides which day today is.
	for zone, want := range map[string]string{"Europe/Malta": "2026-12-02", "America/New_York": "2026-12-01", "Asia/Kolkata": "2026-12-02"} {
		if got, err := perform(h, `{"when":"today","zone":"`+zone+`"}`); err != nil || got["date"] != want || got["today"] != want {
			t.Errorf("%s: %v %v", zone, got["date"], err)
		}
	}
	malta, err := perform(h, `{"when":"2027-01-22","calendar":"malta","want":["saints"]}`)
	if err != nil || malta["calendar_name"] != "Malta" || malta["saints"].([]any)[0].(map[string]any)["calendar"] != "malta" {
		t.Errorf("%v %v", malta, err)
	}
}

func TestRange(t *testing.T) {
	h := handler(t)
	got, err := perform(h, `{"when":{"from":"2027-01-01","to":"31 January 2027"},"want":["readings"]}`)
	if err != nil || len(got["days"].([]any)) != MaxRange || got["from"] != "2027-01-01" || got["to"] != "2027-01-31" || got["date"] != nil {
		t.Errorf("%v %v", got, err)
	}
	if one, err := perform(h, `{"when":{"from":"today","to":"today"}}`); err != nil || len(one["days"].([]any)) != 1 {
		t.Errorf("%v %v", one, err)
	}
}

func TestRefusedDays(t *testing.T) {
	h := handler(t)
	for payload, want := range map[string]string{
		`{"when":""}`:           "is empty",
		`{"when":"never"}`:      "accepted is",
		`{"when":"2027-02-29"}`: "February 2027 has no day 29",
		`{"when":{"from":"2027-01-02","to":"2027-01-01"}}`:           "runs backwards: from 2027-01-02 to 2027-01-01",
		`{"when":{"from":"2027-01-01","to":"2027-02-01"}}`:           "has 32 days; at most 31",
		`{"when":{"from":"2027-01-01"}}`:                             "is empty",
		`{"when":{"from":"1970-01-01","to":"2199-12-31"}}`:           "has 84006 days",
		`{"when":"today","zone":"Mars/Olympus"}`:                     `no time zone "Mars/Olympus"`,
		`{"when":"today","zone":"Local"}`:                            "no time zone",
		`{"when":"today","zone":"../../etc/passwd"}`:                 "no time zone",
		`{"when":"today","zone":"` + strings.Repeat("x", 500) + `"}`: "no time zone",
		`{"when":"today","calendar":"atlantis"}`:                     "there are general-roman, ireland, malta, united-states",
	} {
		got, err := perform(h, payload)
		if err != nil || got["ok"] != false || !strings.Contains(got["refused"].(string), want) || got["date"] != nil || len(got["refused"].(string)) > 600 {
			t.Errorf("%s: %v %v", payload, got, err)
		}
	}
}

func TestBadCalendarPayloads(t *testing.T) {
	h := handler(t)
	for _, payload := range []string{``, `[]`, `"today"`, `{}`, `{"when":7}`, `{"when":null}`, `{"when":"today","want":["psalms"]}`, `{"when":"today","want":"readings"}`, `{"when":"today","zone":1}`,
		`{"when":"today","place":"here"}`, `{"when":{"from":"today","until":"today"}}`, `{"when":["today"]}`} {
		if got, err := perform(h, payload); world.KindOf(err) != world.KindBadRequest || world.Message(err) != wanted {
			t.Errorf("%s: %v %v", payload, got, err)
		}
	}
}

func TestReadyForOneScope(t *testing.T) {
	h := handler(t)
	if err := h.Ready(t.Context(), "", Effect, Scope); err != nil {
		t.Error(err)
	}
	if err := h.Ready(t.Context(), "", Effect, "malta"); world.KindOf(err) != world.KindNoHandler {
		t.Error(err)
	}
	if err := h.Ready(t.Context(), "", "Calendar.Night", Scope); world.KindOf(err) != world.KindNoHandler {
		t.Error(err)
	}
}

// TestAnOperatorsCalendar: it is laid over the general one, and named in refusals.
func TestAnOperatorsCalendar(t *testing.T) {
	all, err := roman.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	own, err := roman.Parse([]byte("id: gozo\nname: Gozo\ncelebrations:\n- {id: ursula, date: 10-21, rank: solemnity, name: Saint Ursula, titles: [martyr]}\n"), all[roman.General])
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Now: func() time.Time { return now }, Calendars: []*roman.Calendar{own}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := perform(h, `{"when":"Saint Ursula 2027","calendar":"gozo","want":["readings"]}`)
	if err != nil || got["date"] != "2027-10-21" || got["celebrations"].([]any)[0].(map[string]any)["colour"] != "red" {
		t.Errorf("%v %v", got, err)
	}
	if m := got["readings"].([]any)[0].(map[string]any); len(m["readings"].([]any)) != 0 || !strings.Contains(m["note"].(string), "no readings") {
		t.Errorf("a solemnity that the table has not got readings: %v", m)
	}
}

func TestACalendarsIDIsTakenOnce(t *testing.T) {
	all, err := roman.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Calendars: []*roman.Calendar{all["malta"]}}); world.KindOf(err) != world.KindBadRequest || !strings.Contains(world.Message(err), `a calendar "malta" already`) {
		t.Error(err)
	}
}

// TestYearsAreKeptBoundedly: asking for all years keeps no more than the bound.
func TestYearsAreKeptBoundedly(t *testing.T) {
	a, err := handler(t).almanac()
	if err != nil {
		t.Fatal(err)
	}
	for y := roman.FirstYear; y <= roman.LastYear; y++ {
		a.year(roman.General, y)
	}
	if n := a.years.Len(); n != maxYears {
		t.Errorf("%d years are kept", n)
	}
}

// FuzzPayload: whatever the payload, it is told to be bad, or the answer is a refusal with its reason or
// an answer without one.
func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"when":"today"}`))
	f.Add([]byte(`{"when":{"from":"today","to":"in 40 days"},"zone":"Europe/Malta","calendar":"malta","want":["readings","saints"]}`))
	h := handler(f)
	f.Fuzz(func(t *testing.T, payload []byte) {
		out, err := h.Perform(context.Background(), broker.Request{Need: world.Need{Effect: Effect, Scope: Scope}, Payload: payload})
		if err != nil {
			if world.KindOf(err) != world.KindBadRequest {
				t.Fatal(err)
			}
			return
		}
		var a answered
		if json.Unmarshal(out, &a) != nil || a.OK == (a.Refused != "") {
			t.Fatalf("%s", out)
		}
	})
}

func BenchmarkPerform(b *testing.B) {
	h := handler(b)
	for b.Loop() {
		if _, err := perform(h, `{"when":"2027-03-28","want":["readings","saints"]}`); err != nil {
			b.Fatal(err)
		}
	}
}
