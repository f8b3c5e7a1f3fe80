package fetch

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
)

const (
	// maxInformational is how many answers of 1xx may come before the one that
	// counts. The headers of all of them together are within MaxHeader too.
	maxInformational = 16

	// readBuffer holds a usual page, which then comes with one read instead of
	// three: a tenth of what fetching it costs.
	readBuffer = 16 << 10
)

// direct makes round trips of HTTP/1 in the goroutine that asks for them. It takes
// the newest kept connection of the origin or dials, writes the request, reads the
// answer's headers, and keeps the connection when the body has been read to its
// end.
//
// A connection belongs to one call or to the pool. A call that is cancelled wakes
// its connection by a deadline in the past, and does so under the lock under which
// it lets go of it: it never touches a connection that it has given back.
type direct struct {
	dialer    *dialer
	pool      *idlePool
	heads     modeHeads
	private   *modeHeads // for the origins of privateTo; nil if there are no private headers
	privateTo Audience
	maxHeader int64
	scratch   sync.Pool // of *scratch

	// With HTTP/2 off there are no protocols.
	protocols *protocols
	handovers handovers
}

// scratch is the memory that an exchange needs and a kept connection does not.
type scratch struct {
	of   *direct
	in   *bufio.Reader
	out  []byte
	body buffer // of a body that came with the headers and lies in in's memory
}

func newDirect(o Options, d *dialer, headers modeHeaders, private *modeHeaders) *direct {
	t := &direct{dialer: d, pool: newIdlePool(o, &d.handed), heads: newModeHeads(headers), privateTo: o.PrivateTo, maxHeader: o.MaxHeader}
	if private != nil {
		heads := newModeHeads(*private)
		t.private = &heads
	}
	if !o.NoHTTP2 {
		t.protocols = newProtocols(o.MaxIdle + o.MaxInflight)
	}
	return t
}

// roundTrip sends a request once. If a kept connection fails before a byte of the
// answer came, the error wraps errDropped: the caller may send the request again,
// over another connection and at the host's pace. The error is errHTTP2 if the
// request is net/http's to make.
func (d *direct) roundTrip(k *call, r *Request) (*http.Response, error) {
	h, err := d.head(r)
	if err != nil {
		return nil, err
	}
	s := d.getScratch()
	if s.out, err = h.appendRequest(s.out[:0], r.URL); err != nil {
		d.putScratch(s)
		return nil, err
	}
	c, err := d.connection(k, r)
	if err != nil {
		d.putScratch(s)
		return nil, err
	}
	if err := k.onConn(c.kept); err != nil {
		d.putScratch(s)
		d.takeBack(k, c)
		return nil, err
	}
	res, answered, err := d.exchange(k, c, s, h.close)
	if err == nil {
		return res, nil
	}
	k.detach()
	c.abort()
	d.putScratch(s)
	if c.kept && !answered && k.cause() == nil {
		err = fmt.Errorf("%w: %w", errDropped, err)
	}
	return nil, err
}

func (d *direct) getScratch() *scratch {
	if s, ok := d.scratch.Get().(*scratch); ok {
		return s
	}
	return &scratch{of: d, in: bufio.NewReaderSize(nil, readBuffer), out: make([]byte, 0, 1<<10)}
}

// putScratch lets go of the connection that s was used with.
func (d *direct) putScratch(s *scratch) {
	s.in.Reset(nil)
	s.body = buffer{}
	d.scratch.Put(s)
}

// connection gives the call a connection: a kept one that seems alive, unless the
// request wants a new one, or a new one.
func (d *direct) connection(k *call, r *Request) (*directConn, error) {
	if why := k.cause(); why != nil {
		return nil, why
	}
	origin := r.URL.Origin()
	for !r.NewConn {
		c := d.pool.take(origin)
		if c == nil {
			break
		}
		if !c.quiet() {
			c.abort()
		} else if k.attach(c) {
			return c, nil
		} else {
			d.pool.put(c)
			return nil, k.cause()
		}
	}
	c, err := d.dial(k, r, origin)
	if err != nil {
		return nil, err
	}
	if !k.attach(c) {
		c.abort()
		return nil, k.cause()
	}
	return c, nil
}

// takeBack keeps a connection that the call has not used.
func (d *direct) takeBack(k *call, c *directConn) {
	if !k.detach() {
		c.abort()
		return
	}
	c.kept = true
	d.pool.put(c)
}

// dial makes a new connection, for no longer than the call lasts.
func (d *direct) dial(k *call, r *Request, origin string) (*directConn, error) {
	ctx, addr := k.context(), dialAddr(r)
	if r.URL.Scheme() == "http" {
		raw, err := d.dialer.dial(ctx, "tcp", addr)
		if err != nil {
			return nil, k.dialError(err)
		}
		return newDirectConn(raw, raw, origin), nil
	}
	asking := false
	if d.protocols != nil {
		h2, mine, err := d.protocols.ask(ctx, origin)
		if err != nil {
			return nil, k.dialError(err)
		}
		if h2 {
			return nil, errHTTP2
		}
		asking = mine
	}
	conn, err := d.dialer.dialTLS(ctx, "tcp", addr)
	if err == nil && isHTTP2(conn) {
		d.handOver(k, handover{conn: conn, addr: addr, origin: origin, asking: asking})
		return nil, errHTTP2
	}
	if err == nil && d.protocols != nil {
		d.protocols.learn(origin, false)
	}
	if asking {
		d.protocols.asked(origin)
	}
	if err != nil {
		return nil, k.dialError(err)
	}
	return newDirectConn(conn, conn.(*tls.Conn).NetConn(), origin), nil
}

// dialAddr is what net/http would ask to dial.
func dialAddr(r *Request) string {
	port := r.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[r.URL.Scheme()]
	}
	return net.JoinHostPort(strings.Trim(r.URL.Host(), "[]"), port)
}

// closeIdle closes the connections that nobody uses.
func (d *direct) closeIdle() { d.pool.closeAll(false) }

func (d *direct) close() { d.pool.closeAll(true) }
