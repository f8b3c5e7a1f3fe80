package fetch

import (
	"context"
	"net/http/httptrace"
	"net/url"
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

	wire     Wire
	url      url.URL
	start    time.Time
	timeout  time.Duration
	headers  time.Duration
	minRate  int64
	timer    *time.Timer
	window   time.Duration // where the rate is next looked at; only tick uses it
	lastRead int64         // bytes at the last look; only tick uses it
	lastBusy time.Duration // time in reads at the last look; only tick uses it

	// Moments since start, in nanoseconds; 0 is not yet. Written by net/http's
	// goroutines and the dialer's, which may outlive the call.
	wrote, firstByte  atomic.Int64
	dns, connect, tls atomic.Int64 // durations
	writes            atomic.Int32
	gotConn, reused   atomic.Bool
	readSince         atomic.Int64 // when the read under way began; 0 is none
	busy, bytes       atomic.Int64 // time spent in reads; bytes of the body
	inBody, closed    atomic.Bool
}

// rateWindow is over how long the rate of a body is measured.
const rateWindow = 5 * time.Second

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
	k.timer = time.AfterFunc(min(k.timeout, k.headers, rateWindow), k.tick)
	return k
}

// end stops the clock and frees what the call holds. The context is cancelled
// only then, since a body is read under it.
func (c *call) end() {
	c.closed.Store(true)
	c.timer.Stop()
	c.cancel(nil)
}

// tick ends the call if a time-out is due and otherwise sleeps until one may be.
func (c *call) tick() {
	if c.closed.Load() {
		return
	}
	now := time.Since(c.start)
	next := c.timeout
	if now >= c.timeout {
		c.cancel(&timeoutError{"no end within " + c.timeout.String()})
		return
	}
	switch {
	case c.inBody.Load():
		if c.minRate > 0 && now >= c.window && c.tooSlow(now) {
			c.cancel(&timeoutError{"body too slow"})
			return
		}
		if c.minRate > 0 {
			next = min(next, c.window)
		}
	case c.wrote.Load() > 0 && c.firstByte.Load() == 0:
		due := time.Duration(c.wrote.Load()) + c.headers
		if now >= due {
			c.cancel(&timeoutError{"no headers within " + c.headers.String()})
			return
		}
		next = min(next, due)
	default:
		next = min(next, now+min(c.headers, rateWindow))
	}
	c.timer.Reset(next - now)
}

// tooSlow measures the body since the last look, over the time spent waiting for
// it: who reads a stream slowly himself must not blame the host. It opens the
// next window.
func (c *call) tooSlow(now time.Duration) bool {
	bytes, busy := c.bytes.Load(), time.Duration(c.busy.Load())
	if since := c.readSince.Load(); since > 0 {
		busy += now - time.Duration(since)
	}
	c.window = now + rateWindow
	waited := busy - c.lastBusy
	if waited < rateWindow {
		// Look again when a whole window of waiting can have passed.
		c.window = now + rateWindow - waited
		return false
	}
	slow := float64(bytes-c.lastRead) < float64(c.minRate)*waited.Seconds()
	c.lastRead, c.lastBusy = bytes, busy
	return slow
}

// traced returns the context for net/http, which reports to the call.
func (c *call) traced() context.Context {
	return httptrace.WithClientTrace(c, &httptrace.ClientTrace{
		GotConn:              c.onConn,
		WroteHeaders:         c.onWrite,
		GotFirstResponseByte: c.onFirstByte,
	})
}

func (c *call) onConn(info httptrace.GotConnInfo) {
	c.reused.Store(info.Reused)
	c.gotConn.Store(true)
}

func (c *call) onWrite() {
	c.wrote.Store(c.now())
	first := c.writes.Add(1) == 1
	switch {
	case c.wire == nil:
	case first:
		c.wire.Started()
	default:
		c.wire.Resent()
	}
}

func (c *call) onFirstByte() { c.firstByte.Store(c.now()) }

// now is the time since the start, never 0.
func (c *call) now() int64 { return max(1, int64(time.Since(c.start))) }

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
	case c.gotConn.Load():
		return phaseHeaders
	}
	return phaseConnect
}

// Timings are how long the parts of a request took. Those of a connection that
// was there already are zero.
type Timings struct {
	DNS, Connect, TLS time.Duration
	// Wait is from the request's last write to the response's first byte: how long
	// the server took.
	Wait time.Duration
	// Total is from the call of Do to the end of the body.
	Total time.Duration
}

func (c *call) timings() Timings {
	t := Timings{Total: time.Since(c.start)}
	if !c.reused.Load() {
		t.DNS, t.Connect, t.TLS = time.Duration(c.dns.Load()), time.Duration(c.connect.Load()), time.Duration(c.tls.Load())
	}
	if first, wrote := c.firstByte.Load(), c.wrote.Load(); first > wrote {
		t.Wait = time.Duration(first - wrote)
	}
	return t
}
