package sqlite

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// Limits bounds the indexes' share of memory and of each transaction. The zero value of a
// field means its default.
type Limits struct {
	// Rows and Bytes of index rows in memory; when either is reached they are written as a
	// run, while newer ones gather. One batch may exceed them, and so may what a failing
	// disk keeps from being written, up to memFactor times as much.
	Rows, Bytes int
	// Slice is how many index rows a transaction writes, merges or drops at least when
	// there is something to be done. It does sliceFactor times as many as its operations
	// brought if that is more: a row is written once and merged once a level, so that keeps
	// pace with as many levels. Lower levels go first, so that a long merge does not let
	// small runs pile up.
	Slice int
	// Filters bounds the bytes of all filters in memory.
	Filters int64
	// Fan is how many runs of a level are merged into one of the next.
	Fan int
	// Step, unless nil, is called by the writer at each step of that work; for tests.
	Step func(step string)
}

// The defaults of Limits, and what goes with them.
const (
	defaultMemRows  = 1 << 17 // about 7,000 calls
	defaultMemBytes = 32 << 20
	defaultSlice    = 1024
	defaultFan      = 8
	sliceFactor     = 8
	memFactor       = 8
	extraBytes      = 64 // bytes of fences and filters that count as much as a row
	dropCost        = 16 // rows that a block deleted counts for
	restAfterFault  = 64 // transactions without that work after one in which it failed
)

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.Rows, defaultMemRows)
	set(&l.Bytes, defaultMemBytes)
	set(&l.Slice, defaultSlice)
	set(&l.Fan, defaultFan)
	if l.Filters <= 0 {
		l.Filters = maxFilters
	}
	l.Fan = max(l.Fan, 2)
	return l
}

// state is the indexes at one moment: the runs cover the truth up to a watermark, the
// segments in memory all that was committed after it. It never changes; the writer puts
// another one in its place.
type state struct {
	runs *runSet
	mem  []*segment   // oldest first
	seq  sqlstore.Seq // of the last row covered
	next int64        // index of the first entry that is not
}

// runSet is a list of runs, oldest first, with how many transactions read in it.
type runSet struct {
	runs    []*run
	readers atomic.Int64
}

// index is all derived indexes of an open store. But for acquire and release its methods
// are the writer's.
type index struct {
	limits Limits
	logf   func(string, ...any)
	cur    atomic.Pointer[state]

	draft   *draft // of the transaction being written
	lastRun int64  // the last number given to a run
	flush   *job   // that writes a run from memory, or nil
	merges  []*job // that make one run of several; at most one a level, lowest level first
	retired []retired
	dead    []int64 // runs to be deleted
	stuck   error   // why runs are not merged any more
	failing bool    // the last run from memory could not be written
	rest    int     // transactions to pass before work is tried again
	out     *outcome
}

// retired is a runSet that is not the current one any more. The runs that are not in the
// next one may be deleted once nobody reads in it, nor in one before it.
type retired struct {
	set  *runSet
	runs []int64
}

// outcome is what becomes true if the transaction being committed is durable.
type outcome struct {
	next   *state
	done   []*job
	forgot []int64 // dead runs of which nothing is left
}

func newIndex(l Limits, logf func(string, ...any)) *index {
	x := &index{limits: l.withDefaults(), logf: logf, draft: newDraft()}
	x.cur.Store(&state{runs: &runSet{}})
	return x
}

// acquire is the current state, whose runs stay readable until release.
//
// A transaction that reads takes it before it begins, so that the runs it lists are in
// the transaction's snapshot of the file: they were committed by then, and are not deleted
// before release. What was committed between the two is in the snapshot, but not in the
// state; conn.sync finds it. The other way round a row could be in neither: its run
// committed after the snapshot, and gone from memory by then.
func (x *index) acquire() *state {
	for {
		s := x.cur.Load()
		s.runs.readers.Add(1)
		if x.cur.Load().runs == s.runs {
			return s // whoever retires the set later sees this reader
		}
		s.runs.readers.Add(-1)
	}
}

func (s *state) release() { s.runs.readers.Add(-1) }

// fault takes note of an error in the indexes' work. After one of a damaged run no more
// are merged: lookups get slower, and nothing else happens until the indexes are made anew.
func (x *index) fault(err error) {
	kind := world.KindOf(err)
	if x.stuck == nil && (kind == world.KindIntegrity || kind == world.KindIndexMissing) {
		x.stuck = err
		x.logf("store: an index is damaged, and is not merged any more: %v", err)
		return
	}
	x.failing = true
	x.logf("store: the indexes are behind, and are tried again later: %v", err)
}

func (x *index) step(name string) {
	if x.limits.Step != nil {
		x.limits.Step(name)
	}
}

// over tells whether segments have more than factor times what makes a run.
func (x *index) over(mem []*segment, factor int) bool {
	count, bytes := 0, 0
	for _, s := range mem {
		count += s.count()
		bytes += s.bytes
	}
	return count >= factor*x.limits.Rows || bytes >= factor*x.limits.Bytes
}

// full tells whether memory has no room for more of what cannot be written as a run.
func (x *index) full() bool { return x.over(x.cur.Load().mem, memFactor) }

// plan begins what is due.
func (x *index) plan() {
	for len(x.retired) > 0 && x.retired[0].set.readers.Load() == 0 {
		x.dead = append(x.dead, x.retired[0].runs...)
		x.retired = x.retired[1:]
	}
	s := x.cur.Load()
	if x.flush == nil && x.over(s.mem, 1) {
		x.beginFlush(s)
	}
	if x.stuck == nil {
		x.beginMerges(s.runs.runs)
	}
}

// beginMerges begins a merge of each level that has enough runs and is not being merged.
func (x *index) beginMerges(all []*run) {
	for _, from := range tiers(all, x.limits.Fan) {
		first, last := from[0], from[len(from)-1]
		at, busy := slices.BinarySearchFunc(x.merges, first.level, func(j *job, level int) int { return cmp.Compare(j.from[0].level, level) })
		if busy || tooLarge(from) {
			continue
		}
		x.lastRun++
		x.merges = slices.Insert(x.merges, at, &job{name: "merge", from: from,
			run: &run{id: x.lastRun, level: first.level + 1, after: first.after, last: last.last, next: last.next}})
	}
}

// tooLarge tells whether runs are better left as they are: one of all of them would have
// more of a part's fences and filter than are read back as one.
func tooLarge(from []*run) bool {
	for p := range parts {
		rows := int64(0)
		for _, r := range from {
			rows += r.parts[p].rows
		}
		if rows > maxRunRows {
			return true
		}
	}
	return false
}

// trim takes filters of a new run out of memory as long as all of them together have more
// than their bound; they stay on disk. What is left without is looked into.
func (s *runSet) trim(r *run, bound int64) {
	size := int64(0)
	for _, o := range s.runs {
		for _, p := range o.parts {
			size += p.filterBytes()
		}
	}
	for _, p := range r.parts {
		if size <= bound {
			return
		}
		size -= p.filterBytes()
		p.filter = nil
	}
}

// jobs is all that is under way, the most urgent first.
func (x *index) jobs() []*job {
	if x.flush == nil {
		return x.merges
	}
	return append([]*job{x.flush}, x.merges...)
}

// beginFlush has all that is in memory written as a run.
func (x *index) beginFlush(s *state) {
	x.lastRun++
	r := &run{id: x.lastRun, last: s.seq, next: s.next}
	if n := len(s.runs.runs); n > 0 {
		r.after = s.runs.runs[n-1].last
	}
	x.flush = &job{name: "flush", run: r, segments: s.mem}
}

// tiers is, for each level that has enough runs to be merged, the oldest of them, lowest
// level first. The levels never rise from older to newer runs, so those of one level are
// neighbours, and merges of different levels have no run in common.
func tiers(all []*run, fan int) (due [][]*run) {
	for high := len(all); high > 0; {
		low := high
		for low > 0 && all[low-1].level == all[high-1].level {
			low--
		}
		if high-low >= fan {
			due = append(due, all[low:low+fan])
		}
		high = low
	}
	return due
}

// work does some of what is to be done, in the transaction of c, within a savepoint of its
// own. An error means that nothing was done; only one that is returned together with lost
// has cost the transaction.
//
// With full, all of the run from memory is written, whatever the budget, and nothing else:
// what takes room must not come in the way of what gives it.
func (x *index) work(c *conn, budget int, full bool) (lost bool, err error) {
	x.out = &outcome{}
	x.plan()
	if len(x.jobs()) == 0 && len(x.dead) == 0 {
		return false, nil
	}
	if err := c.do("SAVEPOINT indexes", nil); err != nil {
		return true, err
	}
	if full {
		_, err = x.advance(c, []*job{x.flush}, math.MaxInt)
	} else {
		err = x.slices(c, budget)
	}
	if err == nil {
		return false, c.do("RELEASE indexes", nil)
	}
	x.abort()
	if c.AutocommitEnabled() {
		return true, err
	}
	if rerr := c.do("ROLLBACK TO indexes", nil); rerr != nil {
		return true, errors.Join(err, rerr)
	}
	return false, errors.Join(err, c.do("RELEASE indexes", nil))
}

// slices does the most urgent first: what memory waits for, then what makes lookups
// cheaper, then what only takes space.
func (x *index) slices(c *conn, budget int) error {
	budget, err := x.advance(c, x.jobs(), budget)
	if err != nil {
		return err
	}
	for i := 0; i < len(x.dead) && budget > 0; i++ {
		x.step("drop")
		n, err := c.dropBlocks(x.dead[i], max(budget/dropCost, 1))
		if err != nil {
			return err
		}
		budget -= max(n, 1) * dropCost
		if n == 0 {
			x.out.forgot = append(x.out.forgot, x.dead[i])
		}
	}
	return nil
}

// advance goes on with jobs, and returns what is left of the budget.
func (x *index) advance(c *conn, jobs []*job, budget int) (left int, err error) {
	for _, j := range jobs {
		if j == nil || budget <= 0 {
			continue
		}
		if budget, err = j.slice(c, budget, x.step); err != nil {
			return 0, err
		}
		if j.done {
			x.out.done = append(x.out.done, j)
		}
	}
	return budget, nil
}

// dropBlocks deletes up to limit blocks of a run, and its row when it has none left; then
// it returns 0.
func (c *conn) dropBlocks(run int64, limit int) (int, error) {
	err := c.do("DELETE FROM index_blocks WHERE id IN (SELECT id FROM index_blocks WHERE id >= ? + 0 AND id < ? + 0 LIMIT ? + 0)",
		func(p *params) { p.int(firstBlock(run), pastBlocks(run), int64(limit)) })
	if err != nil {
		return 0, err
	}
	n := c.Changes()
	if n == 0 {
		err = c.forgetRun(run)
	}
	return n, err
}

// abort gives up the jobs that wrote in a transaction that is lost. What they wrote before
// it is deleted later, and what they were for is begun anew.
func (x *index) abort() {
	if x.flush != nil && x.flush.touched {
		x.dead = append(x.dead, x.flush.run.id)
		x.flush = nil
	}
	x.merges = slices.DeleteFunc(x.merges, func(j *job) bool {
		if j.touched {
			x.dead = append(x.dead, j.run.id)
		}
		return j.touched
	})
	x.out = nil
}

// prepare makes the state that follows from the transaction being committed. It only reads
// what nobody changes meanwhile.
func (x *index) prepare(seq sqlstore.Seq, next int64) *state {
	s := x.cur.Load()
	fixed := 0
	if x.flush != nil {
		fixed = len(x.flush.segments)
	}
	n := &state{runs: s.runs, mem: s.mem, seq: seq, next: next}
	if x.draft.count() > 0 {
		n.mem = grown(s.mem, fixed, x.draft.segment())
	}
	for _, j := range x.out.done {
		n.mem = n.mem[len(j.segments):]
		n.runs = &runSet{runs: j.replaced(n.runs.runs)}
		n.runs.trim(j.run, x.limits.Filters)
	}
	return n
}

// landed makes what was committed visible.
func (x *index) landed() {
	out := x.out
	if out == nil || out.next == nil {
		return
	}
	x.out = nil
	old := x.cur.Load().runs
	x.cur.Store(out.next)
	x.draft.reset()
	if old != out.next.runs {
		r := retired{set: old}
		for _, j := range out.done {
			for _, m := range j.from {
				r.runs = append(r.runs, m.id)
			}
		}
		x.retired = append(x.retired, r)
	}
	for _, j := range x.jobs() {
		j.touched = false
	}
	for _, j := range out.done {
		if j == x.flush {
			x.flush, x.failing = nil, false
		} else {
			x.merges = remove(x.merges, j)
		}
		x.step(j.name + " landed")
	}
	for _, id := range out.forgot {
		x.dead = remove(x.dead, id)
	}
}

// lost forgets a transaction that is known not to be durable.
func (x *index) lost() {
	x.abort()
	x.draft.reset()
}

func remove[T comparable](list []T, v T) []T {
	return slices.DeleteFunc(list, func(o T) bool { return o == v })
}
