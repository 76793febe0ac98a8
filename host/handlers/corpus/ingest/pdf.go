package ingest

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/klippa-app/go-pdfium"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"ailang.dev/world/host/handlers/corpus"
)

// pdfReader reads PDFs with PDFium, which runs as WebAssembly: it has bounded memory, no
// files, no network, and is stopped after PDFTimeout, whatever a PDF makes of it. It is
// compiled at the first PDF, and made anew after one that had to be stopped. It is for one
// goroutine.
type pdfReader struct {
	cache  wazero.CompilationCache
	pool   pdfium.Pool
	cancel context.CancelFunc
}

func (r *pdfReader) open() error {
	if r.pool != nil {
		return nil
	}
	if r.cache == nil {
		r.cache = wazero.NewCompilationCache()
	}
	ctx, cancel := context.WithCancel(context.Background())
	pool, err := webassembly.Init(webassembly.Config{
		Context: ctx, MaxIdle: 1, MaxTotal: 1, Stdout: io.Discard, Stderr: io.Discard,
		FSConfig: wazero.NewFSConfig(), // without any folder
		RuntimeConfig: wazero.NewRuntimeConfig().WithMemoryLimitPages(pdfMemory).WithCloseOnContextDone(true).WithCompilationCache(r.cache).
			WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling),
	})
	if err != nil {
		cancel()
		return err
	}
	r.pool, r.cancel = pool, cancel
	return nil
}

// close gives up everything.
func (r *pdfReader) close() {
	r.stop()
	if r.cache != nil {
		_ = r.cache.Close(context.Background()) // in memory
		r.cache = nil
	}
}

// stop ends what runs; the next PDF begins anew.
func (r *pdfReader) stop() {
	if r.pool == nil {
		return
	}
	pool, cancel := r.pool, r.cancel
	r.pool = nil
	cancel()
	func() {
		defer func() { _ = recover() }() // what was stopped may not close in order
		_ = pool.Close()
	}()
}

// decode reads a PDF's text, each page a section.
// Pages that cannot be read are told to bad, and left out.
func (r *pdfReader) decode(ctx context.Context, src []byte, limit time.Duration, bad func(error)) (d *corpus.Document, err error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	unwatch := context.AfterFunc(ctx, r.cancel)
	defer func() {
		v := recover()
		unwatch()
		switch {
		case ctx.Err() != nil:
			r.stop()
			d, err = nil, reason("reading it took longer than %v", limit)
		case v != nil:
			r.stop()
			d, err = nil, reason("it is a broken PDF, or needs more memory than there is for one")
		}
	}()
	in, err := r.pool.GetInstanceWithContext(ctx)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return readPDF(in, src, bad)
}

func readPDF(in pdfium.Pdfium, src []byte, bad func(error)) (*corpus.Document, error) {
	open, err := in.OpenDocument(&requests.OpenDocument{File: &src})
	switch {
	case errors.Is(err, pdferrors.ErrPassword), errors.Is(err, pdferrors.ErrSecurity):
		return nil, reason("it is encrypted: a password is needed to read it")
	case err != nil:
		return nil, reason("it is a broken PDF: %.120v", err)
	}
	n, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: open.Document})
	if err != nil {
		return nil, reason("it is a broken PDF: %.120v", err)
	}
	if n.PageCount > MaxPages {
		return nil, reason("it has %d pages; at most %d are read", n.PageCount, MaxPages)
	}
	d := &corpus.Document{Media: mediaPDF}
	pdfInfo(in, open.Document, d)
	size, broken := 0, 0
	for i := range n.PageCount {
		t, err := in.GetPageText(&requests.GetPageText{Page: requests.Page{ByIndex: &requests.PageByIndex{Document: open.Document, Index: i}}})
		if err != nil {
			broken++
			continue
		}
		if size += len(t.Text); size > corpus.MaxDocument {
			return nil, reason("its text is larger than %d MB; split it", corpus.MaxDocument>>20)
		}
		if text := pageText(t.Text); text != "" {
			d.Sections = append(d.Sections, corpus.Section{Section: "p" + itoa(i+1), Heading: "Page " + itoa(i+1), Text: text})
		}
	}
	if broken > 0 && broken == n.PageCount {
		return nil, reason("it is a broken PDF: none of its %d pages can be read", broken)
	}
	if broken > 0 {
		bad(reason("%d of its %d pages cannot be read, and are left out", broken, n.PageCount))
	}
	if len(d.Sections) == 0 {
		return nil, reason("it holds no text: its %d pages are pictures, perhaps scans", n.PageCount)
	}
	return d, nil
}

// pdfInfo takes over what a PDF says of itself.
func pdfInfo(in pdfium.Pdfium, doc references.FPDF_DOCUMENT, d *corpus.Document) {
	m, err := in.GetMetaData(&requests.GetMetaData{Document: doc})
	if err != nil {
		return
	}
	for _, t := range m.Tags {
		switch t.Tag {
		case "Title":
			d.Title = t.Value
		case "Author":
			d.Author = t.Value
		case "CreationDate": // D:20250208122313Z
			if v := strings.TrimPrefix(t.Value, "D:"); len(v) >= 8 {
				d.Date = v[:4] + "-" + v[4:6] + "-" + v[6:8]
			}
		}
	}
}

// pageText makes paragraphs of a page's lines: a word that was parted at the end of a line is
// made whole, and a line that ends a sentence well before the margin ends a paragraph.
func pageText(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\x02\n", "")
	s = strings.ReplaceAll(s, "\x02", "")
	lines := strings.Split(s, "\n")
	width := 0
	for _, l := range lines {
		width = max(width, len(l))
	}
	var b strings.Builder
	for i, l := range lines {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		b.WriteString(l)
		if i < len(lines)-1 {
			b.WriteByte('\n')
			if len(l) < width*3/4 && strings.ContainsAny(l[len(l)-1:], ".?!:") {
				b.WriteByte('\n')
			}
		}
	}
	return corpus.Clean(b.String())
}
