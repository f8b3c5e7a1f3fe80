package urlqueue

import (
	"bytes"
	"math"
	"time"
)

// An Item is a URL that a client puts. The store keeps no part of its memory.
type Item struct {
	Crawl, Key []byte // of the queue
	URL        []byte
	Metadata   []byte // kept as it is
	Known      bool   // replaces what is known of the URL; otherwise the URL is only added if it is new
	Refetch    uint64 // of a known URL: when it is due, in seconds since 1970; zero is never
}

// A Status is what became of an Item.
type Status uint8

// The values of a Status.
const (
	OK      Status = iota
	Skipped        // already there, or not a URL that can be stored: not to be sent again
	Failed         // not stored, and may be sent again
)

// maxKey is the longest key of a queue, as in the reference implementation.
const maxKey = 255

// seconds is a date as an entry holds it.
func seconds(t uint64) uint32 { return uint32(min(t, math.MaxUint32)) }

// Put stores items in their order and says in status what became of each. It holds for good when the ticket is durable;
// this is also true for an item that was skipped because it is known. After an error, every status is Failed.
func (s *Store) Put(items []Item, status []Status) (Ticket, error) {
	now := uint64(time.Now().Unix())
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.roomLocked()
	for i := range items {
		switch {
		case err != nil || s.full.Load():
			status[i] = Failed
		default:
			status[i] = s.putLocked(&items[i], now)
		}
	}
	return s.ticketLocked(), err
}

func (s *Store) putLocked(it *Item, now uint64) Status {
	// The hash fills texts up with zeros, so that a zero byte would make two texts equal.
	if len(it.Key) == 0 || len(it.Key) > maxKey || len(it.URL) == 0 || bytes.IndexByte(it.URL, 0) >= 0 {
		return Skipped
	}
	key := s.hash.KeyOf(0, it.URL)
	q := s.findLocked(it.Crawl, it.Key)
	id := none
	if q != nil {
		id = s.index.find(q.id, key.Hi, key.Lo)
	}
	if id != none && !it.Known {
		return Skipped
	}
	if q == nil {
		if len(s.queues) >= maxQueue {
			return Failed
		}
		q = s.newQueueLocked(string(it.Crawl), string(it.Key))
	}
	r := putRecord{queue: q.id, refetch: now, created: now, url: it.URL, metadata: it.Metadata}
	if it.Known {
		r.refetch = it.Refetch
	}
	if id == none {
		if s.index.count >= int(none)-1 {
			return Failed
		}
		id = s.index.add(q.id, key.Hi, key.Lo)
	} else {
		s.index.unlink(q, id)
		r.created = uint64(s.index.at(id).since)
	}
	e := s.index.at(id)
	s.fill.buf = r.append(s.fill.buf)
	lsn, size := s.commitLocked(id)
	s.moveLocked(e, lsn, size)
	e.set(r)
	s.index.link(q, id, 0)
	s.scheduleLocked(q)
	return OK
}

// findLocked returns a queue, or nil.
func (s *Store) findLocked(crawl, key []byte) *queue {
	if c := s.crawls[string(crawl)]; c != nil {
		return c.byKey[string(key)]
	}
	return nil
}

// crawlLocked returns a crawl, and makes it if there is none.
func (s *Store) crawlLocked(id string) *crawl {
	c := s.crawls[id]
	if c == nil {
		c = &crawl{id: id, byKey: make(map[string]*queue)}
		s.crawls[id] = c
		s.order = append(s.order, c)
	}
	return c
}

func (s *Store) newQueueLocked(crawl, key string) *queue {
	q := &queue{id: uint32(len(s.queues)), key: key, delay: -1}
	s.queues = append(s.queues, q)
	s.crawlLocked(crawl).add(q)
	s.describeLocked(q)
	return q
}

// describeLocked commits a record with the settings of a queue.
func (s *Store) describeLocked(q *queue) {
	s.fill.buf = q.appendRecord(s.fill.buf)
	lsn, size := s.commitLocked(none)
	s.live += int64(size) - int64(q.size)
	q.lsn, q.size = lsn, size
}

// readyAt is when a queue may give a URL, in milliseconds since 1970.
func (s *Store) readyAt(q *queue) int64 {
	at := int64(never)
	if q.limit > 0 && len(q.done) >= q.limit {
		return at
	}
	if len(q.ready) > 0 {
		at = 1000 * int64(s.index.at(q.ready[0]).due)
	}
	if len(q.leased) > 0 {
		at = min(at, q.leased[0].until)
	}
	if at == never {
		return at
	}
	delay := q.delay
	if delay < 0 {
		delay = s.delay
	}
	return max(at, q.produced+1000*delay, milliseconds(q.blocked))
}

// milliseconds is a time in seconds since 1970, which a client may have chosen, in milliseconds.
func milliseconds(seconds int64) int64 {
	if seconds > math.MaxInt64/1000 {
		return never
	}
	return 1000 * seconds
}

// scheduleLocked brings a queue to its place in the order of its crawl.
func (s *Store) scheduleLocked(q *queue) {
	if at := s.readyAt(q); at != q.at {
		q.at = at
		q.crawl.fix(q)
	}
}

// dropLocked takes a URL out of the index.
func (s *Store) dropLocked(q *queue, id uint32) {
	s.index.unlink(q, id)
	s.live -= int64(s.index.at(id).size)
	s.index.remove(id)
}
