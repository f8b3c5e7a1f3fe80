package serve

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mapwright/mapwright/internal/service"
)

const (
	keysOfAccount     = 4  // an account has so many times the rate of a key
	failuresPerSecond = 1  // requests without a valid key, of one address
	failuresBurst     = 30 // of them at once
	mostLimiters      = 20_000

	// Requests of an account that change something, in the long run and at once. Each leaves entries in the database,
	// such as events, deliveries and the audit log, which stay for months and do not count as disk of the account.
	changesPerSecond = 1
	changesBurst     = 10_000

	// Requests of an account that are served at once, and its event streams that read at once. Requests of several
	// accounts may use all readers of the database, but not for long: queries are short.
	mostUnderway = service.Readers - 2
	mostReading  = 1
	turnTime     = 10 * time.Second // how long further requests of the account wait
)

// rateLimits bound the requests of each key, those of all keys of an account, and the failed attempts of each address.
type rateLimits struct {
	keys     limiters
	accounts limiters
	failures limiters
	changes  limiters // of accounts; admins are not bound
	underway underway
	reading  underway // of event streams, while they read events
}

func newRateLimits(perKey float64) *rateLimits {
	r := cmp.Or(rate.Limit(perKey), DefaultRate)
	if r < 0 {
		r = rate.Inf
	}
	of := func(r rate.Limit) limiters {
		burst := 1
		if r != rate.Inf {
			burst = int(math.Ceil(2 * float64(r)))
		}
		return limiters{rate: r, burst: burst, all: map[string]*rate.Limiter{}}
	}
	l := &rateLimits{
		keys: of(r), changes: of(rate.Inf), accounts: of(min(rate.Inf, keysOfAccount*r)),
		failures: limiters{rate: failuresPerSecond, burst: failuresBurst, all: map[string]*rate.Limiter{}},
		underway: underway{most: mostUnderway, all: map[string]*turns{}},
		reading:  underway{most: mostReading, waiting: mostStreams, all: map[string]*turns{}},
	}
	if r != rate.Inf {
		l.changes.rate, l.changes.burst = changesPerSecond, changesBurst
	}
	return l
}

// underway bounds the requests of each account that are served at once. Bodies and answers are whole in memory, and
// some answers take long to make: without a bound, an account whose clients are slow or many could take all memory and
// all processors.
type underway struct {
	most    int // requests of an account that are served at once
	waiting int // and that may wait for their turn
	mu      sync.Mutex
	all     map[string]*turns // guarded by mu; by account. Admins make accounts, so it needs no bound
}

// turns are the requests of one account.
type turns struct {
	places chan struct{} // has one for each request that is served or waits
	served chan struct{} // has one for each request that is served
}

// enter waits for the turn of a request. It returns false if too many others wait, or if the wait is too long.
// Otherwise end must be called when the request needs no more memory; it may be called again.
func (u *underway) enter(ctx context.Context, account string) (end func(), ok bool) {
	u.mu.Lock()
	t := u.all[account]
	if t == nil {
		t = &turns{make(chan struct{}, u.most+u.waiting), make(chan struct{}, u.most)}
		u.all[account] = t
	}
	u.mu.Unlock()
	select {
	case t.places <- struct{}{}:
	default:
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	select {
	case t.served <- struct{}{}:
		return sync.OnceFunc(func() {
			<-t.served
			<-t.places
		}), true
	case <-ctx.Done():
		<-t.places
		return nil, false
	}
}

// limiters are one limiter for each name.
type limiters struct {
	rate  rate.Limit
	burst int

	mu  sync.Mutex
	all map[string]*rate.Limiter // guarded by mu; a limiter that is full may be missing
}

// take takes one of a name's tokens, or says how long it has to wait for one.
func (l *limiters) take(name string) (wait time.Duration, ok bool) {
	now := time.Now()
	reservation := l.of(name, now).ReserveN(now, 1)
	if wait = reservation.DelayFrom(now); wait > 0 {
		reservation.CancelAt(now)
		return wait, false
	}
	return 0, true
}

func (l *limiters) of(name string, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.all[name]; one != nil {
		return one
	}
	if len(l.all) >= mostLimiters {
		for other, one := range l.all {
			if one.TokensAt(now) >= float64(l.burst) {
				delete(l.all, other)
			}
		}
		if len(l.all) >= mostLimiters {
			clear(l.all) // rather than to grow without bound
		}
	}
	one := rate.NewLimiter(l.rate, l.burst)
	l.all[name] = one
	return one
}

// tooMany is the error for a caller that has to wait.
func tooMany(w http.ResponseWriter, wait time.Duration) error {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	return refuse(service.ErrRateLimit, "too many requests: wait as long as Retry-After says")
}
