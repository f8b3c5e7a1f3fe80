package frontier

import "container/heap"

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

// reclaim takes memory from hosts whose time is not near, and if that is not
// enough from those with the largest windows. All of it can be loaded again.
func (f *Frontier) reclaim() {
	q := &f.loader
	q.sweeps.Lock()
	defer q.sweeps.Unlock()
	if q.fruitless = q.fruitless && q.starved.Load(); q.fruitless {
		return
	}
	for keep := uint32(windowLow); keep > 0; keep /= 4 {
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
		s.lock()
		now := s.time()
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
