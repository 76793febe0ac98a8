package sqlite

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// TestSearchKeyIsSearch compares the two on keys that lie evenly, and on all others.
func TestSearchKeyIsSearch(t *testing.T) {
	const width = keySize + placeSize
	draws := map[string]func() uint64{
		"even":     rand.Uint64,
		"low":      func() uint64 { return rand.Uint64N(50) },
		"high":     func() uint64 { return math.MaxUint64 - rand.Uint64N(50) },
		"clusters": func() uint64 { return rand.Uint64N(4)<<62 + rand.Uint64N(10) },
		"edges":    func() uint64 { return -rand.Uint64N(2) },
	}
	for name, draw := range draws {
		t.Run(name, func(t *testing.T) {
			for n := range 200 {
				var b []byte
				for i := range n {
					var k key
					binary.BigEndian.PutUint64(k[:], draw())
					b = appendPoint(b, k, int64(i))
				}
				r := sorted(b, width)
				for _, other := range draws {
					var k key
					binary.BigEndian.PutUint64(k[:], other())
					if got, want := r.searchKey(width, k), r.search(width, k[:]); got != want {
						t.Fatalf("%d rows, key %x: %d, want %d", n, k, got, want)
					}
				}
			}
		})
	}
}

// TestPlacesRoundTrip writes and reads the largest numbers that rows hold.
func TestPlacesRoundTrip(t *testing.T) {
	for _, v := range []int64{0, 1, 255, 1 << 16, 1<<32 - 1, 1 << 32, 1<<48 - 1} {
		if got := place(appendPlace(nil, v)); got != v {
			t.Errorf("%d became %d", v, got)
		}
	}
}
