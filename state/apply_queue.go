package state

import (
	"context"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/badgerfiles"
	"github.com/mapwright/mapwright/state/internal/record"
	"github.com/mapwright/mapwright/state/internal/txn"
)

// A blockID names the queue of a host at one priority. Blocks are parts of such a queue.
type blockID struct {
	host     weburl.HostID
	priority uint8
}

// openBlocks are the blocks that get links of the current transaction. Each has room reserved in that transaction.
type openBlocks struct {
	open   map[blockID]*record.BlockBuilder
	closed []*record.BlockBuilder // whose memory the current transaction uses
	free   []*record.BlockBuilder
}

// maxFreeBlocks is how many blocks are kept for later use.
const maxFreeBlocks = 1024

func newOpenBlocks() openBlocks { return openBlocks{open: map[blockID]*record.BlockBuilder{}} }

func (o *openBlocks) has(id blockID) bool { return o.open[id] != nil }

// add adds a link to a block. If the block is not open, w must have room for it.
func (o *openBlocks) add(w *txn.Writer, id blockID, at frontier.Position, l *record.LinkView) error {
	b := o.open[id]
	if b == nil {
		w.Reserve(record.QueueKeySize, badgerfiles.ValueThreshold)
		if n := len(o.free); n > 0 {
			b, o.free = o.free[n-1], o.free[:n-1]
		} else {
			b = &record.BlockBuilder{}
		}
		o.open[id] = b
	}
	b.Add(at, l)
	if b.Full() {
		return o.close(w, id, b)
	}
	return nil
}

// close puts a block into the transaction.
func (o *openBlocks) close(w *txn.Writer, id blockID, b *record.BlockBuilder) error {
	delete(o.open, id)
	o.closed = append(o.closed, b)
	var key [record.QueueKeySize]byte
	return w.SetReserved(record.AppendQueueKey(key[:0], id.host, b.Last), b.Buf, byte(b.Count))
}

func (o *openBlocks) closeAll(w *txn.Writer) error {
	for id, b := range o.open {
		if err := o.close(w, id, b); err != nil {
			return err
		}
	}
	return nil
}

// recycle keeps builders whose blocks are in Badger, for later use. It returns the list, emptied.
func (o *openBlocks) recycle(blocks []*record.BlockBuilder) []*record.BlockBuilder {
	for _, b := range blocks {
		b.Reset()
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
	it := read.NewIterator(badger.IteratorOptions{Prefix: []byte{record.FamQueue}})
	defer it.Close()
	for _, c := range a.cursors {
		prefix := record.AppendHostKey(nil, record.FamQueue, c.Host)
		for it.Seek(prefix); it.ValidForPrefix(prefix); it.Next() {
			_, last, ok := record.ParseQueueKey(it.Item().Key())
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
		a.buf = record.AppendCursor(append(a.buf[:0], record.Version), c.Low)
		if err := a.put(record.AppendHostKey(nil, record.FamCursor, c.Host), a.buf); err != nil {
			return err
		}
	}
	return nil
}

// dropBlocks deletes the blocks of queues that come from records after a position. The key of a block is its last link.
// When the records are applied again, their links may fall into other blocks. The old blocks would then stay, perhaps
// with nothing left but the key. The journal says which queues can have such blocks: what is in Badger was durable in
// the journal before.
func (a *applier) dropBlocks(j Journal, after frontier.Position) error {
	grown := map[blockID]bool{}
	note := func(l *record.LinkView) error {
		grown[blockID{l.Key.Host, l.Priority}] = true
		return nil
	}
	v := record.Visitor{Link: note, Visit: note}
	err := j.Replay(context.Background(), everywhere(after), func(_ frontier.Position, rec []byte) error {
		return record.Walk(rec, &v)
	})
	if err != nil || len(grown) == 0 {
		return err
	}
	read := a.view.db.NewTransaction(false)
	defer read.Discard()
	it := read.NewIterator(badger.IteratorOptions{Prefix: []byte{record.FamQueue}})
	defer it.Close()
	for q := range grown {
		prefix := append(record.AppendHostKey(nil, record.FamQueue, q.host), q.priority)
		it.Seek(record.AppendQueueKey(nil, q.host, frontier.Cursor{Priority: q.priority, Position: after + 1}))
		for ; it.ValidForPrefix(prefix); it.Next() {
			if err := a.delete(it.Item().Key()); err != nil {
				return err
			}
		}
	}
	return a.flush()
}
