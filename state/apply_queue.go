package state

import "github.com/dgraph-io/badger/v4"

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
