package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"ailang.dev/world/host/store/postgres/pgtest"
)

// pairing is one kind of call to a daemon over a file, and to one over a database.
type pairing struct {
	name    string
	callers int
	on      [2]*contender // file, database
}

// database puts a daemon over PostgreSQL beside one over SQLite, with the server's data and the
// file on one disk.
func (b *bench) database(ctx context.Context) (_ []table, err error) {
	cluster, err := pgtest.Start()
	if err != nil {
		return nil, err
	}
	if cluster == nil {
		b.logf("%s", pgtest.Missing)
		return []table{databaseTable(nil, pgtest.Missing+".")}, nil
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	// The server may run as another user, who cannot get into the cache.
	dir, err := os.MkdirTemp(filepath.Dir(cluster.Folder), "world-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Mkdir(filepath.Join(dir, "store"), 0o700); err != nil {
		return nil, err
	}
	const name = "bench"
	if err := cluster.Exec("postgres", "CREATE DATABASE "+name+" OWNER "+pgtest.Role); err != nil {
		return nil, err
	}
	most := slices.Max(b.opt.callers)
	rows := []*pairing{
		{name: "pure call, `tools.echo` over `/mcp/`, one caller", callers: 1},
		{name: "effectful call, `workspace-read` over `/mcp/`, one caller", callers: 1},
		{name: fmt.Sprintf("pure calls, %d callers", most), callers: most},
	}
	var up []*server
	defer func() { err = stopAll(up, err) }()
	for i, s := range []*site{
		{db: filepath.Join(dir, "store", "world.db"), ws: filepath.Join(dir, "ws-file")},
		{db: cluster.URL(name), ws: filepath.Join(dir, "ws-database"), data: filepath.Join(dir, "data")},
	} {
		if err := b.furnish(ctx, s, 1, most); err != nil {
			return nil, err
		}
		srv, err := b.serve(ctx, s, b.daemonCommand())
		if err != nil {
			return nil, err
		}
		up = append(up, srv)
		for k, asks := range []func(n int) ask{
			func(int) ask { return echoCall(s.tokens[0], worldEcho) },
			func(int) ask { return readCall(s.tokens[0]) },
			func(n int) ask { return echoCall(s.tokens[n], worldEcho) },
		} {
			rows[k].on[i] = b.paired(srv, rows[k], asks)
		}
	}
	if err := b.pairs(ctx, rows); err != nil {
		return nil, err
	}
	return []table{databaseTable(rows, fmt.Sprintf("The server is a PostgreSQL of its own on this machine, with `fsync` on and 16 MB of buffers; its data and the file are in the temporary folder (`TMPDIR`), whose disk is %s. It\n"+
		"is a process more that calls share the cores with, two round trips a batch, and of an effectful call also the turn of its episode.", diskType(dir)))}, nil
}

func (b *bench) paired(srv *server, p *pairing, asks func(n int) ask) *contender {
	c := &contender{name: p.name, srv: srv, at: map[int]*crowd{p.callers: {cell{Unit: rate}, cell{Unit: micros}, cell{Unit: micros}, cell{Unit: micros}, cell{Unit: kilo}}}}
	client := newClient()
	for n := range p.callers {
		c.callers = append(c.callers, newCaller(client, srv.url, asks(n), b.nums))
	}
	return c
}

// pairs lets file and database take their turns at each kind of call, the one that goes first
// changing from round to round. The first round warms up and is not kept.
func (b *bench) pairs(ctx context.Context, rows []*pairing) error {
	for r := -1; r < b.opt.rounds; r++ {
		for _, p := range rows {
			for i := range p.on {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := p.on[(i+r+1)%len(p.on)].turn(ctx, p.callers, b.opt.slice, r >= 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func databaseTable(rows []*pairing, note string) table {
	t := table{Title: "PostgreSQL beside SQLite on one disk", Note: note,
		Head: []string{"", "database ÷ file, p50", "database ÷ file, calls a second", "p50 µs, file", "p50 µs, database", "p99 µs, file", "p99 µs, database", "calls/s, file", "calls/s, database"}}
	for _, p := range rows {
		file, db := p.on[0].at[p.callers], p.on[1].at[p.callers]
		t.Rows = append(t.Rows, row{p.name, []cell{
			per(db.p50, file.p50), per(db.rate, file.rate), file.p50, db.p50, file.p99, db.p99, file.rate, db.rate,
		}})
	}
	return t
}
