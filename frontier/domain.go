package frontier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"time"

	"github.com/mapwright/mapwright/frontier/dedup"
	"github.com/mapwright/mapwright/frontier/internal/memory"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A domain is a registrable domain that has hosts or failures in a row, or that was given up.
type domain struct {
	hosts     int32    // first host, -1 for none
	failures  uint16   // in a row; a fold
	at        Position // of the last evidence
	abandoned bool
	id        uint64
}

// partition is the partition of a domain: the first byte of its id.
func (d *domain) partition() uint8 { return uint8(d.id >> 56) }

// tally counts how a URL of the domain ended, and returns the evidence of it, if
// there is any. An answer that is a fact about a page ends a row of failures. A plain
// 403 neither ends nor lengthens it.
func (d *domain) tally(class pace.Class, v pace.Meaning) (kind EvidenceKind, changed bool) {
	switch v {
	case pace.MeaningAnswered:
		if class != pace.ClassOK || d.failures == 0 {
			return 0, false
		}
		d.failures = 0
		return evidenceDomainAnswered, true
	case pace.MeaningRefused, pace.MeaningFailed:
		if d.failures < math.MaxUint16 {
			d.failures++
		}
		return evidenceDomainFailed, true
	}
	return 0, false
}

// fold counts evidence that was recorded at a position. Evidence up to the position
// of the last one is counted already.
func (d *domain) fold(at Position, kind EvidenceKind) {
	if at <= d.at {
		return
	}
	d.at = at
	if kind == evidenceDomainAnswered {
		d.failures = 0
	} else if d.failures < math.MaxUint16 {
		d.failures++
	}
}

// reached reports whether the domain has as many failures in a row as it may have.
func (d *domain) reached(most int) bool { return most != Off && int(d.failures) >= most }

// A domainTable holds the domains of a shard's partitions.
type domainTable struct {
	byID    map[uint64]int32
	records memory.Slab[domain]
}

func (t *domainTable) at(i int32) *domain { return t.records.At(i) }

// ensure finds a domain, or adds it.
func (t *domainTable) ensure(id uint64) int32 {
	i, ok := t.byID[id]
	if !ok {
		i = t.records.Alloc()
		*t.at(i) = domain{hosts: -1, id: id}
		t.byID[id] = i
	}
	return i
}

// release removes a domain, unless there is a reason to keep it.
func (t *domainTable) release(i int32) {
	if d := t.at(i); d.hosts < 0 && d.failures == 0 && !d.abandoned {
		delete(t.byID, d.id)
		t.records.Free(i)
	}
}

// all goes through the domains; the current one may be released.
func (t *domainTable) all() iter.Seq2[int32, *domain] {
	return func(yield func(int32, *domain) bool) {
		for _, i := range t.byID {
			if !yield(i, t.at(i)) {
				return
			}
		}
	}
}

// abandon gives up a domain: its hosts get no more leases in this run. ending is the host whose lease ends, and waiting
// the number of its URLs that are left pending.
func (s *shard) abandon(d *domain, ending int32, waiting int64) {
	if d.abandoned {
		return
	}
	d.abandoned = true
	const most = 256 // facts for one record; a domain may have any number of hosts
	for i, h := range s.hosts.siblings(d) {
		h.flags |= hostAbandoned
		s.giveBack(h, 0)
		if len(s.facts) < most {
			s.addFact(i, h)
		} else {
			h.flags |= hostFactDirty
		}
		left := h.pages()
		if i == ending {
			left = waiting
		}
		s.effects.note(Notice{Kind: NoticeAbandoned, Host: string(s.hosts.name(h)), Waiting: left})
		s.touch(i)
	}
}

// block takes a host that failed too often out of the crawl. Waiting is the
// number of its URLs that are left pending.
func (s *shard) block(i int32, h *host, ch pace.Change, waiting int64) {
	h.flags |= hostBlocked
	s.giveBack(h, 0)
	s.addFact(i, h)
	s.effects.note(Notice{Kind: NoticeBlocked, Host: string(s.hosts.name(h)), Change: ch, Waiting: waiting})
	s.touch(i)
}

// Block takes a host out of this run because the caller does not want it crawled. The host is then treated like one
// that failed too often. Block reports whether the host is known and was not blocked yet.
func (f *Frontier) Block(name string) bool {
	id := f.hasher.HostID(name)
	s := f.shards.of(id)
	s.lock()
	defer s.unlock()
	i, ok := s.hosts.find(id)
	if !ok {
		return false
	}
	h := s.hosts.at(i)
	if h.flags&hostBlocked != 0 {
		return false
	}
	s.exclude(i, h, Notice{Kind: NoticeDenied})
	return true
}

// exclude takes a host out of this run that has not failed too often. The notice says why.
func (s *shard) exclude(i int32, h *host, why Notice) {
	h.flags |= hostBlocked | hostFactDirty
	if s.hosts.excluded == nil {
		s.hosts.excluded = map[weburl.HostID]NoticeKind{}
	}
	s.hosts.excluded[h.id] = why.Kind
	s.giveBack(h, 0)
	why.Host, why.Waiting = string(s.hosts.name(h)), h.pages()
	s.effects.note(why)
	s.touch(i)
}

// excludeAway takes a host out of this run that would be leased at the given time, if its pace allows that only after
// longer than a run waits: because of a Retry-After of this run or an earlier one, of this crawl or another of the
// account, or because of a Crawl-delay. It reports whether it did.
func (s *shard) excludeAway(i int32, h *host, at, now int64) bool {
	if at == never || at-now < int64(pace.LeastAway) {
		return false
	}
	// Not the given time: that may be due to a crawl of another account. And a backoff is the crawl's own setting.
	p, start := s.schedule.pace(i, h), s.schedule.nextStart(i, h)
	backsOff := p.ReadyAt().After(p.RestUntil()) && p.ReadyAt().UnixNano() == start
	if backsOff || !p.IsAway(time.Duration(start-now)) {
		return false
	}
	s.exclude(i, h, Notice{Kind: NoticeAway, At: time.Unix(0, start)})
	return true
}

// Failures of a domain in a row are a fold: they are computed from evidence in the
// order of positions, saved at checkpoints, and brought up to date from the
// evidence that was recorded since. So they are the same after any number of
// kills. A domain remembers the position of its last evidence: evidence that comes
// again changes nothing.

// FoldName is the name of the blob that SaveFolds writes.
const FoldName = "fold-domains"

const foldForm = 1 // version of the form of that blob

// SaveFolds writes what was computed from the evidence recorded before the call, and perhaps from a little more. run is
// the number of this run.
func (f *Frontier) SaveFolds(w dedup.BlobWriter, run uint64) error {
	err := w.Put(FoldName, foldForm, func(w io.Writer) error {
		if _, err := w.Write(binary.BigEndian.AppendUint64(nil, run)); err != nil {
			return err
		}
		for _, s := range f.shards.all {
			s.lock()
			domains := s.hosts.domains.appendTo(nil)
			s.mu.Unlock()
			if _, err := w.Write(domains); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save folds: %w", err)
	}
	return nil
}

// appendTo appends the domains that have failures: id, failures, position.
func (t *domainTable) appendTo(dst []byte) []byte {
	for _, d := range t.all() {
		if d.failures > 0 {
			dst = binary.BigEndian.AppendUint64(dst, d.id)
			dst = binary.BigEndian.AppendUint16(dst, d.failures)
			dst = binary.BigEndian.AppendUint64(dst, uint64(d.at))
		}
	}
	return dst
}

// RestoreFolds reads what SaveFolds wrote, and returns the number of the run that
// did. It is called before Resume. After an error nothing is restored.
func (f *Frontier) RestoreFolds(r io.Reader) (run uint64, err error) {
	b, err := io.ReadAll(r)
	if err == nil && (len(b) < 8 || (len(b)-8)%domainSize != 0) {
		err = errors.New("the blob is of another length")
	}
	if err != nil {
		return 0, fmt.Errorf("restore folds: %w", err)
	}
	for d := b[8:]; len(d) > 0; d = d[domainSize:] {
		f.shards.withDomain(binary.BigEndian.Uint64(d), func(dom *domain) {
			dom.failures = binary.BigEndian.Uint16(d[8:])
			dom.at = Position(binary.BigEndian.Uint64(d[10:]))
		})
	}
	return binary.BigEndian.Uint64(b), nil
}

// domainSize is the length of a domain in the blob.
const domainSize = 18

// Fold counts evidence that an earlier run recorded at a position. It is called after RestoreFolds, in the order of
// positions, before Resume.
func (f *Frontier) Fold(at Position, e Evidence) {
	switch e.Kind {
	case evidenceDomainFailed, evidenceDomainAnswered:
		f.shards.withDomain(e.Subject, func(d *domain) { d.fold(at, e.Kind) })
	}
}

// FoldRun is called after the evidence of a run. If isNew is set, a new run follows: it tries the domains again that
// were given up, and their counts begin at zero. Otherwise the same run continues, and they stay given up.
func (f *Frontier) FoldRun(isNew bool) {
	for _, s := range f.shards.all {
		s.lock()
		for i, d := range s.hosts.domains.all() {
			reached := d.reached(f.o.FailureThreshold)
			if !isNew {
				d.abandoned = d.abandoned || reached
				continue
			}
			if reached {
				d.failures = 0
			}
			s.hosts.domains.release(i)
		}
		s.mu.Unlock()
	}
}

// withDomain calls fn with a domain, and adds the domain if it is unknown.
func (ss *shardSet) withDomain(id uint64, fn func(*domain)) {
	s := ss.ofPartition(uint8(id >> 56))
	s.lock()
	defer s.mu.Unlock()
	fn(s.hosts.domains.at(s.hosts.domains.ensure(id)))
}
