package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"

	"ailang.dev/world/host/hashref"
)

// match is one line that matched, with its neighbours. Escaped says that a text holds
// bytes that are no UTF-8, shown as \xNN; Cut that a line was longer than is given back.
type match struct {
	Path    string   `json:"path"`
	Line    int      `json:"line"`
	Text    string   `json:"text"`
	Before  []string `json:"before"`
	After   []string `json:"after"`
	Escaped bool     `json:"escaped,omitzero"`
	Cut     bool     `json:"cut,omitzero"`
}

// do answers a grep: the lines that match, file by file in the bytewise order of paths.
func (a *grepArgs) do(ctx context.Context, c *call) ([]byte, error) {
	s, err := a.search()
	if err != nil {
		return nil, err
	}
	asked := a.Path
	if asked == "" {
		asked = "."
	}
	p, err := c.resolve(asked)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if len(p.rest) > 0 {
		return nil, missing(asked)
	}
	prefix := strings.Join(p.clean, "/")
	if p.isDir() {
		err = s.tree(ctx, p.dir(), prefix, a.Glob)
	} else {
		err = s.one(ctx, p, prefix)
	}
	if err != nil {
		return nil, pathErrorOf(asked, err)
	}
	return hashref.Marshal(struct {
		OK        bool    `json:"ok"`
		Matches   []match `json:"matches"`
		Truncated bool    `json:"truncated"`
		stamp
	}{true, s.matches, s.cut, c.stamp})
}

// search checks the arguments and makes them ready.
func (a *grepArgs) search() (*search, error) {
	limit, err := limited(a.Limit, dflMatches, MaxMatches)
	switch {
	case err != nil:
		return nil, err
	case a.Context < 0 || a.Context > MaxContext:
		return nil, refuse("context must be from 0 to %d", MaxContext)
	case a.Pattern == "":
		return nil, refuse("pattern is empty")
	case len(a.Pattern) > MaxPattern:
		return nil, refuse("pattern is longer than %d bytes", MaxPattern)
	}
	m, err := newMatcher(a.Pattern, a.IgnoreCase)
	if err != nil {
		return nil, err
	}
	if a.Glob != nil {
		glob, err := checkGlob("glob", *a.Glob)
		if err != nil {
			return nil, err
		}
		a.Glob = &glob
	}
	return &search{pattern: m, context: int(a.Context), limit: limit, room: MaxListing, scan: MaxScan, matches: []match{}}, nil
}

// search is one grep at work.
type search struct {
	pattern *matcher
	context int
	limit   int
	room    int // bytes of JSON that are left
	scan    int // bytes of files that are left
	matches []match
	cut     bool
	buf     *bufio.Reader
}

// tree searches a directory and all that is below. A glob without a slash is held against
// the name of a file, one with a slash against its path below the directory.
func (s *search) tree(ctx context.Context, dir *os.Root, prefix string, glob *string) error {
	w := &walker{maxDepth: MaxDepth, visit: func(f found) error {
		if f.kind != 0 {
			return nil
		}
		if glob != nil {
			name := f.rel
			if !strings.Contains(*glob, "/") {
				name = path.Base(f.rel)
			}
			if !doublestar.MatchUnvalidated(*glob, name) {
				return nil
			}
		}
		file, err := openSeen(f.dir, f.name)
		if err != nil || file == nil {
			s.cut = s.cut || (err != nil && !errors.Is(err, fs.ErrNotExist))
			return nil
		}
		defer file.Close()
		return s.file(ctx, file, strings.TrimPrefix(prefix+"/"+f.rel, "/"))
	}}
	cut, err := w.run(ctx, dir)
	s.cut = s.cut || cut
	return err
}

// one searches the one file that the path names.
func (s *search) one(ctx context.Context, p *place, name string) error {
	f, _, err := p.openFile()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := s.file(ctx, f, name); !errors.Is(err, errStop) {
		return err
	}
	return nil
}

// openSeen opens a name of a walk if it is a regular file still; nil if it is not.
func openSeen(dir *os.Root, name string) (*os.File, error) {
	fi, err := dir.Lstat(name)
	if err != nil || !fi.Mode().IsRegular() {
		return nil, err
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !now.Mode().IsRegular() || !os.SameFile(now, fi) {
		f.Close()
		return nil, err
	}
	return f, nil
}

// file searches one opened file; binary ones are passed over.
func (s *search) file(ctx context.Context, f *os.File, name string) error {
	if s.scan <= 0 {
		s.cut = true
		return errStop
	}
	most := min(s.scan, MaxScanFile)
	in := &io.LimitedReader{R: f, N: int64(most)}
	defer func() { s.scan -= most - int(in.N) }()
	if s.buf == nil {
		s.buf = bufio.NewReaderSize(nil, copyChunk)
	}
	s.buf.Reset(in)
	head, err := s.buf.Peek(SniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		s.cut = true // it cannot be read
		return nil
	}
	if looksBinary(head, err != nil) {
		return nil
	}
	l := &lines{s: s, name: name}
	l.name, l.escaped = escape(name)
	if err := l.run(ctx); err != nil {
		return err
	}
	if in.N == 0 {
		if n, _ := f.Read(make([]byte, 1)); n > 0 {
			s.cut = true
		}
	}
	return nil
}

// lines goes through one file line by line.
type lines struct {
	s       *search
	name    string
	escaped bool     // of name
	before  []string // up to context lines, newest last
	waiting []int    // matches, by index, that want more lines after them
	full    bool     // the limit is reached; only what waits is still served
}

func (l *lines) run(ctx context.Context) error {
	for n := 1; ; n++ {
		if n%1024 == 0 {
			if err := pressed(ctx); err != nil {
				l.s.cut = true
				return err
			}
		}
		line, tooLong, err := readLine(l.s.buf)
		if err != nil && !errors.Is(err, io.EOF) {
			l.s.cut = true // it could be read only so far
			return nil
		}
		if len(line) > 0 || err == nil {
			if err := l.line(ctx, n, line, tooLong); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// line takes one line, without its end.
func (l *lines) line(ctx context.Context, n int, line []byte, tooLong bool) error {
	hit, err := l.s.pattern.match(ctx, line)
	if err != nil {
		l.s.cut = true
		return err
	}
	if !hit && l.s.context == 0 {
		l.s.cut = l.s.cut || tooLong
		return nil
	}
	text, cut := clip(string(line[:min(len(line), MaxLineText+1)]), MaxLineText)
	text, escaped := escape(text)
	if err := l.serve(text); err != nil {
		return err
	}
	l.s.cut = l.s.cut || (tooLong && !hit)
	switch {
	case hit && len(l.s.matches) == l.s.limit:
		l.full, l.s.cut = true, true
	case hit && !l.full:
		m := match{Path: l.name, Line: n, Text: text, Before: append([]string{}, l.before...), After: []string{},
			Escaped: escaped || l.escaped, Cut: cut || tooLong}
		if err := l.s.pay(m); err != nil {
			return err
		}
		l.s.matches = append(l.s.matches, m)
		if l.s.context > 0 {
			l.waiting = append(l.waiting, len(l.s.matches)-1)
		}
	}
	if l.full && len(l.waiting) == 0 {
		return errStop
	}
	if l.s.context > 0 {
		if len(l.before) == l.s.context {
			l.before = l.before[1:]
		}
		l.before = append(l.before, text)
	}
	return nil
}

// serve gives a line to the matches that want lines after them.
func (l *lines) serve(text string) error {
	keep := l.waiting[:0]
	for _, i := range l.waiting {
		if l.s.room -= jsonLen(text) + 1; l.s.room < 0 {
			l.s.cut = true
			return errStop
		}
		m := &l.s.matches[i]
		if m.After = append(m.After, text); len(m.After) < l.s.context {
			keep = append(keep, i)
		}
	}
	l.waiting = keep
	return nil
}

// pay takes what a match costs off the answer's room.
func (s *search) pay(m match) error {
	s.room -= jsonLen(m.Path) + jsonLen(m.Text) + 100
	for _, b := range m.Before {
		s.room -= jsonLen(b) + 1
	}
	if s.room < 0 {
		s.cut = true
		return errStop
	}
	return nil
}

// readLine reads a line and drops its end, LF or CRLF. Of a line longer than MaxScanLine
// the rest is passed over. The slice holds until the next call.
func readLine(r *bufio.Reader) (line []byte, tooLong bool, err error) {
	line, err = r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			var part []byte
			part, err = r.ReadSlice('\n')
			if room := MaxScanLine - len(long); len(part) > room {
				part, tooLong = part[:max(room, 0)], true
			}
			long = append(long, part...)
		}
		line = long
	}
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'}), tooLong, err
}
