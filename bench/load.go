package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of one call by the load client.
const (
	callTimeout = 30 * time.Second
	maxAnswer   = 4 << 20
	significant = 3 // digits of a percentile
)

// numbers gives every call of a run one of its own, so that no two calls carry the same
// arguments and nothing is answered out of what an earlier call stored.
type numbers struct {
	run  uint64
	next *atomic.Uint64
}

func newNumbers() numbers {
	var seed [4]byte
	rand.Read(seed[:])
	return numbers{run: uint64(binary.BigEndian.Uint32(seed[:])) << 32, next: new(atomic.Uint64)}
}

func (n numbers) take() uint64 { return n.run | n.next.Add(1)&0xffffffff }

// Marks that a text holds for the number of a call, and of the same caller's call before.
const (
	markNow  = "{now-----------}"
	markLast = "{last----------}"
	markLen  = len(markNow)
)

// text is a text whose marks are overwritten in place, call by call.
type text struct {
	bytes     []byte
	now, last []int
}

func newText(s string) *text {
	t := &text{bytes: []byte(s)}
	for i := range s {
		switch {
		case strings.HasPrefix(s[i:], markNow):
			t.now = append(t.now, i)
		case strings.HasPrefix(s[i:], markLast):
			t.last = append(t.last, i)
		}
	}
	return t
}

func (t *text) set(now, last uint64) []byte {
	for _, at := range t.now {
		putHex(t.bytes[at:at+markLen], now)
	}
	for _, at := range t.last {
		putHex(t.bytes[at:at+markLen], last)
	}
	return t.bytes
}

func putHex(dst []byte, n uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
}

// ask is a kind of request, and what its answer must hold.
type ask struct {
	method string
	path   func() string // asked anew for each call
	header http.Header
	body   string
	want   []string
}

// caller sends one request after another.
type caller struct {
	client *http.Client
	url    string
	ask    ask
	nums   numbers
	body   *text
	want   []*text
	last   uint64
	buf    bytes.Buffer
}

func newCaller(client *http.Client, url string, a ask, nums numbers) *caller {
	c := &caller{client: client, url: url, ask: a, nums: nums, body: newText(a.body)}
	for _, w := range a.want {
		c.want = append(c.want, newText(w))
	}
	return c
}

// newClient keeps a connection for each caller.
func newClient() *http.Client {
	return &http.Client{Timeout: callTimeout, Transport: &http.Transport{
		MaxIdleConns: 256, MaxIdleConnsPerHost: 256, DisableCompression: true,
	}}
}

// call sends one request, reads the answer to its end and then judges it; judging is not
// part of the time.
func (c *caller) call(ctx context.Context) (time.Duration, error) {
	n := c.nums.take()
	req, err := http.NewRequestWithContext(ctx, c.ask.method, c.url+c.ask.path(), bytes.NewReader(c.body.set(n, c.last)))
	if err != nil {
		return 0, err
	}
	req.Header = c.ask.header
	begun := time.Now()
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, err
	}
	c.buf.Reset()
	_, err = c.buf.ReadFrom(io.LimitReader(resp.Body, maxAnswer))
	took := time.Since(begun)
	resp.Body.Close()
	if err != nil {
		return 0, err
	}
	if err := c.judge(resp.StatusCode, n); err != nil {
		return 0, err
	}
	c.last = n
	return took, nil
}

func (c *caller) judge(status int, n uint64) error {
	if status != http.StatusOK {
		return fmt.Errorf("status %d: %.300s", status, c.buf.Bytes())
	}
	for _, w := range c.want {
		if want := w.set(n, c.last); !bytes.Contains(c.buf.Bytes(), want) {
			return fmt.Errorf("an answer lacks %s: %.600s", want, c.buf.Bytes())
		}
	}
	return nil
}

// outcome is what a set of callers did in a while.
type outcome struct {
	calls, errors int64
	first         error // the first of the errors
	took          time.Duration
	hist          *hdrhistogram.Histogram // of nanoseconds, answered calls only
}

func newHist() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, 2*callTimeout.Nanoseconds(), significant)
}

func (o *outcome) add(took time.Duration, err error) {
	if err == nil {
		err = o.hist.RecordValue(took.Nanoseconds())
	}
	if err != nil {
		o.errors++
		if o.first == nil {
			o.first = err
		}
		return
	}
	o.calls++
}

func (o *outcome) merge(p outcome) {
	o.calls, o.errors = o.calls+p.calls, o.errors+p.errors
	if o.first == nil {
		o.first = p.first
	}
	o.hist.Merge(p.hist)
}

func (o *outcome) quantile(p float64) float64 { return float64(o.hist.ValueAtQuantile(p)) }
func (o *outcome) rate() float64              { return float64(o.calls) / o.took.Seconds() }

// err is not nil if the figures are worth nothing: not every answer was right, or there
// was none.
func (o *outcome) err(what string) error {
	switch {
	case o.errors > 0:
		return fmt.Errorf("%s: %d of %d calls failed, the first with: %w", what, o.errors, o.calls+o.errors, o.first)
	case o.calls == 0:
		return fmt.Errorf("%s: no call was answered", what)
	}
	return nil
}

// load lets callers call until the time is over, or each has made as many calls as limit
// says; 0 sets no limit. Each makes at least one call.
func load(ctx context.Context, callers []*caller, d time.Duration, limit int64) outcome {
	parts := make([]outcome, len(callers))
	var wg sync.WaitGroup
	begun := time.Now()
	for i, c := range callers {
		wg.Go(func() {
			o := &parts[i]
			o.hist = newHist()
			for {
				o.add(c.call(ctx))
				if time.Since(begun) >= d || o.calls+o.errors == limit || ctx.Err() != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	all := outcome{hist: newHist(), took: time.Since(begun)}
	for _, p := range parts {
		all.merge(p)
	}
	return all
}
