package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/starlark"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// engines compares a pure phase in the daemon's own process with one in a worker process,
// which is where sources run that do not ship inside the binary.
func (b *bench) engines(ctx context.Context) (_ []table, err error) {
	inside, err := starlark.New(starlark.Config{Trusted: func(world.Ref) bool { return true }})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, inside.Close()) }()
	outside, err := starlark.New(starlark.Config{WorkerCommand: []string{b.exe, verbWorker, "starlark"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, outside.Close()) }()
	var all []*measured
	for _, k := range []struct{ pack, file, input, want string }{
		{"examples", "echo.star", `{"text":"` + markNow + `"}`, `{"echo":{"text":"` + markNow + `"}}`},
		{"workspace", "workspace-read.star", `{"args":{"path":"` + markNow + `"},"phase":"plan"}`, `"path":"` + markNow + `"`},
	} {
		p, err := packs.Load(k.pack)
		if err != nil {
			return nil, err
		}
		src := capsule.NewSource(p.Files[k.file])
		for _, e := range []*starlark.Engine{inside, outside} {
			all = append(all, &measured{name: "`" + k.file + "`", run: func() (outcome, error) {
				return b.phases(ctx, e, src, newText(k.input), newText(k.want))
			}})
		}
	}
	if err := b.rounds(ctx, all); err != nil {
		return nil, err
	}
	t := table{
		Title: "Starlark in a worker process beside in-process",
		Note:  "One pure phase, one caller; the source is compiled already.",
		Head:  []string{"", "worker ÷ in-process, p50", "in-process p50 µs", "in-process p99 µs", "worker p50 µs", "worker p99 µs"},
	}
	for i := 0; i < len(all); i += 2 {
		in, out := all[i], all[i+1]
		t.Rows = append(t.Rows, row{in.name, []cell{per(out.p50, in.p50), in.p50, in.p99, out.p50, out.p99}})
	}
	return []table{t}, nil
}

// phases runs a source until the time is over, each time on another input.
func (b *bench) phases(ctx context.Context, e capsule.Engine, src capsule.Source, input, want *text) (outcome, error) {
	o := outcome{hist: newHist()}
	begun := time.Now()
	for o.calls == 0 || time.Since(begun) < b.opt.slice {
		n := b.nums.take()
		in := bytes.Clone(input.set(n, 0))
		one := time.Now()
		out, err := e.Run(ctx, src, in)
		took := time.Since(one)
		if err != nil {
			return o, err
		}
		if !bytes.Contains(out, want.set(n, 0)) {
			return o, fmt.Errorf("it gave %.300s, which lacks %s", out, want.bytes)
		}
		o.add(took, nil)
	}
	o.took = time.Since(begun)
	return o, nil
}
