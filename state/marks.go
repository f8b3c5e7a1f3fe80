package state

import (
	"context"
	"sync"
)

// marks say how far the records have come, and wake those who wait for them
// to come further.
type marks struct {
	broken chan struct{} // closed when err is set

	mu      sync.Mutex
	durable uint64        // guarded by mu; position up to which the log is durable
	applied uint64        // guarded by mu; position up to which Badger has it
	queued  int64         // guarded by mu; cost of what is committed and not applied
	err     error         // guarded by mu; why the store failed, for good
	changed chan struct{} // guarded by mu; closed when any of these changes, then replaced
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

func (m *marks) setDurable(seq uint64) {
	m.mu.Lock()
	m.durable = seq
	m.mu.Unlock()
}

func (m *marks) setApplied(seq uint64, cost int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = seq
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

func (m *marks) snapshot() (durable, applied uint64, queued int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.durable, m.applied, m.queued
}
