package urlqueue

import (
	"slices"
	"time"
)

// Stats are counts over queues.
type Stats struct {
	Queues       int
	ActiveQueues int // with URLs that are not done
	Active       int // URLs that are not done
	InProcess    int // URLs in the hands of clients; Active counts them too
	Done         int
}

// Stats counts the URLs of a queue, or of a whole crawl if key is empty.
func (s *Store) Stats(crawl, key string) Stats {
	now := time.Now().UnixMilli()
	var sum Stats
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.chosenLocked(crawl, key) {
		s.index.expire(q, now)
		active := len(q.ready) + len(q.leased)
		sum.Queues++
		if active > 0 {
			sum.ActiveQueues++
		}
		sum.Active += active
		sum.InProcess += len(q.leased)
		sum.Done += len(q.done)
	}
	return sum
}

// chosenLocked returns the queue with a key, or all of a crawl if key is empty. The result must not be changed or kept.
func (s *Store) chosenLocked(crawl, key string) []*queue {
	c := s.crawls[crawl]
	if c == nil {
		return nil
	}
	if key == "" {
		return c.queues
	}
	if q := c.byKey[key]; q != nil {
		return []*queue{q}
	}
	return nil
}

// Crawls returns the ids of the crawls that have queues.
func (s *Store) Crawls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.order))
	for _, c := range s.order {
		ids = append(ids, c.id)
	}
	return ids
}

// Queues returns the keys of up to size queues of a crawl, after the first start ones. Without inactive, queues that
// are blocked or have only URLs that are done do not count.
func (s *Store) Queues(crawl string, start, size int, inactive bool) []string {
	now := time.Now().UnixMilli()
	var keys []string
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.chosenLocked(crawl, "") {
		if !inactive && (milliseconds(q.blocked) > now || len(q.ready)+len(q.leased) == 0) {
			continue
		}
		if start > 0 {
			start--
			continue
		}
		if len(keys) == size {
			break
		}
		keys = append(keys, q.key)
	}
	return keys
}

// Find gives what is stored of a URL to fn. The error is ErrNotFound if there is none.
func (s *Store) Find(crawl, key string, url []byte, fn func(URL) error) error {
	k := s.hash.KeyOf(0, url)
	s.mu.Lock()
	id := none
	if q := s.findLocked([]byte(crawl), []byte(key)); q != nil {
		id = s.index.find(q.id, k.Hi, k.Lo)
	}
	s.mu.Unlock()
	if id == none {
		return ErrNotFound
	}
	err := ErrNotFound
	if readErr := s.readAll([]ref{{id, k.Hi}}, func(u URL) error {
		err = nil
		return fn(u)
	}); readErr != nil {
		return readErr
	}
	return err
}

// List gives the URLs of a queue, or of a whole crawl if key is empty, to fn. A URL that is put or removed meanwhile
// may be given or not; every other one is given once.
func (s *Store) List(crawl, key string, fn func(URL) error) error {
	s.mu.Lock()
	queues := append([]*queue(nil), s.chosenLocked(crawl, key)...)
	s.mu.Unlock()
	var refs []ref
	for _, q := range queues {
		refs = refs[:0]
		s.mu.Lock()
		if s.queues[q.id] == q {
			for id := range q.all {
				refs = append(refs, ref{id, s.index.at(id).hi})
			}
		}
		s.mu.Unlock()
		if err := s.readAll(refs, fn); err != nil {
			return err
		}
	}
	return nil
}

// all yields the entries of the queue.
func (q *queue) all(yield func(uint32) bool) {
	for _, id := range q.ready {
		if !yield(id) {
			return
		}
	}
	for _, l := range q.leased {
		if !yield(l.id) {
			return
		}
	}
	for _, id := range q.done {
		if !yield(id) {
			return
		}
	}
}

// Count returns how many URLs a queue has, or a whole crawl if key is empty.
func (s *Store) Count(crawl, key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, q := range s.chosenLocked(crawl, key) {
		n += q.urls()
	}
	return n
}

// Purge removes the URLs of a queue, or of a whole crawl if key is empty, that were first put before a time. It returns
// how many they were.
func (s *Store) Purge(crawl, key string, before time.Time) (int, error) {
	s.mu.Lock()
	queues := append([]*queue(nil), s.chosenLocked(crawl, key)...)
	s.mu.Unlock()
	removed := 0
	for _, q := range queues {
		s.mu.Lock()
		err := s.roomLocked()
		if err == nil && s.queues[q.id] == q {
			removed += s.purgeLocked(q, before.Unix())
		}
		s.mu.Unlock()
		if err != nil {
			return removed, err
		}
	}
	return removed, s.change(func() error { return nil })
}

func (s *Store) purgeLocked(q *queue, before int64) int {
	var old []uint32
	for id := range q.all {
		if int64(s.index.at(id).since) < before {
			old = append(old, id)
		}
	}
	for part := range slices.Chunk(old, leaseNames) {
		s.fill.buf = appendRemove(s.fill.buf, q.id)
		for _, id := range part {
			s.fill.buf = appendName(s.fill.buf, s.index.at(id))
			s.dropLocked(q, id)
		}
		s.commitLocked(none)
	}
	s.scheduleLocked(q)
	return len(old)
}

// Size returns how many URLs and queues there are.
func (s *Store) Size() (urls, queues int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.order {
		queues += len(c.queues)
	}
	return s.index.count, queues
}
