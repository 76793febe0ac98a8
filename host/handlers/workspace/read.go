package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"unicode/utf8"

	"ailang.dev/world/host/hashref"
)

// do answers a read: the whole file, or a range of its lines.
func (a *readArgs) do(ctx context.Context, c *call) ([]byte, error) {
	from, to := int64(1), int64(-1)
	if a.From != nil {
		from = *a.From
	}
	if a.To != nil {
		to = *a.To
	}
	switch {
	case from < 1:
		return nil, refuse("from must be at least 1: lines are counted from 1")
	case a.To != nil && to < from:
		return nil, refuse("to must not be less than from")
	}
	p, err := c.resolve(a.Path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	f, fi, err := p.openFile()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if a.From != nil || a.To != nil {
		return c.readRange(ctx, a.Path, f, fi.Size(), from, to)
	}
	content, err := wholeText(a.Path, f, fi.Size(), MaxRead)
	if err != nil {
		return nil, err
	}
	return hashref.Marshal(struct {
		OK      bool   `json:"ok"`
		Content string `json:"content"`
		stamp
	}{true, content, c.stamp})
}

// wholeText reads a text file of at most max bytes.
func wholeText(asked string, f *os.File, size, max int64) (string, error) {
	head := make([]byte, SniffBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	head = head[:n]
	if looksBinary(head, int64(n) >= size) {
		return "", binary(asked, size)
	}
	if size > max {
		return "", tooLarge(asked, size, max)
	}
	rest, err := io.ReadAll(io.LimitReader(f, max+1-int64(n)))
	if err != nil {
		return "", err
	}
	text := append(head, rest...)
	if int64(len(text)) > max { // it grew, or its size is not told
		return "", tooLarge(asked, max+1, max)
	}
	if !utf8.Valid(text) {
		return "", binary(asked, int64(len(text)))
	}
	return string(text), nil
}

func tooLarge(asked string, size, max int64) error {
	if max == MaxRead {
		return refuse("path %s is too large to be read whole: %d bytes, at most %d; read a range of its lines with from and to", quoted(asked), size, max)
	}
	return refuse("path %s is too large to be edited: %d bytes, at most %d", quoted(asked), size, max)
}

func binary(asked string, size int64) error {
	return refuse("path %s is a binary file of %d bytes; its content is not shown", quoted(asked), size)
}

// looksBinary judges the head of a file: a NUL, or what is not UTF-8. A character that the
// end of the head cuts is no fault, unless the head is the whole file.
func looksBinary(head []byte, whole bool) bool {
	if bytes.IndexByte(head, 0) >= 0 {
		return true
	}
	if last := lastStart(head); !whole && last >= 0 && !utf8.FullRune(head[last:]) {
		head = head[:last]
	}
	return !utf8.Valid(head)
}

// lastStart is where the last character of b begins, looking back as far as one can
// reach; -1 if there is no such place.
func lastStart(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			return i
		}
	}
	return -1
}

// readRange answers with lines from to to (-1: to the end), counted from 1, and counts
// all lines of the file. It holds no more than the answer.
func (c *call) readRange(ctx context.Context, asked string, f *os.File, size, from, to int64) ([]byte, error) {
	s := lineRange{from: from, to: to, line: 1}
	buf := make([]byte, copyChunk)
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := io.ReadFull(f, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		if first && looksBinary(buf[:min(n, SniffBytes)], n <= SniffBytes && err != nil) {
			return nil, binary(asked, size)
		}
		s.feed(buf[:n])
		if err != nil {
			break
		}
		if s.seen > MaxRangeScan {
			return nil, refuse("path %s is too large: more than %d bytes", quoted(asked), int64(MaxRangeScan))
		}
	}
	total := s.total()
	if from > max(total, 1) {
		return nil, refuse("from %d is past the end of %s, which has %d lines", from, shown(asked), total)
	}
	content, last := s.finish()
	if !utf8.Valid(content) {
		return nil, binary(asked, size)
	}
	return hashref.Marshal(struct {
		OK         bool   `json:"ok"`
		Content    string `json:"content"`
		From       int64  `json:"from"`
		To         int64  `json:"to"`
		TotalLines int64  `json:"total_lines"`
		Truncated  bool   `json:"truncated,omitzero"`
		stamp
	}{true, string(content), from, last, total, s.cut, c.stamp})
}

// lineRange collects a range of lines from chunks of a file.
type lineRange struct {
	from, to int64 // to is -1 for the end
	line     int64 // the line that the next byte belongs to
	seen     int64 // bytes fed
	openLine bool  // the last byte fed ended no line
	out      []byte
	cut      bool // the range did not fit in MaxRead
}

func (s *lineRange) feed(chunk []byte) {
	s.seen += int64(len(chunk))
	if len(chunk) > 0 {
		s.openLine = chunk[len(chunk)-1] != '\n'
	}
	for len(chunk) > 0 {
		if s.past() {
			s.line += int64(bytes.Count(chunk, []byte{'\n'}))
			return
		}
		end := bytes.IndexByte(chunk, '\n') + 1
		whole := end > 0
		if !whole {
			end = len(chunk)
		}
		if s.line >= s.from {
			s.take(chunk[:end])
		}
		if whole {
			s.line++
		}
		chunk = chunk[end:]
	}
}

// past tells whether nothing that follows is wanted.
func (s *lineRange) past() bool { return s.cut || (s.to >= 0 && s.line > s.to) }

func (s *lineRange) take(part []byte) {
	if room := MaxRead - len(s.out); len(part) > room {
		part, s.cut = part[:room], true
	}
	s.out = append(s.out, part...)
}

// total is how many lines the file has; a last one need not be ended.
func (s *lineRange) total() int64 {
	if s.openLine {
		return s.line
	}
	return s.line - 1
}

// finish is the content and the last line it holds. What did not fit is cut after a whole
// line, or, if not even one fitted, inside it after a whole character.
func (s *lineRange) finish() ([]byte, int64) {
	if s.cut {
		if end := bytes.LastIndexByte(s.out, '\n') + 1; end > 0 {
			s.out = s.out[:end]
		} else if last := lastStart(s.out); last >= 0 && !utf8.FullRune(s.out[last:]) {
			s.out = s.out[:last]
		}
	}
	lines := int64(bytes.Count(s.out, []byte{'\n'}))
	if n := len(s.out); n > 0 && s.out[n-1] != '\n' {
		lines++
	}
	return s.out, s.from + lines - 1
}
