package workspace

import (
	"bytes"
	"context"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Bounds of matching: it takes as many steps as the expression has, at each byte, and cannot be
// stopped within one call.
const (
	MaxProgram = 10_000  // steps of a regular expression, its repetitions written out
	maxWork    = 1 << 24 // steps times bytes, some tenths of a second, until the time is looked at
)

// matcher is a regular expression at work.
type matcher struct {
	re   *regexp.Regexp
	size int // its steps
	work int // since the time was looked at
}

// newMatcher refuses an expression that is none, or has more than MaxProgram steps.
func newMatcher(pattern string, fold bool) (*matcher, error) {
	// Alone first, so that "a)(b" does not become one by what is put before it.
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, refuse("pattern is not a valid RE2 regular expression: %s", shown(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
	}
	size := steps(tree)
	if size > MaxProgram {
		return nil, refuse("pattern is too large: with its repetitions written out it has %d steps, at most %d are searched for", size, MaxProgram)
	}
	if fold {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, refuse("pattern is not a valid RE2 regular expression: %s", shown(err.Error()))
	}
	return &matcher{re: re, size: size}, nil
}

// steps is about how many instructions an expression becomes. The parser refuses what would
// overflow.
func steps(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpCapture:
		n = 2
	case syntax.OpConcat:
		n = 0
	case syntax.OpAlternate:
		n = len(re.Sub) - 1
	case syntax.OpRepeat:
		most, free := re.Max, re.Max-re.Min
		if most < 0 {
			most, free = re.Min+1, 1 // the last is a star
		}
		return max(1, most*steps(re.Sub[0])+free)
	}
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	return n
}

// match tells whether a line matches; with the error of pressed if the time is over first.
func (m *matcher) match(ctx context.Context, line []byte) (bool, error) {
	work := (len(line) + 1) * m.size
	if m.work += work; m.work > maxWork {
		m.work = 0
		if err := pressed(ctx); err != nil {
			return false, err
		}
	}
	if work <= maxWork {
		return m.re.Match(line), nil
	}
	r := &timedReader{r: bytes.NewReader(line), ctx: ctx, every: max(1, maxWork/m.size)}
	hit := m.re.MatchReader(r)
	return hit && r.err == nil, r.err
}

// timedReader gives a line's characters, and ends early when the time is over.
type timedReader struct {
	r     *bytes.Reader
	ctx   context.Context
	n     int
	every int // characters between two looks at the time
	err   error
}

// ReadRune implements io.RuneReader.
func (t *timedReader) ReadRune() (r rune, size int, err error) {
	if t.n++; t.n%t.every == 0 && t.err == nil {
		t.err = pressed(t.ctx)
	}
	if t.err != nil {
		return utf8.RuneError, 0, t.err
	}
	return t.r.ReadRune()
}
