package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A view is Badger with what is known about it.
type view struct {
	db     *badger.DB
	dir    string
	newest readView // of what is applied

	mu      sync.Mutex
	reached progress            // guarded by mu; as of the last transaction
	crashes map[urlnorm.Key]int // guarded by mu; of pages that are not finished since
	run     map[string][]byte   // guarded by mu; run facts as committed
}

// applied returns the position that Badger says it has reached.
func (v *view) applied() (uint64, error) {
	var seq uint64
	err := v.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(metaKey(metaApplied))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return item.Value(func(b []byte) error {
			if len(b) != 8 {
				return &CorruptError{What: "applied position", Reason: "it does not decode"}
			}
			seq = binary.BigEndian.Uint64(b)
			return nil
		})
	})
	if err != nil {
		return 0, fmt.Errorf("read applied position: %w", err)
	}
	return seq, nil
}

// loadCrashes reads the crash counts. They are short, so Badger has them in
// its tables, and they can be read before the log is applied again.
func (v *view) loadCrashes() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.crashes = map[urlnorm.Key]int{}
	err := v.scan([]byte{famCrashed}, func(key, value []byte) error {
		k, ok := parseURLKey(key)
		n, read := binary.Uvarint(value)
		if !ok || read <= 0 {
			return &CorruptError{What: "crash count", Reason: "it does not decode"}
		}
		v.crashes[k] = int(n)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read crash counts: %w", err)
	}
	return nil
}

// loadRun reads the run facts.
func (v *view) loadRun() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.run = map[string][]byte{}
	err := v.scan(metaKey(metaRun), func(key, value []byte) error {
		r, err := valueReader("run fact", value)
		v.run[string(key[1+len(metaRun):])] = append([]byte{}, r.b...)
		return err
	})
	if err != nil {
		return fmt.Errorf("read run facts: %w", err)
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

func (v *view) setRun(facts []RunFact) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range facts {
		if f.Value == nil {
			delete(v.run, f.Name)
		} else {
			v.run[f.Name] = append([]byte{}, f.Value...)
		}
	}
}
