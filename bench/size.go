package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	sampled = 64  // objects that are looked up by turns
	growth  = 200 // calls of a turn, so that the small log stays small
	aimSize = "≤ 1.2"
)

// twoSites are the small and the large store; the large one is kept between runs.
func (b *bench) twoSites(ctx context.Context) (sites [2]*site, err error) {
	if b.kept != nil {
		return *b.kept, nil
	}
	for i, n := range b.opt.sizes {
		begun := time.Now()
		dir := b.fresh("small")
		if i == 1 {
			dir = b.store(n)
		}
		if sites[i], err = b.prepare(ctx, dir, n, 1); err != nil {
			return sites, fmt.Errorf("store of %d entries: %w (if the one that was kept is of another format, remove %s)", n, err, dir)
		}
		b.logf("store of %d entries is ready after %v", n, time.Since(begun).Round(time.Second/10))
	}
	b.kept = &sites
	return sites, nil
}

// bySize compares what a daemon does over a small log and over a large one.
func (b *bench) bySize(ctx context.Context) (_ []table, err error) {
	sites, err := b.twoSites(ctx)
	if err != nil {
		return nil, err
	}
	var up []*server
	defer func() { err = stopAll(up, err) }()
	kinds := []struct {
		name  string
		limit int64
		make  func(s *site, srv *server) (ask, error)
	}{
		{fmt.Sprintf("page of %d entries, `GET /v1/log`, anywhere in the log", b.opt.page), 0, func(s *site, _ *server) (ask, error) { return pageAsk(s, b.opt.page), nil }},
		{"object with its payload, `GET /v1/objects/…`, any", 0, func(s *site, srv *server) (ask, error) { return objectAsk(ctx, s, srv) }},
		{"workbench page of an entry, any", 0, func(s *site, _ *server) (ask, error) {
			return pageOf(s, "/workbench?entry=%d", "<svg"), nil
		}},
		{"workbench's timeline, anywhere in the log", 0, func(s *site, _ *server) (ask, error) { return pageOf(s, "/workbench?from=%d", "tools.echo"), nil }},
		{"pure call, `tools.echo` over `/mcp/`", growth, func(s *site, _ *server) (ask, error) { return echoCall(s.tokens[0], worldEcho), nil }},
	}
	var all []*measured // small and large of each kind, side by side
	for _, s := range sites {
		srv, err := b.serve(ctx, s, b.daemonCommand())
		if err != nil {
			return nil, err
		}
		up = append(up, srv)
	}
	for _, k := range kinds {
		for i, s := range sites {
			a, err := k.make(s, up[i])
			if err != nil {
				return nil, err
			}
			all = append(all, b.calling(ctx, k.name, aimSize, up[i], a, k.limit))
		}
	}
	if err := b.rounds(ctx, all); err != nil {
		return nil, err
	}
	small, large := short(b.opt.sizes[0]), short(b.opt.sizes[1])
	t := table{
		Title: fmt.Sprintf("A log of %s entries beside one of %s", large, small),
		Note: fmt.Sprintf("One caller, two daemons of the same build, each over a log that the same calls filled. A turn of calls is of %d at most,\n"+
			"so that the small log stays one.", growth),
		Head: []string{"", "large ÷ small, p50", "aim", "large ÷ small, p99", "p50 µs, " + small, "p50 µs, " + large, "p99 µs, " + large},
	}
	for i := 0; i < len(all); i += 2 {
		s, l := all[i], all[i+1]
		t.Rows = append(t.Rows, row{s.name, []cell{per(l.p50, s.p50), say("%s", s.aim), per(l.p99, s.p99), s.p50, l.p50, l.p99}})
	}
	peak := [2]cell{{Unit: mega}, {Unit: mega}}
	for i, srv := range up {
		if _, most, err := srv.memory(); err == nil {
			peak[i].Rounds = []float64{most}
		}
	}
	m := table{
		Title: "Memory after that work",
		Note:  "The most that was ever resident in the two daemons above. Pages that SQLite maps count.",
		Head:  []string{"", "large ÷ small", "MB, " + small, "MB, " + large},
		Rows:  []row{{"peak", []cell{per(peak[1], peak[0]), peak[0], peak[1]}}},
	}
	return []table{t, m}, nil
}

// short is a number of entries in a table's head.
func short(n int64) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 1_000 && n%1_000 == 0:
		return fmt.Sprintf("%dk", n/1_000)
	}
	return fmt.Sprint(n)
}

// pageAsk asks for a whole page from a place that is another one each time.
func pageAsk(s *site, entries int64) ask {
	return ask{method: http.MethodGet, header: http.Header{}, path: func() string {
		return fmt.Sprintf("/v1/log?from=%d&limit=%d", rand.Int64N(s.entries-entries+1), entries)
	}, want: []string{`{"items":[{"header":{"entryIndex":`, `"transitionRef":"sha256:`}}
}

// pageOf asks for pages of the workbench, each of another entry.
func pageOf(s *site, path, want string) ask {
	return ask{method: http.MethodGet, header: http.Header{}, path: func() string { return fmt.Sprintf(path, 1+rand.Int64N(s.entries-1)) }, want: []string{want}}
}

// objectAsk asks for objects of entries from all over the log, by turns.
func objectAsk(ctx context.Context, s *site, srv *server) (ask, error) {
	refs := make([]string, sampled)
	client := newClient()
	for i := range refs {
		// Never the genesis: its object is not a call's record.
		index := 1 + rand.Int64N(s.entries-1)
		ref, err := entryRecord(ctx, client, fmt.Sprintf("%s/v1/log/%d", srv.url, index))
		if err != nil {
			return ask{}, err
		}
		refs[i] = ref
	}
	next := 0
	return ask{method: http.MethodGet, header: http.Header{}, path: func() string {
		next = (next + 1) % len(refs)
		return "/v1/objects/" + refs[next] + "?payload=true"
	}, want: []string{`"semanticId":"world/invocation-record/v`, `"payload":"ey`}}, nil
}

func entryRecord(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var entry struct {
		TransitionRef string `json:"transitionRef"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&entry); err != nil {
		return "", err
	}
	if !strings.HasPrefix(entry.TransitionRef, "sha256:") {
		return "", fmt.Errorf("%s names no record: status %d", url, resp.StatusCode)
	}
	return entry.TransitionRef, nil
}

// starting compares how long a daemon takes to serve, and what it then holds.
func (b *bench) starting(ctx context.Context) ([]table, error) {
	sites, err := b.twoSites(ctx)
	if err != nil {
		return nil, err
	}
	took, held, kept := [2]cell{{Unit: millis}, {Unit: millis}}, [2]cell{{Unit: mega}, {Unit: mega}}, [2]cell{{Unit: mega}, {Unit: mega}}
	for r := -1; r < b.opt.starts; r++ {
		for i, s := range sites {
			ready, resident, own, err := b.startOnce(ctx, s)
			if err != nil {
				return nil, err
			}
			if r < 0 {
				continue // the first start finds the files cold
			}
			took[i].Rounds = append(took[i].Rounds, float64(ready))
			if resident > 0 {
				held[i].Rounds = append(held[i].Rounds, resident)
				kept[i].Rounds = append(kept[i].Rounds, own)
			}
		}
	}
	size, err := b.binarySize()
	if err != nil {
		return nil, err
	}
	small, large := short(b.opt.sizes[0]), short(b.opt.sizes[1])
	return []table{{
		Title: "Starting and resting",
		Note: fmt.Sprintf("From the start of the process to the line that it listens, and what is resident once it has answered one call and has\n"+
			"nothing to do; %d starts of each by turns. What is not the process's own are pages of the binary and of the store, which\n"+
			"the kernel takes back when it needs them. The binary has %s.", b.opt.starts, size),
		Head: []string{"", "large ÷ small", small + " entries", large + " entries"},
		Rows: []row{
			{"start, ms", []cell{per(took[1], took[0]), took[0], took[1]}},
			{"resident, MB", []cell{per(held[1], held[0]), held[0], held[1]}},
			{"of it the process's own, MB", []cell{per(kept[1], kept[0]), kept[0], kept[1]}},
		},
	}}, nil
}

// startOnce starts a daemon, lets it answer a call, looks at its memory and stops it.
func (b *bench) startOnce(ctx context.Context, s *site) (ready time.Duration, resident, own float64, err error) {
	srv, err := b.serve(ctx, s, b.daemonCommand())
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = stopAll([]*server{srv}, err) }()
	if _, err := newCaller(newClient(), srv.url, echoCall(s.tokens[0], worldEcho), b.nums).call(ctx); err != nil {
		return 0, 0, 0, err
	}
	if now, mine, _, merr := srv.parts(); merr == nil {
		resident, own = now, mine
	}
	return srv.ready, resident, own, nil
}

func (b *bench) binarySize() (string, error) {
	if b.opt.worldd == "" {
		return "not been measured: the daemon ran inside the measuring program", nil
	}
	st, err := os.Stat(b.opt.worldd)
	if err != nil {
		return "", err
	}
	return mega.print(float64(st.Size())) + " MB", nil
}
