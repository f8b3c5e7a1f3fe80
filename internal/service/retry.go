package service

import (
	"sync"
	"time"
)

// retries holds when a step that failed for a crawl is tried again: its start, the write of its files, its removal. The
// first wait is a second, and each further one twice as long, up to a minute. It is not stored: a new process tries at
// once.
type retries struct {
	mu  sync.Mutex
	all map[string]retry // guarded by mu; by crawl
}

type retry struct {
	wait time.Duration // the last one
	at   time.Time     // when it is over
}

// The first wait, and the longest.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// failed notes a failure, and reports whether the waits have grown to the longest.
func (r *retries) failed(id string, now time.Time) (isLast bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := min(max(2*r.all[id].wait, firstRetry), lastRetry)
	r.all[id] = retry{wait, now.Add(wait)}
	return wait == lastRetry
}

// isDue reports whether the crawl may be tried now.
func (r *retries) isDue(id string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !now.Before(r.all[id].at)
}

// forget makes the next failure the first.
func (r *retries) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, id)
}
