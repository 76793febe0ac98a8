package ingest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"ailang.dev/world/host/handlers/corpus"
)

func itoa(n int) string { return strconv.Itoa(n) }

// frontMatter parts a text from the YAML before it, if there is any.
func frontMatter(text []byte) (front, body []byte, err error) {
	first, rest, ok := bytes.Cut(text, []byte("\n"))
	if !ok || strings.TrimRight(string(first), " \r") != "---" {
		return nil, text, nil
	}
	for at := 0; at < len(rest) && at <= maxFront; {
		end := bytes.IndexByte(rest[at:], '\n')
		line := rest[at:]
		next := len(rest)
		if end >= 0 {
			line, next = rest[at:at+end], at+end+1
		}
		if l := strings.TrimRight(string(line), " \r"); l == "---" || l == "..." {
			return rest[:at], rest[next:], nil
		}
		at = next
	}
	return nil, text, nil // a rule at the top, and no front matter
}

// applyFront takes over what front matter says of a document. Other keys are not looked at.
func applyFront(d *corpus.Document, front []byte) error {
	if len(front) == 0 {
		return nil
	}
	for _, t := range lexer.Tokenize(string(front)) {
		if t.Type == token.AnchorType || t.Type == token.AliasType { // a few lines of them make gigabytes
			return reason("its front matter has anchors or aliases, which are not read")
		}
	}
	var m map[string]any
	if err := yaml.Unmarshal(front, &m); err != nil {
		msg, _, _ := strings.Cut(err.Error(), "\n")
		return reason("its front matter is no YAML: %.120s", msg)
	}
	applyFields(d, m)
	return nil
}

// applyFields takes over the fields of a document that have names; empty ones are not there.
func applyFields(d *corpus.Document, m map[string]any) {
	for name, into := range map[string]*string{"title": &d.Title, "author": &d.Author, "date": &d.Date, "kind": &d.Kind, "link": &d.Link} {
		if v := fieldText(m[name]); v != "" {
			*into = v
		}
	}
}

func fieldText(v any) string {
	switch v := v.(type) {
	case nil, map[string]any:
		return ""
	case string:
		return strings.TrimSpace(v)
	case time.Time:
		return v.Format("2006-01-02")
	case []any:
		var all []string
		for _, e := range v {
			if s := fieldText(e); s != "" {
				all = append(all, s)
			}
		}
		return strings.Join(all, ", ")
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
