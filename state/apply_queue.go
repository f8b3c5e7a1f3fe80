package state

import (
	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/wal"
)

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
// but the key, would stay. The log says which queues can have such parts: what
// is in Badger was durable in the log before.
func (a *applier) dropBlocks(log *wal.Log, seq uint64) error {
	grown := queueVisitor{queues: map[blockID]bool{}}
	err := log.Replay(wal.LSN(seq+1), func(_ wal.LSN, rec []byte) error { return walk(rec, &grown) })
	if err != nil {
		return err
	}
	read := a.view.db.NewTransaction(false)
	defer read.Discard()
	it := read.NewIterator(badger.IteratorOptions{Prefix: []byte{famQueue}})
	defer it.Close()
	for q := range grown.queues {
		prefix := append(appendHostKey(nil, famQueue, q.host), q.priority)
		it.Seek(appendQueueKey(nil, q.host, Cursor{Priority: q.priority, Seq: seq + 1}))
		for ; it.ValidForPrefix(prefix); it.Next() {
			if err := a.delete(it.Item().Key()); err != nil {
				return err
			}
		}
	}
	return a.flush()
}

// A queueVisitor notes which queues get links.
type queueVisitor struct {
	noVisitor
	queues map[blockID]bool
}

func (v *queueVisitor) link(_ int, l *linkView) error {
	v.queues[blockID{l.key.Host, l.priority}] = true
	return nil
}
