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

	mu        sync.Mutex
	announced int32         // guarded by mu; attempts that the Wire was told of
	timer     *time.Timer   // guarded by mu
	ended     bool          // guarded by mu
	window    time.Duration // guarded by mu; when the rate is next looked at
	lastRead  int64         // guarded by mu; bytes at the last look
	lastBusy  time.Duration // guarded by mu; time in reads at the last look

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

// A moment is a time since the start of a call, or not yet.
type moment struct{ v atomic.Int64 }

func (m *moment) set(d time.Duration) { m.v.Store(int64(d) + 1) }
func (m *moment) clear()              { m.v.Store(0) }

func (m *moment) get() (time.Duration, bool) {
	v := m.v.Load()
	return time.Duration(v - 1), v > 0
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

// tick ends the call if a time-out is due and otherwise sleeps until one may be.
func (c *call) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	now := time.Since(c.start)
	next := c.timeout
	if now >= c.timeout {
		c.cancel(&timeoutError{"no end within " + c.timeout.String()})
		return
	}
	wrote, isWritten := c.wrote.get()
	_, isAnswered := c.firstByte.get()
	switch {
	case c.inBody.Load():
		if c.minRate > 0 && now >= c.window && c.tooSlowLocked(now) {
			c.cancel(&timeoutError{"body too slow"})
			return
		}
		if c.minRate > 0 {
			next = min(next, c.window)
		}
	case isWritten && !isAnswered:
		due := wrote + c.headers
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

// tooSlowLocked measures the body since the last look, over the time spent waiting for
// it: who reads a stream slowly himself must not blame the host. It opens the
// next window.
func (c *call) tooSlowLocked(now time.Duration) bool {
	bytes, busy := c.bytes.Load(), time.Duration(c.busy.Load())
	if since, reading := c.readSince.get(); reading {
		busy += now - since
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
	c.announce()
}

// announce tells the Wire of each attempt that it has not heard of. It is called
// when a write is reported and again when the round trip is over, so that nothing
// that may have been on the wire goes unheard of, and nothing is said after Do.
func (c *call) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; c.announced < c.attempts.Load(); c.announced++ {
		switch {
		case c.wire == nil:
		case c.announced == 0:
			c.wire.Started()
		default:
			c.wire.Resent()
		}
	}
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
	first, answered := c.firstByte.get()
	if wrote, ok := c.wrote.get(); ok && answered && first > wrote {
		t.Wait = first - wrote
	}
	return t
}
