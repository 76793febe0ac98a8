package sandbox

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// meter counts the bytes of both streams of a run, and calls over once, at the first byte
// over most.
type meter struct {
	n    atomic.Int64
	most int64
	once sync.Once
	over func()
}

func (m *meter) add(n int) {
	if m.n.Add(int64(n)) > m.most {
		m.once.Do(m.over)
	}
}

// stream keeps the first bytes written to it and the last: errors tend to stand at the end,
// what was run at the beginning. It can be read while it is written to.
type stream struct {
	meter *meter
	mu    sync.Mutex
	head  []byte
	tail  []byte // a ring once it is full
	at    int    // where the ring's oldest byte is
	total int64
	keepH int
	keepT int
}

func newStream(m *meter, keep int) *stream {
	return &stream{meter: m, keepH: keep / 4, keepT: keep - keep/4}
}

func (s *stream) Write(p []byte) (int, error) {
	s.meter.add(len(p))
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	s.total += int64(n)
	if room := s.keepH - len(s.head); room > 0 {
		k := min(room, len(p))
		s.head = append(s.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > s.keepT {
		p = p[len(p)-s.keepT:]
	}
	if room := s.keepT - len(s.tail); room > 0 {
		k := min(room, len(p))
		s.tail = append(s.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(s.tail[s.at:], p)
		p, s.at = p[k:], (s.at+k)%len(s.tail)
	}
	return n, nil
}

// output is what was kept so far.
func (s *stream) output() Output {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append([]byte{}, s.head...)
	left := s.total - int64(len(s.head)) - int64(len(s.tail))
	if left > 0 {
		text = fmt.Appendf(text, "\n[… %d bytes left out …]\n", left)
	}
	text = append(append(text, s.tail[s.at:]...), s.tail[:s.at]...)
	return Output{Text: text, Left: left}
}
