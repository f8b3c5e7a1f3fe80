package fetch

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/internal/web/http1"
)

// A call is one request under way: what its round trip reports to, and the clock
// that ends it. When its time is over or the caller's context ends, it wakes
// whatever it waits for: the exchange of http1, and the context that it has
// given to a dialer or to net/http.
//
// One timer serves all time-outs. It checks the call at the earliest moment at which one of them could be due, and is
// then set to the next such moment. So the parts of a request that go well never touch it.
type call struct {
	parent  context.Context // the caller's
	watches *watches        // where the call waits for that to end
	watch   watchLinks

	wire     Wire
	record   *recorder // nil if nothing is archived
	body     meter
	exchange http1.Exchange
	lent     buffer // a body in the memory of exchange
	start    time.Time
	timeout  time.Duration
	headers  time.Duration
	minRate  int64
	waits    func() func() // Request.Waits
	turn     turn

	hideAddresses bool // as in Options
	showsCert     bool // the server may see Options.ClientCert

	alarm    *alarm
	handover *handover // a connection that is left for net/http
	onSent   func()    // called when net/http has sent something; may be nil

	mu            sync.Mutex
	why           error                   // guarded by mu; the cause by which the call is cancelled
	derived       context.Context         // guarded by mu; nil until a dial or net/http needs it
	cancelDerived context.CancelCauseFunc // guarded by mu; cancels derived
	ended         bool                    // guarded by mu
	beside        *beside                 // guarded by mu; of the connection of HTTP/2 that the call has; nil if none
	pausedAt      moment                  // guarded by mu; since when the call waits for its turn, if it does
	paused        time.Duration           // guarded by mu; how long it has waited before
	window        time.Duration           // guarded by mu; when the rate is next looked at
	lastRead      int64                   // guarded by mu; bytes at the last look
	lastBusy      time.Duration           // guarded by mu; time in reads at the last look

	// Written by the call's own goroutine, and by net/http's, which may outlive it.
	wrote, firstByte  moment
	dns, connect, tls atomic.Int64 // durations
	attempts          atomic.Int32 // connections that the request was given
	reused            atomic.Bool
	written           atomic.Bool

	// Written by the goroutine that reads the body.
	inBody      atomic.Bool
	readSince   moment       // when the read under way began
	busy, bytes atomic.Int64 // time spent in reads; bytes of the body
}

type callKey struct{}

// callOf returns the call that a context belongs to, or nil. Method timed accepts nil.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func (c *Client) newCall(ctx context.Context, r *Request) *call {
	k := &call{
		parent:  ctx,
		watches: &c.watches,
		wire:    r.Wire,
		start:   time.Now(),
		timeout: r.Timeout,
		headers: c.opts.HeaderTimeout,
		minRate: c.opts.MinRate,
		waits:   r.Waits,

		hideAddresses: c.opts.HideAddresses,
		showsCert:     c.opts.ClientCert != nil && c.opts.PrivateTo.Has(r.URL),
	}
	k.timeout = cmp.Or(k.timeout, c.opts.Timeout)
	k.exchange.Hooks = k
	if ctx.Err() != nil {
		k.cancel(context.Cause(ctx))
	}
	k.alarm = c.alarms.get()
	k.alarm.set(k, min(k.timeout, k.headers, rateWindow))
	k.watches.add(k)
	return k
}

// end stops the clock and frees what the call holds. The derived context is
// cancelled only then, since a body is read under it.
func (c *call) end() {
	c.watches.remove(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	c.alarm.stop()
	if c.beside != nil {
		c.beside.end()
	}
	if c.cancelDerived != nil {
		c.cancelDerived(nil)
	}
}

// traced returns the context for net/http, which reports to the call.
func (c *call) traced() context.Context {
	trace := httptrace.ClientTrace{
		GotConn:              c.onNetHTTPConn,
		WroteHeaders:         c.Wrote,
		GotFirstResponseByte: c.FirstByte,
	}
	return httptrace.WithClientTrace(c.Context(), &trace)
}

// onNetHTTPConn is called by the goroutine in Do when net/http has a connection for
// the request and has written nothing to it.
//
// net/http sends a request again by itself when a kept connection fails before the
// answer, and up to seven times when an HTTP/2 server refuses the stream. A resend must
// wait for the host's pace, so it is prevented: the call ends with http1.ErrDropped. If
// nothing was written, the other connection is an attempt of its own, and the Wire is
// asked again.
//
// To send nothing, the call is cancelled. HTTP/2 checks the context once more before
// it writes, but HTTP/1 does not: its connection is closed too, which makes the write
// fail.
func (c *call) onNetHTTPConn(info httptrace.GotConnInfo) {
	err := c.cause()
	switch {
	case err != nil:
	case c.written.Load():
		err = http1.ErrDropped
	default:
		err = c.Start(info.Conn, info.Reused)
	}
	if err == nil {
		c.useNetHTTP(info.Conn)
		return
	}
	c.cancel(err)
	if !isHTTP2(info.Conn) {
		_ = info.Conn.Close()
	}
}

// useNetHTTP counts the call among those of its connection, if that speaks HTTP/2, until it ends or has another one.
func (c *call) useNetHTTP(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.beside != nil {
		c.beside.end()
		c.beside = nil
	}
	switch b := besideOf(conn); {
	case b == nil:
	case isHTTP2(conn):
		c.beside = b
		b.begin()
	default:
		b.serve(otherUse)
	}
}

// Start asks the Wire whether the request may be sent, and if so begins an attempt to send it. Its time counts as the
// time of the write until the write is reported, which on HTTP/2 can be after the answer. The error is a refusal; then
// nothing may be written.
func (c *call) Start(conn net.Conn, reused bool) error {
	if c.record != nil {
		c.record.connected(conn)
	}
	if c.wire != nil {
		if err := c.reach(addressOf(conn)); err != nil {
			return err
		}
		if err := c.wire.Start(); err != nil {
			return &refusal{err}
		}
	}
	if b := besideOf(conn); b != nil {
		b.send()
	}
	c.reused.Store(reused)
	c.wrote.set(time.Since(c.start))
	c.firstByte.clear()
	c.attempts.Add(1)
	return nil
}

// reach asks the Wire whether an address may be asked. An invalid address is that of a proxy. The error is a refusal.
func (c *call) reach(addr netip.Addr) error {
	if c == nil || c.wire == nil || !addr.IsValid() {
		return nil
	}
	if err := c.wire.Reach(addr); err != nil {
		return &refusal{err}
	}
	return nil
}

// Wrote notes that bytes of the request were written. HTTP/2 calls it from a goroutine of net/http, which can be
// after Do has returned; but always before net/http takes another connection for the request.
func (c *call) Wrote() {
	if c.onSent != nil {
		c.onSent()
	}
	if _, answered := c.firstByte.get(); !answered {
		c.wrote.set(time.Since(c.start))
	}
	c.written.Store(true)
}

// FirstByte notes when the answer began.
func (c *call) FirstByte() { c.firstByte.set(time.Since(c.start)) }

// timed records how long a phase of dialling took.
func (c *call) timed(p phase, d time.Duration) {
	if c == nil {
		return
	}
	switch p {
	case phaseDNS:
		c.dns.Store(int64(d))
	case phaseConnect:
		c.connect.Store(int64(max(d, 1))) // zero means that no connection was made
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

// Context returns a context that ends with the call and leads to it. A request over a kept connection does not need
// one.
func (c *call) Context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derived == nil {
		// Only the call ends it, so that the cause is always known first.
		parent := context.WithValue(context.WithoutCancel(c.parent), callKey{}, c)
		c.derived, c.cancelDerived = context.WithCancelCause(parent)
		if why := c.causeLocked(); why != nil {
			c.cancelDerived(why)
		}
	}
	return c.derived
}

// cancel ends the call early. The first cause counts.
func (c *call) cancel(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelLocked(why)
}

func (c *call) cancelLocked(why error) {
	if c.ended || c.why != nil {
		return
	}
	c.why = why
	if c.cancelDerived != nil {
		c.cancelDerived(why)
	}
	c.exchange.Cancel(why)
}

// cause is why the call is over, or nil.
func (c *call) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.causeLocked()
}

func (c *call) causeLocked() error {
	if c.why == nil && c.ended {
		return context.Canceled
	}
	return c.why
}

// dialError returns the error of a failure to connect. If the call was cancelled, it is the cause of that.
func (c *call) dialError(err error) error {
	if _, refused := errors.AsType[*AddressError](err); refused || isFileLimit(err) {
		return err
	}
	if why := c.cause(); why != nil {
		return why
	}
	return err
}
