package fetch

import (
	"io"
	"net/http"
	"sync/atomic"
)

// A directBody is the body of an answer. It gives the connection back when it has
// been read to the end and closes it otherwise; what is left is never drained.
type directBody struct {
	d    *direct
	k    *call
	c    *directConn
	s    *scratch
	r    io.Reader
	keep bool        // the connection may serve again
	err  error       // how reading ended
	over atomic.Bool // the connection is given back or closed
}

func (b *directBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.r.Read(p)
	if err != nil {
		b.err = err
		b.end(err == io.EOF)
	}
	return n, err
}

// Close may be called while another goroutine is in Read, which then fails. The
// scratch stays with that one.
func (b *directBody) Close() error {
	if b.over.CompareAndSwap(false, true) {
		b.k.detach()
		b.c.abort()
	}
	return nil
}

// whole takes a body that came with the headers as it lies there, without a copy, and
// lets go of the connection. It returns nil if there is more to wait for, or nothing at
// all. The buffer goes back as any other.
func (b *directBody) whole() *buffer {
	body, plain := b.r.(*plainBody)
	if !plain || b.err != nil || int64(body.in.Buffered()) < body.left || !b.over.CompareAndSwap(false, true) {
		return nil
	}
	s := b.s
	s.body.b, _ = body.in.Peek(int(body.left))
	s.body.scratch = s
	_, _ = body.in.Discard(int(body.left))
	body.left, b.err = 0, io.EOF
	b.letGo(true)
	return &s.body
}

// end lets go of the connection and of the memory. It is called by the goroutine that
// reads.
func (b *directBody) end(complete bool) {
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	s := b.s
	b.letGo(complete)
	b.d.putScratch(s)
}

// letGo gives the connection back if it can serve again, and closes it otherwise.
func (b *directBody) letGo(complete bool) {
	c := b.c
	alive := b.k.detach() && complete && b.keep && !c.failed && b.s.in.Buffered() == 0
	b.s = nil
	if body, plain := b.r.(*plainBody); plain {
		body.in = nil // the headers share the body's memory, and may be kept
	}
	if !alive || !c.empty() {
		c.abort()
		return
	}
	c.kept = true
	b.d.pool.put(c)
}
