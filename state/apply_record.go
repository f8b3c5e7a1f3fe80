package state

import (
	"encoding/binary"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// An applier is the visitor of the records that it applies.
var _ visitor = (*applier)(nil)

func (a *applier) head(kind byte, epoch uint64) error {
	a.next.epoch, a.next.ended = epoch, kind == kindEnd
	if kind == kindStart {
		a.inflight = append(a.inflight, inflightChange{op: opStarted})
	}
	return nil
}

func (a *applier) finish(k urlnorm.Key, value []byte) error {
	r, err := valueReader("finish", value)
	if err != nil {
		return err
	}
	var f Finish
	r.finishHead(&f)
	if err := r.done("finish"); err != nil {
		return err
	}
	if a.finishes.Add(k, f.Generation) {
		a.next.counters.finished(&f)
	}
	a.inflight = append(a.inflight, inflightChange{k, opReturned})
	if err := a.forgetCrashes(k); err != nil {
		return err
	}
	return a.put(a.urlKey(famFinish, k), value)
}

func (a *applier) forgetCrashes(k urlnorm.Key) error {
	a.view.mu.Lock()
	_, crashed := a.view.crashes[k]
	delete(a.view.crashes, k)
	a.view.mu.Unlock()
	if !crashed {
		return nil
	}
	return a.delete(a.urlKey(famCrashed, k))
}

func (a *applier) link(index int, l *linkView) error {
	a.done.links = append(a.done.links, l.key)
	a.buf = appendDiscovery(a.buf[:0], l)
	if err := a.put(a.urlKey(famURL, l.key), a.buf); err != nil {
		return err
	}
	if !a.links.Add(l.key, 0) {
		return nil
	}
	a.next.counters.Discovered++
	return a.enqueue(index, l)
}

func (a *applier) leased(k urlnorm.Key) error {
	a.inflight = append(a.inflight, inflightChange{k, opLeased})
	return nil
}

func (a *applier) returned(k urlnorm.Key) error {
	a.inflight = append(a.inflight, inflightChange{k, opReturned})
	return nil
}

func (a *applier) host(h urlnorm.HostID, value []byte) error {
	return a.put(appendHostKey(nil, famHost, h), value)
}

func (a *applier) cursor(h urlnorm.HostID, low Cursor) error {
	a.cursors = append(a.cursors, HostCursor{h, low})
	return nil
}

func (a *applier) robots(origin, value []byte) error {
	return a.put(append([]byte{famRobots}, origin...), value)
}

func (a *applier) run(name, value []byte, set bool) error {
	key := append(metaKey(metaRun), name...)
	if !set {
		return a.delete(key)
	}
	a.buf = append(append(a.buf[:0], formatVersion), value...)
	return a.put(key, a.buf)
}

func (a *applier) crashed(k urlnorm.Key, times int) error {
	a.view.mu.Lock()
	a.view.crashes[k] = times
	a.view.mu.Unlock()
	a.buf = binary.AppendUvarint(a.buf[:0], uint64(times))
	return a.put(a.urlKey(famCrashed, k), a.buf)
}

func (a *applier) urlKey(family byte, k urlnorm.Key) []byte {
	var b [urlKeySize]byte
	return appendURLKey(b[:0], family, k)
}
