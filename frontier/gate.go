package frontier

import (
	"math"
	"sync"
	"sync/atomic"
)

// The gate holds deeper levels closed until everything above them is finished. It
// counts, exactly, the unfinished URLs of every depth on hosts that are still
// crawled; sources and sitemaps, which can bring seeds, count as depth 0.
type gate struct {
	on    bool
	open  atomic.Int32 // the worst priority that may be leased; grows only; written under mu
	count [depths]atomic.Int64
	mu    sync.Mutex // held while the gate is being opened
}

const depths = maxOrderedDepth + 1

type gateChange struct {
	depth int
	by    int64
}

func (g *gate) init(on bool) {
	g.on = on
	g.open.Store(int32(PriorityDepth))
	if !on {
		g.open.Store(math.MaxUint8)
	}
}

// apply adds what one call changed: first what grows, so that a page and what it
// links to are never both missing.
func (g *gate) apply(changes []gateChange) {
	for _, c := range changes {
		if c.by > 0 {
			g.count[c.depth].Add(c.by)
		}
	}
	for _, c := range changes {
		if c.by < 0 {
			g.count[c.depth].Add(c.by)
		}
	}
}

// done reports whether everything at the open level and above it is finished and
// something waits below.
func (g *gate) done() (next int, ok bool) {
	for d := range g.count {
		if g.count[d].Load() > 0 {
			return d, d > depthOf(uint8(g.open.Load()))
		}
	}
	return 0, false
}

// recountLevels brings the gate's counts in line with a host.
func (s *shard) recountLevels(h *host, held, limited bool) {
	for i := h.levels; i >= 0; {
		lv := s.levels.at(i)
		n := lv.leased
		if !held {
			n = lv.pending()
			if limited {
				n = lv.leased + lv.ticketed
			}
		}
		s.changeGate(depthOf(lv.class), int64(n)-int64(lv.gated))
		lv.gated = n
		i = lv.next
	}
	n := h.sitemaps + h.leases - h.pageLeases
	if held {
		n = h.leases - h.pageLeases
	}
	s.changeGate(0, int64(n)-int64(h.gated))
	h.gated = n
}

// changeGate adds to a depth's count with the next unlocking. All of one depth is
// added at once, so that the count is not zero for a moment by accident.
func (s *shard) changeGate(depth int, by int64) {
	if by == 0 {
		return
	}
	for i := range s.change.gate {
		if s.change.gate[i].depth == depth {
			s.change.gate[i].by += by
			return
		}
	}
	s.change.gate = append(s.change.gate, gateChange{depth, by})
}

// openGate opens the next level if the ones above are finished, and has every
// host look again.
func (f *Frontier) openGate() {
	g := &f.gate
	for _, ok := g.done(); ok; _, ok = g.done() {
		if !g.mu.TryLock() {
			return // whoever has it looks again when it is through
		}
		if next, ok := g.done(); ok {
			g.open.Store(int32(PriorityDepth) + int32(next))
			for _, s := range f.shards {
				s.lookAgain()
			}
		}
		g.mu.Unlock()
	}
}

// lookAgain settles every host that has something pending, some at a time.
func (s *shard) lookAgain() {
	const stride = 4096
	s.lock()
	s.higher.age()
	for i := int32(0); i < s.hosts.n; i++ {
		if h := s.hosts.at(i); h.id != 0 && h.pending > 0 {
			s.touch(i)
		}
		if i%stride == stride-1 {
			s.unlock()
			s.lock()
		}
	}
	s.unlock()
}

// promotions are links that were found again at a smaller depth than may stand in
// the queue: by a redirect, which keeps its page's depth, or in a sitemap. They
// matter under the gate only, where a URL's depth must be its least. Whatever is
// promoted while a level is open is leased before the next one ends.
type promotions struct {
	now, before map[Key]uint16
}

func (p *promotions) note(k Key, depth uint16) {
	if p.now == nil {
		p.now = map[Key]uint16{}
	}
	if old, ok := p.now[k]; !ok || depth < old {
		p.now[k] = depth
	}
}

func (p *promotions) age() { p.now, p.before = nil, p.now }

// correct is the depth to lease a URL with.
func (p *promotions) correct(k Key, depth uint16) uint16 {
	for _, m := range []map[Key]uint16{p.now, p.before} {
		if d, ok := m[k]; ok {
			depth = min(depth, d)
		}
	}
	return depth
}
