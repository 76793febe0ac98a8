package exec

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

// Bounds of jobs.
const (
	MaxJobs        = 16        // that run at once
	MaxEpisodeJobs = 4         // of one episode
	MaxKept        = 16        // ended ones of one episode that are remembered
	KeepJob        = time.Hour // how long
	// ledgerTime bounds one word to the ledger.
	ledgerTime = 10 * time.Second
	// StopTimeout is what Close may take: worktrees are put in order, and ends recorded.
	StopTimeout = 45 * time.Second
	// cancelWait is how long a cancel waits for the job's end before it answers.
	cancelWait = 5 * time.Second
)

// Job is a run that goes on after its call.
type Job struct {
	ID         string // 32 hex digits
	Invocation world.InvocationID
	Episode    string
	EffectID   string
	Need       world.Need
	Profile    string
	Args       []string
	Tool       string
	Policy     string // its digest
	Started    time.Time
}

// Ledger keeps account of jobs, durably. Begin is called once before a run is let go on as
// a job, and End once when it has ended in any way that this process lived to see: result
// is the answer that polls give, or failed says why there is none. If Begin fails the run is
// ended, and End is not called.
type Ledger interface {
	Begin(ctx context.Context, j Job) error
	End(ctx context.Context, j Job, result []byte, failed string) error
}

// job is a Job with its run.
type job struct {
	Job
	run   *sandbox.Run
	stamp stamp
	done  chan struct{} // closed when result or err is there, and the ledger knows

	canceled bool // guarded by jobs.mu

	result []byte
	err    error
	ended  time.Time
}

func (j *job) running() bool {
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// jobs are those that run, and those that ended lately.
type jobs struct {
	now func() time.Time
	mu  sync.Mutex
	all map[string]*job
	// order is the ids in order of their start, for forgetting.
	order   []string
	closed  bool
	working sync.WaitGroup
}

func newJobs(now func() time.Time) *jobs { return &jobs{now: now, all: make(map[string]*job)} }

// add takes a job in, if there is room.
func (s *jobs) add(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	running, own := 0, 0
	for _, other := range s.all {
		if other.running() {
			running++
			if other.Episode == j.Episode {
				own++
			}
		}
	}
	if s.closed || running >= MaxJobs || own >= MaxEpisodeJobs {
		return false
	}
	s.all[j.ID] = j
	s.order = append(s.order, j.ID)
	s.working.Add(1)
	return true
}

// drop takes back what add took in.
func (s *jobs) drop(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, j.ID)
	s.working.Done()
}

// forget drops jobs that ended long ago, and the oldest where an episode has many.
func (s *jobs) forget() {
	kept := make(map[string]int)
	var order []string
	for i := len(s.order) - 1; i >= 0; i-- {
		id := s.order[i]
		j := s.all[id]
		if j == nil {
			continue
		}
		if !j.running() {
			if kept[j.Episode]++; kept[j.Episode] > MaxKept || s.now().Sub(j.ended) > KeepJob {
				delete(s.all, id)
				continue
			}
		}
		order = append([]string{id}, order...)
	}
	s.order = order
}

// find is an episode's job.
func (s *jobs) find(episode, id string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	if j := s.all[id]; j != nil && j.Episode == episode {
		return j
	}
	return nil
}

// adopt lets a run go on as a job. If it cannot be one, it is ended.
func (h *Handler) adopt(ctx context.Context, r broker.Request, p *profile, args []string, run *sandbox.Run, s stamp) ([]byte, error) {
	const op = "exec.adopt"
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	j := &job{run: run, stamp: s, done: make(chan struct{}), Job: Job{
		ID: hex.EncodeToString(id[:]), Invocation: r.Invocation, Episode: r.Episode, EffectID: r.EffectID, Need: r.Need,
		Profile: p.Name, Args: args, Tool: s.Tool, Policy: s.PolicyDigest, Started: h.cfg.Now(),
	}}
	if !h.jobs.add(j) {
		run.Kill()
		return h.conclude(op, run, s, "the run would have gone on as a job, but too many jobs run; it was ended")
	}
	// Should the ledger not answer in time, whether the job stands in it is not known, and
	// the effect fails; the run is ended either way.
	if err := h.cfg.Ledger.Begin(ctx, j.Job); err != nil {
		run.Kill()
		<-run.Done()
		h.jobs.drop(j)
		return nil, &world.Error{Op: op, Kind: world.KindOf(err), Msg: "the run could not be kept account of as a job, and was ended", Err: err}
	}
	go h.attend(j)
	return h.tell(j)
}

// attend waits for a job's end and keeps account of it.
func (h *Handler) attend(j *job) {
	defer h.jobs.working.Done()
	res, err := j.run.Wait()
	failed := ""
	switch {
	case err != nil:
		j.err = h.failed("exec.job", err)
		if failed = world.Message(j.err); failed == "" {
			failed = "internal failure"
		}
	case h.life.Err() != nil && res.Exit < 0 && res.Limit == sandbox.LimitNone:
		failed = "the daemon stopped before the job ended"
		j.err = world.Errorf(world.KindCanceled, "exec.job", "%s", failed)
	default:
		a := answerOf(res, j.stamp)
		a.Job = j.ID
		h.jobs.mu.Lock()
		a.Canceled = j.canceled
		h.jobs.mu.Unlock()
		if j.result, j.err = hashref.Marshal(a); j.err != nil {
			failed = "its answer could not be written"
		}
	}
	// The daemon may be stopping, so this has time of its own.
	ctx, cancel := context.WithTimeout(context.Background(), ledgerTime)
	defer cancel()
	if err := h.cfg.Ledger.End(ctx, j.Job, j.result, failed); err != nil && h.cfg.Logf != nil {
		h.cfg.Logf("job %s of episode %s has ended, which could not be recorded: %v", j.ID, j.Episode, err)
	}
	j.ended = h.cfg.Now()
	close(j.done)
}

// tell is what is known of a job now.
func (h *Handler) tell(j *job) ([]byte, error) {
	if !j.running() {
		return j.result, j.err
	}
	stdout, stderr := j.run.Output()
	return hashref.Marshal(progress{
		OK: true, Job: j.ID, Running: true, Stdout: text(stdout.Text), Stderr: text(stderr.Text),
		Truncated: stdout.Left > 0 || stderr.Left > 0, DurationMS: h.cfg.Now().Sub(j.Started).Milliseconds(), stamp: j.stamp,
	})
}

func (a *jobArgs) find(h *Handler, episode string) (*job, error) {
	if j := h.jobs.find(episode, a.Job); j != nil {
		return j, nil
	}
	return nil, refuse("there is no such job in this episode: a job is known for %v after its end, and ends with the daemon", KeepJob)
}

// poll tells of a job.
func (a *jobArgs) poll(_ context.Context, h *Handler, r broker.Request) ([]byte, error) {
	j, err := a.find(h, r.Episode)
	if err != nil {
		return nil, err
	}
	return h.tell(j)
}

// cancel ends a job, and tells how it ended. One that had ended is told as it is.
func (a *jobArgs) cancel(ctx context.Context, h *Handler, r broker.Request) ([]byte, error) {
	j, err := a.find(h, r.Episode)
	if err != nil {
		return nil, err
	}
	if j.running() {
		h.jobs.mu.Lock()
		j.canceled = true
		h.jobs.mu.Unlock()
		j.run.Kill()
	}
	ctx, stop := context.WithTimeout(ctx, cancelWait)
	defer stop()
	select {
	case <-j.done:
	case <-ctx.Done(): // the tree is still being put in order
	}
	return h.tell(j)
}

// Close ends all runs and jobs, and returns when each is accounted for, or ctx ends. Calls
// that come later fail.
func (h *Handler) Close(ctx context.Context) error {
	h.jobs.mu.Lock()
	h.jobs.closed = true
	h.jobs.mu.Unlock()
	h.end()
	done := make(chan struct{})
	go func() {
		h.jobs.working.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("jobs were still being ended")
	}
}
