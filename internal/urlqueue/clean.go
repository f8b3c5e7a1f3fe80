package urlqueue

import (
	"cmp"
	"errors"

	"github.com/mapwright/mapwright/wal"
)

// wastefulLocked reports whether the log has twice the bytes that are needed, and some segments more.
func (s *Store) wastefulLocked() bool {
	segment := cmp.Or(s.opts.SegmentSize, wal.DefaultSegmentSize)
	live := s.live + int64(s.index.count)*wal.ReadOverhead
	return s.next != s.compact && s.log.Size() > 2*live+2*segment
}

// clean is the goroutine that writes what is needed of the oldest segment to the end of the log and then deletes the
// segment, as long as the log is wasteful.
//
// Only records that hold all of a URL, a queue or the settings are written again, with what holds now. Leases and
// removals are not: whatever they changed was in a record before them, and cleaning has come past it, so that a record
// behind them says the same.
func (s *Store) clean() {
	for {
		select {
		case <-s.stop:
			return
		case <-s.grown:
		}
		for {
			s.mu.Lock()
			again := s.usableLocked() == nil && s.wastefulLocked()
			s.mu.Unlock()
			first, next := s.log.Oldest()
			if !again || next == 0 {
				break
			}
			size := s.log.Size()
			err := s.cleanSegment(first, next)
			s.mu.Lock()
			if s.log.Size() >= size {
				s.compact = s.next
			}
			s.mu.Unlock()
			if errors.Is(err, ErrClosed) {
				return
			}
			if err != nil {
				s.mu.Lock()
				s.failLocked(err)
				s.mu.Unlock()
				return
			}
		}
	}
}

var errSegmentEnd = errors.New("the segment ends")

// cleanSegment removes the oldest segment, which holds the records from first up to next.
func (s *Store) cleanSegment(first, next wal.LSN) error {
	err := s.log.ReplayPlaced(first, func(p wal.Place, rec []byte) error {
		if p.LSN >= next {
			return errSegmentEnd
		}
		return s.keep(uint64(p.LSN), rec)
	})
	if err != nil && !errors.Is(err, errSegmentEnd) {
		return err
	}
	s.mu.Lock()
	ticket := s.ticketLocked()
	s.mu.Unlock()
	if err := s.Wait(ticket); err != nil {
		return err
	}
	return s.log.TruncateBefore(next)
}

// keep writes a record again if it is needed.
func (s *Store) keep(lsn uint64, rec []byte) error {
	switch rec[0] {
	case kindPut:
		r, err := decodePut(rec)
		if err != nil {
			return err
		}
		key := s.hash.KeyOf(0, r.url)
		s.mu.Lock()
		defer s.mu.Unlock()
		id := s.index.find(r.queue, key.Hi, key.Lo)
		if id == none || s.index.at(id).lsn != lsn || s.queues[r.queue] == nil {
			return nil
		}
		if err := s.roomLocked(); err != nil {
			return err
		}
		// The mutex was free while the call waited for room.
		if id = s.index.find(r.queue, key.Hi, key.Lo); id == none {
			return nil
		}
		e, q := s.index.at(id), s.queues[r.queue]
		if e.lsn != lsn || q == nil {
			return nil
		}
		if e.state == leased {
			r.until = q.leased[e.pos].until
		}
		s.fill.buf = r.append(s.fill.buf)
		again, size := s.commitLocked(id)
		s.moveLocked(e, again, size)
	case kindQueue:
		d := decoder{b: rec[1:]}
		id := d.queue()
		s.mu.Lock()
		defer s.mu.Unlock()
		if q := s.queues[id]; q != nil && q.lsn == lsn {
			s.describeLocked(q)
		}
	case kindSettings:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.settings == lsn {
			s.describeStoreLocked()
		}
	}
	return nil
}
