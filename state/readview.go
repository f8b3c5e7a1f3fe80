package state

import (
	"sync"

	"github.com/dgraph-io/badger/v4"
)

// A readView is a transaction that many readers share. One of their own would
// wait, as Badger has it, for the transaction that is being written, and there is
// nearly always one. It shows all that is applied: the applier begins a new one
// after each of its transactions, before anything leaves the overlay.
type readView struct {
	mu  sync.Mutex
	cur *sharedTxn // guarded by mu; nil before the first and after the last
}

type sharedTxn struct {
	*badger.Txn
	refs int // guarded by the view's mu; the view's own is one
}

// renew begins a new transaction. Nothing may be on its way into Badger.
func (r *readView) renew(db *badger.DB) {
	r.replace(&sharedTxn{Txn: db.NewTransaction(false), refs: 1})
}

// end lets go of the last one.
func (r *readView) end() { r.replace(nil) }

func (r *readView) replace(next *sharedTxn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cur != nil {
		r.dropLocked(r.cur)
	}
	r.cur = next
}

// take lends the newest transaction; give it back with drop.
func (r *readView) take() *sharedTxn {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cur.refs++
	return r.cur
}

func (r *readView) drop(t *sharedTxn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked(t)
}

func (r *readView) dropLocked(t *sharedTxn) {
	if t.refs--; t.refs == 0 {
		t.Discard()
	}
}
