package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const header = "part,citation,number_and_cycle,celebration,lectionary_number,cycle\n"

func compareWith(t *testing.T, rows string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.csv")
	if err := os.WriteFile(file, []byte(header+rows), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := run(file, "", &out)
	return out.String(), err
}

// TestLectionaryTool: what agrees, what was decided, what differs and what cannot be read are each told,
// and marks that the file does not bear fail.
func TestLectionaryTool(t *testing.T) {
	out, err := compareWith(t, `OT,Isa 2:1-5,1-A,First Sunday of Advent,1,A
PS,"Ps 122:1-2, 3-4ab, 4cd-5, 6-7, 8-9",1-A,x,1,A
G,Matt 24:37-43,1-A,x,1,A
OT,"Sir 15:16-21",76-A,x,76,A
OT,"Exod 20:1-17 or 20:1-3, 7-8, 12-17",29-B,x,29,B
PS,"Luke 1:46-47, 48-49, 50+53, 54-55",1,x,376,1
OT,nothing,1-A,x,1,A
NT,Rom 1:1,x,A Common,800,1+2
`)
	for _, want := range []string{"their rows 8, of which unreadable 1", "first reading        agree    3  same after a decision  1", "responsorial psalm   agree    2", "gospel               agree    0  same after a decision  0  differ   1",
		"1A gospel: Mt 24:37-44; they: Mt 24:37-43", "OT | nothing | 1-A", "001 A G Mt 24:37-43 (x)", "votive Masses): 1 citations"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%.3000s", want, out)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "marks of confirmation are wrong") {
		t.Errorf("marks that nothing bears are taken: %v", err)
	}
	if _, err := compareWith(t, "a,b\n"); err == nil {
		t.Error("a file of other columns is read")
	}
}

// TestMarks: the marks are set anew, and nothing else of the line changes.
func TestMarks(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "c.csv")
	table := "# head\n1A | Is 2:1-5 | Ps 122:1-2* | Rom 13:11-14~ | Mt 24:37-44 or Mt 1:1*\n"
	for name, text := range map[string]string{filepath.Join(dir, "sundays.txt"): table, file: header + "OT,Isa 2:1-5,1-A,x,1,A\nG,Matt 24:37-44,1-A,x,1,A\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(file, dir, &strings.Builder{}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "sundays.txt"))
	if want := "# head\n1A | Is 2:1-5* | Ps 122:1-2 | Rom 13:11-14~ | Mt 24:37-44* or Mt 1:1\n"; err != nil || string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}
