package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// idsText maps their ids of saints to ours.
//
//go:embed ids.json
var idsText []byte

// ofTime maps their ids of the proper of time that no rule does.
var ofTime = map[string]string{"mary_mother_of_god": "mary-mother-of-god", "second_sunday_after_christmas": "christmas-2-sunday", "epiphany_of_the_lord": "epiphany",
	"baptism_of_the_lord": "baptism-of-the-lord", "sunday_of_the_word_of_god": "ordinary-3-sunday", "ash_wednesday": "ash-wednesday", "thursday_after_ash_wednesday": "lent-0-thursday",
	"friday_after_ash_wednesday": "lent-0-friday", "saturday_after_ash_wednesday": "lent-0-saturday", "palm_sunday_of_the_passion_of_the_lord": "palm-sunday",
	"holy_monday": "holy-week-monday", "holy_tuesday": "holy-week-tuesday", "holy_wednesday": "holy-week-wednesday", "holy_thursday": "holy-thursday",
	"friday_of_the_passion_of_the_lord": "good-friday", "holy_saturday": "holy-saturday", "easter_sunday": "easter-sunday", "divine_mercy_sunday": "easter-2-sunday",
	"ascension_of_the_lord": "ascension", "pentecost_sunday": "pentecost", "most_holy_trinity": "trinity", "most_holy_body_and_blood_of_christ": "corpus-christi",
	"most_sacred_heart_of_jesus": "sacred-heart", "our_lord_jesus_christ_king_of_the_universe": "christ-the-king", "nativity_of_the_lord": "christmas",
	"holy_family_of_jesus_mary_and_joseph": "holy-family"}

var rules = []struct {
	theirs *regexp.Regexp
	ours   string
}{
	{regexp.MustCompile(`^ordinary_time_(\d+)_(\w+)$`), "ordinary-$1-$2"},
	{regexp.MustCompile(`^easter_time_(\d+)_(\w+)$`), "easter-$1-$2"},
	{regexp.MustCompile(`^easter_(monday|tuesday|wednesday|thursday|friday|saturday)$`), "easter-1-$1"},
	{regexp.MustCompile(`^(advent|lent)_(\d)_(\w+)$`), "$1-$2-$3"},
	{regexp.MustCompile(`^advent_december_(\d+)$`), "advent-12-$1"},
	{regexp.MustCompile(`^christmas_octave_day_(\d)$`), "christmas-octave-$1"},
	{regexp.MustCompile(`^christmas_time_january_(\d)$`), "christmas-01-0$1"},
	{regexp.MustCompile(`^christmas_time_january_(\d\d)$`), "christmas-01-$1"},
	{regexp.MustCompile(`^(\w+)_after_epiphany$`), "after-epiphany-$1"},
}

// names translates ids.
type names map[string]string

func readNames() (names, error) {
	n := names{}
	if err := json.Unmarshal(idsText, &n); err != nil {
		return nil, fmt.Errorf("ids.json: %w", err)
	}
	return n, nil
}

// ours is our id for one of theirs; one that is not known stays as it is.
func (n names) ours(id string) string {
	if o := n[id]; o != "" {
		return o
	}
	if o := ofTime[id]; o != "" {
		return o
	}
	for _, r := range rules {
		if r.theirs.MatchString(id) {
			return strings.ToLower(r.theirs.ReplaceAllString(id, r.ours))
		}
	}
	return id
}
