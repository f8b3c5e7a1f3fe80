package frontier

import (
	"container/heap"
	"fmt"
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
		case len(q.loads) > 0 && (q.retry || !q.starved.Load()):
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

// askStore gets what earlier runs learned about a host.
func (f *Frontier) askStore(j job) error {
	s := j.s
	s.mu.Lock()
	h := s.hosts.at(j.host)
	id := h.id
	s.mu.Unlock()
	fact, _, err := f.store.Host(f.ctx, id)
	if err != nil {
		return fmt.Errorf("read host: %w", err)
	}
	s.mu.Lock()
	h.flags &^= hostAsking
	s.learn(j.host, h, fact)
	s.touch(j.host)
	s.unlock()
	return nil
}

// A loadPlan is what a host needs from the store.
type loadPlan struct {
	id    HostID
	after Cursor
	n     int64
	level int32
	disk  uint32 // the level's count when the plan was made
	wait  int32  // the wait to be filled, or -1
	early bool   // the window is not empty yet: no reason to take memory from others
}

// loadWindow reads what a host needs most.
func (f *Frontier) loadWindow(j job) error {
	s := j.s
	s.mu.Lock()
	p, ok := s.planLoad(j.host)
	if !ok {
		s.endLoad(j.host)
		s.unlock()
		f.loader.fed()
		return nil
	}
	s.mu.Unlock()

	got := f.permits.take(p.n)
	if got == 0 && p.early {
		s.mu.Lock()
		s.endLoad(j.host)
		s.unlock()
		return nil
	}
	if got == 0 {
		f.reclaim()
		if got = f.permits.take(p.n); got == 0 {
			f.starve(j)
			return nil
		}
	}
	links, _, err := f.store.Pending(f.ctx, p.id, p.after, int(got))
	if err != nil {
		f.permits.used.Add(-got)
		return fmt.Errorf("read pending links: %w", err)
	}
	s.mu.Lock()
	used, err := s.takeLoad(j.host, &p, links, int(got))
	s.change.permits += got - used
	s.endLoad(j.host)
	s.unlock()
	f.loader.fed()
	return err
}

// starve puts a load back until memory is given back.
func (f *Frontier) starve(j job) {
	q := &f.loader
	q.mu.Lock()
	defer q.mu.Unlock()
	heap.Push(&q.loads, j)
	q.starved.Store(true)
	// If somebody gave back before starved was set, there was no kick.
	if q.retry = f.permits.used.Load() < f.permits.limit; q.retry {
		q.wake.Signal()
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

// planLoad decides what to read for a host.
func (s *shard) planLoad(i int32) (loadPlan, bool) {
	h := s.hosts.at(i)
	now := s.f.clock()
	if h.seat < 0 || h.flags&hostHeld != 0 {
		return loadPlan{}, false
	}
	at := max(now, s.nextStart(i, h))
	p := s.pick(i, h, at)
	switch {
	case p.at == never || p.sitemap >= 0 || max(at, p.at) > now+soon:
		return loadPlan{}, false
	case p.wait >= 0:
		w := s.waits.at(p.wait)
		if w.text != 0 {
			return loadPlan{}, false
		}
		lv := s.levels.at(w.level)
		return loadPlan{id: h.id, after: w.place(lv.class).before(), n: 1, level: w.level, wait: p.wait}, true
	}
	lv := s.levels.at(p.level)
	if lv.disk == 0 || lv.n >= windowLow {
		return loadPlan{}, false
	}
	return loadPlan{id: h.id, after: lv.load(), n: s.f.fill(lv.disk), level: p.level, disk: lv.disk, wait: -1, early: lv.n > 0}, true
}

// fill is how many URLs to load into a window: less while memory is short, so
// that there is some for everybody.
func (f *Frontier) fill(disk uint32) int64 {
	room := f.permits.limit - f.permits.used.Load()
	return max(1, min(int64(disk), windowFill, room/8))
}

func (s *shard) endLoad(i int32) {
	s.hosts.at(i).flags &^= hostLoading
	s.touch(i)
}

// takeLoad puts what was read where it belongs, and returns how many permits that
// took. Whatever changed since the plan was made stands: then the read was in
// vain.
func (s *shard) takeLoad(i int32, p *loadPlan, links []Link, asked int) (used int64, err error) {
	h := s.hosts.at(i)
	if p.wait >= 0 {
		return s.fillWait(h, p, links)
	}
	lv := s.levels.at(p.level)
	if h.seat < 0 || h.flags&hostHeld != 0 || lv.load() != p.after || lv.class != p.after.Priority {
		return 0, nil
	}
	s.count.loads++
	late := lv.disk - min(lv.disk, p.disk) // came since; the read may not have seen them
	n := 0
	for n < len(links) && links[n].At.Priority == lv.class && n < asked {
		n++
	}
	for j := range links[:n] {
		l := &links[j]
		if l.At.Compare(lv.load()) <= 0 || l.Key.Host != p.id {
			return used, fmt.Errorf("read pending links of %x after %v: got %v of %x", p.id, lv.load(), l.At, l.Key.Host)
		}
		e, err := s.entryOf(h, l)
		if err != nil {
			return used, err
		}
		lv.push(&s.arena, &e)
		lv.setLoad(l.At)
		if lv.disk > 0 {
			lv.disk--
			s.count.disk--
		} else {
			h.pending++ // the estimate was too low
			s.count.pending++
		}
		h.inMemory++
		used++
	}
	s.count.loaded += used
	if n < asked { // there are no more
		if lv.disk > 0 && !lv.inexact {
			return used, fmt.Errorf("read pending links of %x at priority %d: %d are missing", p.id, lv.class, lv.disk)
		}
		late = min(late, lv.disk)
		none := int64(lv.disk - late)
		h.pending -= none
		s.count.pending -= none
		s.count.disk -= none
		lv.disk, lv.inexact = late, late > 0
	}
	return used, nil
}

func (s *shard) entryOf(h *host, l *Link) (entry, error) {
	u, err := s.f.canonical(l.URL)
	if err != nil {
		return entry{}, fmt.Errorf("read pending links: %w", err)
	}
	o, name := originOf(u)
	if h.nameLen == 0 {
		s.setName(h, name)
	}
	return entry{
		path: textOf(u.RequestURI()), origin: o, depth: l.Depth, source: l.Source, hops: l.Hops,
		index: l.At.Index, seq: l.At.Seq,
	}, nil
}

// fillWait gives a wait its text back.
func (s *shard) fillWait(h *host, p *loadPlan, links []Link) (int64, error) {
	w := s.waits.at(p.wait)
	class := p.after.Priority
	if w.text != 0 || w.place(class).before() != p.after || w.level != p.level || h.wait < 0 {
		return 0, nil
	}
	if len(links) != 1 || links[0].At != w.place(class) {
		return 0, fmt.Errorf("read pending links of %x: %v is missing", p.id, w.place(class))
	}
	e, err := s.entryOf(h, &links[0])
	if err != nil {
		return 0, err
	}
	w.origin = e.origin
	s.setWaitText(w, e.path)
	h.inMemory++
	return 1, nil
}

// reclaim takes memory from hosts whose time is not near, and if that is not
// enough from those with the largest windows. All of it can be loaded again.
func (f *Frontier) reclaim() {
	q := &f.loader
	q.sweeps.Lock()
	defer q.sweeps.Unlock()
	if q.fruitless = q.fruitless && q.starved.Load(); q.fruitless {
		return
	}
	for _, keep := range []uint32{windowLow, windowLow / 8, 1} {
		if f.permits.used.Load() < f.permits.limit {
			return
		}
		for _, s := range f.shards {
			s.sweep(keep)
		}
	}
	q.fruitless = f.permits.used.Load() >= f.permits.limit
}

// sweep gives back the windows of hosts whose time is not near, and of the others
// all but keep entries. It lets others in between.
func (s *shard) sweep(keep uint32) {
	const stride = 1024
	for from, more := int32(0), true; more; from += stride {
		s.mu.Lock()
		now := s.f.clock()
		to := min(from+stride, s.hosts.n)
		for i := from; i < to; i++ {
			h := s.hosts.at(i)
			if h.inMemory == 0 {
				continue
			}
			if h.seat >= 0 && s.keyOf(i) <= now+soon {
				s.giveBack(h, keep)
			} else {
				s.giveBack(h, 0)
			}
			s.touch(i)
		}
		more = to < s.hosts.n
		s.unlock()
	}
}
