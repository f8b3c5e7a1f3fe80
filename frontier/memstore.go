package frontier

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A memStore is a Store in memory.
type memStore struct {
	mu   sync.Mutex
	last Position // guarded by mu
	// every link ever committed: its last visit that is finished, 0 for none; guarded by mu
	finished map[weburl.Key]uint32
	hosts    map[weburl.HostID]*memHost // guarded by mu
	inflight map[weburl.Key]struct{}    // guarded by mu
	sent     []Link                     // guarded by mu
}

type memHost struct {
	fact   HostFact
	name   string
	known  bool     // fact was committed
	levels [][]Link // by priority, in order
	low    Cursor   // the last cursor committed
}

// NewMemStore returns an empty store in memory, for tests and for crawls that need not
// outlive their process.
func NewMemStore() Store { return newMemStore() }

func newMemStore() *memStore {
	return &memStore{finished: map[weburl.Key]uint32{}, hosts: map[weburl.HostID]*memHost{},
		inflight: map[weburl.Key]struct{}{}}
}

// Commit implements [Store].
func (m *memStore) Commit(recs ...Record) (Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range recs {
		m.last++
		m.applyLocked(&recs[i])
	}
	return m.last, nil
}

func (m *memStore) applyLocked(r *Record) {
	for i := range r.Links {
		l := &r.Links[i]
		l.At = Cursor{Priority: l.Priority, Position: m.last, Index: uint32(i)}
		m.finished[l.Key] = 0
		if l.Finish != nil {
			m.finished[l.Key] = 1
			continue
		}
		m.enqueueLocked(*l)
	}
	for i := range r.Visits {
		l := &r.Visits[i]
		l.At = Cursor{Priority: l.Priority, Position: m.last, Index: uint32(len(r.Links) + i)}
		m.enqueueLocked(*l)
	}
	for i := range r.Sent {
		r.Sent[i].At = Cursor{}
		m.sent = append(m.sent, r.Sent[i])
	}
	if r.Finish != nil {
		m.finished[r.Finish.Key] = max(1, r.Finish.Visit)
		delete(m.inflight, r.Finish.Key)
	}
	for _, k := range r.Leased {
		m.inflight[k] = struct{}{}
	}
	for _, k := range r.Returned {
		delete(m.inflight, k)
	}
	for _, f := range r.Hosts {
		h := m.hostLocked(f.Host)
		h.fact, h.known = f, true
	}
	for _, c := range r.Cursors {
		h := m.hostLocked(c.Host)
		h.low = c.Low
		for p, level := range h.levels[:min(len(h.levels), int(c.Low.Priority)+1)] {
			h.levels[p] = slices.Clone(level[indexAfter(level, c.Low):])
		}
	}
}

func (m *memStore) enqueueLocked(l Link) {
	h := m.hostLocked(l.Key.Host)
	for len(h.levels) <= int(l.Priority) {
		h.levels = append(h.levels, nil)
	}
	if h.name == "" {
		_, h.name = originOf(l.URL)
	}
	h.levels[l.Priority] = append(h.levels[l.Priority], l)
}

func (m *memStore) hostLocked(id weburl.HostID) *memHost {
	h := m.hosts[id]
	if h == nil {
		h = &memHost{}
		m.hosts[id] = h
	}
	return h
}

// indexAfter is the index of the first link after the cursor.
func indexAfter(level []Link, after Cursor) int {
	i, found := slices.BinarySearchFunc(level, after, func(l Link, c Cursor) int { return l.At.Compare(c) })
	if found {
		i++
	}
	return i
}

// Ready implements [Store]; a memStore always is.
func (m *memStore) Ready(context.Context) error { return nil }

// Seen implements [Store].
func (m *memStore) Seen(_ context.Context, keys []weburl.Key, out []bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, k := range keys {
		_, out[i] = m.finished[k]
	}
	return nil
}

// Pending implements [Store].
func (m *memStore) Pending(_ context.Context, host weburl.HostID, after Cursor, n int) ([]Link, Cursor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hosts[host]
	if h == nil || n <= 0 {
		return nil, after, nil
	}
	var out []Link
	for p := int(after.Priority); p < len(h.levels); p++ {
		if p > int(after.Priority) {
			after = Cursor{Priority: uint8(p)}
		}
		level := h.levels[p]
		for _, l := range level[indexAfter(level, after):] {
			after = l.At
			if m.finished[l.Key] >= max(1, l.Visit) {
				continue
			}
			if out = append(out, l); len(out) == n {
				return out, after, nil
			}
		}
	}
	return out, Cursor{Priority: math.MaxUint8, Position: math.MaxUint64, Index: math.MaxUint32}, nil
}

// Host implements [Store].
func (m *memStore) Host(_ context.Context, host weburl.HostID) (HostFact, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.hosts[host]; h != nil && h.known {
		return h.fact, true, nil
	}
	return HostFact{}, false, nil
}

// Keys implements [Store].
func (m *memStore) Keys(_ context.Context, first, last uint8) iter.Seq2[weburl.Key, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []weburl.Key
	for k := range m.finished {
		if p := k.Host.Partition(); p >= first && p <= last {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, weburl.Key.Compare)
	return func(yield func(weburl.Key, error) bool) {
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

// Backlogs implements [Store]. Hosts come in the order of their IDs.
func (m *memStore) Backlogs(_ context.Context, first, last uint8) iter.Seq2[Backlog, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Backlog
	for id, h := range m.hosts {
		if p := id.Partition(); p < first || p > last {
			continue
		}
		b := Backlog{Fact: h.fact, Low: h.low}
		b.Fact.Host = id
		if b.Fact.Name == "" {
			b.Fact.Name = h.name
		}
		for p, level := range h.levels {
			if len(level) > 0 {
				b.Levels = append(b.Levels, LevelBacklog{Priority: uint8(p), Links: len(level)})
			}
		}
		if len(b.Levels) > 0 || h.known {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b Backlog) int { return cmp.Compare(a.Fact.Host, b.Fact.Host) })
	return func(yield func(Backlog, error) bool) {
		for _, b := range all {
			if !yield(b, nil) {
				return
			}
		}
	}
}
