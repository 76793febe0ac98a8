package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	flushBytes = 4 << 10
	flushSpan  = 4 << 20 // what overwriting goes round in
)

// flushFloor writes 4 KiB and makes it durable, over and over.
func (b *bench) flushFloor(ctx context.Context, overwrite bool) (outcome, error) {
	f, err := os.CreateTemp(b.scratch, "flush-")
	if err != nil {
		return outcome{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if overwrite {
		if _, err := f.Write(make([]byte, flushSpan)); err != nil {
			return outcome{}, err
		}
		if err := f.Sync(); err != nil {
			return outcome{}, err
		}
	}
	o := outcome{hist: newHist()}
	page := make([]byte, flushBytes)
	begun := time.Now()
	for at := int64(0); o.calls == 0 || time.Since(begun) < b.opt.slice; at += flushBytes {
		if overwrite {
			at %= flushSpan
		}
		putHex(page[:markLen], b.nums.take())
		one := time.Now()
		if _, err := f.WriteAt(page, at); err != nil {
			return o, err
		}
		if err := flush(f); err != nil {
			return o, err
		}
		o.add(time.Since(one), nil)
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
	}
	o.took = time.Since(begun)
	return o, nil
}

// measured is what takes its turn in the rounds of a comparison.
type measured struct {
	name     string
	aim      string
	run      func() (outcome, error)
	srv      *server // whose writing is measured, or nil
	p50, p99 cell
	written  cell // bytes a call
}

// rounds lets every one take its turn, beginning with another one each round; the first
// round of all is for warming up and is not kept.
func (b *bench) rounds(ctx context.Context, all []*measured) error {
	for _, m := range all {
		m.p50, m.p99, m.written = cell{Unit: micros}, cell{Unit: micros}, cell{Unit: kilo}
	}
	for r := -1; r < b.opt.rounds; r++ {
		for i := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := all[(i+r+1)%len(all)].turn(r >= 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *measured) turn(keep bool) error {
	before, writtenErr := 0.0, errNoServer
	if m.srv != nil {
		before, writtenErr = m.srv.written()
	}
	o, err := m.run()
	if err == nil {
		err = o.err(m.name)
	}
	if err != nil || !keep {
		return err
	}
	m.p50.Rounds = append(m.p50.Rounds, o.quantile(50))
	m.p99.Rounds = append(m.p99.Rounds, o.quantile(99))
	if writtenErr != nil {
		return nil
	}
	if after, err := m.srv.written(); err == nil {
		m.written.Rounds = append(m.written.Rounds, (after-before)/float64(o.calls))
	}
	return nil
}

var errNoServer = errors.New("no server")

// calling measures one caller of a server, who makes no more calls in a turn than limit
// says; 0 sets no limit.
func (b *bench) calling(ctx context.Context, name, aim string, srv *server, a ask, limit int64) *measured {
	callers := []*caller{newCaller(newClient(), srv.url, a, b.nums)}
	return &measured{name: name, aim: aim, srv: srv, run: func() (outcome, error) { return load(ctx, callers, b.opt.slice, limit), nil }}
}

// What one caller alone may take, in flushes.
const (
	aimPure      = "≤ 2.5"
	aimEffectful = "≤ 4.5"
)

// oneCaller compares the calls of one caller alone with the floor that the disk sets.
func (b *bench) oneCaller(ctx context.Context) (_ []table, err error) {
	all := []*measured{
		{name: "flush, appending", run: func() (outcome, error) { return b.flushFloor(ctx, false) }},
		{name: "flush, overwriting", run: func() (outcome, error) { return b.flushFloor(ctx, true) }},
	}
	var up []*server
	defer func() { err = stopAll(up, err) }()
	for i, build := range b.builds() {
		s, err := b.prepare(ctx, b.fresh(fmt.Sprintf("one-%d", i)), 1, 1)
		if err != nil {
			return nil, err
		}
		srv, err := b.serve(ctx, s, build.command)
		if err != nil {
			return nil, err
		}
		up = append(up, srv)
		call := func(name, aim string, a ask) {
			if i > 0 {
				name += ", the other build"
			}
			all = append(all, b.calling(ctx, name, aim, srv, a, 0))
		}
		token := s.tokens[0]
		call("pure call, `tools.echo` over `/mcp/`", aimPure, echoCall(token, worldEcho))
		call("pure call, `tools.echo` over `/a2a/`", aimPure, a2aEcho(token))
		call("effectful call, `workspace-read` over `/mcp/`", aimEffectful, readCall(token))
		call("effectful call, `workspace-edit` over `/mcp/`", aimEffectful, editCall(token))
	}
	if err := b.rounds(ctx, all); err != nil {
		return nil, err
	}
	t := table{
		Title: "One caller, in flushes of its disk",
		Note: fmt.Sprintf("A flush is %d KiB written and made durable on the disk that holds the store. Edits replace a file of the worktree\n"+
			"durably themselves, outside the store.", flushBytes>>10),
		Head: []string{"", "÷ appending flush, p50", "aim", "÷ overwriting flush, p50", "÷ appending flush, p99", "p50 µs", "p99 µs", "KB written a call"},
	}
	appending, overwriting := all[0], all[1]
	for _, m := range all {
		t.Rows = append(t.Rows, row{m.name, []cell{
			per(m.p50, appending.p50), say("%s", m.aim), per(m.p50, overwriting.p50), per(m.p99, appending.p99), m.p50, m.p99, m.wrote(),
		}})
	}
	return []table{t}, nil
}

// wrote is what the server wrote for a call; of a flush it is known.
func (m *measured) wrote() cell {
	if m.srv == nil {
		return cell{Unit: kilo, Rounds: []float64{flushBytes}}
	}
	return m.written
}
