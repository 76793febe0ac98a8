package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// gcTuned is the collector's setting that rivals are measured with beside their default: it
// costs them memory and gives them time.
const gcTuned = "GOGC=800"

// contender is a server under load, with its callers and what was seen of it.
type contender struct {
	name    string
	srv     *server
	callers []*caller
	at      map[int]*crowd // by number of callers
	peak    cell
	calls   int64
}

// crowd is what a contender did with a number of callers.
type crowd struct{ rate, p50, p99, cpu, written cell }

// manyCallers puts the daemon, which makes every call durable, beside servers that store
// nothing.
func (b *bench) manyCallers(ctx context.Context) (_ []table, err error) {
	most := slices.Max(b.opt.callers)
	var all []*contender
	defer func() {
		for _, c := range all {
			err = stopAll([]*server{c.srv}, err)
		}
	}()
	add := func(name string, srv *server, ask func(i int) ask) {
		c := &contender{name: name, srv: srv, at: map[int]*crowd{}, peak: cell{Unit: mega}}
		client := newClient()
		for i := range most {
			c.callers = append(c.callers, newCaller(client, srv.url, ask(i), b.nums))
		}
		for _, n := range b.opt.callers {
			c.at[n] = &crowd{cell{Unit: rate}, cell{Unit: micros}, cell{Unit: micros}, cell{Unit: micros}, cell{Unit: kilo}}
		}
		all = append(all, c)
	}
	for _, build := range b.builds() {
		for _, env := range [][]string{nil, {gcTuned}} {
			s, err := b.prepare(ctx, b.fresh(fmt.Sprintf("many-%d", len(all))), 1, most)
			if err != nil {
				return nil, err
			}
			srv, err := b.serve(ctx, s, build.command, env...)
			if err != nil {
				return nil, err
			}
			add(named("**"+build.name+"**, durable", env), srv, func(i int) ask { return echoCall(s.tokens[i], worldEcho) })
		}
	}
	for _, r := range []struct{ verb, name string }{
		{"sdk-typed", "official Go SDK, typed tool"}, {"sdk-raw", "official Go SDK, raw tool"}, {"mcp-go", "mark3labs/mcp-go"},
	} {
		for _, env := range [][]string{nil, {gcTuned}} {
			srv, err := start(ctx, r.verb, []string{b.exe, verbRival, r.verb}, env...)
			if err != nil {
				return nil, err
			}
			add(named(r.name, env), srv, func(int) ask { return echoCall("", rivalTool) })
		}
	}
	if err := b.crowds(ctx, all); err != nil {
		return nil, err
	}
	return crowdTables(all, b.opt.callers), nil
}

func named(name string, env []string) string {
	if len(env) == 0 {
		return name
	}
	return name + ", " + env[0]
}

// crowds lets each contender take its turn at each number of callers, beginning with
// another one each round. The first round warms up and is not kept.
func (b *bench) crowds(ctx context.Context, all []*contender) error {
	for r := -1; r < b.opt.rounds; r++ {
		for _, n := range b.opt.callers {
			for i := range all {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := all[(i+r+1)%len(all)].turn(ctx, n, b.opt.slice, r >= 0); err != nil {
					return err
				}
			}
		}
	}
	for _, c := range all {
		if _, most, err := c.srv.memory(); err == nil {
			c.peak.Rounds = []float64{most}
		}
	}
	return nil
}

func (c *contender) turn(ctx context.Context, n int, d time.Duration, keep bool) error {
	before, cpuErr := c.srv.cpu()
	wrote, writtenErr := c.srv.written()
	o := load(ctx, c.callers[:n], d, 0)
	if err := o.err(fmt.Sprintf("%s, %d callers", c.name, n)); err != nil {
		return err
	}
	if !keep {
		return nil
	}
	c.calls += o.calls
	at := c.at[n]
	at.rate.Rounds = append(at.rate.Rounds, o.rate())
	at.p50.Rounds = append(at.p50.Rounds, o.quantile(50))
	at.p99.Rounds = append(at.p99.Rounds, o.quantile(99))
	if after, err := c.srv.cpu(); cpuErr == nil && err == nil {
		at.cpu.Rounds = append(at.cpu.Rounds, float64(after-before)/float64(o.calls))
	}
	if after, err := c.srv.written(); writtenErr == nil && err == nil {
		at.written.Rounds = append(at.written.Rounds, (after-wrote)/float64(o.calls))
	}
	return nil
}

func crowdTables(all []*contender, callers []int) []table {
	most := slices.Max(callers)
	ratios := table{
		Title: "Many callers: World beside servers that store nothing",
		Note: "One echo tool over Streamable HTTP, stateless, each server in a process of its own, the same client, every answer\n" +
			"checked. How many times as many calls a second World serves as the server of that row, which makes nothing durable;\n" +
			"rows with " + gcTuned + " are compared with World under " + gcTuned + ".",
		Head: []string{"server"},
	}
	figures := table{
		Title: "Many callers: the figures behind it",
		Note:  "Processor time, bytes written and memory are of the server alone, from `/proc`; memory is the most that was ever resident.",
		Head:  []string{"server"},
	}
	for _, n := range callers {
		ratios.Head = append(ratios.Head, fmt.Sprintf("World ÷ it, %d", n))
		figures.Head = append(figures.Head, fmt.Sprintf("calls/s, %d", n))
	}
	ratios.Head = append(ratios.Head, fmt.Sprintf("its CPU a call ÷ World's, %d", most), "its peak memory ÷ World's")
	figures.Head = append(figures.Head, fmt.Sprintf("p50 µs, %d", most), fmt.Sprintf("p99 µs, %d", most), fmt.Sprintf("CPU µs a call, %d", most), fmt.Sprintf("KB written a call, %d", most), "peak MB", "calls checked")
	for _, c := range all {
		base := all[0]
		if strings.HasSuffix(c.name, gcTuned) {
			base = all[1] // World under the same setting
		}
		r, f := row{Name: c.name}, row{Name: c.name}
		for _, n := range callers {
			r.Cells = append(r.Cells, per(base.at[n].rate, c.at[n].rate))
			f.Cells = append(f.Cells, c.at[n].rate)
		}
		r.Cells = append(r.Cells, per(c.at[most].cpu, base.at[most].cpu), per(c.peak, base.peak))
		f.Cells = append(f.Cells, c.at[most].p50, c.at[most].p99, c.at[most].cpu, c.at[most].written, c.peak, say("%d", c.calls))
		ratios.Rows, figures.Rows = append(ratios.Rows, r), append(figures.Rows, f)
	}
	return []table{ratios, figures}
}
