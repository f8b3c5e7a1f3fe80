package state

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/record"
)

// A view is Badger, and what the store keeps in memory of it.
type view struct {
	db     *badger.DB
	dir    string
	newest readView // of what is applied

	mu      sync.Mutex
	reached progress                          // guarded by mu; as of the last transaction
	crashes map[weburl.Key]record.UncleanEnds // guarded by mu; of pages that are not finished since
	// guarded by mu; what was recorded when a partition was last closed, as far as it is known
	closings map[uint8]frontier.Closed
	facts    map[string][]byte // guarded by mu; facts of the crawl as committed
}

// applied returns the position that Badger says it has reached.
func (v *view) applied() (frontier.Position, error) {
	var at frontier.Position
	err := v.db.View(func(txn *badger.Txn) error {
		_, err := getValue(txn, record.MetaKey(record.MetaApplied), func(b []byte) error {
			if len(b) != 8 {
				return &CorruptError{What: "applied position", Reason: "it does not decode"}
			}
			at = frontier.Position(binary.BigEndian.Uint64(b))
			return nil
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read applied position: %w", err)
	}
	return at, nil
}

// loadCrashes reads the crash counts. They are short, so Badger has them in
// its tables, and they can be read before the log is applied again.
func (v *view) loadCrashes() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.crashes = map[weburl.Key]record.UncleanEnds{}
	err := v.scan([]byte{record.FamInFlight}, func(key, value []byte) error {
		k, ok := record.ParseURLKey(key)
		if !ok {
			return &CorruptError{What: "in-flight mark", Reason: "its key does not decode"}
		}
		r := record.Reader{B: value}
		n, err := r.InFlight()
		v.crashes[k] = n
		return err
	})
	if err != nil {
		return fmt.Errorf("read crash counts: %w", err)
	}
	return nil
}

// crashedLocked returns the pages of a partition that were in flight when a run ended without closing it, each with its
// number of such ends. It returns none if the partition was closed.
func (v *view) crashedLocked(p uint8) map[weburl.Key]record.UncleanEnds {
	if !v.reached.parts[p].open {
		return nil
	}
	crashed := map[weburl.Key]record.UncleanEnds{}
	for k, alone := range v.reached.inflight {
		if k.Host.Partition() == p {
			crashed[k] = v.crashes[k].Another(alone)
		}
	}
	return crashed
}

// loadFacts reads the facts of the crawl.
func (v *view) loadFacts() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.facts = map[string][]byte{}
	err := v.scan([]byte{record.FamCrawl}, func(key, value []byte) error {
		if record.IsMark(key) {
			return nil
		}
		_, name, ok := record.ParseFactKey(key)
		if !ok {
			return &CorruptError{What: "fact of the crawl", Reason: "its key does not decode"}
		}
		r := record.ValueReader(value)
		v.facts[name] = append([]byte{}, r.B...)
		return r.Done("fact of the crawl")
	})
	if err != nil {
		return fmt.Errorf("read facts of the crawl: %w", err)
	}
	return nil
}

// scan calls fn for every entry whose key begins with prefix. It is for short
// families only: it is one transaction.
func (v *view) scan(prefix []byte, fn func(key, value []byte) error) error {
	return v.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if err := item.Value(func(b []byte) error { return fn(item.Key(), b) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v *view) progress() progress {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reached.clone()
}

func (v *view) setFacts(facts []frontier.CrawlFact) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range facts {
		if f.Value == nil {
			delete(v.facts, f.Name)
		} else {
			v.facts[f.Name] = append([]byte{}, f.Value...)
		}
	}
}

// A readView is a transaction that many readers share. In Badger a new transaction waits for the one that is being
// written, and there is nearly always one. The shared one shows all that is applied: the applier begins a new one after
// each of its transactions, before anything leaves the overlay.
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

// end releases the last transaction.
func (r *readView) end() { r.replace(nil) }

func (r *readView) replace(next *sharedTxn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cur != nil {
		r.dropLocked(r.cur)
	}
	r.cur = next
}

// take returns the newest transaction; drop releases it.
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
