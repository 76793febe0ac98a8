package provenance

import (
	"fmt"
	"strings"
	"testing"
)

func shown(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%d:%s|", l.Index, strings.TrimSuffix(l.Text, "\n"))
	}
	return b.String()
}

func TestBlame(t *testing.T) {
	write := func(i int64, content string) Write {
		return Write{Index: i, Op: "write", Content: content, Bytes: int64(len(content))}
	}
	edit := func(i int64, old, now string, bytes int) Write {
		return Write{Index: i, Op: "edit", Old: old, New: now, Bytes: int64(bytes)}
	}
	for name, c := range map[string]struct {
		writes []Write // newest first
		now    string
		want   string
		left   Left
	}{
		"nobody":              {nil, "a\nb\n", "0:a|0:b|", LeftOther},
		"written whole":       {[]Write{write(3, "a\nb\n")}, "a\nb\n", "3:a|3:b|", LeftSame},
		"written, edited":     {[]Write{edit(5, "b", "B", 4), write(3, "a\nb\n")}, "a\nB\n", "3:a|5:B|", LeftSame},
		"edited alone":        {[]Write{edit(5, "b", "B\nB2", 8)}, "a\nB\nB2\nc", "0:a|5:B|5:B2|0:c|", LeftAlike},
		"two edits":           {[]Write{edit(7, "a", "A", 4), edit(5, "b", "B", 4)}, "A\nB\n", "7:A|5:B|", LeftAlike},
		"an edit of an edit":  {[]Write{edit(7, "B", "C", 4), edit(5, "b", "B", 4)}, "a\nC\n", "0:a|7:C|", LeftAlike},
		"lines taken away":    {[]Write{edit(7, "b\n", "", 4), write(3, "a\nb\nc\n")}, "a\nc\n", "3:a|3:c|", LeftSame},
		"changed since":       {[]Write{write(3, "a\nb\n")}, "a\nx\nb\n", "3:a|0:x|3:b|", LeftOther},
		"other size":          {[]Write{edit(5, "b", "B", 4)}, "a\nB\nx\n", "0:a|5:B|0:x|", LeftOther},
		"emptied":             {[]Write{write(3, "a\n")}, "", "", LeftOther},
		"altered at one size": {[]Write{edit(5, "b", "B", 4)}, "x\nB\n", "0:x|5:B|", LeftAlike},
		"a command between":   {[]Write{edit(9, "x = 2", "x = 3", 6), edit(7, "y", "z", 6), write(3, "x=1\ny\n")}, "x = 3\n", "9:x = 3|", LeftAlike},
		"formatted between":   {[]Write{edit(9, "x = 1", "x = 3", 8), write(3, "x=1\ny\n")}, "x = 3\ny\n", "9:x = 3|3:y|", LeftAlike},
		"no end of line":      {[]Write{edit(4, "a", "b", 1), write(3, "a")}, "b", "4:b|", LeftSame},
		"written over":        {[]Write{write(9, "new\n"), edit(5, "b", "B", 4)}, "new\n", "9:new|", LeftSame},
		"a line kept":         {[]Write{write(9, "a\nnew\n"), write(3, "a\nold\n")}, "a\nnew\n", "3:a|9:new|", LeftSame},
	} {
		lines, left := Blame(c.writes, []byte(c.now))
		if got := shown(lines); got != c.want || left != c.left {
			t.Errorf("%s: %s %v, want %s %v", name, got, left, c.want, c.left)
		}
		text := ""
		for _, l := range lines {
			text += l.Text
		}
		if text != c.now {
			t.Errorf("%s: the lines make %q, the file is %q", name, text, c.now)
		}
	}
}
