package state

import (
	"encoding/binary"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// An applier is the visitor of the records that it applies.
var _ visitor = (*applier)(nil)

func (a *applier) head(kind byte, epoch uint64) error {
	a.next.epoch, a.next.ended = epoch, kind == kindEnd
	if kind == kindStart {
		a.inflight = append(a.inflight, inflightChange{op: opStarted})
	}
	return nil
}

func (a *applier) finish(k urlnorm.Key, value []byte) error {
	r, err := valueReader("finish", value)
	if err != nil {
		return err
	}
	var f Finish
	r.finishHead(&f)
	if err := r.done("finish"); err != nil {
		return err
	}
	if a.finishes.add(k, f.Generation) {
		a.next.counters.finished(&f)
	}
	a.inflight = append(a.inflight, inflightChange{k, opReturned})
	if err := a.forgetCrashes(k); err != nil {
		return err
	}
	return a.put(a.urlKey(famFinish, k), value)
}

func (a *applier) forgetCrashes(k urlnorm.Key) error {
	a.view.mu.Lock()
	_, crashed := a.view.crashes[k]
	delete(a.view.crashes, k)
	a.view.mu.Unlock()
	if !crashed {
		return nil
	}
	return a.delete(a.urlKey(famCrashed, k))
}

func (a *applier) link(index int, l *linkView) error {
	a.done.links = append(a.done.links, l.key)
	a.buf = appendDiscovery(a.buf[:0], l)
	if err := a.put(a.urlKey(famURL, l.key), a.buf); err != nil {
		return err
	}
	if !a.links.add(l.key, 0) {
		return nil
	}
	a.next.counters.Discovered++
	return a.enqueue(index, l)
}

func (a *applier) leased(k urlnorm.Key) error {
	a.inflight = append(a.inflight, inflightChange{k, opLeased})
	return nil
}

func (a *applier) returned(k urlnorm.Key) error {
	a.inflight = append(a.inflight, inflightChange{k, opReturned})
	return nil
}

func (a *applier) host(h urlnorm.HostID, value []byte) error {
	return a.put(appendHostKey(nil, famHost, h), value)
}

func (a *applier) cursor(h urlnorm.HostID, low Cursor) error {
	a.cursors = append(a.cursors, HostCursor{h, low})
	return nil
}

func (a *applier) robots(origin, value []byte) error {
	return a.put(append([]byte{famRobots}, origin...), value)
}

func (a *applier) run(name, value []byte, set bool) error {
	key := append(metaKey(metaRun), name...)
	if !set {
		return a.delete(key)
	}
	a.buf = append(append(a.buf[:0], formatVersion), value...)
	return a.put(key, a.buf)
}

func (a *applier) crashed(k urlnorm.Key, times int) error {
	a.view.mu.Lock()
	a.view.crashes[k] = times
	a.view.mu.Unlock()
	a.buf = binary.AppendUvarint(a.buf[:0], uint64(times))
	return a.put(a.urlKey(famCrashed, k), a.buf)
}

func (a *applier) urlKey(family byte, k urlnorm.Key) []byte {
	var b [urlKeySize]byte
	return appendURLKey(b[:0], family, k)
}

// enqueue adds a link to the open block of its host and priority.
func (a *applier) enqueue(index int, l *linkView) error {
	id := blockID{l.key.Host, l.priority}
	b := a.blocks[id]
	if b == nil {
		if err := a.reserve(queueKeySize, valueThreshold); err != nil {
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
		if err := a.flush(); err != nil {
			return err
		}
	}
	a.count++
	a.size += size
	return nil
}

// entrySize is what Badger reckons for an entry, the version included.
func entrySize(key, value int) int64 {
	if value >= valueThreshold {
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

// deleteBlocks deletes the parts of queues that the cursors of the current
// record say are finished.
func (a *applier) deleteBlocks() error {
	if len(a.cursors) == 0 {
		return nil
	}
	// Blocks of earlier records may still be in the transaction or open.
	if err := a.flush(); err != nil {
		return err
	}
	read := a.view.db.NewTransaction(false)
	defer read.Discard()
	it := read.NewIterator(badger.IteratorOptions{Prefix: []byte{famQueue}})
	defer it.Close()
	for _, c := range a.cursors {
		prefix := appendHostKey(nil, famQueue, c.Host)
		for it.Seek(prefix); it.ValidForPrefix(prefix); it.Next() {
			_, last, ok := parseQueueKey(it.Item().Key())
			if !ok || last.Compare(c.Low) > 0 {
				break
			}
			// The cursor does not speak of what comes later in the log.
			if last.Seq >= a.seq {
				continue
			}
			if err := a.delete(it.Item().Key()); err != nil {
				return err
			}
		}
		a.buf = appendCursor(append(a.buf[:0], formatVersion), c.Low)
		if err := a.put(appendHostKey(nil, famCursor, c.Host), a.buf); err != nil {
			return err
		}
	}
	return nil
}

// dropBlocks deletes the parts of queues that come from records after seq. A
// block is known by its last link, and when its records are applied again they
// may fall into other blocks; so the old ones, of which nothing may be left
// but the key, would stay.
func (a *applier) dropBlocks(seq uint64) error {
	read := a.view.db.NewTransaction(false)
	defer read.Discard()
	it := read.NewIterator(badger.IteratorOptions{Prefix: []byte{famQueue}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		_, last, ok := parseQueueKey(it.Item().Key())
		if ok && last.Seq <= seq {
			continue
		}
		if err := a.delete(it.Item().Key()); err != nil {
			return err
		}
	}
	return a.flush()
}
