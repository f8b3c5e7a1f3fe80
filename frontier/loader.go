package frontier

import (
	"container/heap"
	"sync"
	"sync/atomic"
)

// The loader reads from the store what hosts need, in a few goroutines: what was
// learned about a new host, and URLs for windows that run low. Those whose time
// comes first are served first.
type loader struct {
	// starved is set when somebody needs memory and there is none, until all loads
	// are done. As long as it is, new links stay on disk, and hosts whose time is not
	// near give theirs up. It is written under mu.
	starved atomic.Bool

	mu     sync.Mutex // guards everything below
	wake   sync.Cond
	asks   []job
	loads  jobHeap
	retry  bool // memory was given back while starved
	held   bool // no windows are loaded for now
	closed bool

	sweeps    sync.Mutex // held while memory is being reclaimed; guards fruitless
	fruitless bool       // the last sweep found nothing, and all hosts give back by themselves since
}

type job struct {
	at   int64
	s    *shard
	host int32
}

type jobHeap []job

func (q jobHeap) Len() int           { return len(q) }
func (q jobHeap) Less(i, j int) bool { return q[i].at < q[j].at }
func (q jobHeap) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *jobHeap) Push(x any)        { *q = append(*q, x.(job)) }
func (q *jobHeap) Pop() any {
	old := *q
	j := old[len(old)-1]
	*q = old[:len(old)-1]
	return j
}

const (
	loaders = 4
	// windowLow is how few URLs a window may have before more are loaded, windowFill
	// how many are loaded at once.
	windowLow  = 256
	windowFill = 1024
)

func (q *loader) init() { q.wake.L = &q.mu }

func (q *loader) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake.Broadcast()
}

// ask has the store asked about a host. The host's shard is locked.
func (q *loader) ask(s *shard, i int32, h *host) {
	if h.flags&hostAsking != 0 {
		return
	}
	h.flags |= hostAsking
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asks = append(q.asks, job{s: s, host: i})
	q.wake.Signal()
}

// load has a host's window filled, or the text of a wait read, before the given
// time if possible. The host's shard is locked.
func (q *loader) load(s *shard, i int32, h *host, at int64) {
	if h.flags&hostLoading != 0 {
		return
	}
	h.flags |= hostLoading
	q.mu.Lock()
	defer q.mu.Unlock()
	heap.Push(&q.loads, job{at, s, i})
	if !q.starved.Load() || q.retry {
		q.wake.Signal()
	}
}

// hold keeps windows from being loaded until it is called with false.
func (q *loader) hold(held bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = held
	q.wake.Broadcast()
}

// kick lets the loader try again: memory was given back.
func (q *loader) kick() {
	if !q.starved.Load() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retry = true
	q.wake.Signal()
}

// next waits for something to do.
func (q *loader) next() (j job, ask, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.closed:
			return job{}, false, false
		case len(q.asks) > 0:
			j = q.asks[0]
			if q.asks = q.asks[1:]; len(q.asks) == 0 {
				q.asks = nil
			}
			return j, true, true
		case len(q.loads) > 0 && !q.held && (q.retry || !q.starved.Load()):
			return heap.Pop(&q.loads).(job), false, true
		}
		q.wake.Wait()
	}
}

// runLoader is one of the loader's goroutines.
func (f *Frontier) runLoader() {
	for {
		j, ask, ok := f.loader.next()
		if !ok {
			return
		}
		var err error
		if ask {
			err = f.askStore(j)
		} else {
			err = f.loadWindow(j)
		}
		if err != nil {
			if f.ctx.Err() == nil {
				f.fail(err)
			}
			return
		}
	}
}

// fed notes that a load went through: if it was the last, nobody starves.
func (q *loader) fed() {
	if !q.starved.Load() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.loads) == 0 {
		q.starved.Store(false)
	}
}
