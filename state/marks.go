package state

import (
	"context"
	"sync"

	"github.com/mapwright/mapwright/frontier"
)

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
