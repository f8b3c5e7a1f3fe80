package wal

// keepBuffer is the largest memory of a batch that is kept for a later one.
const keepBuffer = 2 * defaultMaxBatch

// batch is what becomes durable with one fsync.
type batch struct {
	seg     *header // segment it goes to
	off     int64   // its place there: a page boundary
	buf     []byte  // a barrier, then frames
	last    LSN
	records int
	payload int64
	done    chan struct{} // closed when it is durable or never will be
	err     error         // set before done is closed
}

// batchLocked returns the batch being filled, opening one if there is none.
// Only here is it decided which segment a batch goes to: the end of the batch
// before it is known by now, and checksums depend on the segment.
func (l *Log) batchLocked() *batch {
	if l.pending != nil {
		return l.pending
	}
	if l.tail == nil || l.end >= l.opts.SegmentSize {
		l.tail, l.end = newHeader(l.logID, l.next), headerSize
	}
	b := &batch{seg: l.tail, off: l.end, done: make(chan struct{})}
	b.buf = b.seg.appendBarrier(l.spare[:0], b.off, l.next)
	l.spare = nil
	l.pending = b
	return b
}

func (l *Log) addLocked(b *batch, rec []byte) {
	b.buf = appendFrame(b.buf, typeRecord, b.seg.recordSeed(l.next), rec)
	b.last = l.next
	b.records++
	b.payload += int64(len(rec))
	l.next++
	l.end = alignUp(b.off + int64(len(b.buf)))
}

// pad fills the last page, so that no later write touches a page of this batch.
func (b *batch) pad() {
	n := alignUp(int64(len(b.buf))) - int64(len(b.buf))
	b.buf = append(b.buf, make([]byte, n)...)
}
