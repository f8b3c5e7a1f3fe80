package urlqueue

import (
	"fmt"

	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/wal"
)

// recover makes the index from the log.
func (s *Store) recover() error {
	err := s.log.ReplayPlaced(0, func(p wal.Place, rec []byte) error {
		if err := s.apply(p, rec); err != nil {
			return fmt.Errorf("record %d of the log: %w", p.LSN, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.next = uint64(s.log.Last()) + 1
	s.durable.Store(s.next - 1)
	for id, q := range s.queues {
		if q == nil {
			continue
		}
		if q.crawl == nil {
			return &disk.CorruptError{What: s.dir, Reason: fmt.Sprintf("queue %d has URLs and no name", id)}
		}
		s.scheduleLocked(q)
	}
	return nil
}

// queueAt returns the queue with an id. The oldest records of a queue may lie before the one that names it, which was
// written anew when the log was cleaned.
func (s *Store) queueAt(id uint32) *queue {
	for int(id) >= len(s.queues) {
		s.queues = append(s.queues, nil)
	}
	if s.queues[id] == nil {
		s.queues[id] = &queue{id: id, delay: -1}
	}
	return s.queues[id]
}

func (s *Store) apply(p wal.Place, rec []byte) error {
	if len(rec) == 0 {
		return errRecord
	}
	d := decoder{b: rec[1:]}
	switch rec[0] {
	case kindPut:
		return s.applyPut(p, rec)
	case kindLease:
		q := s.queueAt(d.queue())
		q.produced = int64(d.number())
		until := int64(d.number())
		for !d.bad && len(d.b) > 0 {
			hi, lo := d.word(), d.word()
			// A put that is no longer in the log has its lease in the record that replaced it.
			if id := s.index.find(q.id, hi, lo); id != none && s.index.at(id).state != done {
				s.index.unlink(q, id)
				s.index.at(id).state = leased
				s.index.link(q, id, until)
			}
		}
	case kindRemove:
		q := s.queueAt(d.queue())
		for !d.bad && len(d.b) > 0 {
			hi, lo := d.word(), d.word()
			if id := s.index.find(q.id, hi, lo); id != none {
				s.dropLocked(q, id)
			}
		}
	case kindQueue:
		return s.applyQueue(p, d, len(rec))
	case kindDelete:
		if q := s.queueAt(d.queue()); !d.bad {
			s.detachLocked(q)
			s.freeLocked(q, q.urls())
		}
	case kindSettings:
		s.delay = int64(d.number())
		if flag := d.bytes(1); !d.bad {
			s.inactive = flag[0] != 0
		}
		s.settings = uint64(p.LSN)
	default:
		return errRecord
	}
	return d.end()
}

func (s *Store) applyPut(p wal.Place, rec []byte) error {
	r, err := decodePut(rec)
	if err != nil {
		return err
	}
	q := s.queueAt(r.queue)
	key := s.hash.KeyOf(0, r.url)
	id := s.index.find(q.id, key.Hi, key.Lo)
	if id == none {
		id = s.index.add(q.id, key.Hi, key.Lo)
	} else {
		s.index.unlink(q, id)
	}
	e := s.index.at(id)
	s.moveLocked(e, uint64(p.LSN), len(rec))
	e.offset = uint32(p.Offset)
	e.set(r)
	s.index.link(q, id, r.until)
	return nil
}

// set takes what a put says of the URL. The caller links the entry.
func (e *entry) set(r putRecord) {
	e.due, e.since = seconds(r.refetch), seconds(r.created)
	switch {
	case r.refetch == 0:
		e.state = done
	case r.until > 0:
		e.state = leased
	default:
		e.state = ready
	}
}

func (s *Store) applyQueue(p wal.Place, d decoder, size int) error {
	q := s.queueAt(d.queue())
	q.delay = int64(d.number()) - 1
	q.blocked = int64(d.number())
	q.limit = int(d.number())
	q.produced = int64(d.number())
	crawl, key := string(d.text()), string(d.text())
	if err := d.end(); err != nil {
		return err
	}
	if q.crawl == nil {
		q.key = key
		s.crawlLocked(crawl).add(q)
	}
	s.live += int64(size) - int64(q.size)
	q.lsn, q.size = uint64(p.LSN), size
	return nil
}
