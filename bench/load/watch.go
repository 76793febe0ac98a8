package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of watching.
const (
	sampleEvery   = 2 * time.Second
	sampleTimeout = 10 * time.Second
	maxMetrics    = 4 << 20
)

// sample is the daemon at one moment, from its metrics and from /proc.
type sample struct {
	At         float64 `json:"at"`       // seconds from the start of the run
	Resident   float64 `json:"resident"` // bytes
	Anonymous  float64 `json:"anonymous,omitempty"`
	Mapped     float64 `json:"mapped,omitempty"` // of files: the store's pages
	Heap       float64 `json:"heap"`
	Open       float64 `json:"open"` // descriptors
	Goroutines float64 `json:"goroutines"`
	Busy       float64 `json:"busy"` // seconds of processor time since the daemon's start
	Flight     float64 `json:"in_flight"`
	Entries    float64 `json:"entries"`
	Store      float64 `json:"store"` // bytes of the store's files
}

// watcher takes samples until it is stopped.
type watcher struct {
	l    *loader
	stop func()
	done chan struct{}

	mu      sync.Mutex
	samples []sample
	missed  int // samples that could not be had
}

func (l *loader) watch(ctx context.Context) *watcher {
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{l: l, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		client := &http.Client{Timeout: sampleTimeout}
		tick := time.NewTicker(min(sampleEvery, l.opt.window))
		defer tick.Stop()
		for {
			s, err := l.sample(ctx, client)
			w.mu.Lock()
			if err == nil {
				w.samples = append(w.samples, s)
				l.traffic.known.Store(int64(s.Entries))
			} else if ctx.Err() == nil {
				w.missed++
			}
			w.mu.Unlock()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}

// end stops the watcher and tells what it saw.
func (w *watcher) end() (all []sample, missed int) {
	w.stop()
	<-w.done
	return w.samples, w.missed
}

func (l *loader) sample(ctx context.Context, client *http.Client) (s sample, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.place.url+"/metrics", nil)
	if err != nil {
		return s, err
	}
	req.Header.Set("Authorization", l.traffic.sessions[0].Get("Authorization"))
	resp, err := client.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("/metrics: %s", resp.Status)
	}
	read := map[string]*float64{
		"process_resident_memory_bytes": &s.Resident, "process_open_fds": &s.Open, "go_goroutines": &s.Goroutines, "go_memstats_heap_inuse_bytes": &s.Heap,
		"process_cpu_seconds_total": &s.Busy, "world_calls_in_flight": &s.Flight, "world_log_entries": &s.Entries,
	}
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxMetrics))
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), " ")
		if into := read[name]; found && into != nil {
			if *into, err = strconv.ParseFloat(value, 64); err != nil {
				return s, err
			}
		}
	}
	s.At = time.Since(l.start).Seconds()
	s.Anonymous, s.Mapped = residentParts(l.place.pid)
	for _, end := range []string{"", "-wal"} {
		if st, err := os.Stat(l.place.db + end); err == nil {
			s.Store += float64(st.Size())
		}
	}
	return s, lines.Err()
}

// residentParts are the resident bytes that are the process's own, and those of files. Both
// are 0 where there is no /proc.
func residentParts(pid int) (anonymous, mapped float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	field := func(name string) (kb float64) {
		_, rest, _ := strings.Cut(string(text), "\n"+name+":")
		if _, err := fmt.Sscanf(rest, "%f kB", &kb); err != nil {
			return 0
		}
		return kb * 1024
	}
	return field("RssAnon"), field("RssFile")
}
