package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"
)

// What the pictures look like, in pixels.
const (
	chartWide = 900
	chartHigh = 300
	fontSize  = 9
	lineWidth = 1.3
)

// hues are told apart by who does not see all colours (Okabe and Ito).
var hues = []drawing.Color{
	drawing.ColorFromHex("0072b2"), drawing.ColorFromHex("d55e00"), drawing.ColorFromHex("009e73"),
	drawing.ColorFromHex("cc79a7"), drawing.ColorFromHex("56b4e9"), drawing.ColorFromHex("333333"),
}

// series is one line of a picture.
type series struct {
	name string
	x, y []float64
}

// lines are the series of one picture; those without points are left out.
func lines[T any](all []T, x func(T) float64, named ...named[T]) []series {
	var out []series
	for _, n := range named {
		s := series{name: n.name}
		for _, one := range thin(all) {
			if y := n.of(one); !math.IsNaN(y) {
				s.x, s.y = append(s.x, x(one)), append(s.y, y)
			}
		}
		out = append(out, s)
	}
	return out
}

type named[T any] struct {
	name string
	of   func(T) float64
}

// scale turns a figure into where it is drawn, and says where the ticks are.
type scale struct {
	name  string
	place func(float64) float64
	ticks []chartdraw.Tick
}

// least is the smallest figure of a logarithmic scale, in milliseconds.
const least = 0.01

// decades is a scale of powers of ten.
func decades(name string) scale {
	s := scale{name: name, place: func(v float64) float64 { return math.Log10(math.Max(v, least)) }}
	for e := -2.0; e <= 5; e++ {
		s.ticks = append(s.ticks, chartdraw.Tick{Value: e, Label: fmt.Sprintf("%g", math.Pow(10, e))})
	}
	return s
}

// nines is a scale of parts of a whole, the last of them farthest apart.
func nines() scale {
	s := scale{name: "percentile", place: func(q float64) float64 { return -math.Log10(1 - q) }}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		s.ticks = append(s.ticks, chartdraw.Tick{Value: s.place(q), Label: fmt.Sprintf("%.6g", 100*q)})
	}
	return s
}

func plain(name string) scale { return scale{name: name, place: func(v float64) float64 { return v }} }

// picture writes an SVG file of lines.
func picture(file, title string, x, y scale, all []series) error {
	text := chartdraw.Style{FontStyle: chartdraw.FontStyle{FontSize: fontSize, FontColor: drawing.ColorBlack}}
	grid := chartdraw.Style{StrokeColor: drawing.ColorFromHex("dddddd"), StrokeWidth: 1}
	c := chartdraw.Chart{
		Title: title, TitleStyle: text, Width: chartWide, Height: chartHigh,
		Background:     chartdraw.Style{Padding: chartdraw.Box{Top: 34, Left: 12, Right: 20, Bottom: 12}},
		XAxis:          chartdraw.XAxis{Name: x.name, NameStyle: text, Style: text, GridMajorStyle: grid},
		YAxis:          chartdraw.YAxis{Name: y.name, NameStyle: text, Style: text, GridMajorStyle: grid, AxisType: chartdraw.YAxisSecondary},
		YAxisSecondary: chartdraw.HideYAxis(),
	}
	low, high, right := math.Inf(1), math.Inf(-1), math.Inf(-1)
	for i, s := range all {
		if len(s.x) < 2 {
			continue
		}
		line := chartdraw.ContinuousSeries{Name: s.name, Style: chartdraw.Style{StrokeColor: hues[i%len(hues)], StrokeWidth: lineWidth}}
		for j := range s.x {
			line.XValues, line.YValues = append(line.XValues, x.place(s.x[j])), append(line.YValues, y.place(s.y[j]))
			low, high = min(low, line.YValues[j]), max(high, line.YValues[j])
			right = max(right, line.XValues[j])
		}
		c.Series = append(c.Series, line)
	}
	if len(c.Series) == 0 {
		return nil // a run too short to draw
	}
	if y.ticks == nil {
		low = 0
	}
	if high <= low {
		high = low + 1
	}
	c.YAxis.Ticks, c.XAxis.Ticks = within(y.ticks, low, high), within(x.ticks, 0, right)
	if y.ticks == nil {
		c.YAxis.Ticks = even(high)
	}
	if x.ticks == nil {
		c.XAxis.Ticks = even(right)
	}
	c.Elements = []chartdraw.Renderable{chartdraw.LegendThin(&c, text)}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(c.Render(chartdraw.SVG, io.Writer(f)), f.Close())
}

// within are the ticks that a picture shows: those between, and the one on each side of
// them, since a picture reaches from its first tick to its last.
func within(ticks []chartdraw.Tick, low, high float64) (some []chartdraw.Tick) {
	for i, t := range ticks {
		below := t.Value < low && i+1 < len(ticks) && ticks[i+1].Value > low
		above := t.Value > high && i > 0 && ticks[i-1].Value < high
		if below || above || (t.Value >= low && t.Value <= high) {
			some = append(some, t)
		}
	}
	return some
}

// even are ticks at round numbers from 0 on.
func even(high float64) (ticks []chartdraw.Tick) {
	step := math.Pow(10, math.Floor(math.Log10(high)))
	for _, part := range []float64{1, 2, 5, 10} {
		if high/(step/part) >= 5 {
			step /= part
			break
		}
	}
	for v := 0.0; ; v += step {
		ticks = append(ticks, chartdraw.Tick{Value: v, Label: fmt.Sprintf("%.6g", v)})
		if v >= high {
			return ticks
		}
	}
}

// late is a time in milliseconds; a window in which nothing was answered has none.
func late(of func(point) int64) func(point) float64 {
	return func(p point) float64 {
		if p.OK == 0 {
			return math.NaN()
		}
		return float64(of(p)) / 1000
	}
}

// draw writes the pictures of a run; what each shows is in its name.
func (s *summary) draw(prefix string) error {
	const seconds = "seconds from the start"
	at, when := func(p point) float64 { return p.At }, func(x sample) float64 { return x.At }
	var curves []series
	for _, p := range s.Parts {
		if p.Name == partWarm || p.Tally.OK == 0 {
			continue
		}
		c := series{name: p.Name}
		for _, q := range p.curve {
			c.x, c.y = append(c.x, q.quantile), append(c.y, q.us/1000)
		}
		curves = append(curves, c)
	}
	return errors.Join(
		picture(prefix+"-latency.svg", "Latency of what was answered", plain(seconds), decades("ms"), lines(s.Points, at,
			named[point]{"p50", late(func(p point) int64 { return p.P50 })},
			named[point]{"p99", late(func(p point) int64 { return p.P99 })},
			named[point]{"max", late(func(p point) int64 { return p.Max })})),
		picture(prefix+"-rate.svg", "Answers a second", plain(seconds), plain(""), lines(s.Points, at,
			named[point]{"ok", func(p point) float64 { return float64(p.OK) / p.Took }},
			named[point]{"refused", func(p point) float64 { return float64(p.Refused) / p.Took }})),
		picture(prefix+"-memory.svg", "Memory of the daemon, MB", plain(seconds), plain(""), lines(s.Samples, when,
			named[sample]{"resident", func(x sample) float64 { return x.Resident / mega }},
			named[sample]{"its own", func(x sample) float64 { return x.Anonymous / mega }},
			named[sample]{"pages of the store", func(x sample) float64 { return x.Mapped / mega }},
			named[sample]{"heap in use", func(x sample) float64 { return x.Heap / mega }})),
		picture(prefix+"-open.svg", "Descriptors and goroutines of the daemon", plain(seconds), plain(""), lines(s.Samples, when,
			named[sample]{"open descriptors", func(x sample) float64 { return x.Open }},
			named[sample]{"goroutines", func(x sample) float64 { return x.Goroutines }},
			named[sample]{"calls in flight", func(x sample) float64 { return x.Flight }})),
		picture(prefix+"-curve.svg", "Latency by part", nines(), decades("ms"), curves),
	)
}
