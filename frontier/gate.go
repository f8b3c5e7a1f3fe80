package frontier

import (
	"math"
	"sync"
	"sync/atomic"
)

// The gate holds deeper levels closed until everything above them is finished. It
// counts, exactly, the unfinished URLs of every depth on hosts that are still
// crawled. Sources and sitemaps, which can bring seeds, count as depth 0, and so do
// robots leases, which can bring sitemaps.
type gate struct {
	on    bool
	told  bool         // levels are opened by Member.OpenLevel only
	open  atomic.Int32 // the worst priority that may be leased; grows only; written under mu
	count [depths]atomic.Int64
	mu    sync.Mutex // held while the gate is being opened
}

const depths = maxOrderedDepth + 1

type gateChange struct {
	depth int
	by    int64
}

func (g *gate) init(on, told bool) {
	g.on, g.told = on, told
	g.open.Store(int32(PriorityDepth))
	if !on {
		g.open.Store(math.MaxUint8)
	}
}

// apply adds the changes of one call, increases first: the counts never lack both a page and the pages that it links
// to.
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
	next = g.least()
	return next, next > depthOf(uint8(g.open.Load()))
}

// least is the least depth of what is unfinished, -1 if nothing is.
func (g *gate) least() int {
	for d := range g.count {
		if g.count[d].Load() > 0 {
			return d
		}
	}
	return -1
}

// unfinished is how many URLs of the open levels are unfinished. Sitemaps and robots leases are among them.
func (g *gate) unfinished() (n int64) {
	for d := range depthOf(uint8(g.open.Load())) + 1 {
		n += g.count[d].Load()
	}
	return n
}

// gateChanges are the changes of the gate's counts by one call. Those of one depth are added in one step, so that its
// count is not zero for a moment while work is left.
type gateChanges []gateChange

func (g *gateChanges) add(depth int, by int64) {
	if by == 0 {
		return
	}
	for i := range *g {
		if c := &(*g)[i]; c.depth == depth {
			c.by += by
			return
		}
	}
	*g = append(*g, gateChange{depth, by})
}

// recount brings the gate's counts in line with a host.
func (g *gateChanges) recount(q *queues, h *host, limited, skipSitemaps bool) {
	held := h.flags&hostHeld != 0
	for i := h.levels; i >= 0; {
		lv := q.level(i)
		n, kind := lv.leased, kindOf(lv.priority)
		switch {
		case kind == KindCheck:
			n = 0 // no level waits for checks
		case held, kind == KindSitemap && skipSitemaps:
		case kind == KindPage && limited:
			n += lv.ticketed
		default:
			n = lv.pending()
		}
		g.add(depthOf(lv.priority), int64(n)-int64(lv.gated))
		lv.gated = n
		i = lv.next
	}
	n := h.robotsLeases()
	g.add(0, int64(n)-int64(h.gated))
	h.gated = n
}

// forget takes a host's levels out of the gate's counts.
func (g *gateChanges) forget(q *queues, h *host) {
	for i := h.levels; i >= 0; {
		lv := q.level(i)
		g.add(depthOf(lv.priority), -int64(lv.gated))
		lv.gated = 0
		i = lv.next
	}
}

// advance opens the next level if the ones above are finished, and settles all hosts again.
func (g *gate) advance(shards *shardSet) {
	if g.told {
		return
	}
	for _, ok := g.done(); ok; _, ok = g.done() {
		if !g.mu.TryLock() {
			return // the call that holds it looks again afterwards
		}
		if next, ok := g.done(); ok {
			g.open.Store(int32(PriorityDepth) + int32(next))
			for _, s := range shards.all {
				g.settleHosts(s)
			}
		}
		g.mu.Unlock()
	}
}

// settleHosts settles the hosts of a shard after a level was opened.
func (g *gate) settleHosts(s *shard) {
	s.lock()
	s.known.higher.age()
	s.unlock()
	s.settleHosts()
}

// settleHosts settles every host that has something pending, some at a time.
func (s *shard) settleHosts() {
	const stride = 4096
	s.lock()
	for i := int32(0); i < s.hosts.end(); i++ {
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
