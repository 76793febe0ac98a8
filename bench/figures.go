package main

import (
	"fmt"
	"slices"
	"strconv"
)

// unit says how a figure is printed. All are kept in their base: nanoseconds, bytes,
// calls a second, plain ratios.
type unit string

// The units.
const (
	ratio  unit = "×"
	micros unit = "µs"
	millis unit = "ms"
	rate   unit = "/s"
	mega   unit = "MB"
	kilo   unit = "KB"
	words  unit = ""
)

// cell is a figure with all its rounds, or words.
type cell struct {
	Unit   unit      `json:"unit,omitempty"`
	Rounds []float64 `json:"rounds,omitempty"`
	Words  string    `json:"words,omitempty"`
}

func say(format string, args ...any) cell { return cell{Words: fmt.Sprintf(format, args...)} }

// median of the rounds; that of none is 0.
func (c cell) median() float64 {
	s := slices.Sorted(slices.Values(c.Rounds))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// String is the median and, where rounds differ, from where to where they lay.
func (c cell) String() string {
	if c.Unit == words {
		return c.Words
	}
	if len(c.Rounds) == 0 {
		return "not measured here"
	}
	mid, low, high := c.Unit.print(c.median()), c.Unit.print(slices.Min(c.Rounds)), c.Unit.print(slices.Max(c.Rounds))
	if low == high {
		return mid
	}
	return fmt.Sprintf("%s (%s–%s)", mid, low, high)
}

func (u unit) print(v float64) string {
	switch u {
	case micros:
		return digits(v / 1e3)
	case millis:
		return digits(v / 1e6)
	case kilo:
		return digits(v / (1 << 10))
	case mega:
		return digits(v / (1 << 20))
	case rate:
		return digits(v)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// digits shows three or so that count.
func digits(v float64) string {
	switch {
	case v >= 100:
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func group(s string) string {
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// per divides round by round, so that what ran in the same minute is compared.
func per(a, b cell) cell {
	c := cell{Unit: ratio}
	for i := range min(len(a.Rounds), len(b.Rounds)) {
		if b.Rounds[i] > 0 {
			c.Rounds = append(c.Rounds, a.Rounds[i]/b.Rounds[i])
		}
	}
	return c
}
