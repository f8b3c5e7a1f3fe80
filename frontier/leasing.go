package frontier

import (
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// take leases from the first host whose time has come. It returns nil when there
// is none.
func (s *shard) take(now int64) *Lease {
	for s.schedule.due() <= now {
		i := s.schedule.first()
		l := s.lease(i, now)
		s.settle(i, now)
		if l != nil {
			return l
		}
	}
	return nil
}

// lease makes a lease of what a host has next. It returns nil if the host must
// wait for something after all: then settling the host moves it out of the way.
func (s *shard) lease(i int32, now int64) *Lease {
	h := s.hosts.at(i)
	if h.flags&hostEarly != 0 {
		return nil
	}
	p := s.pick(i, h, now)
	if p.at > now || p.load {
		return nil
	}
	if !s.sharing.take(i, h, now) {
		return nil
	}
	l := &Lease{f: s.f, s: s, host: i, level: -1}
	if !l.fillFromPick(h, p, now) {
		s.sharing.release(i, false, now)
		return nil
	}
	l.openLocked(h, now)
	return l
}

// fillFromPick makes l a lease of what was picked. It reports false if a slot or a ticket is missing, or if the
// question is over.
func (l *Lease) fillFromPick(h *host, p pick, now int64) bool {
	s, i := l.s, l.host
	switch {
	case p.question:
		if !s.robots.hasOpen(i, h) || !s.leases.robots.take(i, h) {
			return false
		}
		s.robots.lease(l, h)
		return true
	case p.late:
		if !l.fillFromRobots(h, s.robots.waiting[i].at, true) {
			return false
		}
		l.late = true
		s.robots.endWait(i, h)
		return true
	}
	return l.fillFromURL(h, p, now)
}

// fillFromURL makes l a lease of the page or sitemap that was picked, or of the robots.txt
// that must be known before.
func (l *Lease) fillFromURL(h *host, p pick, now int64) bool {
	s := l.s
	var e entry
	size, ticket := 0, false
	if p.wait >= 0 {
		w := s.queues.wait(p.wait)
		ticket = w.ticket
		e = s.queues.peekWait(w)
		l.level, l.attempts = w.level, w.attempts
	} else {
		l.level = p.level
		size = s.queues.peek(p.level, &e)
	}
	kind := kindOf(s.queues.level(l.level).priority)
	known := s.origins.get(l.host, h, e.origin).isKnown(now, s.f.rounds.Load())
	if (!s.f.o.IgnoreRobots || kind == KindCheck) && !known {
		return l.fillFromRobots(h, e.origin, ticket || kind == KindCheck)
	}
	l.kind = kind
	if !ticket && !l.reserve(h) {
		return false
	}
	l.ticket, l.spent = l.kind == KindPage, ticket
	l.fill(h.id, s.hosts.name(h), &e, s.queues.level(l.level).priority)
	if p.wait >= 0 {
		s.queues.takeWait(&h.hostQueue, p.wait)
	} else {
		s.queues.take(&h.hostQueue, l.level, size)
		h.flags &^= hostSitemapTurn
		if l.kind == KindPage {
			h.flags |= hostSitemapTurn
		}
	}
	switch l.kind {
	case KindSitemap:
		h.sitemapLeases++
		return true
	case KindCheck:
		h.checkLeases++
		return true
	}
	h.pageLeases++
	if s.f.gate.on {
		l.depth = s.known.higher.correct(l.key, l.depth)
	}
	return true
}

// reserve takes the page ticket that the lease needs, or has the host wait for one. A sitemap needs no ticket. It waits
// too while all are taken, because no page that it names could be fetched. A check does not wait.
func (l *Lease) reserve(h *host) bool {
	s := l.s
	if l.kind == KindCheck {
		return true
	}
	if !s.mayTakeTicket(l.host, h) {
		return false
	}
	if l.kind == KindSitemap {
		return true
	}
	if !s.leases.reserve(l.host, h) {
		return false
	}
	s.f.parts.of(h.id).used++
	if s.effects.observed && h.limited(s.f.o.MaxURLsPerHost) {
		s.effects.note(Notice{Kind: NoticeHostLimit, Host: string(s.hosts.name(h)),
			Waiting: h.pages() - int64(h.pageLeases) - int64(h.ticketed) - 1})
	}
	return true
}

// mayTakeTicket reports whether there is a page ticket, or has the host wait for one.
func (s *shard) mayTakeTicket(i int32, h *host) bool {
	if s.f.o.Grants {
		if part := s.f.parts.of(h.id); part.used >= part.granted {
			part.short = true
			h.flags |= hostTicketWait // until Member.Grant
			return false
		}
	}
	if s.f.tickets.Exhausted() {
		s.leases.tickets.wait(i, h)
		return false
	}
	return true
}

// returnTicket gives a page ticket back that was not used.
func (s *shard) returnTicket(h *host) {
	s.f.parts.of(h.id).used--
	s.leases.returnTicket(h)
}

// fillFromRobots makes l a robots lease of an origin. It reports false if a ticket or a slot is missing. ticket says
// whether the page that needs the robots.txt has a ticket already.
func (l *Lease) fillFromRobots(h *host, o origin, ticket bool) bool {
	s := l.s
	if !ticket && !s.mayTakeTicket(l.host, h) {
		return false // no page would follow
	}
	if !s.leases.robots.take(l.host, h) {
		return false
	}
	h.flags |= hostRobotsOut
	l.kind, l.level, l.attempts, l.round = KindRobots, -1, 0, s.f.rounds.Load()
	l.origin = o
	b := append(appendOrigin(nil, o, s.hosts.name(h)), "/robots.txt"...)
	l.url, _ = weburl.FromCanonical(stringOf(b))
	return true
}

// fill makes l, whose kind is set, a lease of an entry.
func (l *Lease) fill(id weburl.HostID, name []byte, e *entry, priority uint8) {
	b := make([]byte, 0, len(name)+len(e.path)+len("https://.:65535"))
	b = append(appendOrigin(b, e.origin, name), e.path...)
	l.url, _ = weburl.FromCanonical(stringOf(b)) // it was canonical when it was queued
	switch l.kind {
	case KindSitemap:
		l.key = SitemapKey(l.f.hasher, l.url)
	case KindCheck:
		l.key = CheckKey(l.f.hasher, l.url)
	default:
		l.key = l.f.hasher.KeyOf(id, b)
	}
	l.queued, l.priority = e.queued, priority
}

// openLocked counts a new lease of its host.
func (l *Lease) openLocked(h *host, now int64) {
	s := l.s
	st := s.schedule.stateOf(h)
	h.leases++
	s.f.parts.of(h.id).leases++
	st.grant(now, s.f.o.KeepTurn)
	if int(st.inflight) > s.schedule.limit(h, st) {
		s.count.violations++
	}
	l.granted = now
	s.leases.add(l)
}

// releaseLocked frees the host's slot.
func (l *Lease) releaseLocked(h *host) {
	l.landed = true
	l.s.schedule.stateOf(h).release(l.started != 0)
	l.s.sharing.release(l.host, l.started != 0, l.s.time())
	l.leaveAddressLocked()
	l.s.touch(l.host)
}

// putBackLocked ends a lease whose slot is free, with its URL still to be fetched, not
// before the given time.
func (l *Lease) putBackLocked(at int64, attempts int) {
	s := l.s
	h := s.hosts.at(l.host)
	switch l.kind {
	case KindPage, KindSitemap, KindCheck:
		if l.ticket && !l.spent {
			s.returnTicket(h)
		}
		s.queues.addWait(&h.hostQueue, wait{
			queued: l.queued, until: at, level: l.level, attempts: uint8(min(attempts, 255)), ticket: l.ticket &&
				l.spent,
		}, l.path())
		if h.flags&hostHeld != 0 {
			s.giveBack(h, 0)
		}
	case KindRobots:
		l.endRobotsLocked(h)
		h.notBefore = max(h.notBefore, at)
		if l.ask != nil {
			s.robots.giveBack(l, h, attempts)
		}
	}
	l.endLocked(h)
}

// endRobotsLocked frees the slot of a robots lease.
func (l *Lease) endRobotsLocked(h *host) {
	if l.ask == nil {
		h.flags &^= hostRobotsOut
	}
	l.s.leases.robots.release()
}

// endLocked counts the lease of its host as ended.
func (l *Lease) endLocked(h *host) {
	s := l.s
	h.leases--
	s.f.parts.of(h.id).endLease()
	s.leases.remove(l)
	switch l.kind {
	case KindPage:
		h.pageLeases--
		s.queues.endLease(l.level)
	case KindSitemap:
		h.sitemapLeases--
		s.queues.endLease(l.level)
	case KindCheck:
		h.checkLeases--
		s.queues.endLease(l.level)
	}
	s.touch(l.host)
}

// An ending is the end of a lease by Done. Its methods need the mutex of the lease's
// shard. First land, then, as goesBack says, either back, or conclude and finish.
type ending struct {
	lease       *Lease
	class       pace.Class
	meaning     pace.Meaning
	until       time.Time // of a robots lease
	provisional bool      // likewise
	crawlDelay  time.Duration
	domain      *domain // whose evidence is in the record; nil for none
	again       bool    // the URL is queued again in the record
}

// land frees the lease's slot and lets the host's pace know how the fetch went. It
// returns what the pace was told.
func (e *ending) land(l *Lease, r *Result) pace.Event {
	*e = ending{lease: l, class: r.Class, until: r.RobotsUntil, provisional: r.RobotsProvisional,
		crawlDelay: r.CrawlDelay}
	s := l.s
	h := s.hosts.at(l.host)
	l.releaseLocked(h)
	if r.Class != pace.ClassNone && r.Class != pace.ClassOurs {
		l.spent = l.ticket // a host that cannot be connected to was asked too
	}
	start := l.started
	if start == 0 {
		start = l.granted
	}
	event := pace.Event{
		Class: r.Class, Start: time.Unix(0, start), Now: time.Unix(0, s.time()),
		RetryAfter: r.RetryAfter, Latency: r.Latency, Lag: r.Lag, URL: l.key.Lo, Inflight: max(1, l.wire),
		Slots: l.slots,
	}
	if l.kind == KindRobots {
		event.URL = uint64(l.origin)<<8 | uint64(l.kind)
	}
	if r.Class == pace.ClassNone {
		return event
	}
	st := s.schedule.stateOf(h)
	ch := s.sharing.apply(l.host, st, event)
	e.meaning = ch.Meaning
	if ch.RowChanged || r.RetryAfter > 0 && ch.Has(pace.EffectRested) {
		// A run that begins before the rest is over must know of it, and a run that continues after a kill must go on
		// with the count. Such answers are rare: one per rest or backoff, and each plain 403. So the fact is written at
		// once, in the record of the page.
		s.addPaceFact(l.host, h, s.time())
	}
	waiting := h.pages()
	if back, _ := e.goesBack(r); l.kind == KindPage && !back && !r.Again {
		waiting--
	}
	e.apply(h, ch, waiting)
	return event
}

// apply reports a change of pace to the observer, and blocks the host or abandons its domain if the change demands it.
// Waiting is the number of the host's URLs that are pending once the lease has ended.
func (e *ending) apply(h *host, ch pace.Change, waiting int64) {
	if ch.Effects == 0 && ch.Meaning != pace.MeaningRefused {
		return
	}
	l, s := e.lease, e.lease.s
	if s.effects.observed {
		s.effects.note(Notice{Kind: NoticePace, Host: string(s.hosts.name(h)), URL: l.url.String(), Change: ch,
			Waiting: waiting})
	}
	if ch.Has(pace.EffectBlocked) && h.flags&hostBlocked == 0 {
		s.block(l.host, h, ch, waiting)
	}
	if s.f.o.CancelOnThrottle {
		most := s.f.o.FailureThreshold
		if most == Off {
			most = 20
		}
		if _, atCap := s.schedule.stateOf(h).pace.Refusals(); atCap >= most {
			s.abandon(s.hosts.domain(h), l.host, waiting)
		}
	}
}

// goesBack decides whether the URL will be leased again, and as what.
func (e *ending) goesBack(r *Result) (bool, Disposition) {
	l := e.lease
	failed := e.meaning == pace.MeaningRefused || e.meaning == pace.MeaningFailed || r.Class == pace.ClassDropped
	switch l.kind {
	case KindRobots:
		if failed && r.RobotsAt == (weburl.URL{}) {
			return r.RobotsUntil.IsZero(), Retrying
		}
		return r.RobotsUntil.IsZero(), Returned
	case KindPage, KindSitemap, KindCheck:
		if r.Finish == nil || r.Class == pace.ClassOurs {
			return true, Returned
		}
	}
	return failed && !r.Final && int(l.attempts) < l.f.o.MaxRetries, Retrying
}

// back puts the URL back into its host's queue, for another attempt or the same one.
// The event is what land returned.
func (e *ending) back(r *Result, event pace.Event, d Disposition) error {
	l, s := e.lease, e.lease.s
	h := s.hosts.at(l.host)
	attempts, at := int(l.attempts), s.time()+int64(r.Delay)
	if l.kind == KindRobots {
		if d == Retrying || r.RobotsAt != (weburl.URL{}) {
			s.robots.follow(l, h, r.RobotsAt)
			l.endRobotsLocked(h)
			l.endLocked(h)
		} else {
			l.putBackLocked(at, attempts)
		}
		return s.commitFacts()
	}
	if d == Retrying {
		attempts++
		at = max(at, s.schedule.stateOf(h).pace.RetryAt(&s.f.o.Pace, event, attempts).UnixNano())
		if s.effects.observed && h.flags&hostHeld == 0 { // only resume tries the URLs of a blocked host again
			s.effects.note(Notice{
				Kind: NoticeRetry, Host: string(s.hosts.name(h)), URL: l.url.String(), Attempt: attempts,
				At:      time.Unix(0, at),
				Waiting: h.pages(),
			})
		}
	}
	l.putBackLocked(at, attempts)
	return s.commitReturned(l)
}

// conclude adds what the end means for the host to the batch and its record.
func (e *ending) conclude(b *batch, rec *Record) {
	l, s := e.lease, e.lease.s
	h := s.hosts.at(l.host)
	if l.kind.isQueued() {
		rec.Finish = &b.fin
		if e.again {
			b.visits = append(b.visits, e.nextVisit(&b.fin))
			rec.Visits = b.visits
		}
	}
	if l.kind == KindPage {
		d := s.hosts.domain(h)
		if kind, changed := d.tally(e.class, e.meaning); changed {
			e.domain = d
			b.evidence = append(b.evidence, Evidence{Partition: h.id.Partition(), Kind: kind, Subject: d.id})
			if kind == evidenceDomainFailed && d.reached(s.f.o.FailureThreshold) {
				waiting := h.pages() // the URL that ends here is still counted
				if !e.again {
					waiting--
				}
				s.abandon(d, l.host, waiting)
			}
		}
		if l.spent && s.f.o.MaxURLsPerHost > 0 {
			h.counted++
			s.addFact(l.host, h)
		}
	}
	s.addFactIfWorth(l.host, h, s.time())
	rec.Hosts = s.takeFacts()
}

// nextVisit is the visit after the one that fin ends.
func (e *ending) nextVisit(fin *Finish) Link {
	next := e.lease.Link()
	next.Visit, next.Before, next.At = fin.Visit+1, fin.Summary(), Cursor{}
	next.settlePriority()
	return next
}

// committed notes the position of the record.
func (e *ending) committed(at Position) {
	if e.domain != nil {
		e.domain.at = at
	}
}

// finish ends the lease for good; its record is committed.
func (e *ending) finish() {
	l, s := e.lease, e.lease.s
	h := s.hosts.at(l.host)
	l.endLocked(h)
	switch l.kind {
	case KindPage:
		s.queues.finish(&h.hostQueue, l.level)
		s.effects.permits++
		s.count.finished++
		if !l.spent {
			s.returnTicket(h)
		}
	case KindSitemap, KindCheck:
		s.queues.finish(&h.hostQueue, l.level)
		s.effects.permits++
	case KindRobots:
		l.endRobotsLocked(h)
		st, delay := s.schedule.stateOf(h), e.crawlDelay
		if l.ask == nil {
			o := originState{origin: l.origin, crawl: e.crawlDelay, until: s.f.clock.at(e.until)}
			if e.provisional {
				o.round = l.round
			}
			delay = s.origins.set(l.host, h, o)
		} else if s.robots.answer(l.ask); delay <= st.pace.CrawlDelay() {
			return
		}
		var ch pace.Change
		st.pace, ch = st.pace.WithCrawlDelay(&s.f.o.Pace, delay)
		e.apply(h, ch, h.pages())
	}
}
