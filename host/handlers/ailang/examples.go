package ailang

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of the examples, which are read once and kept in memory.
const (
	MaxExampleFiles = 2000
	MaxExampleBytes = 16 << 20 // of all together
	MaxExampleNames = 20_000   // names looked at
	// MaxExampleText is how many bytes of one example an answer holds.
	MaxExampleText = 16 << 10
)

// example is one source, as it was when the daemon started.
type example struct {
	path, text string
	low        string // both in small letters, to be searched
}

// examples are all of a folder, in byte order of their paths.
type examples struct {
	all []example
	ref world.Ref // of their paths and hashes
}

// loadExamples reads the .ail files of a folder. Links are not followed, what is no text is
// passed over; too much of either is an error.
func loadExamples(dir string) (*examples, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, bare(err)
	}
	defer root.Close()
	e := &examples{}
	names, size := 0, 0
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", p, bare(err))
		}
		if names++; names > MaxExampleNames {
			return fmt.Errorf("more than %d names", MaxExampleNames)
		}
		if !d.Type().IsRegular() || path.Ext(p) != ".ail" {
			return nil
		}
		text, err := readExample(root, p, MaxExampleBytes-size)
		if err != nil {
			return err
		}
		if size += len(text); len(e.all) == MaxExampleFiles {
			return fmt.Errorf("more than %d sources", MaxExampleFiles)
		}
		if utf8.ValidString(p) && utf8.Valid(text) {
			e.all = append(e.all, example{path: p, text: string(text), low: strings.ToLower(p + "\n" + string(text))})
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(e.all) == 0:
		return nil, errors.New("it holds no .ail file")
	}
	slices.SortFunc(e.all, func(a, b example) int { return strings.Compare(a.path, b.path) })
	type file struct {
		Path string `json:"path"`
		Hash string `json:"hash"`
	}
	var list []file
	for _, x := range e.all {
		list = append(list, file{x.path, hashref.SumString(x.text).String()})
	}
	e.ref = hashref.Sum(hashref.MustMarshal(list))
	return e, nil
}

func readExample(root *os.Root, p string, most int) ([]byte, error) {
	f, err := root.OpenFile(p, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, bare(err))
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s changed while it was opened", p)
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("more than %d bytes", MaxExampleBytes)
	}
	return text, err
}

// bare is the reason of an I/O error without the path.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// shown is an example as an answer holds it.
type shown struct {
	Path      string `json:"path"`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated"`
}

// examples gives the examples that hold all words: first those whose path does, then in
// byte order.
func (a *searchArgs) examples(_ context.Context, c *call) ([]byte, error) {
	words, err := a.words()
	switch {
	case err != nil:
		return nil, err
	case a.Limit > MaxExamples:
		return nil, refuse("limit is %d; at most %d", a.Limit, MaxExamples)
	case c.h.examples == nil:
		return nil, refuse("this daemon has no examples: its operator names a folder of them with --examples-dir")
	}
	limit := a.Limit
	if limit == 0 {
		limit = dflExamples
	}
	var named, others []example
	for _, x := range c.h.examples.all {
		switch {
		case holds(strings.ToLower(x.path), words):
			named = append(named, x)
		case holds(x.low, words):
			others = append(others, x)
		}
	}
	found := append(named, others...)
	list := []shown{}
	for _, x := range found[:min(limit, len(found))] {
		s := shown{Path: x.path, Text: x.text}
		if len(s.Text) > MaxExampleText {
			s.Text, s.Truncated = strings.ToValidUTF8(s.Text[:MaxExampleText], ""), true
		}
		list = append(list, s)
	}
	return hashref.Marshal(struct {
		OK        bool    `json:"ok"`
		Examples  []shown `json:"examples"`
		Total     int     `json:"total"`
		Truncated bool    `json:"truncated"`
		stamp
	}{true, list, len(found), len(found) > limit, c.stamp})
}
