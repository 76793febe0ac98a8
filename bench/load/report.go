package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// summary is all that a run showed.
type summary struct {
	Title         string   `json:"title"`
	Machine       string   `json:"machine"`
	Mix           string   `json:"mix"`
	Sessions      int      `json:"sessions"`
	Users         int      `json:"users"`
	Capacity      float64  `json:"capacity,omitempty"` // answers a second, of a closed loop
	Steady        float64  `json:"steady,omitempty"`   // requests a second, the highest rate of which none was refused
	Share         float64  `json:"share"`
	Parts         []*part  `json:"parts"`
	Drift         []drift  `json:"drift,omitempty"`
	Account       account  `json:"account"`
	MissedSamples int      `json:"missed_samples,omitempty"`
	Points        []point  `json:"points"`
	Samples       []sample `json:"samples"`
}

func newSummary(o options, t *traffic) *summary {
	var mix []string
	for _, k := range t.mix {
		mix = append(mix, fmt.Sprintf("%s %.0f %%", k.name, 100*float64(k.weight)/float64(t.weights)))
	}
	return &summary{Title: o.title, Machine: fmt.Sprintf("%d cores (client and daemon share them), %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
		Mix: strings.Join(mix, ", "), Sessions: len(t.sessions), Users: len(t.users), Share: o.share}
}

// quantiles are times in microseconds, from when a call was due to the end of its answer.
type quantiles struct {
	P50  int64 `json:"p50_us"`
	P90  int64 `json:"p90_us"`
	P99  int64 `json:"p99_us"`
	P999 int64 `json:"p999_us"`
	Max  int64 `json:"max_us"`
}

func quantilesOf(h *hdrhistogram.Histogram) quantiles {
	return quantiles{h.ValueAtQuantile(50), h.ValueAtQuantile(90), h.ValueAtQuantile(99), h.ValueAtQuantile(99.9), h.Max()}
}

// part is one part of a run.
type part struct {
	Name      string    `json:"name"`
	Callers   int       `json:"callers,omitempty"` // of a closed loop
	Rate      float64   `json:"rate,omitempty"`    // calls due a second, of an open one
	From      float64   `json:"from"`              // seconds from the start of the run
	To        float64   `json:"to"`
	Due       int64     `json:"due,omitempty"`
	Unsent    int64     `json:"unsent,omitempty"` // still waiting here when the part ended
	Tally     tally     `json:"tally"`
	quantiles           // of those that were ok
	Refusals  quantiles `json:"refusals"` // of those that were refused, from when they were sent
	Kinds     []byKind  `json:"kinds"`
	Recovered *float64  `json:"recovered_ms,omitempty"` // -1: not within the part
	curve     []spot
}

type byKind struct {
	Name  string `json:"name"`
	Tally tally  `json:"tally"`
	quantiles
}

// spot is a point of a latency curve: how much of the calls took at most so long.
type spot struct{ quantile, us float64 }

func (p *part) fill(rec *recorder, mix []kind) {
	whole := rec.whole()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	p.From = rec.begun.Sub(rec.start).Seconds()
	p.To = rec.edge.Sub(rec.start).Seconds()
	p.quantiles, p.Refusals = quantilesOf(whole), quantilesOf(rec.bad)
	for i, k := range mix {
		p.Tally.merge(rec.kinds[i])
		p.Kinds = append(p.Kinds, byKind{k.name, rec.kinds[i].clone(), quantilesOf(rec.good[i])})
	}
	for q := 0.05; q < 0.99999; q = 1 - (1-q)*0.9 {
		p.curve = append(p.curve, spot{q, float64(whole.ValueAtQuantile(100 * q))})
	}
}

func (p *part) okRate() float64 { return float64(p.Tally.OK) / max(p.To-p.From, 0.001) }

func (p *part) line() string {
	return fmt.Sprintf("%s: %.0f ok a second, %d refused, %d unknown, %d wrong; p50 %s, p99 %s, max %s", p.Name, p.okRate(), p.Tally.Refused, p.Tally.Unknown, p.Tally.Wrong, ms(p.P50), ms(p.P99), ms(p.Max))
}

// ms prints microseconds as milliseconds.
func ms(us int64) string {
	switch {
	case us >= 100_000:
		return fmt.Sprintf("%d ms", us/1000)
	case us >= 10_000:
		return fmt.Sprintf("%.1f ms", float64(us)/1000)
	}
	return fmt.Sprintf("%.2f ms", float64(us)/1000)
}

// drift is a figure of the held part: the median of its first fifth and of its last.
type drift struct {
	What  string  `json:"what"`
	Unit  string  `json:"unit"`
	First float64 `json:"first"`
	Last  float64 `json:"last"`
}

const mega = 1 << 20

// drifts compares the ends of the held part.
func (s *summary) drifts() (all []drift) {
	at := slices.IndexFunc(s.Parts, func(p *part) bool { return p.Name == partHold })
	if at < 0 {
		return nil
	}
	p := s.Parts[at]
	fifth := (p.To - p.From) / 5
	add := func(what, unit string, first, last []float64) {
		if len(first) > 0 && len(last) > 0 {
			all = append(all, drift{what, unit, median(first), median(last)})
		}
	}
	for _, f := range []struct {
		what, unit string
		of         func(sample) float64
	}{
		{"resident memory", "MB", func(x sample) float64 { return x.Resident / mega }},
		{"of it the process's own", "MB", func(x sample) float64 { return x.Anonymous / mega }},
		{"of it pages of the store", "MB", func(x sample) float64 { return x.Mapped / mega }},
		{"heap in use", "MB", func(x sample) float64 { return x.Heap / mega }},
		{"open descriptors", "", func(x sample) float64 { return x.Open }},
		{"goroutines", "", func(x sample) float64 { return x.Goroutines }},
		{"entries of the log", "", func(x sample) float64 { return x.Entries }},
		{"store on disk", "MB", func(x sample) float64 { return x.Store / mega }},
	} {
		first, last := ends(s.Samples, p, fifth, func(x sample) float64 { return x.At }, f.of)
		add(f.what, f.unit, first, last)
	}
	for _, f := range []struct {
		what, unit string
		of         func(point) float64
	}{
		{"answers", "/s", func(x point) float64 { return float64(x.OK) / x.Took }},
		{"p50", "ms", func(x point) float64 { return float64(x.P50) / 1000 }},
		{"p99", "ms", func(x point) float64 { return float64(x.P99) / 1000 }},
	} {
		first, last := ends(s.Points, p, fifth, func(x point) float64 { return x.At }, f.of)
		add(f.what, f.unit, first, last)
	}
	return all
}

// ends are a figure's values in the first fifth of a part, and in its last.
func ends[T any](all []T, p *part, fifth float64, at, of func(T) float64) (first, last []float64) {
	for _, x := range all {
		switch t := at(x); {
		case t >= p.From && t <= p.From+fifth:
			first = append(first, of(x))
		case t >= p.To-fifth && t <= p.To:
			last = append(last, of(x))
		}
	}
	return first, last
}

func median(all []float64) float64 {
	s := slices.Sorted(slices.Values(all))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// verdict is not nil if something was lost, repeated or wrong.
func (s *summary) verdict() error {
	err := s.Account.err()
	for _, p := range s.Parts {
		if p.Tally.Wrong > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %d answers were neither right nor a refusal: %v", p.Name, p.Tally.Wrong, p.Tally.Labels))
		}
	}
	return err
}

// publish prints the summary, and writes the files that are asked for.
func (s *summary) publish(out io.Writer, o options) error {
	s.Drift = s.drifts()
	text := s.markdown(o.out)
	whole, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	printed := text
	if o.json {
		printed = string(whole) + "\n"
	}
	if _, err := io.WriteString(out, printed); err != nil || o.out == "" {
		return err
	}
	short := *s
	short.Points, short.Samples = thin(s.Points), thin(s.Samples)
	kept, err := json.Marshal(short)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(o.out+".md", []byte(text), 0o644),
		os.WriteFile(o.out+".json", append(kept, '\n'), 0o644),
		s.draw(o.out),
	)
}

// maxKept bounds the points and samples in a file.
const maxKept = 400

// thin leaves out points of a long run, evenly.
func thin[T any](all []T) []T {
	step := (len(all) + maxKept - 1) / maxKept
	if step <= 1 {
		return all
	}
	var some []T
	for i := 0; i < len(all); i += step {
		some = append(some, all[i])
	}
	return some
}

func (s *summary) markdown(out string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n%d sessions and %d users; of the requests: %s.\n\n", s.Title, s.Machine, s.Sessions, s.Users, s.Mix)
	if s.Capacity > 0 {
		fmt.Fprintf(&b, "Capacity, in a closed loop: **%.0f answers a second**.", s.Capacity)
		if s.Steady > 0 {
			fmt.Fprintf(&b, " The highest fixed rate of which nothing was refused: **%.0f a second**.", s.Steady)
		}
		b.WriteString("\n\n")
	}
	b.WriteString("| part | due/s | ok/s | refused | outcome unknown | wrong | not sent | p50 | p99 | p99.9 | max | a refusal, p50 | p99 |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range s.Parts {
		due := fmt.Sprintf("%d callers", p.Callers)
		if p.Rate > 0 {
			due = fmt.Sprintf("%.0f", p.Rate)
		}
		first, last := "", ""
		if p.Tally.Refused > 0 {
			first, last = ms(p.Refusals.P50), ms(p.Refusals.P99)
		}
		fmt.Fprintf(&b, "| %s, %.0f s | %s | %.0f | %d | %d | %d | %d | %s | %s | %s | %s | %s | %s |\n", p.Name, p.To-p.From, due, p.okRate(), p.Tally.Refused, p.Tally.Unknown, p.Tally.Wrong,
			p.Unsent, ms(p.P50), ms(p.P99), ms(p.P999), ms(p.Max), first, last)
	}
	for _, p := range s.Parts {
		if p.Recovered != nil && *p.Recovered >= 0 {
			fmt.Fprintf(&b, "\n%s: nothing refused and p99 within twice the held one, from %.0f ms after the end of the overload on.\n", p.Name, *p.Recovered)
		} else if p.Recovered != nil {
			fmt.Fprintf(&b, "\n%s: it did not answer as before within the part.\n", p.Name)
		}
	}
	s.refusalTable(&b)
	s.kindTable(&b)
	if len(s.Drift) > 0 {
		b.WriteString("\n| while the rate was held | first fifth | last fifth |\n|---|---|---|\n")
		for _, d := range s.Drift {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", d.What, figure(d.First, d.Unit), figure(d.Last, d.Unit))
		}
	}
	a := s.Account
	fmt.Fprintf(&b, "\nThe log grew by %d entries; %d calls were acknowledged, and of %d it is not known here whether they became one. Answers named %d entries, %d of them twice.\n",
		a.After-a.Before, a.Acknowledged, a.Unknown, a.Named, a.Twice)
	if a.Verified != "" {
		fmt.Fprintf(&b, "\n    verify --deep: %s\n", strings.ReplaceAll(a.Verified, "\n", "\n    "))
	}
	if out != "" {
		name := filepath.Base(out)
		for _, p := range []string{"latency", "rate", "memory", "open", "curve"} {
			fmt.Fprintf(&b, "\n![%s](%s-%s.svg)\n", p, name, p)
		}
	}
	return b.String()
}

func figure(v float64, unit string) string {
	text := fmt.Sprintf("%.0f", v)
	if v < 100 && v != float64(int64(v)) {
		text = fmt.Sprintf("%.2f", v)
	}
	return strings.TrimSpace(text + " " + unit)
}

// refusalTable lists what was answered that was not ok.
func (s *summary) refusalTable(b *strings.Builder) {
	head := false
	for _, p := range s.Parts {
		labels := slices.SortedFunc(maps.Keys(p.Tally.Labels), func(x, y string) int {
			return cmp.Or(cmp.Compare(p.Tally.Labels[y], p.Tally.Labels[x]), strings.Compare(x, y))
		})
		for _, l := range labels {
			if !head {
				b.WriteString("\n| part | not ok | how often |\n|---|---|---|\n")
				head = true
			}
			fmt.Fprintf(b, "| %s | `%s` | %d |\n", p.Name, strings.ReplaceAll(l, "|", "¦"), p.Tally.Labels[l])
		}
	}
}

// kindTable is the held part, or the last that there is, by kind.
func (s *summary) kindTable(b *strings.Builder) {
	if len(s.Parts) == 0 {
		return
	}
	p := s.Parts[len(s.Parts)-1]
	for _, q := range s.Parts {
		if q.Name == partHold {
			p = q
		}
	}
	fmt.Fprintf(b, "\n| %s, by kind | ok | not ok | p50 | p99 | p99.9 | max |\n|---|---|---|---|---|---|---|\n", p.Name)
	for _, k := range p.Kinds {
		fmt.Fprintf(b, "| %s | %d | %d | %s | %s | %s | %s |\n", k.Name, k.Tally.OK, k.Tally.all()-k.Tally.OK, ms(k.P50), ms(k.P99), ms(k.P999), ms(k.Max))
	}
}
