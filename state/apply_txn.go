package state

import (
	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/state/internal/badgerfiles"
)

// enqueue adds a link to the open block of its host and priority.
func (a *applier) enqueue(index int, l *linkView) error {
	id := blockID{l.key.Host, l.priority}
	b := a.blocks[id]
	if b == nil {
		if err := a.reserve(queueKeySize, badgerfiles.ValueThreshold); err != nil {
			return err
		}
		if n := len(a.free); n > 0 {
			b, a.free = a.free[n-1], a.free[:n-1]
		} else {
			b = &blockBuilder{}
		}
		a.blocks[id] = b
	}
	b.add(a.seq, index, l)
	if b.full() {
		return a.closeBlock(id, b)
	}
	return nil
}

// closeBlock puts a block into the transaction. Room was reserved for it when
// it was opened.
func (a *applier) closeBlock(id blockID, b *blockBuilder) error {
	delete(a.blocks, id)
	a.closed = append(a.closed, b)
	a.values += int64(len(b.buf))
	var key [queueKeySize]byte
	e := a.slab.entry()
	e.Key = a.slab.copy(appendQueueKey(key[:0], id.host, b.last))
	e.Value = b.buf
	e.UserMeta = byte(b.count)
	return a.open().SetEntry(e)
}

// put adds an entry to the transaction.
func (a *applier) put(key, value []byte) error {
	if err := a.reserve(len(key), len(value)); err != nil {
		return err
	}
	a.values += int64(len(value))
	e := a.slab.entry()
	e.Key, e.Value = a.slab.copy(key), a.slab.copy(value)
	return a.open().SetEntry(e)
}

func (a *applier) delete(key []byte) error {
	if err := a.reserve(len(key), 0); err != nil {
		return err
	}
	return a.open().Delete(a.slab.copy(key))
}

// reserve makes room for one entry, by flushing what there is if need be. The
// position's own entries have room kept for them.
func (a *applier) reserve(key, value int) error {
	size := entrySize(key, value)
	if a.count+1 >= a.maxCount || a.size+size >= a.maxSize || a.values >= valueBytesPerTxn {
		if err := a.send(false); err != nil {
			return err
		}
	}
	a.count++
	a.size += size
	return nil
}

// entrySize is what Badger reckons for an entry, the version included.
func entrySize(key, value int) int64 {
	if value >= badgerfiles.ValueThreshold {
		value = 12
	}
	return int64(key + value + 2 + 10)
}

func (a *applier) open() *badger.Txn {
	if a.txn == nil {
		a.txn = a.view.db.NewTransaction(true)
	}
	return a.txn
}
