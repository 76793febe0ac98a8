package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"ailang.dev/world/host/world"
)

// counting is a backend that keeps nothing but how many operations, and in what order,
// each transaction had.
type counting struct {
	Backend
	batches [][]int
	fatal   int // the operation that loses its transaction; 0 for none
}

type countingTx struct {
	Tx
	c   *counting
	ran []int
}

func (c *counting) Begin(*Needs) (Tx, error) { return &countingTx{c: c}, nil }
func (t *countingTx) Head() (HeadRow, error) { return HeadRow{}, nil }
func (t *countingTx) Savepoint() error       { return nil }
func (t *countingTx) Release() error {
	if t.c.fatal != 0 && slices.Contains(t.ran, t.c.fatal) {
		return errors.New("the transaction is lost")
	}
	return nil
}
func (t *countingTx) Restore() error         { return nil }
func (t *countingTx) AddRefs([]RefRow) error { return nil }
func (t *countingTx) SetHead(*HeadRow) error { return nil }
func (t *countingTx) Rollback() error        { return nil }
func (t *countingTx) Commit() error {
	t.c.batches = append(t.c.batches, t.ran)
	return nil
}

// run is an operation that notes that it ran.
func run(n int) func(*txn) (int, error) {
	return func(t *txn) (int, error) {
		t.dirty = true
		tx := t.Tx.(*countingTx)
		tx.ran = append(tx.ran, n)
		return n, nil
	}
}

// TestBatches holds the writer at its first operation until others wait, and expects all
// of them in the fewest batches that the bounds allow, none twice, none lost.
func TestBatches(t *testing.T) {
	cases := []struct {
		name        string
		ops, bytes  int
		wantBatches int
	}{
		{"all that waits in one", 100, 10, 1},
		{"no more than so many", MaxBatchOps + 1, 0, 2},
		{"no more than so large", 5, MaxBatchBytes / 2, 3},
		{"one that is larger goes alone", 3, MaxBatchBytes + 1, 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := &counting{}
			gate, reached := make(chan struct{}), make(chan struct{})
			first := true
			w := newWriter(b, newHot(false), Hooks{BeforeTake: func() {
				if first {
					first = false
					close(reached)
					<-gate
				}
			}}, t.Logf)
			var wg sync.WaitGroup
			start := func(i int) {
				wg.Go(func() {
					if got, err := submit(context.Background(), w, "test", c.bytes, nil, run(i)); err != nil || got != i {
						t.Errorf("%d: %v", got, err)
					}
				})
			}
			start(0)
			<-reached
			for i := 1; i < c.ops; i++ {
				start(i)
			}
			for len(w.queue) < c.ops-1 {
				runtime.Gosched()
			}
			close(gate)
			wg.Wait()
			w.close()
			var all []int
			for _, batch := range b.batches {
				all = append(all, batch...)
			}
			slices.Sort(all)
			for i, n := range all {
				if i != n {
					t.Fatalf("operation %d ran as %d", n, i)
				}
			}
			if len(b.batches) != c.wantBatches || len(all) != c.ops {
				t.Fatalf("%d batches of %d operations, want %d of %d", len(b.batches), len(all), c.wantBatches, c.ops)
			}
		})
	}
}

// TestQueueIsBounded fills the queue, and expects that who waits to be let in may leave.
func TestQueueIsBounded(t *testing.T) {
	b := &counting{}
	gate, reached := make(chan struct{}), make(chan struct{})
	first := true
	w := newWriter(b, newHot(false), Hooks{AfterTake: func() {
		if first {
			first = false
			close(reached)
			<-gate
		}
	}}, t.Logf)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = submit(context.Background(), w, "test", 0, nil, run(0)) })
	<-reached
	for i := range MaxQueue {
		wg.Go(func() {
			if _, err := submit(context.Background(), w, "test", 0, nil, run(i+1)); err != nil {
				t.Error(err)
			}
		})
	}
	for len(w.queue) < MaxQueue {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { _, err := submit(ctx, w, "test", 0, nil, run(-1)); left <- err }()
	cancel()
	if err := <-left; world.KindOf(err) != world.KindTimeout || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	close(gate)
	wg.Wait()
	w.close()
	for _, batch := range b.batches {
		if slices.Contains(batch, -1) {
			t.Fatal("an operation that left was run")
		}
	}
}

// TestLostBatchRunsOneByOne lets the second of three operations lose the transaction, and
// expects each to be run again alone, and answered once.
func TestLostBatchRunsOneByOne(t *testing.T) {
	b := &counting{fatal: 1}
	w := newWriter(b, newHot(false), Hooks{}, t.Logf)
	w.close() // the goroutine is not needed
	ops := make([]*op, 3)
	for i := range ops {
		f := run(i)
		ops[i] = &op{name: fmt.Sprint(i), done: make(chan error, 1), run: func(t *txn) error { _, err := f(t); return err }}
	}
	w.write(ops)
	for i, o := range ops {
		if err := <-o.done; (err != nil) != (i == 1) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	if got := fmt.Sprint(b.batches); got != "[[0] [2]]" {
		t.Fatalf("durable batches %s", got)
	}
}
