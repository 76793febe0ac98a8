package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// loader is one run.
type loader struct {
	opt     options
	exe     string // this program
	log     io.Writer
	start   time.Time
	place   *place
	traffic *traffic
	sum     *summary
}

func (l *loader) logf(format string, args ...any) { fmt.Fprintf(l.log, format+"\n", args...) }

// run puts the daemon under load, part by part, and reckons up.
func (l *loader) run(ctx context.Context) (_ *summary, err error) {
	l.start = time.Now()
	// Numbers of calls differ from those of every other run on the same store.
	l.traffic = newTraffic(l.opt.mix, uint64(rand.Uint32())<<32, max(l.opt.most, l.opt.callers))
	defer func() {
		if p := l.place; p != nil {
			err = errors.Join(err, l.leave(), p.halt())
			if p.dir != "" && !l.opt.keep {
				err = errors.Join(err, os.RemoveAll(p.dir))
			} else if p.dir != "" {
				l.logf("the store stays in %s", p.dir)
			}
		}
	}()
	if err := l.settle(ctx); err != nil {
		return nil, err
	}
	l.traffic.url = l.place.url
	before, err := l.place.ops.Status(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.learn(ctx); err != nil {
		return nil, err
	}
	l.logf("a daemon serves; %d sessions, %d users", len(l.traffic.sessions), len(l.traffic.users))
	l.sum = newSummary(l.opt, l.traffic)
	w := l.watch(ctx)
	perr := l.parts(ctx)
	l.sum.Samples, l.sum.MissedSamples = w.end()
	slices.SortFunc(l.sum.Points, func(a, b point) int { return cmp.Compare(a.At, b.At) })
	if perr != nil {
		return nil, perr
	}
	return l.sum, l.reckon(ctx, before.Entries)
}

// parts runs what was asked for, in order.
func (l *loader) parts(ctx context.Context) error {
	o := l.opt
	warm := l.recorder(o.window)
	l.traffic.closed(ctx, warm, o.callers, o.warm)
	l.keep(part{Name: partWarm, Callers: o.callers}, warm)
	rate := o.rate
	capacity := o.rate / o.share
	if o.has(partCapacity) {
		rec := l.recorder(o.window)
		l.traffic.closed(ctx, rec, o.callers, o.slice)
		p := l.keep(part{Name: partCapacity, Callers: o.callers}, rec)
		capacity = float64(p.Tally.OK) / (p.To - p.From)
		l.sum.Capacity = capacity
		if o.has(partSteady) && ctx.Err() == nil {
			if capacity = l.steady(ctx, capacity); capacity == 0 {
				return errors.New("not even the lowest rate was borne without a refusal")
			}
			l.sum.Steady = capacity
		}
		if rate == 0 {
			rate = capacity * o.share
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var held *part
	if o.has(partHold) {
		rec := l.recorder(o.window)
		stop := l.progress(ctx, rec, o.hold)
		f := l.traffic.open(ctx, rec, rate, o.most, o.hold)
		f.wait()
		stop()
		held = l.keep(part{Name: partHold, Rate: rate, Due: f.due, Unsent: f.unsent}, rec)
	}
	if o.has(partOverload) {
		for _, factor := range o.factors {
			l.overload(ctx, factor, capacity*factor, rate, held)
		}
	}
	return ctx.Err()
}

// Rates of steady, as parts of what a closed loop gets done.
const (
	steadyFrom = 0.5
	steadyStep = 0.05
)

// steady finds how much is borne by a daemon that cannot slow its callers down: the highest of
// fixed rates that rise until one is refused something, or waits here; 0 if that is the first.
func (l *loader) steady(ctx context.Context, closed float64) (borne float64) {
	for share := steadyFrom; share < 1+steadyStep/2; share += steadyStep {
		rec := l.recorder(l.opt.window)
		rate := closed * share
		f := l.traffic.open(ctx, rec, rate, l.opt.most, l.opt.slice)
		f.wait()
		p := l.keep(part{Name: partSteady, Rate: rate, Due: f.due, Unsent: f.unsent}, rec)
		// Of what came due in the last moment some is never sent.
		if t := p.Tally; t.Refused+t.Unknown+t.Wrong > 0 || f.unsent > f.due/100 || ctx.Err() != nil {
			break
		}
		borne = rate
	}
	return borne
}

// fine is the length of a window in which a recovery is looked for.
const fine = 250 * time.Millisecond

// overload sends too much for a while, and goes on at the held rate in the same moment.
func (l *loader) overload(ctx context.Context, factor, much, rate float64, held *part) {
	o := l.opt
	rec := l.recorder(min(time.Second, o.window))
	f := l.traffic.open(ctx, rec, much, o.most, o.overload)
	ended := time.Now()
	after := l.recorder(fine)
	g := l.traffic.open(ctx, after, rate, o.most, o.recovery)
	f.wait()
	g.wait()
	rec.until(ended)
	l.keep(part{Name: fmt.Sprintf("overload ×%g", factor), Rate: much, Due: f.due, Unsent: f.unsent}, rec)
	p := l.keep(part{Name: fmt.Sprintf("after ×%g", factor), Rate: rate, Due: g.due, Unsent: g.unsent}, after)
	usual := int64(0)
	if held != nil {
		usual = held.P99
	}
	ms := recovered(after.points, ended.Sub(l.start), 2*usual)
	p.Recovered = &ms
	if ms >= 0 {
		l.logf("after an overload of ×%g it answered as before within %.0f ms", factor, ms)
	} else {
		l.logf("after an overload of ×%g it did not answer as before within %v", factor, o.recovery)
	}
}

// calm is how many windows in a row must be good for the overload to be over.
const calm = 4

// recovered is how many milliseconds after the end of an overload the first of several
// windows in a row began in which nothing was refused and the 99th percentile was within
// bounds; -1 if there is none. A bound of 0 is none.
func recovered(points []point, ended time.Duration, bound int64) float64 {
	good := 0
	for _, p := range points {
		if p.Refused > 0 || p.Other > 0 || (bound > 0 && p.P99 > bound) {
			good = 0
			continue
		}
		if good++; good == calm {
			first := p.At - calm*fine.Seconds()
			return max(first-ended.Seconds(), 0) * 1000
		}
	}
	return -1
}

func (l *loader) recorder(window time.Duration) *recorder {
	return newRecorder(l.start, window, len(l.traffic.mix))
}

// keep adds a part to the summary.
func (l *loader) keep(p part, rec *recorder) *part {
	l.sum.Points = append(l.sum.Points, rec.end()...)
	p.fill(rec, l.traffic.mix)
	l.sum.Parts = append(l.sum.Parts, &p)
	l.logf("%s", p.line())
	return &p
}

// progressEvery is how often a long part is told of.
const progressEvery = time.Minute

// progress tells of a part as it goes.
func (l *loader) progress(ctx context.Context, rec *recorder, d time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t := rec.total()
				l.logf("%v of %v: %d ok, %d refused, %d unknown, %d wrong", time.Since(rec.begun).Round(time.Second), d, t.OK, t.Refused, t.Unknown, t.Wrong)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// settleLimit bounds the wait for calls whose client is gone.
const settleLimit = 30 * time.Second

// reckon counts the log against what was acknowledged, and proves the store.
func (l *loader) reckon(ctx context.Context, before int64) error {
	// A call whose answer never came may end yet; the log stands still when none runs.
	deadline := time.Now().Add(settleLimit)
	last := int64(-1)
	for {
		st, err := l.place.ops.Status(ctx)
		if err != nil {
			return err
		}
		if st.Entries == last || time.Now().After(deadline) {
			last = st.Entries
			break
		}
		last = st.Entries
		if !sleepUntil(ctx, time.Now().Add(time.Second)) {
			return ctx.Err()
		}
	}
	l.sum.Account = l.traffic.ledger.account(before, last)
	if p := l.place; p.cmd != nil {
		if err := errors.Join(l.leave(), p.halt()); err != nil {
			return err
		}
		p.ops, p.episodes, p.subjects = nil, nil, nil
	}
	if !l.opt.verify {
		return nil
	}
	l.logf("verify --deep …")
	begun := time.Now()
	said, err := l.verify(ctx)
	if err != nil {
		l.sum.Account.Verified = "it did not end well, and proves nothing"
		return err
	}
	l.logf("verify --deep took %v", time.Since(begun).Round(time.Second/10))
	l.sum.Account.Verified = said
	return nil
}
