package workbench

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// bad is a refusal whose message begins with the parameter that is wrong.
func bad(what, format string, args ...any) error {
	return world.Errorf(world.KindBadRequest, "workbench", what+" "+format, args...)
}

// query is the parameters of a page: each known, and given once.
type query struct{ values url.Values }

// parseQuery refuses what a page does not know, and what is given twice: there is no
// telling which of them was meant.
func parseQuery(r *http.Request, known []string) (query, error) {
	if len(r.URL.RawQuery) > MaxQuery {
		return query{}, bad("query", "must be at most %d bytes", MaxQuery)
	}
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, bad("query", "is malformed")
	}
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			return query{}, bad("query", "has the parameter %.80q, and this page knows none", name)
		case !slices.Contains(known, name):
			return query{}, bad("query", "has the parameter %.80q, and this page knows only %s", name, strings.Join(known, ", "))
		case len(v[name]) > 1:
			return query{}, bad(name, "is given more than once")
		}
	}
	return query{v}, nil
}

func (q query) has(name string) bool { return q.values.Has(name) }

// ref is a reference, or None when the parameter is absent.
func (q query) ref(name string) (world.Ref, error) {
	if !q.has(name) {
		return hashref.None, nil
	}
	ref, err := hashref.Parse(q.values.Get(name))
	if err != nil {
		return hashref.None, bad(name, "%v", err)
	}
	return ref, nil
}

// number is a non-negative integer, or dfl when the parameter is absent. What is beyond
// 2^53-1 is 2^53-1: no log gets there.
func (q query) number(name string, dfl int64) (int64, error) {
	if !q.has(name) {
		return dfl, nil
	}
	s := q.values.Get(name)
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, bad(name, "must be a non-negative integer")
	}
	var n int64
	for _, c := range s {
		if n = n*10 + int64(c-'0'); n > hashref.MaxInt {
			return hashref.MaxInt, nil
		}
	}
	return n, nil
}

// flag is 0 or 1; false when the parameter is absent.
func (q query) flag(name string) (bool, error) {
	if !q.has(name) {
		return false, nil
	}
	switch q.values.Get(name) {
	case "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, bad(name, "must be 0 or 1")
}
