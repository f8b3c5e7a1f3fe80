package fetch

import (
	"sync"

	"github.com/mapwright/mapwright/internal/web/http1"
)

const (
	// smallBody is how much of a body any call may hold without asking. A larger
	// one is charged to the budget, so that many workers that all meet a large body
	// at once do not hold it all in memory.
	smallBody = 1 << 20

	firstBuffer = 32 << 10
)

// An account is the memory that one call has been granted of the budget.
type account struct {
	held int64 // guarded by budget.mu
}

// A budget bounds the memory of large bodies and of decoders over all calls. A call that needs more than is free waits
// until others release theirs, or until it ends itself.
//
// A call may ask for more while it holds some. If all that hold something waited for
// one another, nothing would move, so one account at a time may exceed the budget: its
// call never waits and releases everything in the end.
type budget struct {
	mu      sync.Mutex
	free    int64         // guarded by mu; negative while one account exceeds the budget
	over    *account      // guarded by mu; the account that may exceed it, or nil
	changed chan struct{} // guarded by mu; closed when memory is released; nil if no call waits
}

// charge grants n bytes to the account, waiting for them if they are not free.
func (b *budget) charge(c *call, a *account, n int64) error {
	for {
		changed := b.tryCharge(a, n)
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-c.Context().Done():
			return c.cause()
		}
	}
}

// tryCharge returns nil if it has granted n bytes. Otherwise it returns a channel that is closed when it is worth
// another try.
func (b *budget) tryCharge(a *account, n int64) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free < n {
		if b.over != nil && b.over != a {
			if b.changed == nil {
				b.changed = make(chan struct{})
			}
			return b.changed
		}
		b.over = a
	}
	b.free -= n
	a.held += n
	return nil
}

// release takes n bytes back from the account.
func (b *budget) release(a *account, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	a.held -= n
	if b.over == a && (a.held == 0 || b.free >= 0) {
		b.over = nil
	}
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// buffers keeps the memory of bodies.
type buffers struct {
	pool   sync.Pool
	budget budget
}

func newBuffers(most int64) *buffers {
	return &buffers{budget: budget{free: most}}
}

// A buffer is the memory of one body.
type buffer struct {
	b       []byte
	account *account // what a large buffer is charged to
	charged int64

	lent *http1.Memory // the memory of http1 that b is part of, or nil
}

// get returns an empty buffer, which is charged to the account if it becomes large.
func (p *buffers) get(a *account) *buffer {
	b, ok := p.pool.Get().(*buffer)
	if !ok {
		b = &buffer{b: make([]byte, 0, firstBuffer)}
	}
	b.account = a
	return b
}

func (p *buffers) put(b *buffer) {
	if b.lent != nil {
		b.lent.Release()
		*b = buffer{}
		return
	}
	large := cap(b.b) > smallBody
	if large {
		b.b = nil // before another call is granted its memory
	}
	if b.charged > 0 {
		p.budget.release(b.account, b.charged)
	}
	b.account, b.charged = nil, 0
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
	if want <= smallBody {
		return p.resize(c, b, min(size, smallBody))
	}
	return p.resize(c, b, size)
}

// resize moves the buffer to new memory of the given size.
func (p *buffers) resize(c *call, b *buffer, size int) error {
	charge := int64(0)
	if size > smallBody {
		charge = int64(size)
	}
	if charge > 0 {
		if err := p.budget.charge(c, b.account, charge); err != nil {
			return err
		}
	}
	next := make([]byte, len(b.b), size)
	copy(next, b.b)
	b.b = next
	if b.charged > 0 {
		p.budget.release(b.account, b.charged)
	}
	b.charged = charge
	return nil
}
