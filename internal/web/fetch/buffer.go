package fetch

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/time/rate"

	"github.com/mapwright/mapwright/internal/web/http1"
)

const (
	leastSmall  = 64 << 10
	mostSmall   = 1 << 20
	firstBuffer = 32 << 10
)

// smallBody is how much of a body any call may hold without asking. A larger one is charged to the budget, so that many
// workers that all meet a large body at once do not hold it all in memory. All small bodies together take as much as
// the budget.
func smallBody(o *Options) int {
	return int(max(leastSmall, min(o.MaxMemory/int64(o.MaxInflight), mostSmall)))
}

// A share is what all calls of one account, or of one Client without an account, have been granted of the budget, and
// what they may read beside answers.
type share struct {
	beside *rate.Limiter
	held   int64    // guarded by budget.mu
	over   *holding // guarded by budget.mu; the one that has memory beyond the budget, or nil
	claims []*claim // guarded by budget.mu; that wait, in their order
}

// A holding is the memory that one call has been granted.
type holding struct {
	share  *share // that of the call's Client or account
	beyond int64  // guarded by budget.mu; bytes that are not part of the share
}

// A claim is memory that a call waits for.
type claim struct {
	to      *holding
	bytes   int64
	granted chan struct{} // closed when it is granted
}

// A budget bounds the memory of large bodies and of decoders over all calls. A call that needs more than it may have
// waits until others release theirs, or until it ends itself. Memory that is released is granted to the first claims of
// all shares in turn, and only those calls wake: hundreds may wait.
//
// A share may be three times what it leaves free. So one account has at most three quarters of the budget. However slow
// the hosts of some accounts are, there is memory for the next one.
//
// A call may ask for more while it holds some. If all that hold something waited for one another, nothing would move,
// so one call of each share gets what it asks for beyond the budget: it never waits, and releases everything in the
// end.
type budget struct {
	mu     sync.Mutex
	free   int64             // guarded by mu
	queues []*share          // guarded by mu; those with claims, the next one first
	shares map[string]*share // guarded by mu; by account
}

// shareOf is the share of an account, or a new one if it has no name.
func (b *budget) shareOf(account string) *share {
	if account == "" {
		return &share{beside: newBesideLimit()}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shares[account]
	if s == nil {
		s = &share{beside: newBesideLimit()}
		b.shares[account] = s
	}
	return s
}

// charge grants n bytes to the holding, waiting for them if they are not free. Those who have them may need what the
// reader gives up meanwhile (Request.Waits).
func (b *budget) charge(c *call, h *holding, n int64) error {
	claim := b.claim(h, n)
	if claim == nil {
		return nil
	}
	defer c.wait()()
	if !b.await(c.Context(), claim) {
		return c.cause()
	}
	return nil
}

// claim grants n bytes to the holding and returns nil, or returns what is to be awaited.
func (b *budget) claim(h *holding, n int64) *claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grant(h, n) {
		return nil
	}
	s := h.share
	if len(s.claims) == 0 {
		b.queues = append(b.queues, s)
	}
	c := &claim{h, n, make(chan struct{})}
	s.claims = append(s.claims, c)
	return c
}

// await waits until the claim is granted. It returns false if ctx ends before.
func (b *budget) await(ctx context.Context, c *claim) bool {
	select {
	case <-c.granted:
		return true
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := c.to.share
	i := slices.Index(s.claims, c)
	if i < 0 {
		return true // it was granted just now
	}
	if s.claims = slices.Delete(s.claims, i, i+1); len(s.claims) == 0 {
		b.queues = slices.DeleteFunc(b.queues, func(q *share) bool { return q == s })
	}
	b.grantClaims() // it may have been too large, and the next one is not
	return false
}

// grant grants n bytes to the holding if it may have them now. b.mu must be held.
func (b *budget) grant(h *holding, n int64) bool {
	s := h.share
	switch {
	case s.held+n <= 3*(b.free-n):
		b.free -= n
		s.held += n
	case s.over == nil || s.over == h:
		s.over = h
		h.beyond += n
	default:
		return false
	}
	return true
}

// grantClaims grants the first claims of the shares in turn, until none can be granted. b.mu must be held.
func (b *budget) grantClaims() {
	for refused := 0; refused < len(b.queues); {
		s := b.queues[0]
		b.queues = append(slices.Delete(b.queues, 0, 1), s)
		first := s.claims[0]
		if !b.grant(first.to, first.bytes) {
			refused++
			continue
		}
		refused = 0
		close(first.granted)
		if s.claims = slices.Delete(s.claims, 0, 1); len(s.claims) == 0 {
			b.queues = b.queues[:len(b.queues)-1]
		}
	}
}

// release takes n bytes back from the holding.
func (b *budget) release(h *holding, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := h.share
	beyond := min(n, h.beyond)
	if h.beyond -= beyond; s.over == h && h.beyond == 0 {
		s.over = nil
	}
	b.free += n - beyond
	s.held -= n - beyond
	b.grantClaims()
}

// buffers keeps the memory of bodies.
type buffers struct {
	pool   sync.Pool
	small  int // as smallBody says
	budget budget
}

func newBuffers(o *Options) *buffers {
	return &buffers{small: smallBody(o), budget: budget{free: o.MaxMemory, shares: map[string]*share{}}}
}

// A buffer is the memory of one body.
type buffer struct {
	b       []byte
	holding *holding // what a large buffer is charged to
	charged int64

	lent *http1.Memory // the memory of http1 that b is part of, or nil
}

// get returns an empty buffer, which is charged to the holding if it becomes large.
func (p *buffers) get(h *holding) *buffer {
	b, ok := p.pool.Get().(*buffer)
	if !ok {
		b = &buffer{b: make([]byte, 0, firstBuffer)}
	}
	b.holding = h
	return b
}

func (p *buffers) put(b *buffer) {
	if b.lent != nil {
		b.lent.Release()
		*b = buffer{}
		return
	}
	large := cap(b.b) > p.small
	if large {
		b.b = nil // before another call is granted its memory
	}
	if b.charged > 0 {
		p.budget.release(b.holding, b.charged)
	}
	b.holding, b.charged = nil, 0
	if large {
		return
	}
	b.b = b.b[:0]
	p.pool.Put(b)
}

// grow makes space for n more bytes, or for as many as there may be within limit. If
// that makes the buffer large it is charged.
func (p *buffers) grow(c *call, b *buffer, n, limit int) error {
	want := min(len(b.b)+n, limit)
	if want <= cap(b.b) {
		return nil
	}
	size := min(max(want, 2*cap(b.b)), limit)
	if want <= p.small {
		return p.resize(c, b, min(size, p.small))
	}
	return p.resize(c, b, size)
}

// resize moves the buffer to new memory of the given size.
func (p *buffers) resize(c *call, b *buffer, size int) error {
	charge := int64(0)
	if size > p.small {
		charge = int64(size)
	}
	if charge > 0 {
		if err := p.budget.charge(c, b.holding, charge); err != nil {
			return err
		}
	}
	next := make([]byte, len(b.b), size)
	copy(next, b.b)
	b.b = next
	if b.charged > 0 {
		p.budget.release(b.holding, b.charged)
	}
	b.charged = charge
	return nil
}
