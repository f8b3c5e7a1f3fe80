package frontier

import (
	"fmt"

	"github.com/mapwright/mapwright/frontier/internal/jobs"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// Some goroutines of a frontier, the loaders, read from the store what hosts need: what was learned about a new host,
// and URLs for windows that run low. If memory is short, they take some from hosts that do not need theirs now.
//
// A loader locks one shard at a time, and none while it reads. If the host has changed meanwhile, what was read is
// dropped.

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

// runLoader is one of the loaders.
func (f *Frontier) runLoader() {
	for {
		j, ok := f.jobs.Next()
		if !ok {
			return
		}
		var err error
		if j.Load {
			err = f.loadWindow(j)
		} else {
			err = f.askStore(j.Of)
		}
		if err != nil {
			if !f.closed() {
				f.fail(err)
			}
			return
		}
	}
}

// ask queues the host for a loader, which reads its facts. hostAsking says that this was done already. The host's shard
// is locked.
func (s *shard) ask(i int32, h *host) {
	if h.flags&hostAsking == 0 {
		h.flags |= hostAsking
		s.f.jobs.Ask(hostRef{s, i})
	}
}

// load queues the host for a loader, which fills a window or reads the text of a wait, before the given time if
// possible. hostLoading says that this was done already. The host's shard is locked.
func (s *shard) load(i int32, h *host, at int64) {
	if h.flags&hostLoading == 0 {
		h.flags |= hostLoading
		s.f.jobs.Load(hostRef{s, i}, at)
	}
}

// askStore gets what earlier runs learned about a host.
func (f *Frontier) askStore(of hostRef) error {
	s, i := of.s, of.index
	s.lock()
	h := s.hosts.at(i)
	id, opening := h.id, f.parts.of(h.id).opening
	s.mu.Unlock()
	fact, _, err := f.store.Host(f.ctx, id)
	if err != nil {
		return fmt.Errorf("read host: %w", err)
	}
	s.lock()
	h.flags &^= hostAsking
	if f.parts.of(h.id).opening == opening && h.flags&hostClosed == 0 {
		s.learn(i, h, fact)
	} // else it is closed, or will be asked about again
	s.touch(i)
	s.unlock()
	return nil
}

// A loadPlan is what a host needs from the store.
type loadPlan struct {
	id weburl.HostID
	// opening is partition.opening when the plan was made. If it has changed, level and wait mean nothing.
	opening uint32
	after   Cursor
	n       int64
	level   int32
	disk    uint32 // the level's count when the plan was made
	wait    int32  // the wait to be filled, or -1
	early   bool   // the window is not empty yet: no reason to take memory from others
}

// loadWindow reads what a host needs most.
func (f *Frontier) loadWindow(j jobs.Job[hostRef]) error {
	s, i := j.Of.s, j.Of.index
	s.lock()
	p, ok := s.planLoad(i)
	if !ok {
		s.endLoad(i)
		s.unlock()
		f.jobs.Done()
		return nil
	}
	s.mu.Unlock()

	got := f.permits.Take(p.n)
	if got == 0 && p.early {
		s.lock()
		s.endLoad(i)
		s.unlock()
		return nil
	}
	if got == 0 {
		f.reclaim()
		if got = f.permits.Take(p.n); got == 0 {
			f.jobs.Starve(j)
			if f.permits.Left() > 0 {
				f.jobs.Freed()
			}
			return nil
		}
	}
	links, _, err := f.store.Pending(f.ctx, p.id, p.after, int(got))
	if err != nil {
		f.permits.Release(got)
		return fmt.Errorf("read pending links: %w", err)
	}
	s.lock()
	used, err := s.takeLoaded(i, &p, links, int(got))
	s.effects.permits += got - used
	s.endLoad(i)
	s.unlock()
	f.jobs.Done()
	return err
}

// planLoad decides what to read for a host.
func (s *shard) planLoad(i int32) (loadPlan, bool) {
	h := s.hosts.at(i)
	now := s.time()
	part := s.f.parts.of(h.id)
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
		return loadPlan{id: h.id, opening: part.opening, after: w.place(lv.priority).before(), n: 1, level: w.level,
			wait: p.wait}, true
	}
	lv := s.queues.level(p.level)
	if lv.disk == 0 || lv.n >= windowLow {
		return loadPlan{}, false
	}
	return loadPlan{id: h.id, opening: part.opening, after: lv.load(), n: s.f.fill(lv.disk), level: p.level,
		disk: lv.disk, wait: -1, early: lv.n > 0}, true
}

// fill is how many URLs to load into a window: fewer while permits are short, so
// that other hosts get some too.
func (f *Frontier) fill(disk uint32) int64 {
	return max(1, min(int64(disk), windowFill, f.permits.Left()/8))
}

func (s *shard) endLoad(i int32) {
	s.hosts.at(i).flags &^= hostLoading
	s.touch(i)
}

// takeLoaded puts what was read where it belongs, and returns how many permits that
// took.
func (s *shard) takeLoaded(i int32, p *loadPlan, links []Link, asked int) (used int64, err error) {
	h := s.hosts.at(i)
	if s.f.parts.of(h.id).opening != p.opening {
		return 0, nil
	}
	if p.wait >= 0 {
		return s.fillWait(h, p, links)
	}
	lv := s.queues.level(p.level)
	if h.active < 0 || h.flags&hostHeld != 0 || lv.load() != p.after || lv.priority != p.after.Priority {
		return 0, nil
	}
	s.count.loads++
	late := lv.disk - min(lv.disk, p.disk) // came since; the read may not have seen them
	n := 0
	for n < len(links) && links[n].At.Priority == lv.priority && n < asked {
		n++
	}
	for j := range links[:n] {
		l := &links[j]
		if l.At.Compare(lv.load()) <= 0 || l.Key.Host != p.id {
			return used, fmt.Errorf("read pending links of %x after %v: got %v of %x", p.id, lv.load(), l.At,
				l.Key.Host)
		}
		e, err := s.readEntry(h, l)
		if err != nil {
			return used, err
		}
		s.queues.fill(&h.hostQueue, lv, &e)
		used++
	}
	s.count.loaded += used
	if n < asked { // there are no more
		if lv.disk > 0 && !lv.inexact {
			return used, fmt.Errorf("read pending links of %x at priority %d: %d are missing", p.id, lv.priority,
				lv.disk)
		}
		s.queues.correct(&h.hostQueue, lv, min(late, lv.disk))
	}
	return used, nil
}

func (s *shard) readEntry(h *host, l *Link) (entry, error) {
	if err := checkURL(&l.URL); err != nil {
		return entry{}, fmt.Errorf("read pending links: %w", err)
	}
	o, name := originOf(l.URL)
	s.hosts.setName(h, name)
	return entryOf(l, o), nil
}

// fillWait gives a wait its text back.
func (s *shard) fillWait(h *host, p *loadPlan, links []Link) (int64, error) {
	w := s.queues.wait(p.wait)
	priority := p.after.Priority
	if w.text != 0 || w.place(priority).before() != p.after || w.level != p.level || h.wait < 0 {
		return 0, nil
	}
	if len(links) != 1 || links[0].At != w.place(priority) {
		return 0, fmt.Errorf("read pending links of %x: %v is missing", p.id, w.place(priority))
	}
	e, err := s.readEntry(h, &links[0])
	if err != nil {
		return 0, err
	}
	s.queues.fillWait(&h.hostQueue, w, &e)
	return 1, nil
}

// reclaim takes memory from hosts whose time is not near. If that is not enough, it takes some from those with the
// largest windows. All of it can be loaded again.
func (f *Frontier) reclaim() {
	f.sweeps.Lock()
	defer f.sweeps.Unlock()
	if f.fruitless = f.fruitless && f.jobs.Starved(); f.fruitless {
		return
	}
	for keep := uint32(windowLow); keep > 0; keep /= 4 {
		if f.permits.Left() > 0 {
			return
		}
		for _, s := range f.shards.all {
			s.sweep(keep)
		}
	}
	f.fruitless = f.permits.Left() <= 0
}

// sweep gives back the windows of hosts whose time is not near. The other hosts keep up to keep entries. The shard is
// unlocked from time to time.
func (s *shard) sweep(keep uint32) {
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
