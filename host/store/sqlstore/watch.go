package sqlstore

import "time"

// watched is a batch being told to who watches; nil where nobody does.
type watched struct {
	hook func(Batch)
	b    Batch
}

// watch begins to tell of a batch.
func (w *writer) watch(batch []*op) *watched {
	if w.hooks.Batch == nil {
		return nil
	}
	s := &watched{hook: w.hooks.Batch, b: Batch{Ops: make([]Op, len(batch)), Waiting: len(w.queue), Began: time.Now()}}
	for i, o := range batch {
		s.b.Ops[i] = Op{Name: o.name, Ctx: o.ctx, Queued: o.queued}
		s.b.Bytes += o.bytes
	}
	return s
}

func (s *watched) ran(written bool) {
	if s != nil {
		s.b.Ran, s.b.Written = time.Now(), written
	}
}

func (s *watched) ended(err error) {
	if s != nil {
		s.b.Ended, s.b.Err = time.Now(), err
	}
}

// tell tells of it, unless it is run again one by one.
func (s *watched) tell(again bool) {
	if s != nil && !again {
		s.hook(s.b)
	}
}
