package magisterium_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/packs/packtest"
)

// evening is still 1 December 2026 in UTC, and the day after in Auckland.
var evening = time.Date(2026, time.December, 1, 20, 0, 0, 0, time.UTC)

func day(payload string) string {
	return `{"effects":[{"cost":1,"effect":"Calendar.Day","id":"e1","payload":` + payload + `,"scope":"general-roman"}],"finish":true,"plan":"world/effect-plan/v1","result":null}`
}

func TestCalendarPlans(t *testing.T) {
	b := packtest.New(t, "magisterium")
	for id, want := range map[string]string{"liturgical_readings": "readings", "saints_of_the_day": "saints"} {
		for _, c := range []struct{ args, want string }{
			{`{"when":" Easter 2027 "}`, day(`{"want":["` + want + `"],"when":"Easter 2027","zone":"UTC"}`)},
			{`{"when":"today","to":"tomorrow","zone":"Europe/Malta","calendar":"malta"}`,
				day(`{"calendar":"malta","want":["` + want + `"],"when":{"from":"today","to":"tomorrow"},"zone":"Europe/Malta"}`)},
		} {
			if got := b.Plan(id, c.args); got != c.want {
				t.Errorf("%s %s:\n got  %s\n want %s", id, c.args, got, c.want)
			}
			packtest.Must(t, packtest.Valid(b.Tool(id).In, c.args))
		}
		for _, c := range []struct{ args, want string }{
			{`{}`, `missing required argument "when"`},
			{`{"when":7}`, `argument "when" must be a string`},
			{`{"when":"x","date":"y"}`, `unknown argument "date"; ` + id + ` admits only: when, to, zone, calendar`},
			{`{"when":"` + strings.Repeat("x", 1<<20) + `"}`, `argument "when" must be at most 256 bytes`},
			{`{"when":"x","to":"` + strings.Repeat("x", 257) + `"}`, `argument "to" must be at most 256 bytes`},
			{`{"when":"x","zone":"` + strings.Repeat("x", 65) + `"}`, `argument "zone" must be at most 64 bytes`},
			{`{"when":"x","calendar":"` + strings.Repeat("x", 65) + `"}`, `argument "calendar" must be at most 64 bytes`},
		} {
			if got := b.Plan(id, c.args); got != packtest.Refusal(c.want) {
				t.Errorf("%s %.80s:\n got  %s\n want %s", id, c.args, got, packtest.Refusal(c.want))
			}
		}
		if got := b.Plan(id, `{"when":" "}`); !strings.Contains(got, `must not be empty`) {
			t.Errorf("%s: %s", id, got)
		}
	}
}

func TestLiturgicalReadings(t *testing.T) {
	b := packtest.New(t, "magisterium")
	b.ServeCalendar(evening)
	for _, c := range []struct {
		args string
		want []string
	}{
		{`{"when":"Easter 2027"}`, []string{"Sunday, 28 March 2027: Easter Sunday of the Resurrection of the Lord (solemnity, white)", "Easter Time, week 1; Sunday cycle B, weekday cycle I, psalter week I.",
			"Easter Vigil (Lectionary 41)", "Epistle: Romans 6:3-11", "Gospel: Mark 16:1-7", "Mass during the Day (Lectionary 42)", "Calendar: General Roman Calendar."}},
		{`{"when":"today"}`, []string{"Tuesday, 1 December 2026: Tuesday of the First Week of Advent (violet)", "Isaiah 11:1-10", "Luke 10:21-24"}},
		{`{"when":"today","zone":"Pacific/Auckland"}`, []string{"Wednesday, 2 December 2026"}},
		{`{"when":"2027-07-29"}`, []string{"Saints Martha, Mary and Lazarus (memorial, white)", "Gospel: John 11:19-27", "or Luke 10:38-42", "Thursday of the Seventeenth Week in Ordinary Time (Lectionary 404)"}},
		{`{"when":"2027-11-02"}`, []string{"Masses for the Dead"}},
		{`{"when":"2027-08-06"}`, []string{"(feast of the Lord, white)", "Ordinary Time, week 18", "On a weekday one of the first and the second reading is read."}},
		{`{"when":"18th Sunday in Ordinary Time 2028"}`, []string{"Transfiguration", "Not kept this year: Eighteenth Sunday in Ordinary Time; a celebration of higher rank is kept on this day."}},
		{`{"when":"Saint Mark 2038"}`, []string{"Not kept this year: Saint Mark, Evangelist; a celebration of higher rank is kept on this day."}},
		{`{"when":"2024-12-09"}`, []string{"transferred from 2024-12-08"}},
		{`{"when":"2024-12-08"}`, []string{"Second Sunday of Advent", "Blessed Virgin Mary is transferred to 2024-12-09."}},
	} {
		got := b.Call("liturgical_readings", c.args)
		for _, want := range c.want {
			if !strings.Contains(got["text"].(string), want) {
				t.Errorf("%s: lacks %q:\n%s", c.args, want, got["text"])
			}
		}
	}
	week := b.Call("liturgical_readings", `{"when":"2026-12-24","to":"2027-01-02"}`)
	if days := week["days"].([]any); len(days) != 10 || week["from"] != "2026-12-24" || strings.Count(week["text"].(string), "Sunday cycle B") != 10 {
		t.Errorf("%v", week["text"])
	}
}

// TestUnconfirmedReadingsAreMarked: the star in the text and the flags of the data are one.
func TestUnconfirmedReadingsAreMarked(t *testing.T) {
	b := packtest.New(t, "magisterium")
	b.ServeCalendar(evening)
	marked := 0
	for _, when := range []string{"2027-03-27", "2027-03-28", "2027-05-17", "2027-06-29", "2027-12-25"} {
		got := b.Call("liturgical_readings", `{"when":"`+when+`"}`)
		text := got["text"].(string)
		n := 0
		for _, m := range got["readings"].([]any) {
			for _, r := range m.(map[string]any)["readings"].([]any) {
				r := r.(map[string]any)
				alternatives, _ := r["alternatives"].([]any)
				for _, a := range append([]any{r}, alternatives...) {
					a := a.(map[string]any)
					if starred := a["citation"].(string) + " (*)"; a["confirmed"] == false {
						n++
						if !strings.Contains(text, starred) {
							t.Errorf("%s: %s is not marked", when, starred)
						}
					}
				}
			}
		}
		if got["unconfirmed"] != float64(n) || strings.Contains(text, "No second source confirms") != (n > 0) || strings.Count(text, " (*)") != n {
			t.Errorf("%s: %v unconfirmed, %d in the data:\n%s", when, got["unconfirmed"], n, text)
		}
		marked += n
	}
	if marked == 0 {
		t.Error("nothing was unconfirmed: the test says nothing")
	}
}

func TestSaintsOfTheDay(t *testing.T) {
	b := packtest.New(t, "magisterium")
	b.ServeCalendar(evening)
	for _, c := range []struct{ args, want string }{
		{`{"when":"2027-10-04"}`, "Monday, 4 October 2027\nSaint Francis of Assisi (memorial, white)\n\nCalendar: General Roman Calendar."},
		{`{"when":"2027-02-23"}`, "Tuesday, 23 February 2027\nThe day is: Tuesday of the Second Week of Lent (violet)\nSaint Polycarp (commemoration, violet, bishop, martyr): may be celebrated\n\nCalendar: General Roman Calendar."},
		{`{"when":"2026-12-06"}`, "Sunday, 6 December 2026\nThe day is: Second Sunday of Advent (violet)\nSaint Nicholas (optional memorial, white, bishop): not this year, it falls on a Sunday\n\nCalendar: General Roman Calendar."},
		{`{"when":"2027-02-10","calendar":"malta"}`, "Wednesday, 10 February 2027\nThe day is: Ash Wednesday (violet)\nSaint Scholastica (memorial, white, virgin): not this year, memorials are not kept on Ash Wednesday, in Holy Week and in the octave of Easter\nThe Shipwreck of Saint Paul, Apostle (solemnity, white, apostle): transferred to 2027-02-11\n\nCalendar: Malta."},
		{`{"when":"2027-01-12"}`, "Tuesday, 12 January 2027\nThe day is: Tuesday of the First Week in Ordinary Time (green)\nThe calendar has no saint on this day.\n\nCalendar: General Roman Calendar."},
	} {
		if got := b.Call("saints_of_the_day", c.args); got["text"] != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.args, got["text"], c.want)
		}
	}
}

// TestDatesThatAreNone: refused in words, by both tools.
func TestDatesThatAreNone(t *testing.T) {
	b := packtest.New(t, "magisterium")
	b.ServeCalendar(evening)
	for args, want := range map[string]string{
		`{"when":"31 February 2027"}`:                 "February 2027 has no day 31",
		`{"when":"2500-01-01"}`:                       "1970 to 2199",
		`{"when":"3/4/2027"}`:                         "ambiguous",
		`{"when":"when pigs fly"}`:                    "accepted is",
		`{"when":"2027-01-02","to":"2027-01-01"}`:     "runs backwards: from 2027-01-02 to 2027-01-01",
		`{"when":"2027-01-01","to":"2027-02-01"}`:     "has 32 days; at most 31",
		`{"when":"2027-01-01","zone":"Mars/Olympus"}`: "no time zone",
		`{"when":"2027-01-01","calendar":"atlantis"}`: "there are general-roman",
	} {
		for _, id := range []string{"liturgical_readings", "saints_of_the_day"} {
			if v := b.Call(id, args); v["ok"] != false || !strings.Contains(v["refused"].(string), want) {
				t.Errorf("%s %s: %v", id, args, v)
			}
		}
	}
}

func TestCalendarWithoutItsEffect(t *testing.T) {
	b := packtest.New(t, "magisterium")
	for _, id := range []string{"liturgical_readings", "saints_of_the_day"} {
		for status, want := range map[string]string{"denied": "denied:budget", "failed": "effect failed: denied:budget"} {
			in := map[string]any{"phase": "finish", "args": jsontext.Value(`{"when":"today"}`), "round": 1,
				"results": []any{map[string]any{"id": "e1", "status": status, "record": nil, "output": nil, "denial": "denied:budget"}}}
			if got := b.Run(id, string(hashref.MustMarshal(in))); got != `{"ok":false,"refused":"`+want+`"}` {
				t.Errorf("%s %s: %s", id, status, got)
			}
		}
	}
}
