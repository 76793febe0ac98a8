package roman

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"
)

//go:embed data/*.yaml
var files embed.FS

// Bounds of a calendar's file.
const (
	MaxFile         = 256 << 10
	maxCelebrations = 1000
)

// General is the id of the calendar that all others are laid over.
const General = "general-roman"

const onSunday = "sunday"

// options are what conferences of bishops may choose.
type options struct {
	Epiphany      string `yaml:"epiphany"`
	Ascension     string `yaml:"ascension"`
	CorpusChristi string `yaml:"corpus_christi"`
}

// file is a calendar as it stands in a file.
type file struct {
	ID           string   `yaml:"id"`
	Name         string   `yaml:"name"`
	Layer        string   `yaml:"layer"`
	Options      options  `yaml:"options"`
	Omit         []string `yaml:"omit"` // celebrations of the general calendar that this one has not
	Celebrations []row    `yaml:"celebrations"`
}

// row is one celebration in some years.
type row struct {
	ID       string   `yaml:"id"`
	Date     string   `yaml:"date"`
	Rank     Rank     `yaml:"rank"`
	RankName string   `yaml:"rank_name"`
	Name     string   `yaml:"name"`
	Titles   []string `yaml:"titles"`
	Colour   Colour   `yaml:"colour"`
	From     int      `yaml:"from"`
	Until    int      `yaml:"until"`
	// InHolyWeek is where a solemnity goes from the days of Holy Week and of the octave of
	// Easter: before, to the Saturday before Palm Sunday, or after, to the Monday after the octave.
	InHolyWeek string `yaml:"in_holy_week"`
	// Prefer is which of two days that are equally near a transferred solemnity takes.
	Prefer string `yaml:"prefer"`
	// Preferred memorials go before others on the same day, which are then omitted.
	Preferred bool `yaml:"preferred"`

	month  time.Month
	day    int
	easter int // days after Easter, where month is 0
	proper string
	class  int
	except [][2]int // years in which a particular calendar has it otherwise
}

// Calendar is a calendar with all that it is laid over. It does not change, and is safe for
// concurrent use.
type Calendar struct {
	ID, Name string
	// Digest is the SHA-256 of its file, in hex.
	Digest  string
	options options
	rows    []row
}

// Builtin are the calendars that ship, by their ids.
func Builtin() (map[string]*Calendar, error) {
	text, err := texts()
	if err != nil {
		return nil, err
	}
	general, err := Parse(text[General], nil)
	if err != nil {
		return nil, err
	}
	all := map[string]*Calendar{General: general}
	delete(text, General)
	for id, b := range text {
		if all[id], err = Parse(b, general); err != nil {
			return nil, fmt.Errorf("%s.yaml: %w", id, err)
		}
		if all[id].ID != id {
			return nil, fmt.Errorf("%s.yaml: its id is %q", id, all[id].ID)
		}
	}
	return all, nil
}

// texts are the files that ship, by the ids of their calendars.
func texts() (map[string][]byte, error) {
	entries, err := files.ReadDir("data")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if all[strings.TrimSuffix(e.Name(), ".yaml")], err = files.ReadFile(path.Join("data", e.Name())); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Digests are the SHA-256 of the files that ship, in hex, by the ids of their calendars.
func Digests() (map[string]string, error) {
	all, err := texts()
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for id, text := range all {
		digests[id] = digest(text)
	}
	return digests, nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

var calendarID = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

// Parse reads a calendar's file, laid over the general calendar; over none it is that one
// itself. An error says which celebration is wrong, and why.
func Parse(text []byte, general *Calendar) (*Calendar, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("is larger than %d bytes", MaxFile)
	}
	var f file
	if err := decode(text, &f); err != nil {
		return nil, err
	}
	if !calendarID.MatchString(f.ID) || !isName(f.Name) {
		return nil, fmt.Errorf("needs a name of one line, and an id of a-z, 0-9 and -")
	}
	if len(f.Celebrations) > maxCelebrations {
		return nil, fmt.Errorf("has more than %d celebrations", maxCelebrations)
	}
	for what, v := range map[string]string{"epiphany": f.Options.Epiphany, "ascension": f.Options.Ascension, "corpus_christi": f.Options.CorpusChristi} {
		if v != "" && v != onSunday && v != "proper" {
			return nil, fmt.Errorf("options.%s is %q; it may be sunday or proper", what, v)
		}
	}
	if (f.Layer == "general") != (general == nil) {
		return nil, fmt.Errorf("layer is %q; it is left out but in the general calendar", f.Layer)
	}
	c := &Calendar{ID: f.ID, Name: f.Name, Digest: digest(text), options: f.Options}
	for i := range f.Celebrations {
		r := &f.Celebrations[i]
		if general != nil {
			r.proper = f.ID
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("celebration %d (%s): %w", i+1, r.ID, err)
		}
	}
	if general != nil {
		if err := c.over(general, f); err != nil {
			return nil, err
		}
	}
	c.rows = append(c.rows, f.Celebrations...)
	return c, nil
}

func decode(text []byte, f *file) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on some texts
			err = fmt.Errorf("cannot be read as YAML: %v", p)
		}
	}()
	in := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	if err := in.Decode(f); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("is empty")
		}
		return err
	}
	return nil
}

// over takes the general calendar's rows but those that a particular one omits. In the years in
// which it has one of them itself, that one stands.
func (c *Calendar) over(general *Calendar, f file) error {
	own := map[string][][2]int{}
	for _, r := range f.Celebrations {
		own[r.ID] = append(own[r.ID], [2]int{r.From, r.Until})
	}
	for _, id := range f.Omit {
		if !slices.ContainsFunc(general.rows, func(r row) bool { return r.ID == id }) {
			return fmt.Errorf("omit: the general calendar has no %q", id)
		}
	}
	for _, r := range general.rows {
		if !slices.Contains(f.Omit, r.ID) {
			r.except = own[r.ID]
			c.rows = append(c.rows, r)
		}
	}
	return nil
}

var classes = map[bool]map[Rank]int{
	false: {Solemnity: 3, LordsFeast: 5, Feast: 7, Memorial: 10, Optional: 12},
	true:  {Solemnity: 4, LordsFeast: 5, Feast: 8, Memorial: 11, Optional: 12},
}

var redTitles = []string{"martyr", "apostle", "evangelist"}

// isName tells whether a text may stand in the line of an answer.
func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// check completes a row, and says what is wrong with it.
func (r *row) check() error {
	if !calendarID.MatchString(r.ID) || !isName(r.Name) || slices.ContainsFunc(r.Titles, func(t string) bool { return !isName(t) }) || r.RankName != "" && !isName(r.RankName) {
		return fmt.Errorf("needs a name of one line, and an id of a-z, 0-9 and -")
	}
	if r.class = classes[r.proper != ""][r.Rank]; r.class == 0 {
		return fmt.Errorf("rank %q is none of solemnity, feast-of-the-lord, feast, memorial, optional", r.Rank)
	}
	switch r.Colour {
	case White, Red, Green, Violet, Rose:
	case "":
		r.Colour = White
		if slices.ContainsFunc(r.Titles, func(t string) bool { return slices.Contains(redTitles, t) }) {
			r.Colour = Red
		}
	default:
		return fmt.Errorf("colour %q is none of white, red, green, violet, rose", r.Colour)
	}
	for _, v := range []string{r.InHolyWeek, r.Prefer} {
		if v != "" && v != "before" && v != "after" {
			return fmt.Errorf("in_holy_week and prefer may be before or after, not %q", v)
		}
	}
	if r.From == 0 {
		r.From = FirstYear
	}
	if r.Until == 0 {
		r.Until = LastYear
	}
	if r.From > r.Until {
		return fmt.Errorf("from %d is after until %d", r.From, r.Until)
	}
	return r.when()
}

func (r *row) when() error {
	if days, ok := strings.CutPrefix(r.Date, "easter+"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 200 {
			return fmt.Errorf("date %q: easter+N has an N from 1 to 200", r.Date)
		}
		r.easter = n
		return nil
	}
	t, err := time.Parse("2006-01-02", "2023-"+r.Date) // a year without 29 February
	if err != nil {
		return fmt.Errorf("date %q is neither MM-DD, in any year, nor easter+N", r.Date)
	}
	r.month, r.day = t.Month(), t.Day()
	return nil
}

// in is the row's own date in a year, if it stands in the calendar then.
func (r *row) in(m movable) (time.Time, bool) {
	if m.year < r.From || m.year > r.Until || slices.ContainsFunc(r.except, func(y [2]int) bool { return m.year >= y[0] && m.year <= y[1] }) {
		return time.Time{}, false
	}
	if r.month == 0 {
		return plus(m.easter, r.easter), true
	}
	return Date(m.year, r.month, r.day), true
}

// Names are the celebrations that are not of the proper of time, by their ids.
func (c *Calendar) Names() map[string]string {
	all := make(map[string]string, len(c.rows))
	for _, r := range c.rows { // a particular calendar's own are the last
		all[r.ID] = r.Name
	}
	return all
}

// Standing is how a celebration that is not of the proper of time stands in a year: its dates,
// ranks and names; none if it is not in the calendar then.
func (c *Calendar) Standing(id string, year int) []string {
	var all []string
	m := movableOf(year, c.options)
	for _, r := range c.rows {
		if r.ID != id {
			continue
		}
		if _, ok := r.in(m); ok {
			all = append(all, r.Date+" "+string(r.Rank)+" "+r.Name)
		}
	}
	return all
}
