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
			s.x, s.y = append(s.x, x(one)), append(s.y, n.of(one))
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
		s.ticks = append(s.ticks, chartdraw.Tick{Value: s.place(q), Label: fmt.Sprintf("%g", 100*q)})
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
		Background: chartdraw.Style{Padding: chartdraw.Box{Top: 34, Left: 12, Right: 20, Bottom: 12}},
		XAxis:      chartdraw.XAxis{Name: x.name, NameStyle: text, Style: text, GridMajorStyle: grid},
		YAxis:      chartdraw.YAxis{Name: y.name, NameStyle: text, Style: text, GridMajorStyle: grid, AxisType: chartdraw.YAxisSecondary},
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
	c.YAxis.Range = &chartdraw.ContinuousRange{Min: low, Max: high + (high-low)/20}
	c.YAxis.Ticks = within(y.ticks, low, high)
	c.XAxis.Ticks = within(x.ticks, 0, right)
	if y.ticks == nil {
		c.YAxis.ValueFormatter = func(v any) string { return fmt.Sprintf("%.0f", v) }
	}
	if x.ticks == nil {
		c.XAxis.ValueFormatter = func(v any) string { return fmt.Sprintf("%.0f", v) }
	}
	c.Elements = []chartdraw.Renderable{chartdraw.LegendThin(&c, text)}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(c.Render(chartdraw.SVG, io.Writer(f)), f.Close())
}

// within are the ticks that a picture shows.
func within(ticks []chartdraw.Tick, low, high float64) (some []chartdraw.Tick) {
	for _, t := range ticks {
		if t.Value >= low-0.001 && t.Value <= high+(high-low)/20 {
			some = append(some, t)
		}
	}
	if len(some) < 2 {
		return nil
	}
	return some
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
			named[point]{"p50", func(p point) float64 { return float64(p.P50) / 1000 }},
			named[point]{"p99", func(p point) float64 { return float64(p.P99) / 1000 }},
			named[point]{"max", func(p point) float64 { return float64(p.Max) / 1000 }})),
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
