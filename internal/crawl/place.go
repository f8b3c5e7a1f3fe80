package crawl

import (
	"context"

	"github.com/mapwright/mapwright/internal/crawl/gate"
)

// place is the place of one goroutine among those that compute what was read: pages and sitemaps. It is left while the
// goroutine waits for something, because what it waits for may need a place.
type place struct {
	of    *gate.Party
	ctx   context.Context
	taken bool
}

// take waits for the place. It returns without it if ctx ends.
func (p *place) take() {
	if !p.taken {
		p.taken = p.of.Enter(p.ctx, false) == nil
	}
}

func (p *place) end() {
	if p.taken {
		p.of.Leave(false)
		p.taken = false
	}
}

// compute waits for a place, and returns what leaves it. The goroutine must not have one. There is none if ctx ends.
func (r *run) compute(ctx context.Context) (done func()) {
	p := place{of: r.parsing, ctx: ctx}
	p.take()
	return p.end
}

// waits leaves the place, if it is taken, until goOn.
func (p *place) waits() (goOn func()) {
	if !p.taken {
		return func() {}
	}
	p.end()
	return p.take
}
