package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
)

// Hooks are called by the goroutine in Do.
type Hooks interface {
	// Context is for a dial. It must end when the exchange is cancelled.
	Context() context.Context
	// Start is asked before the first byte of the request, when the connection is there.
	// If it returns an error, nothing is sent, the connection is kept and Do returns the
	// error.
	Start(conn net.Conn, reused bool) error
	// Wrote is told when bytes of the request were written.
	Wrote()
	// FirstByte is told when the answer begins.
	FirstByte()
}

// An Exchange is one request and its answer. It is used once. Hooks must be set.
type Exchange struct {
	Hooks Hooks
	// Heads, if it is not nil, gets the request and the head of its answer. Do fills it in.
	Heads *Heads

	body Body

	mu   sync.Mutex
	why  error // guarded by mu; the cause of the cancellation
	conn *conn // guarded by mu; what the exchange reads and writes
}

// Heads are the bytes of an exchange before the body of the answer, as they went over the connection.
type Heads struct {
	Request []byte
	// Answer is the status line and the headers, with the empty line at their end. Informational answers before it are
	// left out.
	Answer []byte
}

// Cancel makes reads and writes of the exchange fail, those under way too. The first
// cause counts. It may be called at any time by any goroutine.
func (x *Exchange) Cancel(why error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.why != nil {
		return
	}
	x.why = why
	if x.conn != nil {
		x.conn.interrupt()
	}
}

// cause is why the exchange is cancelled, or nil.
func (x *Exchange) cause() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.why
}

// attach gives the exchange a connection, unless it is cancelled.
func (x *Exchange) attach(c *conn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.why != nil {
		return false
	}
	x.conn = c
	return true
}

// detach takes the connection from the exchange, and reports whether no cancellation has
// touched it.
func (x *Exchange) detach() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn = nil
	return x.why == nil
}

// RoundTrip implements http.RoundTripper for GET requests without a body. Nothing is sent
// twice and no header is added but Host.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	r, err := requestOf(req)
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	x := &tracedExchange{ctx: ctx, trace: httptrace.ContextClientTrace(ctx)}
	if x.trace == nil {
		x.trace = &httptrace.ClientTrace{}
	}
	x.Hooks = x
	stop := context.AfterFunc(ctx, func() { x.Cancel(context.Cause(ctx)) })
	res, err := t.Do(&x.Exchange, r)
	if err != nil {
		stop()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	res.Request = req
	if b, ok := res.Body.(*Body); ok {
		res.Body = &tracedBody{Body: b, stop: stop}
	} else {
		stop()
	}
	return res, nil
}

// requestOf refuses what this package does not send.
func requestOf(req *http.Request) (r Request, err error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	switch {
	case req.URL == nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return r, errors.New("request not supported: want a URL with http or https and a host")
	case req.Method != "" && req.Method != http.MethodGet:
		return r, fmt.Errorf("request not supported: method %s, want GET", req.Method)
	case req.Body != nil && req.Body != http.NoBody || req.ContentLength > 0 || len(req.TransferEncoding) > 0 ||
		len(req.Trailer) > 0:
		return r, errors.New("request not supported: a GET must not have a body")
	}
	header := req.Header
	if req.Close {
		if header = header.Clone(); header == nil {
			header = http.Header{}
		}
		header["Connection"] = []string{"close"}
	}
	r.Head, err = NewHead(header)
	if err != nil {
		return r, err
	}
	r.Head.host = req.Host
	r.Origin, r.URI = req.URL.Scheme+"://"+strings.ToLower(req.URL.Host), req.URL.RequestURI()
	return r, nil
}

// A tracedExchange is an Exchange that reports to the trace of a context.
type tracedExchange struct {
	Exchange
	ctx   context.Context
	trace *httptrace.ClientTrace
}

func (x *tracedExchange) Context() context.Context { return x.ctx }

func (x *tracedExchange) Start(conn net.Conn, reused bool) error {
	if x.trace.GotConn != nil {
		x.trace.GotConn(httptrace.GotConnInfo{Conn: conn, Reused: reused, WasIdle: reused})
	}
	return nil
}

func (x *tracedExchange) Wrote() {
	if x.trace.WroteHeaders != nil {
		x.trace.WroteHeaders()
	}
}

func (x *tracedExchange) FirstByte() {
	if x.trace.GotFirstResponseByte != nil {
		x.trace.GotFirstResponseByte()
	}
}

// A tracedBody watches the request's context until it ends.
type tracedBody struct {
	*Body
	stop func() bool
}

func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.Body.Read(p)
	if err != nil {
		b.stop()
	}
	return n, err
}

func (b *tracedBody) Close() error {
	b.stop()
	return b.Body.Close()
}
