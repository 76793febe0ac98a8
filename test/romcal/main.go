// Command romcal compares the liturgical days with those of romcal, day by day:
//
//	node test/romcal/days.mjs CALENDAR FROM TO | go run ./test/romcal CALENDAR
//
// It prints how many days are the same in every respect, and counts each kind of difference,
// with what explains it; a difference that nothing explains makes it fail. romcal has one calendar, today's,
// for all years, and particular calendars of its own. It owns the comparison alone. Answers
// spec/20-calendar.md.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"ailang.dev/world/host/handlers/calendar/roman"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: romcal CALENDAR <days.jsonl")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "romcal:", err)
		os.Exit(1)
	}
}

// their is one day of romcal.
type their struct {
	Date         string   `json:"date"`
	Seasons      []string `json:"seasons"`
	Week         int      `json:"week"`
	Sunday       string   `json:"sunday"`
	Weekday      string   `json:"weekday"`
	Psalter      string   `json:"psalter"`
	Celebrations []struct {
		ID         string   `json:"id"`
		Rank       string   `json:"rank"`
		Precedence string   `json:"precedence"`
		Colours    []string `json:"colours"`
		Optional   bool     `json:"optional"`
	} `json:"celebrations"`
}

// kind is a kind of difference.
type kind struct {
	what, ours, theirs, why string
}

type tally struct {
	count map[kind]int
	first map[kind]string
}

func run(calendar string, in io.Reader, out io.Writer) error {
	all, err := roman.Builtin()
	if err != nil {
		return err
	}
	c := all[calendar]
	if c == nil {
		return fmt.Errorf("no calendar %q", calendar)
	}
	n, err := readNames()
	if err != nil {
		return err
	}
	t := &tally{map[kind]int{}, map[kind]string{}}
	days, same, principals := 0, 0, 0
	var year *roman.Year
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var d their
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return err
		}
		date, err := time.Parse(time.DateOnly, d.Date)
		if err != nil {
			return err
		}
		if year == nil || year.Days()[0].Date.Year() != date.Year() {
			year = c.Year(date.Year())
		}
		found := compare(year.Day(date), d, n)
		days++
		if len(found) == 0 {
			same++
		}
		principals++
		for _, k := range found {
			if k.what == "celebration" {
				principals--
			}
			k.why = explain(k, date, year.Day(date), c)
			t.count[k]++
			if t.first[k] == "" {
				t.first[k] = d.Date
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if days == 0 {
		return fmt.Errorf("no days were read")
	}
	fmt.Fprintf(out, "%s: %d days, %d the same in every respect, %d with the same principal celebration\n", calendar, days, same, principals)
	return t.print(out)
}

func compare(d *roman.Day, t their, n names) []kind {
	var found []kind
	differ := func(what, ours, theirs string) {
		if ours != theirs {
			found = append(found, kind{what: what, ours: ours, theirs: theirs})
		}
	}
	first, other := d.Principal(), t.Celebrations[0]
	differ("season", string(d.Season), seasonOf(t.Seasons))
	differ("week", strconv.Itoa(d.Week)+" of "+string(d.Season), strconv.Itoa(t.Week)+" of "+string(d.Season))
	differ("Sunday cycle", d.Sunday, strings.TrimPrefix(t.Sunday, "YEAR_"))
	differ("weekday cycle", d.Weekday, map[string]string{"YEAR_1": "I", "YEAR_2": "II"}[t.Weekday])
	differ("psalter week", strconv.Itoa(d.Psalter)+" in "+string(d.Season), strings.TrimPrefix(t.Psalter, "WEEK_")+" in "+string(d.Season))
	if id := n.ours(other.ID); id != first.ID {
		differ("celebration", first.ID, id)
		return found
	}
	differ("rank", string(first.Rank)+" "+first.ID, rankOf(other.Rank, first)+" "+first.ID)
	differ("precedence", strconv.Itoa(first.Precedence)+" "+first.ID, precedenceOf(other.Precedence)+" "+first.ID)
	differ("colour", string(first.Colour)+" "+first.ID, colourOf(other.Colours)+" "+first.ID)
	var ours, theirs []string
	for _, c := range d.Celebrations[1:] {
		ours = append(ours, c.ID)
	}
	for _, c := range t.Celebrations[1:] {
		theirs = append(theirs, n.ours(c.ID))
	}
	for _, id := range ours {
		if !slices.Contains(theirs, id) {
			differ("option", id, "")
		}
	}
	for _, id := range theirs {
		if !slices.Contains(ours, id) {
			differ("option", "", id)
		}
	}
	return found
}

// seasonOf is our season for theirs; days that are in two have the later in the year.
func seasonOf(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return map[string]string{"ADVENT": "advent", "CHRISTMAS_TIME": "christmas", "LENT": "lent", "PASCHAL_TRIDUUM": "triduum", "EASTER_TIME": "easter", "ORDINARY_TIME": "ordinary"}[all[len(all)-1]]
}

// rankOf is our rank for theirs; they have no ranks of their own for feasts of the Lord and days
// of Holy Week.
func rankOf(rank string, ours roman.Celebration) string {
	r := map[string]roman.Rank{"SOLEMNITY": roman.Solemnity, "SUNDAY": roman.Sunday, "FEAST": roman.Feast, "MEMORIAL": roman.Memorial, "OPTIONAL_MEMORIAL": roman.Optional,
		"WEEKDAY": roman.Weekday, "HOLY_DAY_OF_OBLIGATION": roman.Solemnity}[rank]
	if r == roman.Feast && ours.Rank == roman.LordsFeast || r == roman.Weekday && ours.Rank == roman.HolyDay {
		return string(ours.Rank)
	}
	return string(r)
}

// precedenceOf is the class in the table: the first number in their name for it.
func precedenceOf(name string) string {
	for _, part := range strings.Split(name, "_") {
		if digits := strings.TrimRight(part, "ABCDEF"); digits != "" && strings.Trim(digits, "0123456789") == "" {
			return digits
		}
	}
	return name
}

func colourOf(all []string) string {
	if len(all) == 0 {
		return ""
	}
	c := strings.ToLower(all[0])
	if c == "purple" {
		return string(roman.Violet)
	}
	return c
}

func (t *tally) print(out io.Writer) error {
	kinds := slices.SortedFunc(maps.Keys(t.count), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.why, b.why), cmp.Compare(t.count[b], t.count[a]), cmp.Compare(a.what+a.ours+a.theirs, b.what+b.ours+b.theirs))
	})
	byWhy := map[string]int{}
	for _, k := range kinds {
		byWhy[k.why] += t.count[k]
	}
	last, unexplained := "none", 0
	for _, k := range kinds {
		if k.why != last {
			last = k.why
			fmt.Fprintf(out, "\n%5d  %s\n", byWhy[k.why], cmp.Or(k.why, "NOT EXPLAINED"))
		}
		fmt.Fprintf(out, "       %5d %-13s ours %-40s theirs %-40s first on %s\n", t.count[k], k.what, cmp.Or(k.ours, "-"), cmp.Or(k.theirs, "-"), t.first[k])
		if k.why == "" {
			unexplained += t.count[k]
		}
	}
	if unexplained > 0 {
		return fmt.Errorf("%d differences are not explained", unexplained)
	}
	return nil
}
