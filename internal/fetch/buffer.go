package fetch

import (
	"sync"
)

const (
	// smallBody is how much of a body any call may hold. A larger one needs one of
	// the places for large bodies, so that many workers that all meet a large body
	// at once do not hold it all in memory.
	smallBody = 1 << 20

	firstBuffer = 32 << 10
)

// buffers keeps the memory of bodies.
type buffers struct {
	pool  sync.Pool
	large chan struct{} // a place taken for each large body
}

func newBuffers(large int) *buffers {
	return &buffers{large: make(chan struct{}, large)}
}

// A buffer is the memory of one body.
type buffer struct {
	b     []byte
	large bool // may be large
	lent  bool // by the place of another buffer of the same call

	scratch *scratch // whose memory it is, or nil
}

func (p *buffers) get() *buffer {
	if b, ok := p.pool.Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, firstBuffer)}
}

// beside returns a second buffer for the call that holds b. They share a place:
// a call that waited for a second one while holding a first could wait for ever.
func (p *buffers) beside(b *buffer) *buffer {
	next := p.get()
	next.large, next.lent = b.large, b.large
	return next
}

func (p *buffers) put(b *buffer) {
	if b.scratch != nil {
		b.scratch.of.putScratch(b.scratch)
		return
	}
	if b.large && !b.lent {
		<-p.large
	}
	b.large, b.lent = false, false
	if cap(b.b) > smallBody {
		return
	}
	b.b = b.b[:0]
	p.pool.Put(b)
}

// grow makes room for n more bytes or for as much as there is within limit, and
// waits for a place if that makes the buffer large.
func (p *buffers) grow(c *call, b *buffer, n, limit int) error {
	want := min(len(b.b)+n, limit)
	if want <= cap(b.b) {
		return nil
	}
	if want > smallBody {
		if err := p.reserve(c, b); err != nil {
			return err
		}
	}
	size := min(max(want, 2*cap(b.b)), limit)
	if !b.large {
		size = min(size, smallBody)
	}
	next := make([]byte, len(b.b), size)
	copy(next, b.b)
	b.b = next
	return nil
}

// reserve takes a place for a large body, waiting for one as long as the call
// lasts.
func (p *buffers) reserve(c *call, b *buffer) error {
	if b.large {
		return nil
	}
	select {
	case p.large <- struct{}{}:
		b.large = true
		return nil
	case <-c.context().Done():
		return c.cause()
	}
}
