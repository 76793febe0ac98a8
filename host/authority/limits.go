package authority

import (
	"cmp"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ailang.dev/world/host/world"
)

// MaxPools bounds the rate pools that are kept in memory. Those that are full again say
// nothing, and are left out first.
const MaxPools = 100_000

// Limiter counts the calls of users: one pool for each user and rate class, whatever door
// the calls come in by. It is kept in memory alone: a restart fills every pool. It is safe
// for concurrent use.
type Limiter struct {
	Plans Plans
	Now   func() time.Time

	mu     sync.Mutex
	pools  map[poolKey]*rate.Limiter
	latest time.Time // when a call was last admitted or not
}

type poolKey struct{ episode, class string }

// Admit takes one call of a class out of a session's pool. When there is none left, nothing
// is taken, and wait is when there will be, in whole seconds. A minted session has no pool.
func (l *Limiter) Admit(s world.Session, class string) (wait time.Duration) {
	if s.Plan == "" {
		return 0
	}
	class = cmp.Or(class, ClassDefault)
	r, limited := l.Plans[s.Plan].Rates[class]
	if !limited {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Now()
	if now.Before(l.latest) { // the clock was set back: each pool has what it has, as of now
		for _, p := range l.pools {
			p.SetLimitAt(now, p.Limit())
		}
	}
	l.latest = now
	p := l.pool(poolKey{s.Episode, class}, r, now)
	if p == nil {
		return time.Second
	}
	if p.AllowN(now, 1) {
		return 0
	}
	// The pool reckons in floats, and takes what is short by less than a nanosecond for whole.
	const whole = 0.9e-9
	short := func(after time.Duration) (seconds float64) {
		return (1 - p.TokensAt(now.Add(after))) / float64(p.Limit())
	}
	wait = max(time.Duration(math.Ceil(short(0)-whole))*time.Second, time.Second)
	for short(wait) > whole {
		wait += time.Second
	}
	return wait
}

// pool is a key's, nil if there are too many that are not full. A rate that changed, since
// the user got another plan, holds from now on.
func (l *Limiter) pool(k poolKey, r Rate, now time.Time) *rate.Limiter {
	limit := rate.Limit(float64(r.Requests) / r.Per.Seconds())
	if p := l.pools[k]; p != nil {
		if p.Limit() != limit || p.Burst() != r.Burst {
			p.SetLimitAt(now, limit)
			p.SetBurstAt(now, r.Burst)
		}
		return p
	}
	if len(l.pools) >= MaxPools {
		for k, p := range l.pools {
			if p.TokensAt(now) >= float64(p.Burst()) {
				delete(l.pools, k)
			}
		}
		if len(l.pools) >= MaxPools {
			return nil
		}
	}
	if l.pools == nil {
		l.pools = make(map[poolKey]*rate.Limiter)
	}
	p := rate.NewLimiter(limit, r.Burst)
	l.pools[k] = p
	return p
}
