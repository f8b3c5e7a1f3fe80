package state

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mapwright/mapwright/frontier"
)

// An access is what every call and every goroutine of a store needs to use Badger: it keeps Badger open while it is used, waits
// until records are applied, and fails the store.
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

// guard is deferred by every call that reads from Badger. A panic inside Badger, which does not expect damaged data, becomes an
// error that fails the store. If the store failed while the call ran, that error says more than the call's own: Badger logs what
// it could not read and returns an empty value.
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
