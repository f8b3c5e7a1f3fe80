package frontier

import (
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// joinDomain enters a new host with its registrable domain.
func (s *shard) joinDomain(i int32, h *host, name string) {
	d := s.domainOf(xxhash.Sum64String(urlnorm.RegistrableDomain(name)))
	dom := s.domains.at(d)
	h.domain, h.domNext, h.domPrev = d, dom.hosts, -1
	if dom.hosts >= 0 {
		s.hosts.at(dom.hosts).domPrev = i
	}
	dom.hosts = i
	if dom.abandoned {
		h.flags |= hostAbandoned | hostFactDirty
	}
}

// domainOf finds a domain, or makes it. The first byte of its id is its partition.
func (s *shard) domainOf(id uint64) int32 {
	d, ok := s.domainIDs[id]
	if !ok {
		d = s.domains.alloc()
		*s.domains.at(d) = domain{hosts: -1, id: id}
		s.domainIDs[id] = d
	}
	return d
}

func (s *shard) leaveDomain(i int32, h *host) {
	dom := s.domains.at(h.domain)
	if h.domPrev >= 0 {
		s.hosts.at(h.domPrev).domNext = h.domNext
	} else {
		dom.hosts = h.domNext
	}
	if h.domNext >= 0 {
		s.hosts.at(h.domNext).domPrev = h.domPrev
	}
	if dom.hosts < 0 && dom.failures == 0 && !dom.abandoned {
		delete(s.domainIDs, dom.id)
		s.domains.release(h.domain)
	}
}

// tally counts how a URL ended for its domain, and abandons the domain after too
// many failures in a row. An answer that is a fact about a page breaks the row; a
// plain 403 neither breaks nor lengthens it.
func (s *shard) tally(i int32, h *host, class pace.Class, v pace.Verdict) {
	most := s.f.o.FailureThreshold
	dom := s.domains.at(h.domain)
	switch v {
	case pace.VerdictAnswered:
		if class == pace.ClassOK && dom.failures > 0 {
			dom.failures = 0
			s.observed(h, dom, EvidenceDomainAnswered)
		}
	case pace.VerdictRefused, pace.VerdictFailed:
		s.observed(h, dom, EvidenceDomainFailed)
		if dom.failures < math.MaxUint16 {
			dom.failures++
		}
		if most != Off && int(dom.failures) >= most {
			s.abandon(h.domain, i, h.pending-1) // the URL that ends here is still counted
		}
	}
}

// observed adds evidence to the record that is being made. Its position is noted
// when that is committed.
func (s *shard) observed(h *host, d *domain, kind EvidenceKind) {
	s.evidence = append(s.evidence, Evidence{Partition: h.id.Partition(), Kind: kind, Subject: d.id})
}

// noteEvidence notes the position of what was observed.
func (s *shard) noteEvidence(at Position) {
	for i := range s.evidence {
		if d, ok := s.domainIDs[s.evidence[i].Subject]; ok {
			s.domains.at(d).at = at
		}
	}
	s.evidence = s.evidence[:0]
}

// abandon gives up a domain: its hosts get no more leases in this run. Waiting is
// the number of URLs that are left pending of the host of the ending lease.
func (s *shard) abandon(d, ending int32, waiting int64) {
	dom := s.domains.at(d)
	if dom.abandoned {
		return
	}
	dom.abandoned = true
	const most = 256 // facts for one record; a domain may have any number of hosts
	for i := dom.hosts; i >= 0; {
		h := s.hosts.at(i)
		h.flags |= hostAbandoned
		s.giveBack(h, 0)
		if len(s.facts) < most {
			s.facts = append(s.facts, s.factOf(i, h))
		} else {
			h.flags |= hostFactDirty
		}
		left := h.pending
		if i == ending {
			left = waiting
		}
		s.note(Notice{Kind: NoticeAbandoned, Host: string(s.nameOf(h)), Waiting: left})
		s.touch(i)
		i = h.domNext
	}
}

// block takes a host that failed too often out of the crawl. Waiting is the
// number of its URLs that are left pending.
func (s *shard) block(i int32, h *host, ch pace.Change, waiting int64) {
	h.flags |= hostBlocked
	s.giveBack(h, 0)
	s.facts = append(s.facts, s.factOf(i, h))
	s.note(Notice{Kind: NoticeBlocked, Host: string(s.nameOf(h)), Change: ch, Waiting: waiting})
	s.touch(i)
}

func (s *shard) note(n Notice) {
	if s.f.o.Observe != nil {
		s.notices = append(s.notices, n)
	}
}

// Unblock lets a blocked host be tried again in this run, with a clean slate. It
// reports whether the host was blocked.
func (f *Frontier) Unblock(name string) bool {
	id := f.hasher.HostID(name)
	s := f.shardOf(id)
	s.lock()
	defer s.unlock()
	i, ok := s.table[id]
	if !ok {
		return false
	}
	h := s.hosts.at(i)
	if h.flags&hostBlocked == 0 {
		return false
	}
	h.flags = h.flags&^hostBlocked | hostFactDirty
	s.setPace(i, h, s.paceOf(i, h).Unblocked())
	s.note(Notice{Kind: NoticeUnblocked, Host: name, Waiting: h.pending})
	s.touch(i)
	return true
}

// paceOf is a host's pace, seated or parked.
func (s *shard) paceOf(i int32, h *host) pace.Pace {
	if h.seat >= 0 {
		return s.seats.at(h.seat).pace
	}
	return s.paces[i]
}

func (s *shard) setPace(i int32, h *host, p pace.Pace) {
	if h.seat >= 0 {
		s.seats.at(h.seat).pace = p
	} else {
		s.putAside(i, &p)
	}
}
