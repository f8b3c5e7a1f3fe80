package frontier

// unlock settles what was touched in the shards, which are locked, adds to the
// counters all that was changed, unlocks, and tells whoever must know.
func (f *Frontier) unlock(shards []*shard) {
	for _, s := range shards {
		if len(s.touched) > 0 || len(s.parked.nodes) > 0 {
			s.settleAll(s.time())
		}
	}
	var sum changes
	var notices []Notice
	var news []robotsNews
	for _, s := range shards {
		sum.live += s.change.live
		sum.pages += s.change.pages
		sum.busy += s.change.busy
		sum.permits += s.change.permits
		sum.returning = sum.returning || s.change.returning
		if len(s.change.gate) > 0 {
			sum.gate = append(sum.gate, s.change.gate...)
		}
		s.change = changes{gate: s.change.gate[:0]}
		if len(s.notices) > 0 {
			notices = append(notices, s.notices...)
			s.notices = s.notices[:0]
		}
		if len(s.asks.news) > 0 {
			news = append(news, s.asks.news...)
			s.asks.news = nil
		}
		s.due.Store(s.ready.top())
	}
	live := int64(1)
	if sum.live != 0 {
		live = f.live.Add(sum.live)
	}
	if sum.pages != 0 {
		f.pages.Add(sum.pages)
	}
	if sum.busy != 0 {
		f.busy.Add(sum.busy)
	}
	if len(sum.gate) > 0 {
		f.gate.apply(sum.gate)
	}
	for _, s := range shards {
		s.mu.Unlock()
	}
	if sum.permits > 0 {
		f.permits.used.Add(-sum.permits)
		f.loader.kick()
	}
	if len(sum.gate) > 0 {
		f.openGate()
	}
	if live == 0 || f.limitReached() {
		f.waiters.wakeAll()
	} else if f.waiters.n.Load() > 0 {
		f.passOn(sum.returning)
	}
	if len(news) > 0 {
		f.deliver(news)
	}
	for _, n := range notices {
		f.o.Observe(n)
	}
}

// settleAll settles the touched hosts, and whoever gets a seat by it.
func (s *shard) settleAll(now int64) {
	for {
		for j := 0; j < len(s.touched); j++ {
			i := s.touched[j]
			s.hosts.at(i).flags &^= hostTouched
			s.settle(i, now)
		}
		s.touched = s.touched[:0]
		s.seatParked(now)
		s.makeRoom(now)
		if len(s.touched) == 0 {
			return
		}
	}
}
