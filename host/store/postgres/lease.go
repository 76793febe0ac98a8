package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Bounds of what daemons tell one another.
const (
	// WriterTTL is how long a daemon is taken to be alive after it last said so; it says so
	// with each batch, and every BeatEvery.
	WriterTTL   = 15 * time.Second
	BeatEvery   = WriterTTL / 3
	beatTimeout = BeatEvery // a beat that hangs must not cost the next one its time

	sideConnections = 4               // for that, and for taking and giving episodes
	giveTimeout     = 2 * time.Second // to give an episode back; later the beat does
	askFirst        = 5 * time.Millisecond
	askMax          = 100 * time.Millisecond
	wantFor         = time.Second // how long a daemon that waits goes before the one that has just had its turn
)

// pulse tells whether this daemon can judge others by what they said. While the database was
// away nobody could say anything: for a WriterTTL after it all are taken to be alive still.
type pulse struct {
	mu     sync.Mutex
	last   time.Time // of this daemon's own beats
	steady time.Time // from when on others had the time to say that they are alive
}

func (p *pulse) beaten(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.interrupted(now) {
		p.steady = now.Add(WriterTTL)
	}
	p.last = now
}

func (p *pulse) interrupted(now time.Time) bool {
	return !p.last.IsZero() && now.Sub(p.last) > 2*BeatEvery
}

// unjudged is longer than a database is away: whoever was alive before is taken to be so still.
const unjudged = 24 * time.Hour

// grace is how much longer than a WriterTTL others are taken to be alive.
func (p *pulse) grace(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.interrupted(now) || now.Before(p.steady) {
		return unjudged
	}
	return 0
}

// leases are the episodes that this daemon has. Calls of one daemon share one.
type leases struct {
	mu    sync.Mutex
	fence int64 // the last one
	m     map[string]*lease
}

// lease is one episode that is had, or being taken.
type lease struct {
	store.Lease
	users int
	ready chan struct{} // closed when it is had, or could not be
	since time.Time     // when it was had
	err   error
	over  chan struct{} // closed when it was given back
}

// TakeEpisode implements store.Shared.
func (s *Store) TakeEpisode(ctx context.Context, episode string) (store.Lease, error) {
	const op = "postgres.TakeEpisode"
	d := s.db
	for {
		d.leases.mu.Lock()
		l := d.leases.m[episode]
		mine := l == nil
		if mine {
			d.leases.fence++
			l = &lease{Lease: store.Lease{Episode: episode, Fence: d.leases.fence}, ready: make(chan struct{}), over: make(chan struct{})}
			d.leases.m[episode] = l
		}
		l.users++
		d.leases.mu.Unlock()
		if mine {
			l.err = d.take(ctx, l.Lease)
			l.since = time.Now()
			close(l.ready)
			if l.err != nil {
				d.leases.drop(l)
				return store.Lease{}, l.err
			}
			return l.Lease, nil
		}
		select {
		case <-l.ready:
		case <-ctx.Done():
			s.GiveEpisode(l.Lease)
			return store.Lease{}, world.Wrap(world.KindTimeout, op, context.Cause(ctx))
		}
		switch {
		case l.err != nil:
			// Whoever was taking it gave up; this call asks for itself.
			d.leases.leave(l)
			continue
		case time.Since(l.since) < wantFor || !d.wanted(ctx, l.Lease):
			return l.Lease, nil
		}
		// Calls that follow one another without a gap would keep it for ever.
		s.GiveEpisode(l.Lease)
		select {
		case <-l.over:
		case <-ctx.Done():
			return store.Lease{}, world.Wrap(world.KindTimeout, op, context.Cause(ctx))
		}
	}
}

// wanted tells whether another daemon waits for a lease. If that cannot be asked, none does.
func (d *database) wanted(ctx context.Context, l store.Lease) (yes bool) {
	_ = d.side.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM leases WHERE episode_key = $1 AND wanted <> '' AND wanted <> $2 AND wanted_till > clock_timestamp())",
		textKey(l.Episode), d.writerID).Scan(&yes)
	return yes
}

// drop forgets a lease that could not be had.
func (h *leases) drop(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.users--
	if h.m[l.Episode] == l {
		delete(h.m, l.Episode)
	}
}

func (h *leases) leave(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.users--
}

// GiveEpisode implements store.Shared.
func (s *Store) GiveEpisode(given store.Lease) {
	h := &s.db.leases
	h.mu.Lock()
	l := h.m[given.Episode]
	if l == nil || l.Lease != given {
		h.mu.Unlock()
		return
	}
	l.users--
	last := l.users == 0
	if last {
		delete(h.m, given.Episode)
	}
	h.mu.Unlock()
	if last {
		ctx, cancel := context.WithTimeout(context.Background(), giveTimeout)
		defer cancel()
		_ = s.db.give(ctx, given) // the beat gives back what is not had any more
		close(l.over)
	}
}

// takeEpisode is had by whoever comes first, where it is nobody's or that of one who is not
// alive, and nobody waits who may go first.
const takeEpisode = "INSERT INTO leases AS l (episode_key, episode, holder, fence, wanted, wanted_till, sum)" +
	" VALUES ($1, $2, $3, $4, '', clock_timestamp(), $5) ON CONFLICT (episode_key) DO UPDATE" +
	" SET holder = excluded.holder, fence = excluded.fence, wanted = '', wanted_till = excluded.wanted_till, sum = excluded.sum" +
	" WHERE (l.holder = '' OR l.holder = $3 OR NOT EXISTS (SELECT 1 FROM writers w WHERE w.id = l.holder AND w.until > clock_timestamp() - $6::interval))" +
	" AND (l.wanted = '' OR l.wanted = $3 OR l.wanted_till < clock_timestamp()) RETURNING fence"

const wantEpisode = "UPDATE leases SET wanted = $2, wanted_till = clock_timestamp() + $3::interval" +
	" WHERE episode_key = $1 AND holder <> $2 AND (wanted = '' OR wanted = $2 OR wanted_till < clock_timestamp())"

// take asks for an episode until it is had.
func (d *database) take(ctx context.Context, l store.Lease) error {
	const op = "postgres.TakeEpisode"
	key := textKey(l.Episode)
	for wait := askFirst; ; wait = min(2*wait, askMax) {
		var had bool
		var batch pgx.Batch
		batch.Queue(takeEpisode, key, encodeText(l.Episode), d.writerID, l.Fence, leaseSum(l.Episode, d.writerID, l.Fence),
			d.pulse.grace(time.Now())).Query(func(r pgx.Rows) error {
			return show(r, func(*cols) error { had = true; return nil })
		})
		batch.Queue(wantEpisode, key, d.writerID, wantFor)
		err := d.side.SendBatch(ctx, &batch).Close()
		if err == nil && had {
			return nil
		}
		if err != nil && ctx.Err() == nil && !away(err) && !makesWay(err) && codeOf(err) != codeLockTimeout {
			return d.target.fail("take", err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return world.Wrap(world.KindTimeout, op, context.Cause(ctx))
		}
	}
}

// give tells that an episode is nobody's. Its row stays while somebody waits for it.
func (d *database) give(ctx context.Context, l store.Lease) error {
	key := textKey(l.Episode)
	var batch pgx.Batch
	batch.Queue("DELETE FROM leases WHERE episode_key = $1 AND holder = $2 AND fence = $3 AND (wanted = '' OR wanted_till < clock_timestamp())",
		key, d.writerID, l.Fence)
	batch.Queue("UPDATE leases SET holder = '', sum = $4 WHERE episode_key = $1 AND holder = $2 AND fence = $3",
		key, d.writerID, l.Fence, leaseSum(l.Episode, "", l.Fence))
	return d.side.SendBatch(ctx, &batch).Close()
}

// beat says every BeatEvery that this daemon is alive, until it is closed.
func (d *database) beat() {
	defer close(d.beaten)
	tick := time.NewTicker(d.beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-d.closed:
			return
		}
		if err := d.beatOnce(); err != nil {
			d.logf("store %s: the other daemons cannot be told that this one is alive: %v", d.target.display, err)
		}
	}
}

// beatOnce also gives back episodes that are not had any more: telling so once may have failed,
// or been forgotten by a server that crashed, since it does not wait for the disk.
func (d *database) beatOnce() error {
	ctx, cancel := context.WithTimeout(context.Background(), beatTimeout)
	defer cancel()
	// Whoever slept for a day finds its row forgotten.
	if _, err := d.side.Exec(ctx, "INSERT INTO writers (id, batch, until, sum) VALUES ($1, 0, clock_timestamp() + $2::interval, $3)"+
		" ON CONFLICT (id) DO UPDATE SET until = excluded.until", d.writerID, WriterTTL, writerSum(d.writerID, 0)); err != nil {
		return err
	}
	d.pulse.beaten(time.Now())
	d.leases.mu.Lock()
	last := d.leases.fence
	had := []int64{}
	for _, l := range d.leases.m {
		had = append(had, l.Fence)
	}
	d.leases.mu.Unlock()
	_, err := d.side.Exec(ctx, "DELETE FROM leases WHERE holder = $1 AND fence <= $2 AND fence <> ALL ($3::bigint[])", d.writerID, last, had)
	return err
}

// openSide makes the connections for what daemons tell one another. Their commits do not wait
// for the disk: what a crash forgets is only who had a turn, and no write of whoever lost it
// gets past its fence.
func (d *database) openSide(ctx context.Context) (err error) {
	d.side, err = d.pool(ctx, sideConnections, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" })
	return err
}
