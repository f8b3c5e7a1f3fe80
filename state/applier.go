package state

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// valueBytesPerTxn bounds what one transaction adds to the value log.
const valueBytesPerTxn = 4 << 20

// An applier brings records into Badger. It is used by one goroutine.
//
// Applying a record twice, or one after another that came later, leaves what
// applying it once in its place would: that is what makes recovery simple.
// So a transaction may hold a part of a record, as long as the position is not
// moved past the record before all of it is in.
type applier struct {
	view      *view
	minFree   int64 // bytes that the disk must have left, or Off
	freeBytes func(dir string) (int64, error)
	// committed is called after each transaction that moved the position.
	committed func(applied)

	maxCount, maxSize int64 // of a transaction, with room for what commit adds

	txn    *badger.Txn // nil if none was begun; it may be empty
	count  int64       // entries in txn, and of blocks that are open
	size   int64       // of them, as Badger reckons
	values int64       // bytes of values among them
	slab   slab
	blocks map[blockID]*blockBuilder
	closed []*blockBuilder // whose memory txn uses
	free   []*blockBuilder
	buf    []byte

	links, finishes recentSet

	seq      uint64       // record being applied
	cursors  []HostCursor // of that record
	next     progress     // after the last whole record; inflight is not used
	inflight []inflightChange
	done     applied

	out   *flight // the transaction that Badger is writing, or nil
	spare *flight // one that is over, for its memory
}

// A flight is a transaction on its way into Badger. While Badger writes it, the
// next one is put together; there is never more than one, so that they arrive in
// order and are known to have.
type flight struct {
	ended  chan error
	slab   slab
	closed []*blockBuilder

	moved    bool // it moved the position; else what follows means nothing
	next     progress
	inflight []inflightChange
	done     applied
	after    []func()
}

// applied is what a transaction brought into Badger.
type applied struct {
	seq     uint64        // of its last record
	records int           // whole ones
	cost    int64         // sum of what was given to add
	links   []urlnorm.Key // that they named; valid during the call
}

// A blockID is the queue of a host at one priority, which blocks are parts of.
type blockID struct {
	host     urlnorm.HostID
	priority uint8
}

type inflightChange struct {
	key urlnorm.Key
	op  inflightOp
}

type inflightOp uint8

const (
	opLeased inflightOp = iota
	opReturned
	opStarted // a run: nothing is in flight
)

// reservedEntries are those that commit adds: position, counters, and the end
// of the transaction.
const reservedEntries = 4

func newApplier(v *view, o Options, committed func(applied)) *applier {
	a := &applier{
		view: v, minFree: o.MinFree, freeBytes: o.freeBytes, committed: committed,
		maxCount: v.db.MaxBatchCount() - reservedEntries,
		maxSize:  v.db.MaxBatchSize() - 4096,
		blocks:   map[blockID]*blockBuilder{},
		next:     v.progress(),
	}
	a.next.inflight = nil
	return a
}

// add applies the record at seq. It is in Badger after the next commit, which
// add does itself when the transaction has become large.
func (a *applier) add(seq uint64, rec []byte, cost int64) error {
	if seq != a.next.seq+1 {
		return fmt.Errorf("apply record %d after %d: out of order", seq, a.next.seq)
	}
	a.seq = seq
	a.cursors = a.cursors[:0]
	if err := walk(rec, a); err != nil {
		return fmt.Errorf("apply record %d: %w", seq, err)
	}
	if err := a.deleteBlocks(); err != nil {
		return fmt.Errorf("apply cursors of record %d: %w", seq, err)
	}
	a.next.seq = seq
	a.done.records++
	a.done.cost += cost
	if a.full(2) {
		return a.commit(nil)
	}
	return nil
}

// full reports whether 1/n of a transaction is used.
func (a *applier) full(n int64) bool {
	return a.count >= a.maxCount/n || a.size >= a.maxSize/n || a.values >= valueBytesPerTxn/n
}

// commit sends all records that were added to Badger, with their position. They
// are there after await, and then after is called if it is not nil.
func (a *applier) commit(after func()) error {
	if a.done.records > 0 {
		if err := a.sendMoved(); err != nil {
			return err
		}
	}
	switch {
	case after == nil:
	case a.out == nil:
		after()
	default:
		a.out.after = append(a.out.after, after)
	}
	return nil
}

func (a *applier) sendMoved() error {
	a.buf = binary.BigEndian.AppendUint64(a.buf[:0], a.next.seq)
	if err := a.put(metaKey(metaApplied), a.buf); err != nil {
		return err
	}
	a.buf = a.next.counters.append(append(a.buf[:0], formatVersion))
	if err := a.put(metaKey(metaCounters), a.buf); err != nil {
		return err
	}
	return a.send(true)
}

// publish makes the progress of a transaction that was committed visible.
func (a *applier) publish(f *flight) {
	v := a.view
	v.mu.Lock()
	defer v.mu.Unlock()
	inflight := v.reached.inflight
	v.reached = f.next
	v.reached.inflight = inflight
	for _, c := range f.inflight {
		switch c.op {
		case opLeased:
			inflight[c.key] = struct{}{}
		case opReturned:
			delete(inflight, c.key)
		case opStarted:
			clear(inflight)
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

// send gives the transaction to Badger when it is through with the one before.
func (a *applier) send(moved bool) error {
	for id, b := range a.blocks {
		if err := a.closeBlock(id, b); err != nil {
			return err
		}
	}
	if a.count == 0 {
		return nil
	}
	if err := a.checkDisk(); err != nil {
		return err
	}
	if err := a.await(); err != nil {
		return err
	}
	f := a.spare
	if f == nil {
		f = &flight{ended: make(chan error, 1)}
	}
	f.moved = moved
	f.slab, a.slab = a.slab, f.slab
	f.closed, a.closed = a.closed, f.closed
	if moved {
		f.next = a.next
		f.inflight, a.inflight = a.inflight, f.inflight[:0]
		a.done.seq = a.next.seq
		f.done, a.done = a.done, applied{links: f.done.links[:0]}
	}
	txn := a.txn
	// Badger lets no transaction begin while another is being written, so the next
	// one begins before. What it reads does not matter: it only writes.
	a.txn, a.count, a.size, a.values = a.view.db.NewTransaction(true), 0, 0, 0
	a.out, a.spare = f, nil
	txn.CommitWith(func(err error) { f.ended <- err })
	return nil
}

// await waits until Badger has what was sent to it. If there is nothing to follow,
// no transaction stays open, for Badger keeps what one could read.
func (a *applier) await() error {
	f := a.out
	if f == nil {
		return nil
	}
	a.out = nil
	if err := <-f.ended; err != nil {
		return fmt.Errorf("commit to badger: %w", err)
	}
	f.slab.reset()
	for _, b := range f.closed {
		b.reset()
	}
	a.free = append(a.free, f.closed...)
	a.free = a.free[:min(len(a.free), freeBlocks)]
	f.closed = f.closed[:0]
	a.view.newest.renew(a.view.db)
	if f.moved {
		a.publish(f)
		a.committed(f.done)
	}
	for _, after := range f.after {
		after()
	}
	f.after = f.after[:0]
	a.spare = f
	if a.count == 0 {
		a.discard()
	}
	return nil
}

const freeBlocks = 1024

func (a *applier) checkDisk() error {
	if a.minFree == Off {
		return nil
	}
	free, err := a.freeBytes(a.view.dir)
	if err != nil {
		return fmt.Errorf("look for free disk: %w", err)
	}
	if free < a.minFree {
		return fmt.Errorf("%s: %w: %d MiB are free and %d MiB are needed", a.view.dir, ErrDiskFull, free>>20, a.minFree>>20)
	}
	return nil
}

// discard drops what was added and not committed.
func (a *applier) discard() {
	if a.txn != nil {
		a.txn.Discard()
		a.txn = nil
	}
}
