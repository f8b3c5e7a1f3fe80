// Package http1 is a client of HTTP/1.1 for GET requests: an [http.RoundTripper] that
// makes each round trip in the goroutine that asks for it. DESIGN.md says what it
// accepts and refuses, what it gains over net/http, and how it is tested.
//
// A [Pool] keeps idle connections for any number of Transports. A [Transport] connects
// by its own Dial function, and only a connection that it has opened is used for its
// requests. [Transport.RoundTrip] is the general form. [Transport.Do] is the same
// without the costs of http.Request and its context: the caller owns an [Exchange],
// cancels it by [Exchange.Cancel] and is told of its progress by its [Hooks].
package http1

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// maxInformational is how many answers of 1xx may come before the one that counts. The
// headers of all of them together are within Options.MaxHeader too.
const maxInformational = 16

// maxLines is how many lines the headers of an answer may have, together with those of informational ones. Short ones
// take twenty times their text in memory, as long as the body comes, and a hundred times as long to read as long ones.
const maxLines = 1000

var (
	// ErrDropped says that the server closed a kept connection before it answered. The
	// caller may send the request again over another connection.
	ErrDropped = errors.New("the server closed a kept connection before it answered")

	errHeaderLimit   = errors.New("response headers over the limit")
	errInformational = errors.New("too many informational responses")
	errManyLines     = fmt.Errorf("response headers of more than %d lines", maxLines)
)

// Options are the settings of a Transport.
type Options struct {
	// Dial connects to HOST:PORT. For the scheme https it also makes the handshake, for
	// HTTP/1.1 only. Its errors are returned as they are. It must not be nil: this
	// package does not decide what may be reached.
	Dial func(ctx context.Context, scheme, addr string) (net.Conn, error)

	// Decrypted is called when bytes were read over TLS, with their number. Nil means never.
	Decrypted func(conn net.Conn, bytes int)

	// MaxHeader is the limit of an answer's headers in bytes. Zero means 64 KiB.
	MaxHeader int64
}

// A Transport makes round trips of HTTP/1.1. It is safe for use by any number of
// goroutines.
//
// A connection belongs to one Exchange or to the pool. A cancelled Exchange wakes its
// connection by a deadline in the past, and does so under the lock under which it gives
// the connection up: it never touches a connection that it has given back.
type Transport struct {
	pool      *Pool
	dialer    func(ctx context.Context, scheme, addr string) (net.Conn, error)
	decrypted func(conn net.Conn, bytes int) // Options.Decrypted
	maxHeader int64
	closed    bool // guarded by pool.mu; nothing is kept any more
}

// New makes a Transport whose idle connections are kept in the pool.
func New(p *Pool, o Options) *Transport {
	o.MaxHeader = cmp.Or(o.MaxHeader, 64<<10)
	return &Transport{pool: p, dialer: o.Dial, decrypted: o.Decrypted, maxHeader: o.MaxHeader}
}

// A Request is a GET, or a HEAD if its Head says so, in the form in which it is sent.
type Request struct {
	Origin  string // scheme://host or scheme://host:port
	URI     string // path and query
	Head    *Head
	NewConn bool // over a new connection
}

// Do sends a request once. If a kept connection fails before a byte of the answer came,
// the error wraps ErrDropped. The answer's body must be read to its end or closed; it is
// an *Body unless it is http.NoBody.
func (t *Transport) Do(x *Exchange, r Request) (*http.Response, error) {
	scheme, host, _ := strings.Cut(r.Origin, "://")
	m := t.pool.memory()
	var err error
	if m.out, err = r.Head.appendRequest(m.out[:0], host, r.URI); err != nil {
		m.Release()
		return nil, err
	}
	c, err := t.connection(x, &r, scheme, host)
	if err != nil {
		m.Release()
		return nil, err
	}
	if err := x.Hooks.Start(c.conn, c.kept); err != nil {
		m.Release()
		t.takeBack(x, c)
		return nil, err
	}
	res, answered, err := t.exchange(x, c, m, r.Head)
	if err == nil {
		return res, nil
	}
	x.detach()
	c.abort()
	m.Release()
	if c.kept && !answered && x.cause() == nil {
		err = fmt.Errorf("%w: %w", ErrDropped, err)
	}
	return nil, err
}

// connection gives the exchange a connection: a kept one that seems alive, or else a new one. A request may ask for a
// new one.
func (t *Transport) connection(x *Exchange, r *Request, scheme, host string) (*conn, error) {
	if why := x.cause(); why != nil {
		return nil, why
	}
	for !r.NewConn {
		c := t.pool.take(poolKey{t, r.Origin})
		if c == nil {
			break
		}
		if !c.quiet() {
			c.abort()
		} else if x.attach(c) {
			return c, nil
		} else {
			t.pool.put(c)
			return nil, x.cause()
		}
	}
	raw, err := t.dialer(x.Hooks.Context(), scheme, dialAddr(scheme, host))
	if err != nil {
		return nil, err
	}
	c := newConn(raw, poolKey{t, strings.Clone(r.Origin)})
	if !x.attach(c) {
		c.abort()
		return nil, x.cause()
	}
	return c, nil
}

// dialAddr returns the address that net/http would dial.
func dialAddr(scheme, host string) string {
	u := url.URL{Host: host}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// takeBack keeps a connection that the exchange has not used.
func (t *Transport) takeBack(x *Exchange, c *conn) {
	if !x.detach() {
		c.abort()
		return
	}
	c.kept = true
	t.pool.put(c)
}

// exchange writes the request and reads the headers of the answer. It reports whether
// any byte of one came.
func (t *Transport) exchange(x *Exchange, c *conn, m *Memory, head *Head) (_ *http.Response, answered bool, _ error) {
	n, err := c.conn.Write(m.out)
	if n > 0 {
		x.Hooks.Wrote()
	}
	if err != nil {
		return nil, false, err
	}
	if c.heads = x.Heads; c.heads != nil {
		*c.heads = Heads{Request: bytes.Clone(m.out)}
	}
	c.left, c.over, c.failed, c.lines = t.maxHeader, errHeaderLimit, false, lineCount{left: maxLines}
	m.in.Reset(c)
	if _, err := m.in.Peek(1); err != nil {
		return nil, err == errManyLines, err
	}
	x.Hooks.FirstByte()
	var res *http.Response
	for i := 0; ; i++ {
		if h := c.heads; h != nil { // drop what came before this answer
			h.Answer = h.Answer[len(h.Answer)-m.in.Buffered():]
		}
		if i > 0 {
			seen, _ := m.in.Peek(m.in.Buffered())
			if c.lines.next(seen); c.lines.left < 0 {
				return nil, true, errManyLines
			}
		}
		if res, err = readResponse(m.in, head.bodiless); err != nil {
			return nil, true, err
		}
		if res.StatusCode > 199 || res.StatusCode < 100 || res.StatusCode == http.StatusSwitchingProtocols {
			break
		}
		if i == maxInformational {
			return nil, true, errInformational
		}
	}
	isChunked := len(res.TransferEncoding) > 0
	if c.left = math.MaxInt64; isChunked {
		c.left, c.over = spareOfChunks, errSmallChunks
	}
	if h := c.heads; h != nil { // what follows belongs to the body
		h.Answer = h.Answer[:len(h.Answer)-m.in.Buffered()]
		c.heads = nil
	}
	b := &x.body
	*b = Body{x: x, c: c, m: m, r: res.Body, isChunked: isChunked,
		keep: !head.close && !res.Close && res.StatusCode > 199}
	if res.Body == http.NoBody {
		b.end(true)
	} else {
		res.Body = b
	}
	return res, true, nil
}

// CloseIdle closes the connections of this Transport that are in the pool.
func (t *Transport) CloseIdle() { t.pool.closeOf(t, false) }

// Close closes the connections of this Transport that are in the pool, and every other one when it is given back.
func (t *Transport) Close() { t.pool.closeOf(t, true) }
