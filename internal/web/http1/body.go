package http1

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// readBuffer holds a usual page, which then comes with one read instead of three. That saves a tenth of what fetching
// it costs (BenchmarkDo of internal/web/fetch).
const readBuffer = 16 << 10

// Memory is what an exchange needs and a kept connection does not: the bytes of the
// request, and those of the answer as they come.
type Memory struct {
	pool *Pool
	in   *bufio.Reader
	out  []byte
}

func (p *Pool) memory() *Memory {
	if m, ok := p.memories.Get().(*Memory); ok {
		return m
	}
	return &Memory{pool: p, in: bufio.NewReaderSize(nil, readBuffer), out: make([]byte, 0, 1<<10)}
}

// Release makes the memory free for other exchanges.
func (m *Memory) Release() {
	m.in.Reset(nil)
	m.pool.memories.Put(m)
}

// A Body is the body of an answer. It gives the connection back when it has been read
// to the end and closes it otherwise; what is left is never drained.
type Body struct {
	x    *Exchange
	c    *conn
	m    *Memory
	r    io.Reader
	keep bool        // the connection may serve again
	err  error       // how reading ended
	over atomic.Bool // the connection is given back or closed

	isChunked bool // what stands around its chunks may be as much as the body, and spareOfChunks more
}

// spareOfChunks is for bodies in small pieces: a page whose bytes come one by one may have 50 KB. A chunk takes 30 ns,
// so a server could take all processors by bodies of one-byte chunks, which are read at hundreds of megabytes a second.
const spareOfChunks = 256 << 10

var errSmallChunks = errors.New("the body comes in too many small chunks")

func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.isChunked {
		p = p[:min(len(p), spareOfChunks/4)] // what comes with one read is counted after it
	}
	n, err := b.r.Read(p)
	if b.isChunked {
		b.c.left += 2 * int64(n)
	}
	if err != nil {
		if why := b.x.cause(); why != nil && err != io.EOF {
			err = why
		}
		b.err = err
		b.end(err == io.EOF)
	}
	return n, err
}

// Close may be called while another goroutine is in Read, which then fails. The memory
// stays with that goroutine.
func (b *Body) Close() error {
	if b.over.CompareAndSwap(false, true) {
		b.x.detach()
		b.c.abort()
	}
	return nil
}

// Whole returns a body that came with the headers, without a copy, and gives the connection back. The caller releases
// the memory when it does not need the body any more. If not all of the body has come, or it was read or closed
// already, the memory is nil and nothing has changed.
func (b *Body) Whole() ([]byte, *Memory) {
	body, plain := b.r.(*plainBody)
	if !plain || b.err != nil || int64(body.in.Buffered()) < body.left || !b.over.CompareAndSwap(false, true) {
		return nil, nil
	}
	m := b.m
	whole, _ := body.in.Peek(int(body.left))
	_, _ = body.in.Discard(int(body.left))
	body.left, b.err = 0, io.EOF
	b.giveBack(true)
	return whole, m
}

// end gives the connection and the memory back. It is called by the goroutine that
// reads.
func (b *Body) end(complete bool) {
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	m := b.m
	b.giveBack(complete)
	m.Release()
}

// giveBack keeps the connection if it can serve again, and closes it otherwise.
func (b *Body) giveBack(complete bool) {
	c := b.c
	alive := b.x.detach() && complete && b.keep && !c.failed && b.m.in.Buffered() == 0
	b.m = nil
	if body, plain := b.r.(*plainBody); plain {
		body.in = nil // the headers share the body's memory, and may be kept
	}
	if !alive || !c.empty() {
		c.abort()
		return
	}
	c.kept = true
	c.key.t.pool.put(c)
}
