package txn

import (
	"cmp"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

const (
	// maxValues bounds what one transaction adds to the value log.
	maxValues = 4 << 20
	// reservedEntries and reservedBytes are kept free for what Badger adds at the end of a transaction, with a margin.
	reservedEntries = 4
	reservedBytes   = 4096
)

// A Writer puts transactions together and sends them to Badger. It is used by one goroutine.
type Writer struct {
	db        *badger.DB
	threshold int // from this length on, values are in the value log

	maxCount, maxSize int64 // of a transaction

	txn    *badger.Txn // nil if none was begun; it may be empty
	count  int64       // entries in txn, and those that have space reserved
	size   int64       // of them, as Badger computes it
	values int64       // bytes of values among them
	memory *slab       // of txn

	sent  *sending // the transaction that Badger is writing, or nil
	spare *slab    // memory of one that is written, or nil
}

// A sending is a transaction on its way into Badger.
type sending struct {
	ended  chan error
	memory *slab
}

// NewWriter returns a Writer with no transaction.
func NewWriter(db *badger.DB) *Writer {
	return &Writer{
		db: db, threshold: int(db.Opts().ValueThreshold),
		maxCount: db.MaxBatchCount() - reservedEntries,
		maxSize:  db.MaxBatchSize() - reservedBytes,
		memory:   &slab{},
	}
}

// Full reports whether 1/n of a transaction is used.
func (w *Writer) Full(n int64) bool {
	return w.count >= w.maxCount/n || w.size >= w.maxSize/n || w.values >= maxValues/n
}

// Empty reports whether the transaction has no entries, and none with reserved space.
func (w *Writer) Empty() bool { return w.count == 0 }

// HasRoom reports whether an entry with a key and a value of these lengths fits into the transaction.
func (w *Writer) HasRoom(key, value int) bool {
	return w.count+1 < w.maxCount && w.size+w.entrySize(key, value) < w.maxSize && w.values < maxValues
}

// Reserve takes the space of an entry that is added later with SetReserved.
func (w *Writer) Reserve(key, value int) {
	w.count++
	w.size += w.entrySize(key, value)
}

// entrySize is what Badger computes for an entry, the version included.
func (w *Writer) entrySize(key, value int) int64 {
	if value >= w.threshold {
		value = 12
	}
	return int64(key + value + 2 + 10)
}

// Set adds an entry. It copies key and value.
func (w *Writer) Set(key, value []byte) error { return w.SetKept(key, w.memory.copy(value)) }

// SetKept adds an entry. It copies the key. The value must not be changed before Await returns.
func (w *Writer) SetKept(key, value []byte) error {
	w.Reserve(len(key), len(value))
	return w.SetReserved(key, value, 0)
}

// SetReserved adds an entry for which space was reserved. It copies the key. The value must not be changed before Await
// returns.
func (w *Writer) SetReserved(key, value []byte, meta byte) error {
	w.values += int64(len(value))
	e := w.memory.entry()
	e.Key, e.Value, e.UserMeta = w.memory.copy(key), value, meta
	return w.open().SetEntry(e)
}

// Delete deletes an entry. It copies the key.
func (w *Writer) Delete(key []byte) error {
	w.Reserve(len(key), 0)
	return w.open().Delete(w.memory.copy(key))
}

func (w *Writer) open() *badger.Txn {
	if w.txn == nil {
		w.txn = w.db.NewTransaction(true)
	}
	return w.txn
}

// Send gives the transaction to Badger and begins the next one. It must have entries, and the one before must have been
// awaited.
func (w *Writer) Send() {
	txn, s := w.txn, &sending{ended: make(chan error, 1), memory: w.memory}
	// Badger lets no transaction begin while another is being written, so the next one begins before. What it reads
	// does not matter: it only writes.
	w.txn, w.count, w.size, w.values = w.db.NewTransaction(true), 0, 0, 0
	w.memory, w.spare, w.sent = cmp.Or(w.spare, &slab{}), nil, s
	txn.CommitWith(func(err error) { s.ended <- err })
}

// Sending reports whether a transaction was sent and not awaited.
func (w *Writer) Sending() bool { return w.sent != nil }

// Await waits until Badger has written what was sent to it.
func (w *Writer) Await() error {
	s := w.sent
	if s == nil {
		return nil
	}
	w.sent = nil
	if err := <-s.ended; err != nil {
		return fmt.Errorf("commit to badger: %w", err)
	}
	s.memory.reset()
	w.spare = s.memory
	return nil
}

// Discard drops the transaction that is being put together. If it is empty that loses nothing; Badger keeps old entries
// while a transaction is open that could read them.
func (w *Writer) Discard() {
	if w.txn != nil {
		w.txn.Discard()
		w.txn = nil
	}
	w.count, w.size, w.values = 0, 0, 0
	w.memory.reset()
}
