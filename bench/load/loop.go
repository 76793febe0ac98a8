package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// traffic is what is sent, and where to.
type traffic struct {
	url             string
	client          *http.Client
	mix             []kind
	weights         int
	sessions, users []http.Header
	objects         []string     // that can be read
	known           atomic.Int64 // entries that the log has at least
	number          atomic.Uint64
	ledger          ledger
}

func newTraffic(mix []kind, base uint64, most int) *traffic {
	t := &traffic{mix: mix, client: &http.Client{
		// Its time is bounded call by call.
		Transport: &http.Transport{MaxIdleConns: most, MaxIdleConnsPerHost: most, DisableCompression: true},
	}}
	for _, k := range mix {
		t.weights += k.weight
	}
	t.number.Store(base)
	return t
}

// one sends the next request of the mix.
func (t *traffic) one(ctx context.Context, rec *recorder, due time.Time) {
	n := t.number.Add(1)
	k := t.pick(n)
	sent := time.Now()
	o := t.send(ctx, &t.mix[k], n)
	if t.mix[k].entry {
		t.ledger.add(o)
	}
	rec.add(k, due, sent, o)
}

// closed lets callers call one after the other until the time is over.
func (t *traffic) closed(ctx context.Context, rec *recorder, callers int, d time.Duration) {
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				due := time.Now()
				if !due.Before(end) {
					return
				}
				t.one(ctx, rec, due)
			}
		})
	}
	wg.Wait()
}

// maxBacklog bounds the calls that are due and wait here for one in flight to end.
const maxBacklog = 1 << 18

// flow is an open loop that is or was running.
type flow struct {
	due    int64 // calls that came due
	unsent int64 // and were not sent before the end
	done   sync.WaitGroup
}

// open sends calls that are due at times of a Poisson process, whatever became of those
// before, until the time is over; at most so many are in flight. Those in flight then are
// waited for by the answer's wait.
func (t *traffic) open(ctx context.Context, rec *recorder, rate float64, most int, d time.Duration) *flow {
	f := &flow{}
	queue := make(chan time.Time, maxBacklog)
	var over atomic.Bool
	var unsent atomic.Int64
	for range most {
		f.done.Go(func() {
			for due := range queue {
				if over.Load() || ctx.Err() != nil {
					unsent.Add(1)
					continue
				}
				t.one(ctx, rec, due)
			}
		})
	}
	begun := time.Now()
	for at := begun; ; {
		at = at.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		if at.Sub(begun) >= d || !sleepUntil(ctx, at) {
			break
		}
		f.due++
		select {
		case queue <- at:
		default:
			unsent.Add(1)
		}
	}
	if ctx.Err() == nil {
		sleepUntil(ctx, begun.Add(d))
	}
	over.Store(true)
	close(queue)
	// What still lies in the queue is counted here, and not when its worker comes to it.
	for range queue {
		unsent.Add(1)
	}
	f.unsent = unsent.Load()
	return f
}

func (f *flow) wait() { f.done.Wait() }

// sleepUntil waits for a time, unless ctx ends before.
func sleepUntil(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
