package frontier

import (
	"fmt"
	"sync"

	"github.com/mapwright/mapwright/frontier/internal/jobs"
	"github.com/mapwright/mapwright/frontier/internal/limit"
)

// A loader reads from the store what hosts need, in a few goroutines: what was
// learned about a new host, and URLs for windows that run low. If there is no memory
// for them it takes some from hosts that do not need theirs now.
//
// It locks one shard at a time, and none while it reads. What changed meanwhile
// stands: then the read was for nothing.
type loader struct {
	jobs jobs.Queue[hostRef]

	store   Store
	life    *lifetime
	permits *limit.Permits
	shards  *shardSet
	parts   *partitionSet

	sweeps    sync.Mutex // held while memory is being reclaimed; guards fruitless
	fruitless bool       // the last sweep found nothing, and all hosts give back by themselves since
}

// A hostRef names a host of a shard.
type hostRef struct {
	s     *shard
	index int32
}

const (
	loaders = 4
	// windowLow is how few URLs a window may have before more are loaded, windowFill
	// how many are loaded at once.
	windowLow  = 256
	windowFill = 1024
)

// start starts the loader's goroutines. They end with the lifetime, after close.
func (q *loader) start(f *Frontier) {
	q.jobs.Init()
	q.store, q.life, q.permits, q.shards, q.parts = f.store, &f.life, &f.permits, &f.shards, &f.parts
	for range loaders {
		q.life.wg.Go(q.run)
	}
}

// run is one of the loader's goroutines.
func (q *loader) run() {
	for {
		j, ok := q.jobs.Next()
		if !ok {
			return
		}
		var err error
		if j.Load {
			err = q.loadWindow(j)
		} else {
			err = q.askStore(j.Of)
		}
		if err != nil {
			if !q.life.closed() {
				q.life.fail(err)
			}
			return
		}
	}
}

// ask has the store asked about a host, unless it is being asked already: hostAsking
// says so. The host's shard is locked.
func (q *loader) ask(s *shard, i int32, h *host) {
	if h.flags&hostAsking == 0 {
		h.flags |= hostAsking
		q.jobs.Ask(hostRef{s, i})
	}
}

// load has a host's window filled, or the text of a wait read, before the given
// time if possible. hostLoading says that this is to be done already. The host's
// shard is locked.
func (q *loader) load(s *shard, i int32, h *host, at int64) {
	if h.flags&hostLoading == 0 {
		h.flags |= hostLoading
		q.jobs.Load(hostRef{s, i}, at)
	}
}

// starved reports whether a host waits for memory. As long as it does, new links stay
// on disk, and hosts whose time is not near give their memory back.
func (q *loader) starved() bool { return q.jobs.Starved() }

// askStore gets what earlier runs learned about a host.
func (q *loader) askStore(of hostRef) error {
	s, i := of.s, of.index
	s.lock()
	h := s.hosts.at(i)
	id, opening := h.id, q.parts.of(h.id).opening
	s.mu.Unlock()
	fact, _, err := q.store.Host(q.life.ctx, id)
	if err != nil {
		return fmt.Errorf("read host: %w", err)
	}
	s.lock()
	h.flags &^= hostAsking
	if q.parts.of(h.id).opening == opening && h.flags&hostClosed == 0 {
		s.learn(i, h, fact)
	} // else it is closed, or will be asked about again
	s.touch(i)
	s.unlock()
	return nil
}

// A loadPlan is what a host needs from the store.
type loadPlan struct {
	id HostID
	// opening is the one of the host's partition when the plan was made: if it is
	// another now, level and wait mean nothing.
	opening uint32
	after   Cursor
	n       int64
	level   int32
	disk    uint32 // the level's count when the plan was made
	wait    int32  // the wait to be filled, or -1
	early   bool   // the window is not empty yet: no reason to take memory from others
}

// loadWindow reads what a host needs most.
func (q *loader) loadWindow(j jobs.Job[hostRef]) error {
	s, i := j.Of.s, j.Of.index
	s.lock()
	p, ok := q.plan(s, i)
	if !ok {
		q.end(s, i)
		s.unlock()
		q.jobs.Done()
		return nil
	}
	s.mu.Unlock()

	got := q.permits.Take(p.n)
	if got == 0 && p.early {
		s.lock()
		q.end(s, i)
		s.unlock()
		return nil
	}
	if got == 0 {
		q.reclaim()
		if got = q.permits.Take(p.n); got == 0 {
			q.jobs.Starve(j)
			if q.permits.Left() > 0 {
				q.jobs.Freed()
			}
			return nil
		}
	}
	links, _, err := q.store.Pending(q.life.ctx, p.id, p.after, int(got))
	if err != nil {
		q.permits.Release(got)
		return fmt.Errorf("read pending links: %w", err)
	}
	s.lock()
	used, err := q.take(s, i, &p, links, int(got))
	s.effects.permits += got - used
	q.end(s, i)
	s.unlock()
	q.jobs.Done()
	return err
}

// plan decides what to read for a host.
func (q *loader) plan(s *shard, i int32) (loadPlan, bool) {
	h := s.hosts.at(i)
	now := s.time()
	part := q.parts.of(h.id)
	if h.active < 0 || h.flags&(hostHeld|hostClosed) != 0 || part.state != partitionOpen {
		return loadPlan{}, false
	}
	at := max(now, s.schedule.nextStart(i, h))
	p := s.pick(i, h, at)
	switch {
	case p.at == never || p.wait < 0 && p.level < 0 || max(at, p.at) > now+soon:
		return loadPlan{}, false
	case p.wait >= 0:
		w := s.queues.wait(p.wait)
		if w.text != 0 {
			return loadPlan{}, false
		}
		lv := s.queues.level(w.level)
		return loadPlan{id: h.id, opening: part.opening, after: w.place(lv.class).before(), n: 1, level: w.level,
			wait: p.wait}, true
	}
	lv := s.queues.level(p.level)
	if lv.disk == 0 || lv.n >= windowLow {
		return loadPlan{}, false
	}
	return loadPlan{id: h.id, opening: part.opening, after: lv.load(), n: q.fill(lv.disk), level: p.level,
		disk: lv.disk, wait: -1, early: lv.n > 0}, true
}

// fill is how many URLs to load into a window: fewer while permits are short, so
// that other hosts get some too.
func (q *loader) fill(disk uint32) int64 {
	return max(1, min(int64(disk), windowFill, q.permits.Left()/8))
}

func (q *loader) end(s *shard, i int32) {
	s.hosts.at(i).flags &^= hostLoading
	s.touch(i)
}

// take puts what was read where it belongs, and returns how many permits that
// took.
func (q *loader) take(s *shard, i int32, p *loadPlan, links []Link, asked int) (used int64, err error) {
	h := s.hosts.at(i)
	if q.parts.of(h.id).opening != p.opening {
		return 0, nil
	}
	if p.wait >= 0 {
		return q.fillWait(s, h, p, links)
	}
	lv := s.queues.level(p.level)
	if h.active < 0 || h.flags&hostHeld != 0 || lv.load() != p.after || lv.class != p.after.Priority {
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
			return used, fmt.Errorf("read pending links of %x after %v: got %v of %x", p.id, lv.load(), l.At,
				l.Key.Host)
		}
		e, err := q.entryOf(s, h, l)
		if err != nil {
			return used, err
		}
		s.queues.fill(&h.hostQueue, lv, &e)
		used++
	}
	s.count.loaded += used
	if n < asked { // there are no more
		if lv.disk > 0 && !lv.inexact {
			return used, fmt.Errorf("read pending links of %x at priority %d: %d are missing", p.id, lv.class, lv.disk)
		}
		s.queues.correct(&h.hostQueue, lv, min(late, lv.disk))
	}
	return used, nil
}

func (q *loader) entryOf(s *shard, h *host, l *Link) (entry, error) {
	if err := checkURL(&l.URL); err != nil {
		return entry{}, fmt.Errorf("read pending links: %w", err)
	}
	o, name := originOf(l.URL)
	s.hosts.setName(h, name)
	return entryOf(l, o), nil
}

// fillWait gives a wait its text back.
func (q *loader) fillWait(s *shard, h *host, p *loadPlan, links []Link) (int64, error) {
	w := s.queues.wait(p.wait)
	class := p.after.Priority
	if w.text != 0 || w.place(class).before() != p.after || w.level != p.level || h.wait < 0 {
		return 0, nil
	}
	if len(links) != 1 || links[0].At != w.place(class) {
		return 0, fmt.Errorf("read pending links of %x: %v is missing", p.id, w.place(class))
	}
	e, err := q.entryOf(s, h, &links[0])
	if err != nil {
		return 0, err
	}
	s.queues.fillWait(&h.hostQueue, w, &e)
	return 1, nil
}

// reclaim takes memory from hosts whose time is not near, and if that is not
// enough from those with the largest windows. All of it can be loaded again.
func (q *loader) reclaim() {
	q.sweeps.Lock()
	defer q.sweeps.Unlock()
	if q.fruitless = q.fruitless && q.starved(); q.fruitless {
		return
	}
	for keep := uint32(windowLow); keep > 0; keep /= 4 {
		if q.permits.Left() > 0 {
			return
		}
		for _, s := range q.shards.all {
			q.sweep(s, keep)
		}
	}
	q.fruitless = q.permits.Left() <= 0
}

// sweep gives back the windows of hosts whose time is not near, and of the others
// all but keep entries. The shard is unlocked from time to time.
func (q *loader) sweep(s *shard, keep uint32) {
	const stride = 1024
	for from, more := int32(0), true; more; from += stride {
		s.lock()
		now := s.time()
		to := min(from+stride, s.hosts.end())
		for i := from; i < to; i++ {
			h := s.hosts.at(i)
			if h.inMemory == 0 {
				continue
			}
			if h.active >= 0 && s.schedule.time(i, h) <= now+soon {
				s.giveBack(h, keep)
			} else {
				s.giveBack(h, 0)
			}
			s.touch(i)
		}
		more = to < s.hosts.end()
		s.unlock()
	}
}
