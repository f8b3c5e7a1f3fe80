package state

import (
	"context"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/badgerfiles"
	"github.com/mapwright/mapwright/state/internal/txn"
)

// A blockID is the queue of a host at one priority, which blocks are parts of.
type blockID struct {
	host     frontier.HostID
	priority uint8
}

// openBlocks are the blocks that get links of the current transaction. Each has room reserved in it.
type openBlocks struct {
	open   map[blockID]*blockBuilder
	closed []*blockBuilder // whose memory the current transaction uses
	free   []*blockBuilder
}

// maxFreeBlocks is how many blocks are kept for later use.
const maxFreeBlocks = 1024

func newOpenBlocks() openBlocks { return openBlocks{open: map[blockID]*blockBuilder{}} }

func (o *openBlocks) has(id blockID) bool { return o.open[id] != nil }

// add adds a link to a block. If the block is not open, w must have room for it.
func (o *openBlocks) add(w *txn.Writer, id blockID, at frontier.Position, index int, l *linkView) error {
	b := o.open[id]
	if b == nil {
		w.Reserve(queueKeySize, badgerfiles.ValueThreshold)
		if n := len(o.free); n > 0 {
			b, o.free = o.free[n-1], o.free[:n-1]
		} else {
			b = &blockBuilder{}
		}
		o.open[id] = b
	}
	b.add(at, index, l)
	if b.full() {
		return o.close(w, id, b)
	}
	return nil
}

// close puts a block into the transaction.
func (o *openBlocks) close(w *txn.Writer, id blockID, b *blockBuilder) error {
	delete(o.open, id)
	o.closed = append(o.closed, b)
	var key [queueKeySize]byte
	return w.SetReserved(appendQueueKey(key[:0], id.host, b.last), b.buf, byte(b.count))
}

func (o *openBlocks) closeAll(w *txn.Writer) error {
	for id, b := range o.open {
		if err := o.close(w, id, b); err != nil {
			return err
		}
	}
	return nil
}

// recycle keeps blocks that are in Badger for later use. It returns the empty list.
func (o *openBlocks) recycle(blocks []*blockBuilder) []*blockBuilder {
	for _, b := range blocks {
		b.reset()
	}
	o.free = append(o.free, blocks...)
	o.free = o.free[:min(len(o.free), maxFreeBlocks)]
	return blocks[:0]
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
			// The cursor says nothing about links that come later in the log.
			if last.Position >= a.position {
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

// dropBlocks deletes the parts of queues that come from records after a position. A
// block is known by its last link, and when its records are applied again they
// may fall into other blocks; so the old ones, of which nothing may be left
// but the key, would stay. The journal says which queues can have such parts: what
// is in Badger was durable in the journal before.
func (a *applier) dropBlocks(j Journal, after frontier.Position) error {
	grown := queueVisitor{queues: map[blockID]bool{}}
	err := j.Replay(context.Background(), everywhere(after), func(_ frontier.Position, rec []byte) error { return walk(rec, &grown) })
	if err != nil || len(grown.queues) == 0 {
		return err
	}
	read := a.view.db.NewTransaction(false)
	defer read.Discard()
	it := read.NewIterator(badger.IteratorOptions{Prefix: []byte{famQueue}})
	defer it.Close()
	for q := range grown.queues {
		prefix := append(appendHostKey(nil, famQueue, q.host), q.priority)
		it.Seek(appendQueueKey(nil, q.host, frontier.Cursor{Priority: q.priority, Position: after + 1}))
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

func (v *queueVisitor) visit(index int, l *linkView) error { return v.link(index, l) }

func (v *queueVisitor) link(_ int, l *linkView) error {
	v.queues[blockID{l.key.Host, l.priority}] = true
	return nil
}
