package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	profileSlices = 5  // slices that a profiled load lasts
	profileLines  = 40 // lines of a top
)

// profiles writes a CPU and an allocation profile of the daemon under each of some loads,
// each in a process of its own, and what the Go tool shows of them.
func (b *bench) profiles(ctx context.Context) error {
	if err := os.MkdirAll(b.opt.profile, 0o755); err != nil {
		return err
	}
	most := b.opt.callers[len(b.opt.callers)-1]
	for _, p := range []struct {
		name    string
		callers int
		ask     func(token string) ask
	}{
		{fmt.Sprintf("mcp-echo-%d", most), most, func(token string) ask { return echoCall(token, worldEcho) }},
		{"mcp-echo-1", 1, func(token string) ask { return echoCall(token, worldEcho) }},
		{"mcp-edit-1", 1, editCall},
		{"mcp-read-1", 1, readCall},
	} {
		if err := b.profile(ctx, p.name, p.callers, p.ask); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (b *bench) profile(ctx context.Context, name string, n int, ask func(token string) ask) error {
	s, err := b.prepare(ctx, b.fresh(name), 1, n)
	if err != nil {
		return err
	}
	file := func(ending string) string { return filepath.Join(b.opt.profile, name+ending) }
	cpu, allocs := file(".cpu.pb.gz"), file(".allocs.pb.gz")
	srv, err := b.serve(ctx, s, []string{b.exe, verbWorld, "-cpu", cpu, "-allocs", allocs, "--"})
	if err != nil {
		return err
	}
	client := newClient()
	var callers []*caller
	for i := range n {
		callers = append(callers, newCaller(client, srv.url, ask(s.tokens[i]), b.nums))
	}
	o := load(ctx, callers, profileSlices*b.opt.slice, 0)
	// The profiles are written when it ends.
	if err := stopAll([]*server{srv}, o.err(name)); err != nil {
		return err
	}
	b.logf("%s: %d calls, %.0f a second, p50 %s µs, p99 %s µs", name, o.calls, o.rate(), micros.print(o.quantile(50)), micros.print(o.quantile(99)))
	lines := fmt.Sprintf("-nodecount=%d", profileLines)
	for _, view := range [][]string{
		{cpu, ".flat.txt", "-top", lines}, {cpu, ".cum.txt", "-top", "-cum", lines},
		{allocs, ".allocs.txt", "-top", "-sample_index=alloc_space", lines}, {allocs, ".objects.txt", "-top", "-sample_index=alloc_objects", lines},
		{cpu, ".svg", "-svg"},
	} {
		if err := show(ctx, view[0], file(view[1]), view[2:]); err != nil {
			return err
		}
	}
	return nil
}

// show writes what the Go tool makes of a profile. A picture needs Graphviz, and is left
// out without it: the tops are there.
func show(ctx context.Context, profile, file string, flags []string) error {
	if filepath.Ext(file) == ".svg" {
		if _, err := exec.LookPath("dot"); err != nil {
			return nil
		}
	}
	args := append(append([]string{"tool", "pprof"}, flags...), "-output", file, profile)
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w: %s", args, err, out)
	}
	return nil
}
