package config

import (
	"path/filepath"
	"slices"
	"strconv"
)

// maxCalendars bounds an operator's own calendars.
const maxCalendars = 32

// calendarsSection names files of liturgical calendars; what stands in them is checked by the
// daemon, which reads them when it starts.
type calendarsSection []string

func (s calendarsSection) build(src *source) ([]string, error) {
	if len(s) > maxCalendars {
		return nil, src.at([]string{"calendars"}, "has more than %d files", maxCalendars)
	}
	for i, path := range s {
		at := []string{"calendars", strconv.Itoa(i)}
		if !filepath.IsAbs(path) {
			return nil, src.at(at, "%q must be an absolute path", path)
		}
		if slices.Contains(s[:i], path) {
			return nil, src.at(at, "%q stands there twice", path)
		}
	}
	return s, nil
}
