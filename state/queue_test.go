package state

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier"
)

func testQueue(records, bytes int) *queue {
	q := newQueue(Options{BatchRecords: records, BatchBytes: bytes, BatchDelay: 20 * time.Millisecond})
	q.begin(1)
	return q
}

func (q *queue) putOne(t *testing.T, size int) {
	t.Helper()
	if _, err := q.put(make([]byte, size), []int{size}, nil); err != nil {
		t.Fatal(err)
	}
}

func TestQueueBatches(t *testing.T) {
	for name, c := range map[string]struct {
		records, bytes int
		put            []int // sizes
		wait           time.Duration
		want           []int // records of each batch
	}{
		"one":            {10, 1000, []int{1}, 20 * time.Millisecond, []int{1}},
		"some":           {10, 1000, []int{1, 1, 1}, 20 * time.Millisecond, []int{3}},
		"full":           {2, 1000, []int{1, 1, 1}, 20 * time.Millisecond, []int{2, 1}},
		"bytes":          {10, 1000, []int{600, 400, 1}, 20 * time.Millisecond, []int{2, 1}},
		"larger than it": {10, 1000, []int{1, 5000, 1}, 20 * time.Millisecond, []int{1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := testQueue(c.records, c.bytes)
				start := time.Now()
				for _, size := range c.put {
					q.putOne(t, size)
				}
				next := frontier.Position(1)
				for _, n := range c.want {
					b := q.take()
					if b.len() != n || b.first != next || b.last() != next+frontier.Position(n)-1 {
						t.Errorf("batch of %d from %d, want %d from %d", b.len(), b.first, n, next)
					}
					next += frontier.Position(n)
				}
				if got := time.Since(start); got != c.wait {
					t.Errorf("took %v, want %v", got, c.wait)
				}
			})
		})
	}
}

// TestQueueHurry takes a batch at once if a call waits for it.
func TestQueueHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(10, 1000)
		q.putOne(t, 1)
		start := time.Now()
		go func() {
			time.Sleep(5 * time.Millisecond)
			q.hurry(1)
		}()
		if b := q.take(); b.len() != 1 || time.Since(start) != 5*time.Millisecond {
			t.Errorf("batch of %d after %v", b.len(), time.Since(start))
		}
		// What comes later is not in a hurry.
		q.putOne(t, 1)
		if q.take(); time.Since(start) != 25*time.Millisecond {
			t.Errorf("second batch after %v", time.Since(start))
		}
	})
}

func TestQueueEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(10, 1000)
		q.putOne(t, 1)
		start := time.Now()
		q.end(ErrClosed, []byte{1, 2})
		if _, err := q.put([]byte{1}, []int{1}, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("put after the end: %v", err)
		}
		if b := q.take(); b.len() != 2 || len(b.record(1)) != 2 {
			t.Errorf("batch of %d", b.len())
		}
		if b := q.take(); b != nil {
			t.Errorf("another batch of %d", b.len())
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("took %v", d)
		}
	})
}

func TestQueueRefusesWithFirstError(t *testing.T) {
	q := testQueue(10, 1000)
	first := errors.New("first")
	q.refuse(first)
	q.refuse(errors.New("second"))
	if _, err := q.put([]byte{1}, []int{1}, nil); !errors.Is(err, first) {
		t.Errorf("put: %v", err)
	}
}

// TestLatency checks that a batch which hangs is seen before it ends.
func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l latencies
		for range 50 {
			l.appending(time.Now())
			l.appended(10 * time.Millisecond)
		}
		if d := l.get(time.Time{}); d != 10*time.Millisecond {
			t.Errorf("latency %v", d)
		}
		l.appending(time.Now())
		time.Sleep(3 * time.Second)
		if d := l.get(time.Time{}); d != 3*time.Second {
			t.Errorf("latency %v while a batch hangs", d)
		}
		l.appended(3 * time.Second)
		if d := l.get(time.Time{}); d < 300*time.Millisecond || d > time.Second {
			t.Errorf("latency %v after it", d)
		}
	})
}

// After raise, the last record is still the one that was put: a call that waits for everything does not wait for a
// position that no record has.
func TestQueueRaise(t *testing.T) {
	q := testQueue(10, 1000)
	last := func(want frontier.Position) {
		t.Helper()
		if at, _ := q.last(); at != want {
			t.Errorf("the last record is at %d, want %d", at, want)
		}
	}
	last(0)
	q.putOne(t, 1)
	last(1)
	q.raise(100)
	last(1)
	q.putOne(t, 1)
	last(101)
	q.raise(50)
	q.putOne(t, 1)
	last(102)
}
