package state

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mapwright/mapwright/frontier"
)

// An access holds what every call and every goroutine of a store needs. It keeps Badger open while it is used, knows
// how far the records have come, wakes the calls that wait for records, and fails the store.
type access struct {
	badgerDir string
	queue     *queue

	badger sync.RWMutex // held for reading while Badger is used
	closed bool         // guarded by badger; Badger is closed

	broken chan struct{} // closed when err is set

	mu      sync.Mutex
	durable frontier.Position // guarded by mu; up to here the journal is durable
	applied frontier.Position // guarded by mu; up to here Badger has it
	queued  int64             // guarded by mu; cost of what is committed and not applied
	err     error             // guarded by mu; why the store failed, for good
	changed chan struct{}     // guarded by mu; closed when any of these changes, then replaced
}

func newAccess(badgerDir string, o Options) *access {
	return &access{badgerDir: badgerDir, queue: newQueue(o), broken: make(chan struct{}), changed: make(chan struct{})}
}

// enter keeps Badger open until leave is called.
func (a *access) enter() error {
	a.badger.RLock()
	if a.closed {
		a.badger.RUnlock()
		return ErrClosed
	}
	return nil
}

func (a *access) leave() { a.badger.RUnlock() }

// close closes Badger when no call uses it any more.
func (a *access) close(v *view) error {
	a.badger.Lock()
	defer a.badger.Unlock()
	a.closed = true
	v.newest.end()
	return v.db.Close()
}

// guard is deferred by every call that reads from Badger. A panic inside Badger, which does not expect damaged data,
// becomes an error that fails the store. If the store failed while the call ran, that error says more than the call's
// own: Badger logs what it could not read and returns an empty value.
func (a *access) guard(err *error) {
	if p := recover(); p != nil {
		damage := &CorruptError{What: a.badgerDir, Reason: fmt.Sprintf("reading it caused a panic: %v", p)}
		a.fail(damage)
		*err = damage
		return
	}
	if _, damaged := errors.AsType[*CorruptError](*err); damaged {
		if failed := a.failed(); failed != nil {
			*err = failed
		}
	}
}

// fail fails the store for good, unless it has failed before. The queue refuses records before the error is visible,
// so that a caller that has seen the error cannot commit any more.
func (a *access) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return
	}
	a.queue.refuse(err)
	a.err = err
	close(a.broken)
	a.broadcastLocked()
}

// failed is why the store failed, or nil.
func (a *access) failed() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *access) broadcastLocked() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *access) enqueued(cost int64) {
	a.mu.Lock()
	a.queued += cost
	a.mu.Unlock()
}

func (a *access) setDurable(at frontier.Position) {
	a.mu.Lock()
	a.durable = at
	a.mu.Unlock()
}

func (a *access) setApplied(at frontier.Position, cost int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.applied = at
	a.queued -= cost
	a.broadcastLocked()
}

// marks says how far the records have come.
func (a *access) marks() (durable, applied frontier.Position, queued int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.durable, a.applied, a.queued
}

// flush waits until all that was committed before the call is durable and applied.
func (a *access) flush(ctx context.Context) error {
	at, _ := a.queue.last()
	return a.waitApplied(ctx, at)
}

// waitApplied waits until the record at a position is applied.
func (a *access) waitApplied(ctx context.Context, at frontier.Position) error {
	a.queue.hurry(at)
	return a.wait(ctx, func() bool { return a.applied >= at })
}

// wait waits until ok, which is called with mu held, reports true, or the store fails.
func (a *access) wait(ctx context.Context, ok func() bool) error {
	for {
		a.mu.Lock()
		err, done, changed := a.err, ok(), a.changed
		a.mu.Unlock()
		if err == nil {
			if done {
				return nil
			}
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-changed:
				continue
			}
		}
		return fmt.Errorf("wait for the store: %w", err)
	}
}
