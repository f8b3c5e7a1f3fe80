package frontier

import "fmt"

// askStore gets what earlier runs learned about a host.
func (f *Frontier) askStore(j job) error {
	s := j.s
	s.lock()
	h := s.hosts.at(j.host)
	id, opening := h.id, s.partitionOf(h).opening
	s.mu.Unlock()
	fact, _, err := f.store.Host(f.ctx, id)
	if err != nil {
		return fmt.Errorf("read host: %w", err)
	}
	s.lock()
	h.flags &^= hostAsking
	if s.partitionOf(h).opening == opening && h.flags&hostClosed == 0 {
		s.learn(j.host, h, fact)
	} // else it is closed, or will be asked about again
	s.touch(j.host)
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
func (f *Frontier) loadWindow(j job) error {
	s := j.s
	s.lock()
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
		s.lock()
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
	s.lock()
	used, err := s.takeLoad(j.host, &p, links, int(got))
	s.change.permits += got - used
	s.endLoad(j.host)
	s.unlock()
	f.loader.fed()
	return err
}

// planLoad decides what to read for a host.
func (s *shard) planLoad(i int32) (loadPlan, bool) {
	h := s.hosts.at(i)
	now := s.time()
	part := s.partitionOf(h)
	if h.seat < 0 || h.flags&(hostHeld|hostClosed) != 0 || part.state != partitionOpen {
		return loadPlan{}, false
	}
	at := max(now, s.nextStart(i, h))
	p := s.pick(i, h, at)
	switch {
	case p.at == never || p.wait < 0 && p.level < 0 || max(at, p.at) > now+soon:
		return loadPlan{}, false
	case p.wait >= 0:
		w := s.waits.at(p.wait)
		if w.text != 0 {
			return loadPlan{}, false
		}
		lv := s.levels.at(w.level)
		return loadPlan{id: h.id, opening: part.opening, after: w.place(lv.class).before(), n: 1, level: w.level, wait: p.wait}, true
	}
	lv := s.levels.at(p.level)
	if lv.disk == 0 || lv.n >= windowLow {
		return loadPlan{}, false
	}
	return loadPlan{id: h.id, opening: part.opening, after: lv.load(), n: s.f.fill(lv.disk), level: p.level, disk: lv.disk, wait: -1, early: lv.n > 0}, true
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
	if s.partitionOf(h).opening != p.opening {
		return 0, nil
	}
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
	if err := l.check(); err != nil {
		return entry{}, fmt.Errorf("read pending links: %w", err)
	}
	o, name := originOf(l.URL)
	if h.nameLen == 0 {
		s.setName(h, name)
	}
	return entry{
		path: textOf(l.URL.RequestURI()), origin: o, depth: l.Depth, source: l.Source, hops: l.Hops, visit: visitOf(l),
		index: l.At.Index, position: l.At.Position,
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
