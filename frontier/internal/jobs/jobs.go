// Package jobs holds the queue of what a few goroutines read from a store: questions, which are answered first, and
// loads, which need memory. It knows nothing of what is read.
package jobs

import (
	"container/heap"
	"sync"
	"sync/atomic"
)

// A Queue holds questions in the order of arrival, and loads in the order of their times.
//
// It is starved from when a load finds no memory until all loads are done. While it is starved, a load is handed out
// only after memory was given back.
type Queue[T any] struct {
	starved atomic.Bool // written under mu

	mu     sync.Mutex // guards everything below
	wake   sync.Cond
	asks   []T
	loads  loads[T]
	retry  bool // memory was given back while starved
	held   bool // no load is handed out for now
	closed bool
}

// A Job is one thing to read.
type Job[T any] struct {
	Of   T
	Load bool // a load; else a question
	at   int64
}

// Init is called before anything else.
func (q *Queue[T]) Init() { q.wake.L = &q.mu }

// Close ends all waiting in Next.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake.Broadcast()
}

// Ask adds a question.
func (q *Queue[T]) Ask(of T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asks = append(q.asks, of)
	q.wake.Signal()
}

// Load adds a load, which should be done before the given time.
func (q *Queue[T]) Load(of T, at int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	heap.Push(&q.loads, Job[T]{of, true, at})
	if !q.starved.Load() || q.retry {
		q.wake.Signal()
	}
}

// Hold keeps loads from being handed out until it is called with false.
func (q *Queue[T]) Hold(held bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = held
	q.wake.Broadcast()
}

// Next waits for a job. It reports false after Close.
func (q *Queue[T]) Next() (Job[T], bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.closed:
			return Job[T]{}, false
		case len(q.asks) > 0:
			j := Job[T]{Of: q.asks[0]}
			if q.asks = q.asks[1:]; len(q.asks) == 0 {
				q.asks = nil
			}
			return j, true
		case len(q.loads) > 0 && !q.held && (q.retry || !q.starved.Load()):
			return heap.Pop(&q.loads).(Job[T]), true
		}
		q.wake.Wait()
	}
}

// Starve puts a load back that found no memory. The caller then looks once more whether there is some, and calls Freed
// if so: Freed has ignored memory that was given back before the queue was starved.
func (q *Queue[T]) Starve(j Job[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	heap.Push(&q.loads, j)
	q.starved.Store(true)
	q.retry = false
}

// Freed says that memory was given back.
func (q *Queue[T]) Freed() {
	if !q.starved.Load() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retry = true
	q.wake.Signal()
}

// Done says that a load is done. After the last one the queue is not starved.
func (q *Queue[T]) Done() {
	if !q.starved.Load() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.loads) == 0 {
		q.starved.Store(false)
	}
}

// Starved reports whether a load waits for memory.
func (q *Queue[T]) Starved() bool { return q.starved.Load() }

// Len is how many questions and loads there are.
func (q *Queue[T]) Len() (asks, loads int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.asks), len(q.loads)
}

// loads implement [heap.Interface].
type loads[T any] []Job[T]

func (l loads[T]) Len() int           { return len(l) }
func (l loads[T]) Less(i, j int) bool { return l[i].at < l[j].at }
func (l loads[T]) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *loads[T]) Push(x any)        { *l = append(*l, x.(Job[T])) }
func (l *loads[T]) Pop() any {
	old := *l
	j := old[len(old)-1]
	*l = old[:len(old)-1]
	return j
}
