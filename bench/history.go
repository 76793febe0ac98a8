package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"time"
)

const (
	asked    = 8    // runs of `why` in a round
	replayed = 1000 // calls that are run again
)

// history measures the commands that ask a store what happened, beside no daemon: each is a
// process of its own, from its start to its end.
func (b *bench) history(ctx context.Context) ([]table, error) {
	sites, err := b.twoSites(ctx)
	if err != nil {
		return nil, err
	}
	why, bare := [2]cell{{Unit: millis}, {Unit: millis}}, cell{Unit: millis}
	verify, replay := [2]cell{{Unit: rate}, {Unit: rate}}, cell{Unit: rate}
	for r := -1; r < b.opt.rounds; r++ {
		round := func(c *cell, v float64) {
			if r >= 0 { // the round before the first warms up
				c.Rounds = append(c.Rounds, v)
			}
		}
		for range asked {
			for i, s := range sites {
				took, err := b.command(ctx, "links hold", "why", "--db", s.db, fmt.Sprint(1+rand.Int64N(s.entries-1)))
				if err != nil {
					return nil, err
				}
				round(&why[i], float64(took))
			}
			took, err := b.command(ctx, "", "version")
			if err != nil {
				return nil, err
			}
			round(&bare, float64(took))
		}
		for i, s := range sites {
			if i == 1 && r > 0 {
				continue // once is enough of what takes minutes
			}
			took, err := b.command(ctx, "", "verify", "--db", s.db)
			if err != nil {
				return nil, err
			}
			round(&verify[i], float64(s.entries)/took.Seconds())
		}
		n := min(replayed, sites[0].entries-1)
		took, err := b.command(ctx, "", "replay", "--db", sites[0].db, fmt.Sprintf("1-%d", n))
		if err != nil {
			return nil, err
		}
		round(&replay, float64(n)/took.Seconds())
	}
	small, large := short(b.opt.sizes[0]), short(b.opt.sizes[1])
	return []table{{
		Title: "Asking what happened",
		Note: fmt.Sprintf("Commands over a store that no daemon serves, from the start of the process to its end; one that prints its version takes %s ms.\n"+
			"`verify` proves every entry, object and record, `replay` runs calls again and holds them to the byte.", bare),
		Head: []string{"", "large ÷ small", "aim", small + " entries", large + " entries"},
		Rows: []row{
			{"`why INDEX`, any entry, ms", []cell{per(why[1], why[0]), say("near 1"), why[0], why[1]}},
			{"`verify`, entries a second", []cell{per(verify[1], verify[0]), say(""), verify[0], verify[1]}},
			{"`replay` of a thousand pure calls, calls a second", []cell{say(""), say(""), replay, say("")}},
		},
	}}, nil
}

// command runs the daemon's program once, to its end. want must stand in what it prints.
func (b *bench) command(ctx context.Context, want string, args ...string) (time.Duration, error) {
	argv := append(b.daemonCommand(), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	err := cmd.Run()
	took := time.Since(begun)
	if err == nil && !strings.Contains(out.String(), want) {
		err = fmt.Errorf("it does not say %q", want)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", args[0], err, out.Bytes()[:min(out.Len(), tailBytes)])
	}
	return took, nil
}
