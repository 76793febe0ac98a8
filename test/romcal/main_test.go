package main

import (
	"fmt"
	"strings"
	"testing"

	"ailang.dev/world/host/handlers/calendar/roman"
)

const line = `{"date":"%s","seasons":["%s"],"week":%d,"sunday":"YEAR_B","weekday":"YEAR_1","psalter":"WEEK_%d","celebrations":[{"id":"%s","rank":"%s","precedence":"%s","colours":["%s"]}]}` + "\n"

func TestRomcalTool(t *testing.T) {
	for _, c := range []struct{ lines, says, fails string }{
		{fmt.Sprintf(line, "2027-06-17", "ORDINARY_TIME", 11, 3, "ordinary_time_11_thursday", "WEEKDAY", "WEEKDAY_13", "GREEN"), "1 days, 1 the same in every respect, 1 with the same principal", ""},
		{fmt.Sprintf(line, "2027-06-17", "ORDINARY_TIME", 11, 3, "ordinary_time_11_thursday", "WEEKDAY", "WEEKDAY_13", "RED"), "colour        ours green ordinary-11-thursday", "1 differences are not explained"},
		{fmt.Sprintf(line, "2027-06-17", "LENT", 12, 4, "ordinary_time_12_thursday", "WEEKDAY", "WEEKDAY_13", "GREEN"), "1 days, 0 the same in every respect, 0 with the same principal", "4 differences are not explained"},
		{fmt.Sprintf(line, "2027-01-10", "CHRISTMAS_TIME", 3, 3, "baptism_of_the_lord", "SOLEMNITY", "PROPER_OF_TIME_SOLEMNITY_2", "WHITE"), whyBaptism, ""},
		{"", "", "no days were read"},
		{"{", "", "unexpected end"},
	} {
		var out strings.Builder
		err := run("general-roman", strings.NewReader(c.lines), &out)
		if !strings.Contains(out.String(), c.says) || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%.80s: %v\n%s", c.lines, err, out.String())
		}
	}
	if err := run("atlantis", strings.NewReader(""), &strings.Builder{}); err == nil {
		t.Error("a calendar that is not there is compared")
	}
}

// TestTheirNames: each id of the table is one of ours, in some calendar.
func TestTheirNames(t *testing.T) {
	all, err := roman.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	n, err := readNames()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range all {
		for id := range c.Names() {
			known[id] = true
		}
	}
	for theirs, ours := range n {
		if !known[ours] {
			t.Errorf("%s is %s, which is nowhere", theirs, ours)
		}
	}
	for theirs, want := range map[string]string{"ordinary_time_27_saturday": "ordinary-27-saturday", "easter_monday": "easter-1-monday", "easter_time_2_monday": "easter-2-monday", "lent_5_sunday": "lent-5-sunday",
		"christmas_time_january_3": "christmas-01-03", "monday_after_epiphany": "after-epiphany-monday", "strange": "strange"} {
		if got := n.ours(theirs); got != want {
			t.Errorf("%s is %s, want %s", theirs, got, want)
		}
	}
}
