package frontier

import (
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// land gives a lease's slot back and lets the host's pace know how the fetch
// went.
func (s *shard) land(l *Lease, r *Result) (pace.Event, pace.Change) {
	h := s.hosts.at(l.host)
	st := s.seats.at(h.seat)
	l.landed = true
	if r.Class != pace.ClassNone && r.Class != pace.ClassOurs {
		l.spent = l.ticket // a host that cannot be connected to was asked too
	}
	st.inflight--
	start := l.started
	if start == 0 {
		st.unstarted--
		start = l.granted
	} else {
		st.wire--
	}
	s.touch(l.host)
	e := pace.Event{
		Class: r.Class, Start: time.Unix(0, start), Now: time.Unix(0, s.time()),
		RetryAfter: r.RetryAfter, Latency: r.Latency, Lag: r.Lag, URL: l.key.Lo, Inflight: max(1, l.wire), Slots: l.slots,
	}
	if l.kind != KindPage {
		e.URL = uint64(l.origin)<<8 | uint64(l.kind)
	}
	if r.Class == pace.ClassNone {
		return e, pace.Change{}
	}
	var ch pace.Change
	st.pace, ch = st.pace.Apply(&s.f.o.Pace, e)
	if e.RetryAfter > 0 && ch.Has(pace.EffectRested) {
		// A run that begins before the time is over must know. There is one such answer
		// per rest, so no debounce.
		s.facts = append(s.facts, s.factOf(l.host, h))
		st.noteSaved(s.time())
	}
	s.noteChange(l, h, ch, s.waitingAfter(l, r, ch))
	return e, ch
}

// waitingAfter is how many URLs of the lease's host are pending once the lease has ended.
func (s *shard) waitingAfter(l *Lease, r *Result, ch pace.Change) int64 {
	waiting := s.hosts.at(l.host).pending
	if back, _ := s.goesBack(l, r, ch); l.kind == KindPage && !back {
		waiting--
	}
	return waiting
}

// noteChange passes a change of pace on, and acts on its extremes. Waiting is the
// number of the host's URLs that are pending once the lease has ended.
func (s *shard) noteChange(l *Lease, h *host, ch pace.Change, waiting int64) {
	if ch.Effects == 0 && ch.Verdict != pace.VerdictRefused {
		return
	}
	if s.f.o.Observe != nil {
		s.note(Notice{Kind: NoticePace, Host: string(s.nameOf(h)), URL: l.url.String(), Change: ch, Waiting: waiting})
	}
	if ch.Has(pace.EffectBlocked) && h.flags&hostBlocked == 0 {
		s.block(l.host, h, ch, waiting)
	}
	if s.f.o.CancelOnThrottle {
		most := s.f.o.FailureThreshold
		if most == Off {
			most = 20
		}
		if _, atCap := s.seats.at(h.seat).pace.Refusals(); atCap >= most {
			s.abandon(h.domain, l.host, waiting)
		}
	}
}

// goesBack decides whether a URL will be leased again, and as what.
func (s *shard) goesBack(l *Lease, r *Result, ch pace.Change) (bool, Disposition) {
	failed := ch.Verdict == pace.VerdictRefused || ch.Verdict == pace.VerdictFailed || r.Class == pace.ClassDropped
	switch l.kind {
	case KindRobots:
		if failed && r.RobotsAt == (URL{}) {
			return r.RobotsUntil.IsZero(), Retrying
		}
		return r.RobotsUntil.IsZero(), Returned
	case KindPage, KindSitemap:
		if r.Finish == nil || r.Class == pace.ClassOurs {
			return true, Returned
		}
	}
	return failed && !r.Final && int(l.attempts) < s.f.o.MaxRetries, Retrying
}

// back puts a URL back into its host's queue, for another attempt or the same one.
func (s *shard) back(l *Lease, r *Result, e pace.Event, d Disposition) error {
	h := s.hosts.at(l.host)
	attempts, at := int(l.attempts), s.time()+int64(r.Delay)
	if l.kind == KindRobots {
		if d == Retrying || r.RobotsAt != (URL{}) {
			s.askOn(l, r.RobotsAt)
		} else {
			s.putBack(l, at, attempts)
		}
		return s.commitFacts()
	}
	if d == Retrying {
		attempts++
		st := s.seats.at(h.seat)
		at = max(at, st.pace.RetryAt(&s.f.o.Pace, e, attempts).UnixNano())
		if s.f.o.Observe != nil && h.flags&hostHeld == 0 { // only resume tries the URLs of a blocked host again
			s.note(Notice{
				Kind: NoticeRetry, Host: string(s.nameOf(h)), URL: l.url.String(), Attempt: attempts, At: time.Unix(0, at),
				Waiting: h.pending,
			})
		}
	}
	s.putBack(l, at, attempts)
	if l.kind != KindPage {
		return s.commitFacts()
	}
	return s.commit(Record{Hosts: s.takeFacts(), Returned: s.keyOnly(l.key)})
}

// commitFacts commits what was learned about hosts, if anything was.
func (s *shard) commitFacts() error {
	if len(s.facts) == 0 {
		return nil
	}
	return s.commit(Record{Hosts: s.takeFacts()})
}

// commit commits a record that names no links.
func (s *shard) commit(rec Record) error {
	s.rec[0] = rec
	_, err := s.f.store.Commit(s.rec[:]...)
	s.rec[0] = Record{}
	if err != nil {
		return s.f.fail(commitError(err))
	}
	return nil
}

func (s *shard) keyOnly(k Key) []Key {
	s.key[0] = k
	return s.key[:]
}

// putBack ends a lease with its URL still to be fetched, not before the given
// time.
func (s *shard) putBack(l *Lease, at int64, attempts int) {
	h := s.hosts.at(l.host)
	switch l.kind {
	case KindPage:
		if l.ticket && !l.spent {
			s.returnTicket(h)
		}
		s.addWait(l, at, attempts, l.ticket && l.spent)
		if h.flags&hostHeld != 0 {
			s.giveBack(h, 0)
		}
	case KindSitemap:
		s.returnSitemap(l, h, at, attempts)
	case KindRobots:
		s.endRobots(l, h)
		h.notBefore = max(h.notBefore, at)
		if l.ask != nil {
			s.returnQuestion(l, h, attempts)
		}
	}
	s.strike(l, h)
}

func (s *shard) returnTicket(h *host) {
	h.tickets--
	s.f.tickets.giveBack()
}

func (s *shard) endRobots(l *Lease, h *host) {
	if l.ask == nil {
		h.flags &^= hostRobotsOut
	}
	s.f.robots.giveBack()
}

// An ending is a lease that ends with the batch of its links.
type ending struct {
	lease      *Lease
	class      pace.Class
	verdict    pace.Verdict
	until      time.Time // of a robots lease
	crawlDelay time.Duration
}

// conclude adds what a lease's end means for the host to the record.
func (s *shard) conclude(b *batch, rec *Record) {
	end := &b.end
	l := end.lease
	h := s.hosts.at(l.host)
	if l.kind == KindPage {
		rec.Finish = &b.fin
		s.tally(l.host, h, end.class, end.verdict)
		if l.spent && s.f.o.MaxURLsPerHost > 0 {
			h.counted++
			s.facts = append(s.facts, s.factOf(l.host, h))
		}
	}
	s.saveFact(l.host, h)
	rec.Hosts = s.takeFacts()
	rec.Evidence = s.evidence
}

// finish ends a lease for good; its record is committed.
func (s *shard) finish(end *ending) {
	l := end.lease
	h := s.hosts.at(l.host)
	s.strike(l, h)
	switch l.kind {
	case KindPage:
		h.pending--
		s.count.pending--
		s.change.permits++
		s.count.finished++
		if !l.spent {
			s.returnTicket(h)
		}
	case KindRobots:
		s.endRobots(l, h)
		if l.ask != nil {
			for _, w := range l.ask.waits {
				s.asks.news = append(s.asks.news, robotsNews{wait: w})
			}
			return
		}
		ch := s.setRobots(l, h, end.until, end.crawlDelay)
		s.noteChange(l, h, ch, h.pending)
	}
}

// LinkError is a link that cannot be taken: it has no URL, or its URL or host name
// is longer than can be kept.
type LinkError struct{ URL string }

func (e *LinkError) Error() string {
	if e.URL == "" {
		return "link without a url"
	}
	return fmt.Sprintf("url %.200q is too long", e.URL)
}

// MaxURL and MaxHost are how long, in bytes, a link's URL and its host name may be.
const (
	MaxURL  = chunkMax - 128
	MaxHost = 255
)
