package rest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// bad is a refusal whose message begins with what is wrong: a field, a parameter.
func bad(what, format string, args ...any) error {
	return world.Errorf(world.KindBadRequest, "rest", what+" "+format, args...)
}

// pathRef is the path's {ref}.
func pathRef(r *http.Request) (world.Ref, error) {
	ref, err := hashref.Parse(r.PathValue("ref"))
	if err != nil {
		return hashref.None, bad("ref", "%v", err)
	}
	return ref, nil
}

// pathName is the path's {name...}.
func pathName(r *http.Request) (string, error) {
	name := r.PathValue("name")
	if name == "" {
		return "", bad("name", "must not be empty")
	}
	if why := textFault(name, MaxName); why != "" {
		return "", bad("name", "%s", why)
	}
	return name, nil
}

// textFault tells what is wrong with a text that the store is to keep or find; "" is
// nothing. NUL is refused because SQL tools end a text at it.
func textFault(s string, maxBytes int) string {
	switch {
	case len(s) > maxBytes:
		return "must be at most " + strconv.Itoa(maxBytes) + " bytes"
	case !utf8.ValidString(s):
		return "must be valid UTF-8"
	case strings.IndexByte(s, 0) >= 0:
		return "must not hold a NUL"
	}
	return ""
}

// validRESTID tells whether a text may be the id of a REST commit: rest: and at least one
// more byte, printable, at most MaxInvocationID.
func validRESTID(id string) bool {
	rest, ok := strings.CutPrefix(id, world.RESTPrefix)
	if !ok || rest == "" || len(id) > MaxInvocationID || !utf8.ValidString(id) {
		return false
	}
	return strings.IndexFunc(id, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}

// query is a request's parameters. Those that a route does not know are passed over; one
// that it knows and that stands there twice is refused, for there is no telling which of
// them was meant.
type query struct{ values url.Values }

func parseQuery(r *http.Request) (query, error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, bad("query", "is malformed")
	}
	return query{v}, nil
}

// one is a parameter's value; ok is false when it is absent.
func (q query) one(name string) (value string, ok bool, err error) {
	switch vs := q.values[name]; len(vs) {
	case 0:
		return "", false, nil
	case 1:
		return vs[0], true, nil
	default:
		return "", false, bad(name, "is given more than once")
	}
}

// limit is the size of a page: DefaultPage when absent or below 1, MaxPage at most.
func (q query) limit() (int, error) {
	s, ok, err := q.one("limit")
	if err != nil || !ok {
		return DefaultPage, err
	}
	digits, negative := strings.CutPrefix(s, "-")
	n, ok := decimal(digits)
	switch {
	case !ok:
		return 0, bad("limit", "must be an integer")
	case negative || n < 1:
		return DefaultPage, nil
	}
	return int(min(n, MaxPage)), nil
}

// decimal reads digits only. What is beyond 2^53-1 is 2^53-1: no log and no page gets
// there.
func decimal(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > hashref.MaxInt {
		return hashref.MaxInt, true
	}
	return n, true
}

// The page sizes that clients are promised must be ones that the store keeps.
var _ [store.MaxPage - MaxPage]struct{}
