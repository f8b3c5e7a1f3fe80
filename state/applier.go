package state

import (
	"encoding/binary"
	"fmt"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/state/internal/badgerfiles"
	"github.com/mapwright/mapwright/state/internal/keyset"
	"github.com/mapwright/mapwright/state/internal/record"
	"github.com/mapwright/mapwright/state/internal/txn"
)

// An applier brings records into Badger. It is used by one goroutine.
//
// Applying a record twice, or after a later record, has the same result as applying it once in its order. That makes
// recovery simple. So a transaction may hold a part of a record. But the position moves past a record only when all of
// it is in Badger.
type applier struct {
	view  *view
	space disk.Space
	// committed is called after each transaction that moved the position.
	committed func(applied)

	txns   *txn.Writer
	blocks openBlocks
	buf    []byte

	links, finishes keyset.Recent

	sections record.Visitor        // applies the sections of a record
	kept     bool                  // the memory of records is not used again before they are in Badger
	position frontier.Position     // of the record being applied
	cursors  []frontier.HostCursor // of that record
	current  uint8                 // partition of the part being applied
	next     progress              // after the last whole record; inflight is not used
	changed  record.PartitionSet   // partitions of which something changed in next since the last transaction
	inflight []inflightChange
	done     applied

	sent *sentRecords // the contents of the transaction that Badger is writing
}

// sentRecords is what becomes visible when a transaction is in Badger.
type sentRecords struct {
	closed []*record.BlockBuilder // whose memory the transaction uses

	moved    bool // it moved the position; otherwise the fields down to done mean nothing
	position frontier.Position
	run      uint64
	parts    []changedPart
	inflight []inflightChange
	done     applied
	after    []func()
}

// A changedPart is a partition's new progress.
type changedPart struct {
	partition uint8
	progress  partProgress
}

// applied is what a transaction brought into Badger.
type applied struct {
	position frontier.Position // of its last record
	records  int               // whole ones
	cost     int64             // sum of what was given to add
	links    []weburl.Key      // that they named; valid during the call
}

type inflightChange struct {
	key weburl.Key
	op  inflightOp
}

type inflightOp uint8

const (
	opLeased inflightOp = iota
	opLeasedAlone
	opReturned
	opOpened // the partition of key was opened or closed: nothing of it is in flight
)

func newApplier(v *view, o Options, committed func(applied)) *applier {
	a := &applier{
		view: v, space: o.space(), committed: committed,
		txns: txn.NewWriter(v.db), blocks: newOpenBlocks(),
		next: v.progress(), sent: &sentRecords{},
	}
	a.next.inflight = nil
	a.sections = a.visitor()
	return a
}

// add applies the record at a position, which must be after the one before it;
// there may be gaps. It is in Badger after the next commit, which
// add does itself when the transaction has become large.
func (a *applier) add(at frontier.Position, rec []byte, cost int64) error {
	if at <= a.next.position {
		return fmt.Errorf("apply record %d after %d: out of order", at, a.next.position)
	}
	if err := a.walk(at, rec); err != nil {
		return err
	}
	a.next.position = at
	a.done.records++
	a.done.cost += cost
	if a.txns.Full(2) {
		return a.commit(nil)
	}
	return nil
}

// replay applies a record of a partition that another machine wrote. It does not move the
// position, which is that of this machine's records.
func (a *applier) replay(at frontier.Position, rec []byte) error {
	if err := a.walk(at, rec); err != nil {
		return err
	}
	a.done.records++
	if a.txns.Full(2) {
		return a.commit(nil)
	}
	return nil
}

// walk turns a record into entries of the transaction.
func (a *applier) walk(at frontier.Position, rec []byte) error {
	a.position = at
	a.cursors = a.cursors[:0]
	if err := record.Walk(rec, &a.sections); err != nil {
		return fmt.Errorf("apply record %d: %w", at, err)
	}
	if err := a.deleteBlocks(); err != nil {
		return fmt.Errorf("apply cursors of record %d: %w", at, err)
	}
	return nil
}

// commit sends Badger all records that were added, with their position. await waits until they are there, and then
// calls after if it is not nil.
func (a *applier) commit(after func()) error {
	if a.done.records > 0 {
		if err := a.sendMoved(); err != nil {
			return err
		}
	}
	switch {
	case after == nil:
	case !a.txns.Sending():
		after()
	default:
		a.sent.after = append(a.sent.after, after)
	}
	return nil
}

// commitAndWait commits, and returns when all is in Badger.
func (a *applier) commitAndWait() error {
	if err := a.commit(nil); err != nil {
		return err
	}
	return a.await()
}

func (a *applier) sendMoved() error {
	a.buf = binary.BigEndian.AppendUint64(a.buf[:0], uint64(a.next.position))
	if err := a.put(record.MetaKey(record.MetaApplied), a.buf); err != nil {
		return err
	}
	return a.send(true)
}

// publish makes the progress of a transaction that was committed visible.
func (a *applier) publish(f *sentRecords) {
	v := a.view
	v.mu.Lock()
	defer v.mu.Unlock()
	inflight := v.reached.inflight
	v.reached.position, v.reached.run = f.position, f.run
	for _, p := range f.parts {
		v.reached.parts[p.partition] = p.progress
	}
	for _, c := range f.inflight {
		switch c.op {
		case opLeased:
			inflight[c.key] = false
		case opLeasedAlone:
			inflight[c.key] = true
		case opReturned:
			delete(inflight, c.key)
		case opOpened:
			for k := range inflight {
				if k.Host.Partition() == c.key.Host.Partition() {
					delete(inflight, k)
				}
			}
		}
	}
}

// flush commits the transaction as it is, without moving the position, and waits
// until it can be read.
func (a *applier) flush() error {
	if err := a.send(false); err != nil {
		return err
	}
	return a.await()
}

// send passes the transaction to Badger after it has waited for the one before.
func (a *applier) send(moved bool) error {
	if err := a.blocks.closeAll(a.txns); err != nil {
		return err
	}
	if a.txns.Empty() {
		return nil
	}
	if err := a.space.Check(a.view.dir, 0); err != nil {
		return err
	}
	if err := a.await(); err != nil {
		return err
	}
	f := a.sent
	f.moved = moved
	f.closed, a.blocks.closed = a.blocks.closed, f.closed
	if moved {
		f.position, f.run, f.parts = a.next.position, a.next.run, f.parts[:0]
		for p := range a.changed.All() {
			f.parts = append(f.parts, changedPart{p, a.next.parts[p]})
		}
		a.changed = record.PartitionSet{}
		f.inflight, a.inflight = a.inflight, f.inflight[:0]
		a.done.position = a.next.position
		f.done, a.done = a.done, applied{links: f.done.links[:0]}
	}
	a.txns.Send()
	return nil
}

// await waits until Badger has what was sent to it. If nothing is to follow, it leaves no transaction open, because
// Badger keeps old values as long as an open transaction could read them.
func (a *applier) await() error {
	if !a.txns.Sending() {
		return nil
	}
	if err := a.txns.Await(); err != nil {
		return err
	}
	f := a.sent
	f.closed = a.blocks.recycle(f.closed)
	a.view.newest.renew(a.view.db)
	if f.moved {
		a.publish(f)
		a.committed(f.done)
	}
	for _, after := range f.after {
		after()
	}
	f.after = f.after[:0]
	if a.txns.Empty() {
		a.txns.Discard()
	}
	return nil
}

// put adds an entry to the transaction.
func (a *applier) put(key, value []byte) error {
	if err := a.makeRoom(len(key), len(value)); err != nil {
		return err
	}
	return a.txns.Set(key, value)
}

// putPart does the same for a value that is a part of the record.
func (a *applier) putPart(key, value []byte) error {
	if !a.kept {
		return a.put(key, value)
	}
	if err := a.makeRoom(len(key), len(value)); err != nil {
		return err
	}
	return a.txns.SetKept(key, value)
}

func (a *applier) delete(key []byte) error {
	if err := a.makeRoom(len(key), 0); err != nil {
		return err
	}
	return a.txns.Delete(key)
}

// makeRoom sends the transaction if it has no room for an entry.
func (a *applier) makeRoom(key, value int) error {
	if a.txns.HasRoom(key, value) {
		return nil
	}
	return a.send(false)
}

// enqueue adds a link to the open block of its host and priority.
func (a *applier) enqueue(l *record.LinkView) error {
	id := blockID{l.Key.Host, l.Priority}
	if !a.blocks.has(id) {
		if err := a.makeRoom(record.QueueKeySize, badgerfiles.ValueThreshold); err != nil {
			return err
		}
	}
	return a.blocks.add(a.txns, id, a.position, l)
}
