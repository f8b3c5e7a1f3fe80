package state

import (
	"encoding/binary"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/record"
)

// visitor turns what records say into entries of Badger and changes of the progress. It does not look at what is sent,
// which is for the owner of its partition, nor at evidence: folds read that from the journal.
func (a *applier) visitor() record.Visitor {
	return record.Visitor{
		Part: a.beginPart, Finish: a.finish, Link: a.link, Visit: a.visit,
		Leased: func(l record.Lease) error {
			op := opLeased
			if l.Alone {
				op = opLeasedAlone
			}
			a.inflight = append(a.inflight, inflightChange{l.Key, op})
			return nil
		},
		Returned: func(k weburl.Key) error {
			a.inflight = append(a.inflight, inflightChange{k, opReturned})
			return nil
		},
		Host: func(h record.Stored) error {
			return a.putPart(record.AppendHostKey(nil, record.FamHost, h.Host), h.Value)
		},
		Cursor: func(c frontier.HostCursor) error {
			a.cursors = append(a.cursors, c)
			return nil
		},
		Origin: func(o record.Stored) error {
			return a.putPart(record.AppendOriginKey(nil, o.Host, o.Origin),
				o.Value)
		},
		Voucher: func(v frontier.Voucher) error {
			a.buf = record.AppendVoucher(a.buf[:0], &v)
			return a.put(record.AppendVoucherKey(nil, v.Key, v.Host), a.buf)
		},
		Skip: func(s frontier.Skip) error {
			a.counters().Skips[min(int(s.Reason), numSkipReasons-1)] += s.Count
			return nil
		},
		Named: a.name,
		Fact: func(f frontier.CrawlFact) error {
			key := record.FactKey(f.Partition, f.Name)
			if f.Value == nil {
				return a.delete(key)
			}
			a.buf = append(append(a.buf[:0], record.Version), f.Value...)
			return a.put(key, a.buf)
		},
		InFlight: func(f record.InFlight) error {
			a.view.mu.Lock()
			a.view.crashes[f.Key] = f.UncleanEnds
			a.view.mu.Unlock()
			a.buf = record.AppendInFlight(a.buf[:0], f.UncleanEnds)
			return a.put(a.urlKey(record.FamInFlight, f.Key), a.buf)
		},
		NotBefore: a.notBefore,
		Received: func(m frontier.Mark) error {
			a.buf = binary.AppendUvarint(append(a.buf[:0], record.Version), m.Batch)
			return a.put(record.MarkKey(&m), a.buf)
		},
	}
}

func (a *applier) beginPart(h record.PartHead) error {
	a.next.run = h.Run
	a.current = h.Partition
	a.changed.Add(h.Partition)
	if h.Kind != record.KindEvents {
		a.next.parts[h.Partition].open = h.Kind == record.KindOpened
		a.inflight = append(a.inflight, inflightChange{weburl.Key{Host: weburl.HostID(h.Partition) << 56},
			opOpened})
	}
	return nil
}

// counters are those of the partition that is being applied.
func (a *applier) counters() *Counters { return &a.next.parts[a.current].counters }

func (a *applier) finish(f record.Stored) error {
	a.inflight = append(a.inflight, inflightChange{f.Key, opReturned})
	if err := a.forgetCrashes(f.Key); err != nil {
		return err
	}
	return a.putFinish(f.Key, f.Value)
}

// putFinish counts a finish and stores it, with what it changed.
func (a *applier) putFinish(k weburl.Key, value []byte) error {
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
	return a.putPart(a.urlKey(family, k), value)
}

func (a *applier) forgetCrashes(k weburl.Key) error {
	a.view.mu.Lock()
	_, crashed := a.view.crashes[k]
	delete(a.view.crashes, k)
	a.view.mu.Unlock()
	if !crashed {
		return nil
	}
	return a.delete(a.urlKey(record.FamInFlight, k))
}

func (a *applier) link(l *record.LinkView) error {
	a.done.links = append(a.done.links, l.Key)
	a.buf = record.AppendDiscovery(a.buf[:0], l)
	found, _ := record.Families(l.Sitemap)
	if err := a.put(a.urlKey(found, l.Key), a.buf); err != nil {
		return err
	}
	isNew := a.links.Add(l.Key, 0)
	if isNew {
		a.counters().found(l.Sitemap, l.Priority == frontier.PriorityCheck)
	}
	if l.Finish != nil {
		return a.putFinish(l.Key, l.Finish)
	}
	if !isNew {
		return nil
	}
	return a.enqueue(l)
}

func (a *applier) visit(l *record.LinkView) error {
	if !a.links.Add(l.Key, l.Visit) {
		return nil
	}
	a.counters().queuedAgain(l.Sitemap)
	return a.enqueue(l)
}

func (a *applier) name(n frontier.Named) error {
	a.buf = record.AppendNamed(a.buf[:0], &n)
	if n.Listed {
		if err := a.put(record.AppendNamedKey(nil, n.Key, record.NamedListed), a.buf); err != nil {
			return err
		}
	}
	if !n.Linked {
		return nil
	}
	n.LastMod = time.Time{} // it is from a sitemap, and belongs to Listed only
	a.buf = record.AppendNamed(a.buf[:0], &n)
	return a.put(record.AppendNamedKey(nil, n.Key, record.NamedLinked), a.buf)
}

func (a *applier) notBefore(h frontier.HostNotBefore) error {
	a.view.mu.Lock()
	defer a.view.mu.Unlock()
	p := h.Host.Partition()
	if h.Host == weburl.HostID(p)<<56 {
		a.view.closings[p] = frontier.Closed{At: h.At}
		return nil
	}
	c := a.view.closings[p]
	c.Hosts = append(c.Hosts, h)
	a.view.closings[p] = c
	return nil
}

func (a *applier) urlKey(family byte, k weburl.Key) []byte {
	var b [record.URLKeySize]byte
	return record.AppendURLKey(b[:0], family, k)
}
