package pace

import "time"

// A Row counts a host's failures, refusals and 403s in a row, which in the end make the crawl give the host up. A run
// that continues after a kill begins with the Row, so that it gives the host up at the same request. A new run that a
// user asks for begins without it.
type Row struct {
	Failures     uint8     // host failures
	BackoffUntil time.Time // end of the backoff after the last of them
	Failed       []uint16  // the last URLs that failed, oldest first, as hashes: each counts once
	Forbidden    uint8     // plain 403s
	Refusals     uint8
	AtCap        uint8 // refusals with the learned delay at its maximum
}

// IsZero reports whether there is nothing in a row.
func (r *Row) IsZero() bool {
	return r.Failures == 0 && r.Forbidden == 0 && r.Refusals == 0 && r.AtCap == 0
}

// rows are the parts of a pace that a Row is made of.
type rows struct {
	outage                     outage
	forbidden, refusals, atCap uint8
}

func rowsOf(p *Pace) rows { return rows{p.outage, p.forbidden, p.refusals, p.atCap} }

// Row returns the Row to store.
func (p *Pace) Row() Row {
	return Row{
		Failures: p.failures, BackoffUntil: unixOrZero(p.backoffUntil), Failed: p.failing.list(),
		Forbidden: p.forbidden, Refusals: p.refusals, AtCap: p.atCap,
	}
}

// RestoreRow returns the pace with the Row of the previous run. It does not restore a block: if that run blocked the
// host, the caller must keep it blocked.
func (p Pace) RestoreRow(c *Config, r Row, now time.Time) Pace {
	p.outage = outage{failures: r.Failures}
	if wait := min(r.BackoffUntil.Sub(now), c.MaxBackoff); wait > 0 {
		p.backoffUntil = now.Add(wait).UnixNano()
	}
	for _, url := range r.Failed {
		p.failing.add(url)
	}
	p.forbidden, p.refusals, p.atCap = r.Forbidden, r.Refusals, r.AtCap
	return p
}
