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

// end lets go of the connection. It is called by the goroutine that reads.
func (b *directBody) end(complete bool) {
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	c := b.c
	alive := b.k.detach() && complete && b.keep && !c.failed && b.s.in.Buffered() == 0
	b.d.putScratch(b.s)
	b.s = nil
	if !alive || !c.empty() {
		c.abort()
		return
	}
	c.served = true
	b.d.pool.put(c)
}
