package state

import (
	"github.com/mapwright/mapwright/frontier"
)

// A recordApplier is the visitor of the records that an applier applies: it turns
// what they say into entries of Badger and changes of the progress.
type recordApplier struct{ *applier }

var _ visitor = recordApplier{}

func (a recordApplier) part(h partHead) error {
	a.next.run = h.run
	a.current = h.partition
	a.changed.add(h.partition)
	if h.kind != kindEvents {
		a.next.parts[h.partition].open = h.kind == kindOpened
		a.inflight = append(a.inflight, inflightChange{frontier.Key{Host: frontier.HostID(h.partition) << 56}, opOpened})
	}
	return nil
}

// counters are those of the partition that is being applied.
func (a recordApplier) counters() *Counters { return &a.next.parts[a.current].counters }

func (a recordApplier) finish(k frontier.Key, value []byte) error {
	if err := a.countFinish(k, value); err != nil {
		return err
	}
	a.inflight = append(a.inflight, inflightChange{k, opReturned})
	if err := a.forgetCrashes(k); err != nil {
		return err
	}
	return a.put(a.urlKey(famFinish, k), value)
}

func (a recordApplier) countFinish(k frontier.Key, value []byte) error {
	r, err := valueReader("finish", value)
	if err != nil {
		return err
	}
	var f frontier.Finish
	r.finishHead(&f)
	if err := r.done("finish"); err != nil {
		return err
	}
	if a.finishes.Add(k, max(1, f.Visit)) {
		a.counters().finished(&f)
	}
	return nil
}

func (a recordApplier) forgetCrashes(k frontier.Key) error {
	a.view.mu.Lock()
	_, crashed := a.view.crashes[k]
	delete(a.view.crashes, k)
	a.view.mu.Unlock()
	if !crashed {
		return nil
	}
	return a.delete(a.urlKey(famInFlight, k))
}

func (a recordApplier) link(index int, l *linkView) error {
	a.done.links = append(a.done.links, l.key)
	a.buf = appendDiscovery(a.buf[:0], l)
	if err := a.put(a.urlKey(famURL, l.key), a.buf); err != nil {
		return err
	}
	isNew := a.links.Add(l.key, 0)
	if isNew {
		a.counters().Discovered++
	}
	if l.finish != nil {
		if err := a.countFinish(l.key, l.finish); err != nil {
			return err
		}
		return a.put(a.urlKey(famFinish, l.key), l.finish)
	}
	if !isNew {
		return nil
	}
	return a.enqueue(index, l)
}

func (a recordApplier) visit(index int, l *linkView) error {
	if !a.links.Add(l.key, l.visit) {
		return nil
	}
	a.counters().Visits++
	return a.enqueue(index, l)
}

func (a recordApplier) leased(k frontier.Key) error {
	a.inflight = append(a.inflight, inflightChange{k, opLeased})
	return nil
}

func (a recordApplier) returned(k frontier.Key) error {
	a.inflight = append(a.inflight, inflightChange{k, opReturned})
	return nil
}

func (a recordApplier) host(h frontier.HostID, value []byte) error {
	return a.put(appendHostKey(nil, famHost, h), value)
}

func (a recordApplier) cursor(h frontier.HostID, low frontier.Cursor) error {
	a.cursors = append(a.cursors, frontier.HostCursor{Host: h, Low: low})
	return nil
}

func (a recordApplier) origin(h frontier.HostID, origin, value []byte) error {
	return a.put(appendOriginKey(nil, h, origin), value)
}

func (a recordApplier) fact(partition uint8, name, value []byte, set bool) error {
	key := factKey(partition, name)
	if !set {
		return a.delete(key)
	}
	a.buf = append(append(a.buf[:0], formatVersion), value...)
	return a.put(key, a.buf)
}

func (a recordApplier) inFlight(k frontier.Key, ends int) error {
	a.view.mu.Lock()
	a.view.crashes[k] = ends
	a.view.mu.Unlock()
	a.buf = appendInFlight(a.buf[:0], ends)
	return a.put(a.urlKey(famInFlight, k), a.buf)
}

func (a recordApplier) urlKey(family byte, k frontier.Key) []byte {
	var b [urlKeySize]byte
	return appendURLKey(b[:0], family, k)
}
