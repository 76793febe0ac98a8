package provenance

import (
	"context"
	"path"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// effectWrite is the effect whose payloads change files.
const effectWrite = "Workspace.Write"

// MaxBlamed is how large a file may be whose lines are told apart.
const MaxBlamed = 1 << 20

// Write is one change of a file that was done.
type Write struct {
	Index   int64  `json:"index"`
	Call    string `json:"call"`
	Tool    string `json:"tool"`
	Record  string `json:"record"` // of the effect
	Op      string `json:"op"`     // write or edit
	Bytes   int64  `json:"bytes"`  // of the file after it
	Content string `json:"-"`      // of a write
	Old     string `json:"-"`      // of an edit
	New     string `json:"-"`
}

// writePayload is what is read of a Workspace.Write payload.
type writePayload struct {
	Op      string `json:"op"`
	Path    string `json:"path"`
	Content string `json:"content"`
	Old     string `json:"old_text"`
	New     string `json:"new_text"`
}

// Writes finds the changes of a file of an episode's worktree that were done, newest first,
// at most limit; complete says that there are no earlier ones. It reads the entries of the
// episode alone.
func Writes(ctx context.Context, s Episodes, episode, file string, limit int) (all []Write, complete bool, err error) {
	file, complete = path.Clean(file), true
	err = eachOf(ctx, s, episode, true, func(e *world.Entry) (enough bool, err error) {
		found, err := writesOf(ctx, s, e, episode, file)
		for i := len(found) - 1; i >= 0 && complete; i-- {
			all = append(all, found[i])
			complete = len(all) < limit
		}
		return !complete, err
	})
	return all, complete, err
}

// writesOf is an entry's changes of a file, in their order. What cannot be read is passed
// over: verify tells of it.
func writesOf(ctx context.Context, r Reader, e *world.Entry, episode, file string) (found []Write, err error) {
	if !coordinated(e) {
		return nil, nil
	}
	var rec record
	if ok, err := read(ctx, r, e.TransitionRef, &rec); !ok || err != nil || rec.EpisodeID != episode {
		return nil, err
	}
	for _, rr := range rec.rounds() {
		for _, ref := range rr.Effects {
			var er effectRecord
			if ok, err := read(ctx, r, ref, &er); err != nil {
				return nil, err
			} else if !ok || er.Effect != effectWrite || er.status() != "ok" {
				continue
			}
			w, err := writeOf(ctx, r, &er, file)
			if err != nil {
				return nil, err
			}
			if w != nil {
				w.Index, w.Call, w.Tool, w.Record = e.Header.EntryIndex, string(rec.InvocationID), rec.SkillID, ref.String()
				found = append(found, *w)
			}
		}
	}
	return found, nil
}

// writeOf is a change that an effect did to a file; nil if it did none to it.
func writeOf(ctx context.Context, r Reader, er *effectRecord, file string) (*Write, error) {
	var req effectRequest
	if ok, err := read(ctx, r, er.RequestRef, &req); !ok || err != nil {
		return nil, err
	}
	var p writePayload
	if hashref.DecodeKnown(req.Payload, &p) != nil || path.Clean(p.Path) != file {
		return nil, nil
	}
	var answer struct {
		OK    bool  `json:"ok"`
		Bytes int64 `json:"bytes"`
	}
	if ok, err := read(ctx, r, er.ResultRef, &answer); !ok || err != nil || !answer.OK {
		return nil, err
	}
	return &Write{Op: p.Op, Bytes: answer.Bytes, Content: p.Content, Old: p.Old, New: p.New}, nil
}

// read decodes an object; ok is false for one that is not there, does not prove itself or
// cannot be decoded.
func read(ctx context.Context, r Reader, ref world.Ref, v any) (ok bool, err error) {
	o, err := r.Object(ctx, ref)
	if err != nil {
		if k := world.KindOf(err); k == world.KindNotFound || k == world.KindIntegrity {
			return false, nil
		}
		return false, err
	}
	return hashref.DecodeKnown(o.Payload, v) == nil, nil
}

// Line is a line of a file, its end included, with the index of the entry that wrote it, or 0
// if no call did.
type Line struct {
	Index int64  `json:"index"`
	Text  string `json:"text"`
}

// Left says what is known of a file beside its changes.
type Left string

const (
	// LeftSame: it is what the last of its changes left, to the byte.
	LeftSame Left = "same"
	// LeftAlike: it has the changes and the size that the last of them left. What it held
	// beside them is in no call, so that nobody can tell whether that is as it was.
	LeftAlike Left = "alike"
	// LeftOther: it is something else.
	LeftOther Left = "other"
)

// Blame tells the lines of a file apart by the entries that wrote them. writes is all of its
// changes, newest first, as Writes gives them. What was changed beside them, by a command, a
// commit or a person, is nobody's.
func Blame(writes []Write, now []byte) (lines []Line, left Left) {
	before, after := takenBack(writes, string(now))
	text, known := before[len(writes)], false
	if n := len(writes); n > 0 && writes[n-1].Op == "write" {
		text = ""
	}
	for _, l := range split(text) {
		lines = append(lines, Line{0, l})
	}
	for i := len(writes) - 1; i >= 0; i-- {
		w := &writes[i]
		next := w.Content
		if w.Op == "edit" {
			next = strings.Replace(text, w.Old, w.New, 1)
		}
		switch {
		case w.Op != "edit":
			known = true
		case strings.Count(text, w.Old) == 1 && int64(len(next)) == w.Bytes:
		case after[i]:
			// It met another text than the changes before it had left. What that was is seen
			// from what came of it.
			lines = attribute(lines, before[i+1], 0)
			next, known = before[i], false
		default:
			known = false
		}
		lines, text = attribute(lines, next, w.Index), next
		known = known && int64(len(text)) == w.Bytes
	}
	switch {
	case string(now) != text:
		return attribute(lines, string(now), 0), LeftOther
	case len(writes) == 0 || writes[0].Bytes != int64(len(now)):
		return lines, LeftOther
	case known:
		return lines, LeftSame
	}
	return lines, LeftAlike
}

// takenBack is what the file was after each of its changes, at the change's place, and before
// them all, at the last: each taken back from what it is now, as far as that goes. after says
// of which changes it does.
func takenBack(writes []Write, now string) (texts []string, after []bool) {
	texts, after = make([]string, len(writes)+1), make([]bool, len(writes))
	goes := true
	for i := range writes {
		w := &writes[i]
		texts[i] = now
		after[i] = goes && w.Op == "edit" && w.New != "" && strings.Count(now, w.New) == 1
		switch {
		case w.Op != "edit":
			goes, now = false, "" // what was before it is gone
		case w.New != "" && strings.Count(now, w.New) == 1:
			now = strings.Replace(now, w.New, w.Old, 1)
		default:
			goes = false
		}
	}
	texts[len(writes)] = now
	return texts, after
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	list := strings.SplitAfter(text, "\n")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}

// attribute carries the lines that stay over, and gives an index to those that are new.
func attribute(lines []Line, text string, index int64) []Line {
	var was strings.Builder
	for _, l := range lines {
		was.WriteString(l.Text)
	}
	var out []Line
	at, i := 0, 0 // the byte and the line of what was that come next
	keep := func(to int) {
		for ; at < to; i++ {
			out, at = append(out, lines[i]), at+len(lines[i].Text)
		}
	}
	for _, e := range udiff.Lines(was.String(), text) {
		keep(e.Start)
		for ; at < e.End; i++ {
			at += len(lines[i].Text)
		}
		for _, l := range split(e.New) {
			out = append(out, Line{index, l})
		}
	}
	keep(was.Len())
	return out
}
