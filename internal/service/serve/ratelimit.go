package serve

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mapwright/mapwright/internal/service"
)

const (
	keysOfAccount = 4 // an account has so many times the rate of a key
	mostLimiters  = 20_000

	// Requests of an account that change something, in the long run and at once. Each leaves entries in the database,
	// such as events, deliveries and the audit log, which stay for months and do not count as disk of the account.
	changesPerSecond = 1
	changesBurst     = 10_000

	// Requests of an account that are served at once, those of one of its keys, and its event streams that read at once.
	// Requests of several accounts may use all readers of the database, but not for long: queries are short. Clients send
	// bodies and take answers at their own pace: some turns are left for other keys, such as the one that revokes the key.
	mostUnderway      = service.Readers - 2
	mostUnderwayOfKey = mostUnderway - 2
	mostReading       = 1

	// Files are sent to an account at once by this part of the connections that one client has. A connection that sends
	// a file is not closed to make room for others.
	shareOfFiles = 16

	// Credentials of one address that are looked up at once, and of all. Others can always read.
	lookupsOfAddress = 2
	mostLookups      = service.Readers / 2
)

// rateLimits bound the requests of each key and those of all keys of an account, by their rate and by how many are
// served at once, and how many credentials are looked up at once.
type rateLimits struct {
	keys     limiters
	accounts limiters
	changes  limiters // of accounts, and of their keys without the scope write; admins are not bound

	// Bodies and answers are whole in memory, and some answers take long to make: without a bound, an account whose
	// clients are slow or many could take all memory and all processors.
	underway turns // of accounts, and of their keys
	reading  turns // of accounts: of their event streams, while they read events
	sending  turns // of accounts: files that are sent, at the pace of the client
	lookups  turns // of networks
}

// newRateLimits makes the limits of a server. waiting is how many requests of an account or a network wait for turns.
func newRateLimits(perKey float64, waiting int) *rateLimits {
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
		underway: turns{each: mostUnderway, within: mostUnderwayOfKey, waiting: waiting},
		reading:  turns{each: mostReading, waiting: mostStreams},
		sending:  turns{each: max(4, waiting/shareOfFiles)},
		lookups:  turns{most: mostLookups, each: lookupsOfAddress, waiting: waiting},
	}
	if r != rate.Inf {
		l.changes.rate, l.changes.burst = changesPerSecond, changesBurst
	}
	return l
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
