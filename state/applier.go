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

	txn    *badger.Txn // nil if nothing is to be committed
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
}

// applied is what a transaction brought into Badger.
type applied struct {
	seq     uint64        // of its last record
	records int           // whole ones
	cost    int64         // sum of what was given to add
	links   []urlnorm.Key // that they named; valid during the call
}

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
		return a.commit()
	}
	return nil
}

// full reports whether 1/n of a transaction is used.
func (a *applier) full(n int64) bool {
	return a.count >= a.maxCount/n || a.size >= a.maxSize/n || a.values >= valueBytesPerTxn/n
}

// commit brings all records that were added into Badger, with their position.
func (a *applier) commit() error {
	if a.done.records == 0 {
		return nil
	}
	a.buf = binary.BigEndian.AppendUint64(a.buf[:0], a.next.seq)
	if err := a.put(metaKey(metaApplied), a.buf); err != nil {
		return err
	}
	a.buf = a.next.counters.append(append(a.buf[:0], formatVersion))
	if err := a.put(metaKey(metaCounters), a.buf); err != nil {
		return err
	}
	if err := a.flush(); err != nil {
		return err
	}
	a.publish()
	a.done.seq = a.next.seq
	a.committed(a.done)
	a.done = applied{links: a.done.links[:0]}
	return nil
}

// publish makes the progress of a transaction that was committed visible.
func (a *applier) publish() {
	v := a.view
	v.mu.Lock()
	defer v.mu.Unlock()
	inflight := v.reached.inflight
	v.reached = a.next
	v.reached.inflight = inflight
	for _, c := range a.inflight {
		switch c.op {
		case opLeased:
			inflight[c.key] = struct{}{}
		case opReturned:
			delete(inflight, c.key)
		case opStarted:
			clear(inflight)
		}
	}
	a.inflight = a.inflight[:0]
}

// flush commits the transaction as it is, without moving the position.
func (a *applier) flush() error {
	for id, b := range a.blocks {
		if err := a.closeBlock(id, b); err != nil {
			return err
		}
	}
	if a.txn == nil {
		return nil
	}
	if err := a.checkDisk(); err != nil {
		return err
	}
	txn := a.txn
	a.txn, a.count, a.size, a.values = nil, 0, 0, 0
	if err := txn.Commit(); err != nil {
		return fmt.Errorf("commit to badger: %w", err)
	}
	a.slab.reset()
	for _, b := range a.closed {
		b.reset()
	}
	a.free = append(a.free, a.closed...)
	a.free = a.free[:min(len(a.free), freeBlocks)]
	a.closed = a.closed[:0]
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
		return fmt.Errorf("%d bytes free on disk, fewer than %d: %w", free, a.minFree, ErrDiskFull)
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
