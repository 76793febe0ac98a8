package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// report is all that a run measured.
type report struct {
	Machine facts   `json:"machine"`
	Short   bool    `json:"short,omitempty"`
	Rounds  int     `json:"rounds"`
	Slice   string  `json:"slice"`
	Tables  []table `json:"tables"`
}

// table is one comparison: ratios in the first columns.
type table struct {
	Title string   `json:"title"`
	Note  string   `json:"note"`
	Head  []string `json:"head"`
	Rows  []row    `json:"rows"`
}

type row struct {
	Name  string `json:"name"`
	Cells []cell `json:"cells"`
}

// facts of the machine that matter to a reader, and name nobody.
type facts struct {
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Go    string `json:"go"`
	Disk  string `json:"disk"`
}

func machine(folder string) facts {
	return facts{Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Disk: diskType(folder)}
}

func (r *report) markdown() string {
	var b strings.Builder
	if r.Short {
		b.WriteString("**A smoke run: these figures mean nothing.**\n\n")
	}
	fmt.Fprintf(&b, "%d cores (client and servers share them), %s, %s, disk %s. Medians of %d rounds of %s that take turns; in\nparentheses the lowest and the highest round.\n",
		r.Machine.Cores, r.Machine.OS, r.Machine.Go, r.Machine.Disk, r.Rounds, r.Slice)
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", t.Title, t.Note)
		fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)))
		for _, row := range t.Rows {
			fmt.Fprintf(&b, "| %s |", row.Name)
			for _, c := range row.Cells {
				fmt.Fprintf(&b, " %s |", c)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// publish prints the report, and writes the files that are asked for.
func (r *report) publish(out io.Writer, jsonFile, markdownFile string) error {
	text := r.markdown()
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if jsonFile != "" {
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(jsonFile, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	if markdownFile == "" {
		return nil
	}
	old, err := os.ReadFile(markdownFile)
	if err != nil {
		return err
	}
	next, err := between(old, text)
	if err != nil {
		return fmt.Errorf("%s: %w", markdownFile, err)
	}
	return os.WriteFile(markdownFile, next, 0o644)
}

// The markers of a page that figures are written between.
const (
	markBegin = "<!-- bench:begin -->\n"
	markEnd   = "<!-- bench:end -->"
)

func between(page []byte, text string) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(markBegin))
	_, after, ended := bytes.Cut(rest, []byte(markEnd))
	if !ok || !ended {
		return nil, fmt.Errorf("it lacks %s or %s", strings.TrimSpace(markBegin), markEnd)
	}
	return bytes.Join([][]byte{before, []byte(markBegin), []byte("\n" + text + "\n"), []byte(markEnd), after}, nil), nil
}
