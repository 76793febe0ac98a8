package corpus

import (
	"bufio"
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
// an index that is lost or damaged can be made anew out of it and the documents' objects.
// A line that is torn is none.

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
}

func listPath(dir, name string) string { return filepath.Join(dir, name+".list") }

// readList is what is there by a list, in order of adding.
func readList(dir, name string) ([]listed, error) {
	f, err := os.Open(listPath(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []listed
	place := map[string]int{}
	r := bufio.NewReaderSize(f, maxListLine)
	for {
		text, err := r.ReadSlice('\n')
		var l listed
		if err == nil && hashref.Decode(text, &l) == nil {
			if i, ok := place[l.Origin]; ok {
				all[i].Gone = true
			}
			if !l.Gone {
				place[l.Origin] = len(all)
				all = append(all, l)
			} else {
				delete(place, l.Origin)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
	kept := all[:0]
	for _, l := range all {
		if !l.Gone {
			kept = append(kept, l)
		}
	}
	return kept, nil
}

// appendList adds lines and sees them on the disk.
func appendList(dir, name string, lines []listed) error {
	if len(lines) == 0 {
		return nil
	}
	f, err := os.OpenFile(listPath(dir, name), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	var b strings.Builder
	if st, err := f.Stat(); err == nil && st.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, st.Size()-1); err == nil && last[0] != '\n' {
			b.WriteByte('\n') // after a line that was torn
		}
	}
	for _, l := range lines {
		text, err := hashref.Marshal(l)
		if err != nil || len(text)+1 > maxListLine {
			f.Close()
			return world.Errorf(world.KindTooLarge, "corpus.appendList", "the path %.80s… is too long", l.Origin)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	if _, err := f.WriteString(b.String()); err != nil {
		f.Close()
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
