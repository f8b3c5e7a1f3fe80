package state

import (
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
)

// recordOverhead is how many bytes a record costs beside its own while it waits.
const recordOverhead = 64

// A queue gives records their positions and gathers them into batches. It has
// any number of producers and one consumer.
type queue struct {
	records int           // a batch with so many is full
	bytes   int           // or with so many bytes
	delay   time.Duration // or when its first record has waited so long
	wake    chan struct{} // has a token when take should look again

	mu     sync.Mutex
	next   frontier.Position // guarded by mu; of the next record
	newest frontier.Position // guarded by mu; of the last record. It may be less than next-1, after raise
	number uint64            // guarded by mu; of the last batch that was taken
	cur    *Batch            // guarded by mu; being filled, may be empty
	full   []*Batch          // guarded by mu; waiting to be taken, oldest first
	spare  []*Batch          // guarded by mu; to be filled again
	urgent frontier.Position // guarded by mu; a call waits for this position
	err    error             // guarded by mu; why no records are taken in any more
	ended  bool              // guarded by mu; take returns what is left, then nil
}

const spareBatches = 8

func newQueue(o Options) *queue {
	return &queue{records: o.BatchRecords, bytes: o.BatchBytes, delay: o.BatchDelay,
		wake: make(chan struct{}, 1), cur: &Batch{}}
}

// begin sets the position of the first record.
func (q *queue) begin(next frontier.Position) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next, q.newest = next, next-1
}

// raise makes the positions of all later records greater than at.
func (q *queue) raise(at frontier.Position) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at < q.next {
		return
	}
	q.next = at + 1
	if q.cur.len() > 0 { // the positions of a batch have no gaps
		q.full = append(q.full, q.cur)
		q.cur = q.emptyLocked()
		q.wakeUp()
	}
}

// put appends records, which lie end to end in buf, and returns the position
// of the last. It calls placed, if that is not nil, before any later record can
// get a position. It never blocks.
func (q *queue) put(buf []byte, ends []int, placed func(first frontier.Position)) (frontier.Position, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return 0, q.err
	}
	first := q.next
	if placed != nil {
		placed(first)
	}
	start := 0
	for _, end := range ends {
		q.addLocked(buf[start:end])
		start = end
	}
	return q.next - 1, nil
}

func (q *queue) addLocked(rec []byte) {
	b := q.cur
	if b.len() > 0 && (b.len() >= q.records || len(b.buf)+len(rec) > q.bytes) {
		q.full = append(q.full, b)
		b = q.emptyLocked()
		q.cur = b
		q.wakeUp()
	}
	if b.len() == 0 {
		b.first, b.at = q.next, time.Now()
		q.wakeUp()
	}
	b.buf = append(b.buf, rec...)
	b.ends = append(b.ends, len(b.buf))
	q.newest = q.next
	q.next++
}

func (q *queue) emptyLocked() *Batch {
	n := len(q.spare)
	if n == 0 {
		return &Batch{}
	}
	b := q.spare[n-1]
	q.spare = q.spare[:n-1]
	return b
}

// recycle gives back the memory of a batch.
func (q *queue) recycle(b *Batch) {
	b.buf, b.ends = b.buf[:0], b.ends[:0]
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.spare) < spareBatches {
		q.spare = append(q.spare, b)
	}
}

func (q *queue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for the next batch. It returns nil after end, when all is taken.
func (q *queue) take() *Batch {
	for {
		b, wait := q.tryTake()
		if b != nil {
			return b
		}
		if wait < 0 {
			return nil
		}
		if wait == 0 {
			<-q.wake
			continue
		}
		t := time.NewTimer(wait)
		select {
		case <-q.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// tryTake returns a batch that is due, or how long until one may be: zero if
// there is none at all, negative if there never will be.
func (q *queue) tryTake() (*Batch, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.full) > 0 {
		b := q.full[0]
		q.full[0] = nil
		q.full = q.full[1:]
		q.numberLocked(b)
		return b, 0
	}
	b := q.cur
	if b.len() == 0 {
		if q.ended {
			return nil, -1
		}
		return nil, 0
	}
	wait := q.delay - time.Since(b.at)
	if wait > 0 && !q.ended && q.urgent < b.first {
		return nil, wait
	}
	q.cur = q.emptyLocked()
	q.numberLocked(b)
	return b, 0
}

func (q *queue) numberLocked(b *Batch) {
	q.number++
	b.Number = q.number
}

// hurry says that a call waits for the record at a position.
func (q *queue) hurry(at frontier.Position) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at > q.urgent {
		q.urgent = at
		q.wakeUp()
	}
}

// refuse makes every later put fail with err, unless one was given before.
func (q *queue) refuse(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
}

// end refuses records from now on. If last is not nil, it adds that as the last record. take then returns what is left
// without delay, and after that nil.
func (q *queue) end(err error, last []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	if last != nil {
		q.addLocked(last)
	}
	q.ended = true
	q.wakeUp()
}

// last returns the position of the last record, and when the oldest that was
// not yet taken was committed; the zero time if there is none.
func (q *queue) last() (at frontier.Position, oldest time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.full) > 0:
		oldest = q.full[0].at
	case q.cur.len() > 0:
		oldest = q.cur.at
	}
	return q.newest, oldest
}
