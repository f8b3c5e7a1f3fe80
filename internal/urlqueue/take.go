package urlqueue

import (
	"errors"
	"slices"
	"time"

	"github.com/mapwright/mapwright/wal"
)

const (
	takeAtOnce = 4096    // URLs that one hold of the mutex gives, and whole queues
	leaseNames = 1 << 16 // URLs in one record
	readAtOnce = 512     // URLs whose places are looked up under one hold of the mutex
)

// Wanted says what Take should give.
type Wanted struct {
	Crawl     string // if AnyCrawl is not set
	AnyCrawl  bool
	Key       string // of the only queue, unless it is empty
	MaxQueues int    // at least 1
	MaxURLs   int    // of one queue; at least 1. A queue that has so many in the hands of clients gives none
	Hold      time.Duration
}

// A URL is what is stored of a URL.
type URL struct {
	Crawl, Key string
	Text       []byte // until the function that was given the URL returns
	Metadata   []byte // the same
	Refetch    uint64 // seconds since 1970; zero if the URL is done
	Created    uint64 // seconds since 1970
}

// ref names an entry, which may have been freed and used again since.
type ref struct {
	id uint32
	hi uint64
}

// Take gives URLs that are due to send, those of the queue first that could give them for the longest time. They are
// not given again until Hold is over, unless a put says otherwise. That is on disk before send is called.
func (s *Store) Take(w Wanted, send func(URL) error) error {
	t := take{Wanted: w, now: time.Now().UnixMilli()}
	t.until = t.now + w.Hold.Milliseconds()
	for {
		s.mu.Lock()
		if err := s.roomLocked(); err != nil {
			s.mu.Unlock()
			return err
		}
		if t.call == 0 {
			s.calls++
			t.call = s.calls
		}
		s.takeLocked(&t)
		ticket := s.ticketLocked()
		s.mu.Unlock()
		if len(t.given) == 0 {
			return nil
		}
		if err := s.Wait(ticket); err != nil {
			return err
		}
		if err := s.readAll(t.given, send); err != nil {
			return err
		}
		if len(t.given) < takeAtOnce {
			return nil
		}
	}
}

// take is a call of Take.
type take struct {
	Wanted
	now, until int64
	call       uint64 // marks queues that have given
	served     int    // queues that have given
	given      []ref
	aside      []*queue
}

func (s *Store) takeLocked(t *take) {
	t.given = t.given[:0]
	switch {
	case s.inactive:
	case t.Key != "":
		if q := s.findLocked([]byte(t.Crawl), []byte(t.Key)); q != nil && q.call != t.call && s.readyAt(q) <= t.now {
			s.giveLocked(t, q)
			s.scheduleLocked(q)
		}
	case !t.AnyCrawl:
		if c := s.crawls[t.Crawl]; c != nil {
			s.takeFromLocked(t, c)
		}
	case len(s.order) > 0:
		s.turn++
		for i := range s.order {
			s.takeFromLocked(t, s.order[(s.turn+i)%len(s.order)])
		}
	}
}

// takeFromLocked takes from the queues of a crawl, in the order of the time since which they can give.
func (s *Store) takeFromLocked(t *take, c *crawl) {
	t.aside = t.aside[:0]
	for t.served < t.MaxQueues && len(t.given) < takeAtOnce {
		q := c.heap[0]
		if q.at > t.now {
			break
		}
		if q.call != t.call && s.giveLocked(t, q) {
			continue
		}
		t.aside = append(t.aside, q)
		q.at = never
		c.fix(q)
	}
	for _, q := range t.aside {
		s.scheduleLocked(q)
	}
}

// giveLocked gives URLs of one queue, and reports whether it did.
func (s *Store) giveLocked(t *take, q *queue) bool {
	x := s.index
	x.expire(q, t.now)
	if len(q.leased) >= t.MaxURLs {
		return false
	}
	n := 0
	for n < t.MaxURLs && len(q.ready) > 0 {
		id := q.ready[0]
		e := x.at(id)
		if 1000*int64(e.due) > t.now {
			break
		}
		if n%leaseNames == 0 {
			if n > 0 {
				s.commitLocked(none)
			}
			s.fill.buf = appendLease(s.fill.buf, q.id, t.now, t.until)
		}
		s.fill.buf = appendName(s.fill.buf, e)
		x.unlink(q, id)
		e.state = leased
		x.link(q, id, t.until)
		t.given = append(t.given, ref{id, e.hi})
		n++
	}
	if n == 0 {
		return false
	}
	s.commitLocked(none)
	q.produced, q.call = t.now, t.call
	t.served++
	s.scheduleLocked(q)
	return true
}

// located is an entry with all that is needed to read it.
type located struct {
	crawl, key string
	place      wal.Place
	size       int
}

// readAll reads entries and gives them to send. Those that are gone are left out.
func (s *Store) readAll(refs []ref, send func(URL) error) error {
	var buf []byte
	places := make([]located, 0, min(len(refs), readAtOnce))
	for len(refs) > 0 {
		part := refs[:min(len(refs), readAtOnce)]
		refs = refs[len(part):]
		places = places[:0]
		s.mu.Lock()
		for _, r := range part {
			places = append(places, s.locateLocked(r))
		}
		s.mu.Unlock()
		for i, l := range places {
			buf = slices.Grow(buf[:0], l.size+wal.ReadOverhead)
			l, rec, err := s.read(part[i], l, buf)
			if err != nil {
				return err
			}
			if rec == nil {
				continue
			}
			r, err := decodePut(rec)
			if err != nil {
				return err
			}
			if err := send(URL{Crawl: l.crawl, Key: l.key, Text: r.url, Metadata: r.metadata, Refetch: r.refetch,
				Created: r.created}); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads the record of an entry that was at l, or returns nil if the entry is gone.
func (s *Store) read(r ref, l located, buf []byte) (located, []byte, error) {
	for l.size > 0 {
		if l.place.Offset > 0 {
			rec, err := s.log.Read(l.place, l.size, buf)
			if !errors.Is(err, wal.ErrOutOfRange) {
				return l, rec, err
			}
		}
		// It is on its way to the log, or was there before the log was cleaned.
		s.mu.Lock()
		l = s.locateLocked(r)
		s.mu.Unlock()
		if l.size > 0 && l.place.Offset == 0 {
			if err := s.Wait(Ticket(l.place.LSN)); err != nil {
				return l, nil, err
			}
			s.mu.Lock()
			l = s.locateLocked(r)
			s.mu.Unlock()
		}
	}
	return l, nil, nil
}

// locateLocked returns nothing for an entry that is gone.
func (s *Store) locateLocked(r ref) located {
	e := s.index.at(r.id)
	if e.lsn == 0 || e.hi != r.hi || s.queues[e.queue] == nil {
		return located{}
	}
	q := s.queues[e.queue]
	return located{crawl: q.crawl.id, key: q.key, size: int(e.size),
		place: wal.Place{LSN: wal.LSN(e.lsn), Offset: int64(e.offset)}}
}
