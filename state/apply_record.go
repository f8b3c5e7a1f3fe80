package state

import (
	"encoding/binary"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

// A recordApplier is the visitor of the records that an applier applies: it turns
// what they say into entries of Badger and changes of the progress.
type recordApplier struct{ *applier }

var _ record.Visitor = recordApplier{}

func (a recordApplier) Part(h record.PartHead) error {
	a.next.run = h.Run
	a.current = h.Partition
	a.changed.Add(h.Partition)
	if h.Kind != record.KindEvents {
		a.next.parts[h.Partition].open = h.Kind == record.KindOpened
		a.inflight = append(a.inflight, inflightChange{frontier.Key{Host: frontier.HostID(h.Partition) << 56}, opOpened})
	}
	return nil
}

// counters are those of the partition that is being applied.
func (a recordApplier) counters() *Counters { return &a.next.parts[a.current].counters }

func (a recordApplier) Finish(k frontier.Key, value []byte) error {
	a.inflight = append(a.inflight, inflightChange{k, opReturned})
	if err := a.forgetCrashes(k); err != nil {
		return err
	}
	return a.putFinish(k, value)
}

// putFinish counts a finish and stores it, with what it changed.
func (a recordApplier) putFinish(k frontier.Key, value []byte) error {
	var f frontier.Finish
	if err := record.ReadFinish(value, &f); err != nil {
		return err
	}
	if a.finishes.Add(k, max(1, f.Visit)) {
		a.counters().finished(&f)
	}
	if len(f.Differences) > 0 {
		a.buf = record.AppendDifferences(a.buf[:0], &f)
		if err := a.put(record.AppendChangeKey(nil, k, f.Generation), a.buf); err != nil {
			return err
		}
	}
	_, family := record.Families(f.Sitemap)
	if f.KeepFacts && f.Visit > 1 {
		family = record.FamVisit
	}
	return a.put(a.urlKey(family, k), value)
}

func (a recordApplier) forgetCrashes(k frontier.Key) error {
	a.view.mu.Lock()
	_, crashed := a.view.crashes[k]
	delete(a.view.crashes, k)
	a.view.mu.Unlock()
	if !crashed {
		return nil
	}
	return a.delete(a.urlKey(record.FamInFlight, k))
}

func (a recordApplier) Link(index int, l *record.LinkView) error {
	a.done.links = append(a.done.links, l.Key)
	a.buf = record.AppendDiscovery(a.buf[:0], l)
	found, _ := record.Families(l.Sitemap)
	if err := a.put(a.urlKey(found, l.Key), a.buf); err != nil {
		return err
	}
	isNew := a.links.Add(l.Key, 0)
	if isNew {
		a.counters().found(l.Sitemap)
	}
	if l.Finish != nil {
		return a.putFinish(l.Key, l.Finish)
	}
	if !isNew {
		return nil
	}
	return a.enqueue(index, l)
}

func (a recordApplier) Visit(index int, l *record.LinkView) error {
	if !a.links.Add(l.Key, l.Visit) {
		return nil
	}
	a.counters().queuedAgain(l.Sitemap)
	return a.enqueue(index, l)
}

func (a recordApplier) Leased(k frontier.Key, alone bool) error {
	op := opLeased
	if alone {
		op = opLeasedAlone
	}
	a.inflight = append(a.inflight, inflightChange{k, op})
	return nil
}

func (a recordApplier) Returned(k frontier.Key) error {
	a.inflight = append(a.inflight, inflightChange{k, opReturned})
	return nil
}

func (a recordApplier) Host(h frontier.HostID, value []byte) error {
	return a.put(record.AppendHostKey(nil, record.FamHost, h), value)
}

func (a recordApplier) Cursor(h frontier.HostID, low frontier.Cursor) error {
	a.cursors = append(a.cursors, frontier.HostCursor{Host: h, Low: low})
	return nil
}

func (a recordApplier) Origin(h frontier.HostID, origin, value []byte) error {
	return a.put(record.AppendOriginKey(nil, h, origin), value)
}

func (a recordApplier) Fact(partition uint8, name, value []byte, set bool) error {
	key := record.FactKey(partition, name)
	if !set {
		return a.delete(key)
	}
	a.buf = append(append(a.buf[:0], record.Version), value...)
	return a.put(key, a.buf)
}

func (a recordApplier) Voucher(v frontier.Voucher) error {
	a.buf = record.AppendVoucher(a.buf[:0], &v)
	return a.put(record.AppendVoucherKey(nil, v.Key, v.Host), a.buf)
}

func (a recordApplier) InFlight(k frontier.Key, ends record.UncleanEnds) error {
	a.view.mu.Lock()
	a.view.crashes[k] = ends
	a.view.mu.Unlock()
	a.buf = record.AppendInFlight(a.buf[:0], ends)
	return a.put(a.urlKey(record.FamInFlight, k), a.buf)
}

func (a recordApplier) Skip(s frontier.Skip) error {
	a.counters().Skips[min(int(s.Reason), NumSkipReasons-1)] += s.Count
	return nil
}

// Folds read evidence from the journal.
func (a recordApplier) Evidence(frontier.Evidence) error { return nil }

func (a recordApplier) Named(n frontier.Named) error {
	a.buf = record.AppendNamed(a.buf[:0], &n)
	if n.Listed {
		if err := a.put(record.AppendNamedKey(nil, n.Key, record.NamedListed), a.buf); err != nil {
			return err
		}
	}
	if !n.Linked || !a.named.Add(n.Key, n.Generation) {
		return nil // most links of a site are on many pages
	}
	n.LastMod = time.Time{} // that is what a sitemap says
	a.buf = record.AppendNamed(a.buf[:0], &n)
	return a.put(record.AppendNamedKey(nil, n.Key, record.NamedLinked), a.buf)
}

func (a recordApplier) Received(m frontier.Mark) error {
	a.buf = binary.AppendUvarint(append(a.buf[:0], record.Version), m.Batch)
	return a.put(record.MarkKey(&m), a.buf)
}

// Links that were sent are for the owner of their partition.
func (a recordApplier) Sent(*record.LinkView) error { return nil }

// SentVoucher is for that owner too.
func (a recordApplier) SentVoucher(frontier.HostID) error { return nil }

// Asked is so as well.
func (a recordApplier) Asked(frontier.RobotsQuestion) error { return nil }

func (a recordApplier) NotBefore(h frontier.HostID, at time.Time) error {
	a.view.mu.Lock()
	defer a.view.mu.Unlock()
	p := h.Partition()
	if h == frontier.HostID(p)<<56 {
		a.view.closings[p] = frontier.Closed{At: at}
		return nil
	}
	c := a.view.closings[p]
	c.Hosts = append(c.Hosts, frontier.HostNotBefore{Host: h, At: at})
	a.view.closings[p] = c
	return nil
}

func (a recordApplier) urlKey(family byte, k frontier.Key) []byte {
	var b [record.URLKeySize]byte
	return record.AppendURLKey(b[:0], family, k)
}
