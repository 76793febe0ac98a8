package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/tasks"
	"ailang.dev/world/packs"
)

// usersPlan lets users call as often as they can.
const usersPlan = "plans:\n  bench:\n    tasks: true\n    grants: [\"Skills.Use=public:unlimited\"]\n"

// taskCalls puts messages to the task endpoint beside calls of the same skill over /mcp/, by
// the same users.
func (b *bench) taskCalls(ctx context.Context) (_ []table, err error) {
	most := slices.Max(b.opt.callers)
	s, err := b.prepare(ctx, b.fresh("tasks"), 1, 1)
	if err != nil {
		return nil, err
	}
	tokens, err := b.users(ctx, s, most)
	if err != nil {
		return nil, err
	}
	config := s.db + ".yaml"
	if err := os.WriteFile(config, []byte(usersPlan), 0o600); err != nil {
		return nil, err
	}
	argv := append(slices.Clone(b.daemonCommand()), "serve", "--db", s.db, "--bind", "127.0.0.1:0", "--workspace-root", s.ws, "--config", config)
	srv, err := start(ctx, "ailang-worldd", argv)
	if err != nil {
		return nil, err
	}
	defer func() { err = stopAll([]*server{srv}, err) }()
	var all []*contender
	for _, by := range []struct {
		name string
		ask  func(token string) ask
	}{{"`tools/call` over `/mcp/`", answerCall}, {"`message/send` over `" + tasks.Path + "`", answerMessage}} {
		c := &contender{name: by.name, srv: srv, at: map[int]*crowd{}}
		client := newClient()
		for _, token := range tokens {
			c.callers = append(c.callers, newCaller(client, srv.url, by.ask(token), b.nums))
		}
		for _, n := range b.opt.callers {
			c.at[n] = &crowd{cell{Unit: rate}, cell{Unit: micros}, cell{Unit: micros}, cell{Unit: micros}, cell{Unit: kilo}}
		}
		all = append(all, c)
	}
	if err := b.crowds(ctx, all); err != nil {
		return nil, err
	}
	return []table{taskTable(all, b.opt.callers)}, nil
}

func taskTable(all []*contender, callers []int) table {
	most := slices.Max(callers)
	t := table{
		Title: "Users' tasks beside calls over MCP",
		Note: "The skill `demo.answer`, each caller a user. A task is an entry as any call is, and is kept for a day besides: a second\n" +
			"durable write.",
		Head: []string{""},
	}
	for _, n := range callers {
		t.Head = append(t.Head, fmt.Sprintf("÷ MCP, %d", n))
	}
	for _, n := range callers {
		t.Head = append(t.Head, fmt.Sprintf("a second, %d", n))
	}
	t.Head = append(t.Head, fmt.Sprintf("p50 µs, %d", most), fmt.Sprintf("p99 µs, %d", most), fmt.Sprintf("KB written a call, %d", most))
	for _, c := range all {
		r := row{Name: c.name}
		for _, n := range callers {
			r.Cells = append(r.Cells, per(c.at[n].rate, all[0].at[n].rate))
		}
		for _, n := range callers {
			r.Cells = append(r.Cells, c.at[n].rate)
		}
		r.Cells = append(r.Cells, c.at[most].p50, c.at[most].p99, c.at[most].written)
		t.Rows = append(t.Rows, r)
	}
	return t
}

// users publishes the skills that a site's users call, and mints a token for each user.
func (b *bench) users(ctx context.Context, s *site, n int) (tokens []string, err error) {
	core, err := daemon.OpenCore(ctx, daemon.CoreConfig{DB: s.db, Logf: b.logf})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, core.Close()) }()
	p, err := packs.Load("demo")
	if err != nil {
		return nil, err
	}
	ops := core.Ops("")
	if _, err := ops.Publish(ctx, registry.Manifest{Text: p.Manifest, Files: p.Files}); err != nil {
		return nil, err
	}
	for i := range n {
		m, err := ops.MintToken(ctx, admin.TokenRequest{Subject: fmt.Sprint("user-", i), Plan: "bench", TTL: (24 * time.Hour).String()})
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, m.Credential)
	}
	return tokens, nil
}

func answerCall(token string) ask {
	return mcpCall(token, "demo_danswer", `{"question":"`+markNow+`"}`, `"structuredContent":{"answer":"You asked: `+markNow+`","ok":true,"words":1}`)
}

func answerMessage(token string) ask {
	return ask{method: http.MethodPost, path: fixed(tasks.Path), header: header(token),
		body: `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","kind":"message","messageId":"` + markNow +
			`","metadata":{"skillId":"demo.answer"},"parts":[{"kind":"text","text":"` + markNow + `"}]}}}`,
		want: []string{`"state":"completed"`, `"data":{"answer":"You asked: ` + markNow + `","ok":true,"words":1}`, `"entry_index":`}}
}
