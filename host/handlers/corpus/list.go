package corpus

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// The list of a corpus stands beside its index: a text file with a line of JSON for each
// document that was added or removed, in order. It is written before the index is, so that
// an index that is lost or damaged can be made anew out of it and the documents' objects. What
// then could not be written into the index is taken out of the list again.

// maxListLine bounds a line, in bytes.
const maxListLine = 64 << 10

// listed is one line: a document that is there, or, with Gone, is not any more.
type listed struct {
	ID       string    `json:"id"`
	Origin   string    `json:"origin"`
	Path     string    `json:"path"`
	Original world.Ref `json:"original"`
	Options  string    `json:"options"`
	Ref      world.Ref `json:"ref"`
	Gone     bool      `json:"gone,omitzero"`

	indexed bool // the index has it by this id
}

// list is what the lines of a list come to.
type list struct {
	there  []listed        // in order of adding
	gone   map[string]bool // origins that were there
	broken []int           // the numbers of lines that cannot be read
}

func listPath(dir, name string) string { return filepath.Join(dir, name+".list") }

// readList reads a list; one that is not there is empty.
func readList(dir, name string) (l list, err error) {
	l.gone = map[string]bool{}
	f, err := os.Open(listPath(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	defer f.Close()
	place := map[string]int{}
	r := bufio.NewReaderSize(f, maxListLine)
	for n := 1; ; n++ {
		text, err := r.ReadSlice('\n')
		whole := err == nil
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return l, err
		}
		var line listed
		switch {
		case whole && hashref.Decode(text, &line) == nil:
			l.take(line, place)
		case len(text) > 0 && !errors.Is(err, io.EOF): // a last line that is torn is none
			l.broken = append(l.broken, n)
		}
		if err != nil {
			break
		}
	}
	kept := l.there[:0]
	for _, line := range l.there {
		if !line.Gone {
			kept = append(kept, line)
		}
	}
	l.there = kept
	return l, nil
}

// take adds a line to what there is; place is where in it each origin stands.
func (l *list) take(line listed, place map[string]int) {
	if i, ok := place[line.Origin]; ok {
		l.there[i].Gone = true
		delete(place, line.Origin)
	}
	if l.gone[line.Origin] = line.Gone; !line.Gone {
		delete(l.gone, line.Origin)
		place[line.Origin] = len(l.there)
		l.there = append(l.there, line)
	}
}

// appendList adds lines and sees them on the disk. undo takes them out again.
func appendList(dir, name string, lines []listed) (undo func() error, err error) {
	text, err := listText(lines)
	if err != nil {
		return nil, err
	}
	path := listPath(dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := wholeLines(f)
	if err != nil {
		return nil, err
	}
	undo = func() error { return cutFile(path, end) }
	if err = f.Truncate(end); err == nil && end == 0 {
		err = syncDir(dir)
	}
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// cutFile shortens a file, durably.
func cutFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

// wholeLines is where the last whole line of a list ends: what follows it was torn by a kill.
func wholeLines(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	from := max(0, st.Size()-maxListLine)
	tail := make([]byte, st.Size()-from)
	if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return from + int64(bytes.LastIndexByte(tail, '\n')) + 1, nil
}

func listText(lines []listed) (string, error) {
	var b strings.Builder
	for _, l := range lines {
		text, err := hashref.Marshal(l)
		if err != nil || len(text)+1 > maxListLine {
			return "", world.Errorf(world.KindTooLarge, "corpus.appendList", "the path %.80s… is too long", l.Origin)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// tidyList writes the list anew once it holds much that is over. That something was removed
// is kept. A list with a line that cannot be read stays as it is: a rebuild tells of it.
func (w *Writer) tidyList() error {
	st, err := os.Stat(listPath(w.dir, w.name))
	if err != nil {
		return err
	}
	l, err := readList(w.dir, w.name)
	if err != nil || len(l.broken) > 0 {
		return err
	}
	lines := l.there
	for origin := range l.gone {
		lines = append(lines, listed{Origin: origin, Gone: true})
	}
	text, err := listText(lines)
	if err != nil || st.Size() < 2*int64(len(text))+4096 {
		return err
	}
	return replaceFile(listPath(w.dir, w.name), text)
}

// replaceFile puts a file's content in its place, whole or not at all.
func replaceFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".list-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return moveTo(f.Name(), path)
}
