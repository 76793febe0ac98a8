package calendar

import (
	"fmt"
	"maps"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"ailang.dev/world/host/handlers/calendar/lectionary"
	"ailang.dev/world/host/handlers/calendar/roman"
	"ailang.dev/world/host/handlers/calendar/when"
)

// almanac is what days are computed with. It is made when the first is asked for, as a daemon
// that is never asked for one should not wait for it.
type almanac struct {
	calendars map[string]*roman.Calendar
	books     map[string]*when.Book
	readings  *lectionary.Table
	years     *lru.Cache[yearKey, *roman.Year]
}

type yearKey struct {
	calendar string
	year     int
}

func newAlmanac(own []*roman.Calendar) (*almanac, error) {
	a := &almanac{books: map[string]*when.Book{}}
	var err error
	if a.calendars, err = roman.Builtin(); err != nil {
		return nil, fmt.Errorf("calendar: %w", err)
	}
	if a.readings, err = lectionary.Load(); err != nil {
		return nil, fmt.Errorf("calendar: %w", err)
	}
	if a.years, err = lru.New[yearKey, *roman.Year](maxYears); err != nil {
		return nil, fmt.Errorf("calendar: %w", err)
	}
	for _, c := range own {
		a.calendars[c.ID] = c
	}
	for id, c := range a.calendars {
		a.books[id] = when.NewBook(c, func(year int) *roman.Year { return a.year(id, year) })
	}
	return a, nil
}

// names are the calendars, in order.
func (a *almanac) names() []string { return slices.Sorted(maps.Keys(a.calendars)) }

// year is a computed year; those that were used last are kept.
func (a *almanac) year(calendar string, year int) *roman.Year {
	k := yearKey{calendar, year}
	if y, ok := a.years.Get(k); ok {
		return y
	}
	y := a.calendars[calendar].Year(year)
	a.years.Add(k, y)
	return y
}
