package fetch

import (
	"context"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// A call is one request under way. It is the request's context, what net/http's
// trace reports to, and the clock that ends it.
//
// One timer serves all time-outs. It looks after the call at the earliest moment
// at which one of them could be due and goes to sleep until the next, so that the
// parts of a request that go well never touch it.
type call struct {
	context.Context // cancelled with the cause
	cancel          context.CancelCauseFunc

	wire    Wire
	url     url.URL
	trace   httptrace.ClientTrace
	body    meter
	start   time.Time
	timeout time.Duration
	headers time.Duration
	minRate int64

	mu       sync.Mutex
	sends    int32         // guarded by mu; writes that the Wire was told of
	settled  bool          // guarded by mu; the Wire is told nothing more
	timer    *time.Timer   // guarded by mu
	ended    bool          // guarded by mu
	window   time.Duration // guarded by mu; when the rate is next looked at
	lastRead int64         // guarded by mu; bytes at the last look
	lastBusy time.Duration // guarded by mu; time in reads at the last look

	// Written by net/http's goroutines and the dialer's, which may outlive the call.
	wrote, firstByte  moment
	dns, connect, tls atomic.Int64 // durations
	attempts          atomic.Int32 // connections that the request was given
	reused            atomic.Bool

	// Written by the goroutine that reads the body.
	inBody      atomic.Bool
	readSince   moment       // when the read under way began
	busy, bytes atomic.Int64 // time spent in reads; bytes of the body
}

type callKey struct{}

// Value makes the call reachable from the contexts that net/http derives of it.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// callOf returns the call that a context belongs to. Its methods take nil.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func (c *Client) newCall(ctx context.Context, r *Request) *call {
	k := &call{
		wire:    r.Wire,
		start:   time.Now(),
		timeout: r.Timeout,
		headers: c.opts.HeaderTimeout,
		minRate: c.opts.MinRate,
	}
	def(&k.timeout, c.opts.Timeout)
	k.Context, k.cancel = context.WithCancelCause(ctx)
	k.mu.Lock()
	k.timer = time.AfterFunc(min(k.timeout, k.headers, rateWindow), k.tick)
	k.mu.Unlock()
	return k
}

// end stops the clock and frees what the call holds. The context is cancelled
// only then, since a body is read under it.
func (c *call) end() {
	c.mu.Lock()
	c.ended = true
	c.timer.Stop()
	c.mu.Unlock()
	c.cancel(nil)
}

// traced returns the context for net/http, which reports to the call.
func (c *call) traced() context.Context {
	c.trace = httptrace.ClientTrace{
		GotConn:              c.onConn,
		WroteHeaders:         c.onWrite,
		GotFirstResponseByte: c.onFirstByte,
	}
	return httptrace.WithClientTrace(c, &c.trace)
}

// onConn begins an attempt to send the request. The time of it stands in for that
// of the write until the write is reported, which on HTTP/2 can be after the
// answer.
func (c *call) onConn(info httptrace.GotConnInfo) {
	c.reused.Store(info.Reused)
	c.wrote.set(time.Since(c.start))
	c.firstByte.clear()
	c.attempts.Add(1)
}

func (c *call) onWrite() {
	if _, answered := c.firstByte.get(); !answered {
		c.wrote.set(time.Since(c.start))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.settled {
		c.tellLocked()
	}
}

// tellLocked tells the Wire of one write.
func (c *call) tellLocked() {
	c.sends++
	switch {
	case c.wire == nil:
	case c.sends == 1:
		c.wire.Started()
	default:
		c.wire.Resent()
	}
}

// settle says how often the request was written, when its round trip is over, and
// lets nothing be said later. On HTTP/1 every write has been reported before its
// answer. Where that is not sure, on HTTP/2 and after a failure, each attempt counts as
// written: rather one too many than one that nobody paid for.
func (c *call) settle(sure bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !sure && c.sends < c.attempts.Load() {
		c.tellLocked()
	}
	c.settled = true
	return int(c.sends)
}

func (c *call) onFirstByte() { c.firstByte.set(time.Since(c.start)) }

// timed records how long a phase of dialling took.
func (c *call) timed(p phase, d time.Duration) {
	if c == nil {
		return
	}
	switch p {
	case phaseDNS:
		c.dns.Store(int64(d))
	case phaseConnect:
		c.connect.Store(int64(d))
	case phaseTLS:
		c.tls.Store(int64(d))
	}
}

// phase says how far the call has come.
func (c *call) phase() phase {
	switch {
	case c.inBody.Load():
		return phaseBody
	case c.attempts.Load() > 0:
		return phaseHeaders
	}
	return phaseConnect
}
