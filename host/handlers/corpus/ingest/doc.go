// Package ingest makes documents out of an operator's files and puts them into a corpus:
// Markdown, HTML, text, JSON Lines, PDF. It owns which files are taken, what of each format
// is text, title and section, and that one file that is broken keeps no other out. It never
// runs what a file holds, follows no link, and believes no file's name about its content.
// Answers spec/21-corpus.md.
package ingest

import (
	"fmt"
	"time"

	"ailang.dev/world/host/handlers/corpus"
)

// Bounds of what is read.
const (
	MaxFile    = 64 << 20        // bytes of one file
	MaxFiles   = 200_000         // files of one add
	MaxDepth   = 64              // folders within one another
	MaxLine    = 8 << 20         // bytes of a line of JSON Lines
	maxLineID  = 256             // bytes of the id of one
	maxFront   = 16 << 10        // bytes of front matter
	maxNesting = 400             // elements of HTML within one another
	PDFTimeout = 3 * time.Minute // for one; three thousand pages take half of one
	MaxPages   = 10_000          // of one PDF
	pdfMemory  = 4 << 10         // pages of 64 KiB that a PDF may take
)

// Media of what is read.
const (
	mediaMarkdown = "text/markdown"
	mediaHTML     = "text/html"
	mediaText     = "text/plain"
	mediaLines    = "application/jsonl"
	mediaPDF      = "application/pdf"
)

// reasonError is why a file is not taken, for people.
type reasonError string

func (e reasonError) Error() string { return string(e) }

func reason(format string, args ...any) error { return reasonError(fmt.Sprintf(format, args...)) }

// made is a document on its way, with what it was made of.
type made struct {
	name     string // what its id is made of; "" is the file's
	fragment string // of the origin, for files that hold several
	original []byte // the bytes it was made of; nil is the file's
	doc      *corpus.Document
}
