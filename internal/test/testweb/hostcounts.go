package testweb

import "time"

const (
	maxRefusals = 1000 // kept one by one; more are only counted
	maxSamples  = 20   // URLs kept as examples of each kind
)

// hostCounts are one host's statistics as they are counted. Its host's lock guards it.
type hostCounts struct {
	requests, pages, robots, sitemaps, connections int

	conditional, bodies int
	bodyBytes           int64

	most         int
	first        time.Time
	last         time.Time // start of the last request
	lastPage     time.Time // start of the last page request
	gap, pageGap time.Duration

	status []statusCount
	got    []uint64 // a bit for each node answered with 200

	duplicates, disallowed, baits, traps, unknown, beforeRobots Samples

	aborted   int
	refused   int
	refusals  []Refusal
	answered  int       // refusals that know what came next
	restFrom  time.Time // the refusal that began the present rest
	restUntil time.Time
	early     Samples
}

type statusCount struct {
	status, count int
}

func (s *Samples) add(x *exchange) {
	s.Count++
	if len(s.URIs) < maxSamples {
		s.URIs = append(s.URIs, string(x.req.uri))
	}
}

func newHostCounts() hostCounts { return hostCounts{gap: NoGap, pageGap: NoGap} }

func (c *hostCounts) begin(x *exchange, inflight int) {
	c.requests++
	c.most = max(c.most, inflight)
	if c.first.IsZero() {
		c.first = x.start
	}
	c.gap = lesser(c.gap, c.last, x.start)
	c.last = x.start
	for ; c.answered < len(c.refusals); c.answered++ {
		c.refusals[c.answered].Next = x.start
	}
	if x.start.Before(c.restUntil) && x.start.Sub(c.restFrom) >= x.s.web.cfg.Grace {
		c.early.add(x)
	}
	switch x.kind {
	case kindRobots:
		c.robots++
		return
	case kindSitemap:
		c.sitemaps++
		return
	}
	c.pages++
	if x.req.conditional() {
		c.conditional++
	}
	c.pageGap = lesser(c.pageGap, c.lastPage, x.start)
	c.lastPage = x.start
	if c.robots == 0 {
		c.beforeRobots.add(x)
	}
	switch x.node {
	case nodeUnknown:
		c.unknown.add(x)
	case nodeAsset:
		c.baits.add(x)
	case nodeTrap:
		c.traps.add(x)
	default:
		w := x.s.web
		if leaf := w.leaf(x.h.id, x.node); leaf != nil {
			c.beginLeaf(x, leaf)
		} else if w.isDisallowed(ref{x.h.id, x.node}, x.gen.n) {
			c.disallowed.add(x)
		}
	}
}

func (c *hostCounts) beginLeaf(x *exchange, leaf *leaf) {
	switch {
	case leaf.private && x.h.plan.robots.readable():
		c.disallowed.add(x)
	case leaf.bait:
		c.baits.add(x)
	case leaf.trap:
		c.traps.add(x)
	}
}

func (c *hostCounts) finish(x *exchange, status int) {
	c.count(status)
	if status == 200 && x.kind == kindPage && x.body > 0 {
		c.bodies++
		c.bodyBytes += x.body
	}
	if status != 200 || x.broken || x.kind != kindPage || x.node < 0 {
		return
	}
	if c.got == nil {
		c.got = make([]uint64, (x.s.web.nodes(x.h.id)+63)/64)
	}
	word, bit := &c.got[x.node/64], uint64(1)<<(x.node%64)
	if *word&bit != 0 {
		c.duplicates.add(x)
	}
	*word |= bit
}

func (c *hostCounts) count(status int) {
	for i := range c.status {
		if c.status[i].status == status {
			c.status[i].count++
			return
		}
	}
	c.status = append(c.status, statusCount{status, 1})
}

// refuse notes that the host has just asked for rest. until is zero if it did
// not say for how long.
func (c *hostCounts) refuse(at time.Time, status int, until time.Time) {
	c.refused++
	if len(c.refusals) < maxRefusals {
		c.refusals = append(c.refusals, Refusal{At: at, Status: status, Until: until})
	}
	if until.After(c.restUntil) {
		if !at.Before(c.restUntil) {
			c.restFrom = at
		}
		c.restUntil = until
	}
}

// lesser returns the smaller of a gap and the time between two starts, the first
// of which may not have been.
func lesser(gap time.Duration, last, start time.Time) time.Duration {
	if last.IsZero() {
		return gap
	}
	d := max(0, start.Sub(last))
	if gap == NoGap {
		return d
	}
	return min(gap, d)
}
