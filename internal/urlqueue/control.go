package urlqueue

// describeStoreLocked commits a record with the settings of the store.
func (s *Store) describeStoreLocked() {
	s.fill.buf = appendSettings(s.fill.buf, s.delay, s.inactive)
	s.settings, _ = s.commitLocked(none)
}

// change calls fn with the mutex held and returns when what fn committed is on disk.
func (s *Store) change(fn func() error) error {
	s.mu.Lock()
	err := s.roomLocked()
	if err == nil {
		err = fn()
	}
	ticket := s.ticketLocked()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Wait(ticket)
}

// setQueue changes the settings of a queue. The error is ErrNotFound if there is no such queue.
func (s *Store) setQueue(crawl, key string, set func(*queue)) error {
	return s.change(func() error {
		q := s.findLocked([]byte(crawl), []byte(key))
		if q == nil {
			return ErrNotFound
		}
		set(q)
		s.describeLocked(q)
		s.scheduleLocked(q)
		return nil
	})
}

// SetDelay sets how many seconds pass between two answers with URLs of a queue.
func (s *Store) SetDelay(crawl, key string, seconds uint32) error {
	return s.setQueue(crawl, key, func(q *queue) { q.delay = int64(seconds) })
}

// Block keeps a queue from giving URLs until a time in seconds since 1970.
func (s *Store) Block(crawl, key string, until uint64) error {
	return s.setQueue(crawl, key, func(q *queue) { q.blocked = int64(min(until, never)) })
}

// SetLimit ends a queue once so many of its URLs are done. Zero is no limit.
func (s *Store) SetLimit(crawl, key string, limit uint32) error {
	return s.setQueue(crawl, key, func(q *queue) { q.limit = int(limit) })
}

// SetDefaultDelay sets the delay of the queues that have none of their own.
func (s *Store) SetDefaultDelay(seconds uint32) error {
	return s.change(func() error {
		s.delay = int64(seconds)
		s.describeStoreLocked()
		for _, q := range s.queues {
			if q != nil {
				s.scheduleLocked(q)
			}
		}
		return nil
	})
}

// SetActive sets whether Take gives anything.
func (s *Store) SetActive(active bool) error {
	return s.change(func() error {
		s.inactive = !active
		s.describeStoreLocked()
		return nil
	})
}

// Active reports whether Take gives anything.
func (s *Store) Active() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.inactive
}

// freeAtOnce is how many URLs are taken out of the index under one hold of the mutex.
const freeAtOnce = 10_000

// DeleteQueue deletes a queue and its URLs, and returns how many they were.
func (s *Store) DeleteQueue(crawl, key string) (int, error) {
	return s.deleteQueues(func() []*queue {
		if q := s.findLocked([]byte(crawl), []byte(key)); q != nil {
			return []*queue{q}
		}
		return nil
	})
}

// DeleteCrawl deletes the queues of a crawl and their URLs, and returns how many URLs they were.
func (s *Store) DeleteCrawl(crawl string) (int, error) {
	return s.deleteQueues(func() []*queue {
		if c := s.crawls[crawl]; c != nil {
			return append([]*queue(nil), c.queues...)
		}
		return nil
	})
}

func (s *Store) deleteQueues(find func() []*queue) (int, error) {
	var gone []*queue
	n := 0
	err := s.change(func() error {
		gone = find()
		for _, q := range gone {
			n += q.urls()
			s.fill.buf = appendDelete(s.fill.buf, q.id)
			s.commitLocked(none)
			s.detachLocked(q)
		}
		return nil
	})
	// No call finds the queues any more. A queue with the same key is another one.
	for _, q := range gone {
		for q.urls() > 0 {
			s.mu.Lock()
			s.freeLocked(q, freeAtOnce)
			s.mu.Unlock()
		}
	}
	return n, err
}

// detachLocked takes a queue out of all lists. Its entries stay until freeLocked.
func (s *Store) detachLocked(q *queue) {
	s.queues[q.id] = nil
	s.live -= int64(q.size)
	if q.crawl == nil { // in a replay: its name is not in the log any more
		return
	}
	q.crawl.remove(q)
	if len(q.crawl.queues) == 0 {
		delete(s.crawls, q.crawl.id)
		for i, c := range s.order {
			if c == q.crawl {
				s.order = append(s.order[:i], s.order[i+1:]...)
				break
			}
		}
	}
}

// freeLocked removes n URLs of a queue that was detached.
func (s *Store) freeLocked(q *queue, n int) {
	for ; n > 0 && q.urls() > 0; n-- {
		switch {
		case len(q.done) > 0:
			s.dropLocked(q, q.done[len(q.done)-1])
		case len(q.leased) > 0:
			s.dropLocked(q, q.leased[len(q.leased)-1].id)
		default:
			s.dropLocked(q, q.ready[len(q.ready)-1])
		}
	}
}
