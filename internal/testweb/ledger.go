package testweb

import "time"

const (
	maxRefusals = 1000 // kept one by one; more are only counted
	maxSamples  = 20   // URLs kept as examples of each kind of misdeed
)

// ledger is one host's books as they are written. Its host's lock guards it.
type ledger struct {
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

	duplicates, disallowed, baits, traps, unknown, beforeRobots samples

	aborted   int
	refused   int
	refusals  []Refusal
	answered  int       // refusals that know what came next
	restFrom  time.Time // the refusal that began the present rest
	restUntil time.Time
	early     samples
}

type statusCount struct {
	status, count int
}

// samples counts misdeeds and keeps the first few URLs.
type samples struct {
	count int
	uris  []string
}

func (s *samples) add(x *exchange) {
	s.count++
	if len(s.uris) < maxSamples {
		s.uris = append(s.uris, string(x.req.uri))
	}
}

func newLedger() ledger { return ledger{gap: NoGap, pageGap: NoGap} }

func (l *ledger) begin(x *exchange, inflight int) {
	l.requests++
	l.most = max(l.most, inflight)
	if l.first.IsZero() {
		l.first = x.start
	}
	l.gap = lesser(l.gap, l.last, x.start)
	l.last = x.start
	for ; l.answered < len(l.refusals); l.answered++ {
		l.refusals[l.answered].Next = x.start
	}
	if x.start.Before(l.restUntil) && x.start.Sub(l.restFrom) >= x.s.web.cfg.Grace {
		l.early.add(x)
	}
	switch x.kind {
	case kindRobots:
		l.robots++
		return
	case kindSitemap:
		l.sitemaps++
		return
	}
	l.pages++
	if x.req.conditional() {
		l.conditional++
	}
	l.pageGap = lesser(l.pageGap, l.lastPage, x.start)
	l.lastPage = x.start
	if l.robots == 0 {
		l.beforeRobots.add(x)
	}
	switch x.node {
	case nodeUnknown:
		l.unknown.add(x)
	case nodeAsset:
		l.baits.add(x)
	case nodeTrap:
		l.traps.add(x)
	default:
		w := x.s.web
		if leaf := w.leaf(x.h.id, x.node); leaf != nil {
			l.beginLeaf(x, leaf)
		} else if w.isDisallowed(ref{x.h.id, x.node}, x.gen.n) {
			l.disallowed.add(x)
		}
	}
}

func (l *ledger) beginLeaf(x *exchange, leaf *leaf) {
	switch {
	case leaf.private && x.h.plan.robots.readable():
		l.disallowed.add(x)
	case leaf.bait:
		l.baits.add(x)
	case leaf.trap:
		l.traps.add(x)
	}
}

func (l *ledger) finish(x *exchange, status int) {
	l.count(status)
	if status == 200 && x.kind == kindPage && x.body > 0 {
		l.bodies++
		l.bodyBytes += x.body
	}
	if status != 200 || x.broken || x.kind != kindPage || x.node < 0 {
		return
	}
	if l.got == nil {
		l.got = make([]uint64, (x.s.web.nodes(x.h.id)+63)/64)
	}
	word, bit := &l.got[x.node/64], uint64(1)<<(x.node%64)
	if *word&bit != 0 {
		l.duplicates.add(x)
	}
	*word |= bit
}

func (l *ledger) count(status int) {
	for i := range l.status {
		if l.status[i].status == status {
			l.status[i].count++
			return
		}
	}
	l.status = append(l.status, statusCount{status, 1})
}

// refuse notes that the host has just asked for rest. until is zero if it did
// not say for how long.
func (l *ledger) refuse(at time.Time, status int, until time.Time) {
	l.refused++
	if len(l.refusals) < maxRefusals {
		l.refusals = append(l.refusals, Refusal{At: at, Status: status, Until: until})
	}
	if until.After(l.restUntil) {
		if !at.Before(l.restUntil) {
			l.restFrom = at
		}
		l.restUntil = until
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
