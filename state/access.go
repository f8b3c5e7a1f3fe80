package state

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mapwright/mapwright/frontier"
)

// An access is what every call and every goroutine of a store needs to use Badger: it keeps Badger open while it is
// used, waits until records are applied, and fails the store.
type access struct {
	badgerDir string
	queue     *queue
	marks     *marks

	mu     sync.RWMutex // held for reading while Badger is used
	closed bool         // guarded by mu; Badger is closed
}

// enter keeps Badger open until leave is called.
func (a *access) enter() error {
	a.mu.RLock()
	if a.closed {
		a.mu.RUnlock()
		return ErrClosed
	}
	return nil
}

func (a *access) leave() { a.mu.RUnlock() }

// close closes Badger when no call uses it any more.
func (a *access) close(v *view) error {
	a.mu.Lock()
	defer a.mu.Unlock()
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
		if failed := a.marks.failed(); failed != nil {
			*err = failed
		}
	}
}

// fail fails the store for good, unless it has failed before.
func (a *access) fail(err error) { a.marks.fail(err, a.queue.refuse) }

// flush waits until all that was committed before the call is durable and applied.
func (a *access) flush(ctx context.Context) error {
	at, _ := a.queue.last()
	return a.waitApplied(ctx, at)
}

// waitApplied waits until the record at a position is applied.
func (a *access) waitApplied(ctx context.Context, at frontier.Position) error {
	a.queue.hurry(at)
	return a.wait(ctx, func() bool { return a.marks.applied >= at })
}

// wait waits until ok, which is called with the lock of the marks held, reports true.
func (a *access) wait(ctx context.Context, ok func() bool) error {
	if err := a.marks.wait(ctx, ok); err != nil {
		return fmt.Errorf("wait for the store: %w", err)
	}
	return nil
}

// marks say how far the records have come, and wake the calls that wait for
// them to come further.
type marks struct {
	broken chan struct{} // closed when err is set

	mu      sync.Mutex
	durable frontier.Position // guarded by mu; up to here the journal is durable
	applied frontier.Position // guarded by mu; up to here Badger has it
	queued  int64             // guarded by mu; cost of what is committed and not applied
	err     error             // guarded by mu; why the store failed, for good
	changed chan struct{}     // guarded by mu; closed when any of these changes, then replaced
}

func newMarks() *marks {
	return &marks{broken: make(chan struct{}), changed: make(chan struct{})}
}

func (m *marks) broadcastLocked() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// fail notes why the store failed, if nothing else did so before. It calls
// refuse with the error before the error is visible, so that a caller that has
// seen the error cannot commit any more.
func (m *marks) fail(err error, refuse func(error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return
	}
	refuse(err)
	m.err = err
	close(m.broken)
	m.broadcastLocked()
}

func (m *marks) failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

func (m *marks) enqueued(cost int64) {
	m.mu.Lock()
	m.queued += cost
	m.mu.Unlock()
}

func (m *marks) setDurable(at frontier.Position) {
	m.mu.Lock()
	m.durable = at
	m.mu.Unlock()
}

func (m *marks) setApplied(at frontier.Position, cost int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = at
	m.queued -= cost
	m.broadcastLocked()
}

// wait blocks until ok, which is called with the lock held, reports true. It
// returns why the store failed, if it did.
func (m *marks) wait(ctx context.Context, ok func() bool) error {
	for {
		m.mu.Lock()
		err, done, changed := m.err, ok(), m.changed
		m.mu.Unlock()
		switch {
		case err != nil:
			return err
		case done:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (m *marks) snapshot() (durable, applied frontier.Position, queued int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.durable, m.applied, m.queued
}
