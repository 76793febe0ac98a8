package ingest

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"

	"ailang.dev/world/host/handlers/corpus"
)

// byEnding are the files that are taken out of a folder.
var byEnding = map[string]string{
	".md": mediaMarkdown, ".markdown": mediaMarkdown, ".html": mediaHTML, ".htm": mediaHTML, ".xhtml": mediaHTML, ".txt": mediaText, ".text": mediaText,
	".jsonl": mediaLines, ".ndjson": mediaLines, ".pdf": mediaPDF,
}

// mediaOf tells what a file is by its content, and by its name only where content leaves it
// open. A file that is not what its name says is told so.
func mediaOf(path string, src []byte) (string, error) {
	named := byEnding[strings.ToLower(filepath.Ext(path))]
	head := src[:min(len(src), 1024)]
	if bytes.Contains(head, []byte("%PDF-")) {
		return mediaPDF, nil
	}
	if named == mediaPDF {
		return "", reason("it is named like a PDF and is none: %s", sniffed(src))
	}
	if bytes.IndexByte(src, 0) >= 0 {
		return "", reason("it is binary: %s", sniffed(src))
	}
	if kind := http.DetectContentType(src); !strings.HasPrefix(kind, "text/") && kind != "application/octet-stream" {
		return "", reason("it is %s, whatever its name says", kind)
	}
	start := strings.ToLower(string(bytes.TrimSpace(head)[:min(len(bytes.TrimSpace(head)), 15)]))
	switch {
	case strings.HasPrefix(start, "<!doctype html"), strings.HasPrefix(start, "<html"):
		return mediaHTML, nil
	case named == mediaHTML && !bytes.ContainsRune(src, '<'):
		return mediaText, nil
	case named != "":
		return named, nil
	}
	return mediaText, nil
}

func sniffed(src []byte) string { return http.DetectContentType(src) }

// utf8Of gives a text in UTF-8: as it is, or out of UTF-16 with a mark of its byte order.
func utf8Of(src []byte) ([]byte, error) {
	if bytes.HasPrefix(src, []byte{0xff, 0xfe}) || bytes.HasPrefix(src, []byte{0xfe, 0xff}) {
		out, err := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(src)
		if err != nil {
			return nil, reason("it is not valid UTF-16")
		}
		return out, nil
	}
	return bytes.TrimPrefix(src, []byte("\ufeff")), nil
}

func checkUTF8(src []byte) error {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return reason("it is not valid UTF-8 (byte %d); convert it, for example with iconv -f latin1 -t utf-8", i)
		}
		i += n
	}
	return nil
}

// decoder makes documents of files. It is for one goroutine.
type decoder struct{ pdf pdfReader }

// decode makes the documents of one file. bad is told of parts of it that are left out, with
// what names them behind the file's name.
func (d *decoder) decode(ctx context.Context, path string, src []byte, bad func(part string, err error)) (all []made, err error) {
	defer func() {
		if recover() != nil { // a library's fault: one file keeps nothing else out
			all, err = nil, reason("it cannot be read: what reads its kind fails on it")
		}
	}()
	if len(bytes.TrimSpace(src)) == 0 {
		return nil, reason("it is empty")
	}
	text, err := utf8Of(src)
	if err != nil {
		return nil, err
	}
	media, err := mediaOf(path, text)
	if err != nil {
		return nil, err
	}
	if media != mediaPDF {
		if err := checkUTF8(text); err != nil {
			return nil, err
		}
	}
	var doc *corpus.Document
	switch media {
	case mediaPDF:
		doc, err = d.pdf.decode(ctx, src, PDFTimeout, func(err error) { bad("", err) })
	case mediaHTML:
		doc, err = decodeHTML(text)
	case mediaMarkdown:
		doc, err = decodeMarkdown(text)
	case mediaLines:
		return decodeLines(text, func(line int, err error) { bad(":"+itoa(line), err) }), nil
	default:
		doc, err = decodeText(text)
	}
	if err != nil {
		return nil, err
	}
	return []made{{doc: doc}}, nil
}

// hasText tells whether a document says anything.
func hasText(d *corpus.Document) bool {
	for _, s := range d.Sections {
		if s.Text != "" {
			return true
		}
	}
	return false
}
