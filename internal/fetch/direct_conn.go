package fetch

import (
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"strings"
	"time"
)

var (
	errHeaderLimit   = errors.New("response headers over the limit")
	errInformational = errors.New("too many informational responses")
)

// past is a deadline that has passed.
func past() time.Time { return time.Unix(1, 0) }

// A directConn is a connection of HTTP/1.
type directConn struct {
	conn   net.Conn // what is spoken over: the socket, or TLS on it
	socket net.Conn
	origin string
	look   func() bool // whether nothing has come from the socket

	// For whoever has the connection.
	left   int64 // how many bytes may still be read
	failed bool  // a read failed, by the end of the stream too
	kept   bool  // it was in the pool before

	idle idleLinks // guarded by the pool's lock
}

func newDirectConn(conn, socket net.Conn, origin string) *directConn {
	return &directConn{conn: conn, socket: socket, origin: strings.Clone(origin), look: newLook(socket)}
}

// Read holds the limit.
func (c *directConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeaderLimit
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.conn.Read(p)
	c.left -= int64(n)
	if err != nil {
		c.failed = true
	}
	return n, err
}

// interrupt makes reads and writes fail, those under way too.
func (c *directConn) interrupt() { _ = c.socket.SetDeadline(past()) }

// abort closes the connection without ceremony.
func (c *directConn) abort() { _ = c.socket.Close() }

// retire closes the connection when it was at rest, and says so to the other side.
func (c *directConn) retire() { _ = c.conn.Close() }

// quiet reports whether a kept connection has heard nothing since: neither its end,
// nor an answer to what nobody asked.
func (c *directConn) quiet() bool { return c.look == nil || c.look() }

// empty reports whether TLS has nothing more in hand after a body, which would
// otherwise be taken for the start of the next answer.
func (c *directConn) empty() bool {
	if _, secure := c.conn.(*tls.Conn); !secure {
		return true
	}
	// With a deadline that has passed a read sees only what came before. Such a
	// failure does not spoil a tls.Conn for reading.
	_ = c.socket.SetReadDeadline(past())
	var one [1]byte
	n, err := c.conn.Read(one[:])
	if n > 0 || !isTimeout(err) {
		return false
	}
	return c.socket.SetReadDeadline(time.Time{}) == nil
}

// exchange writes the request, which the Wire has allowed, and reads the headers of the
// answer. It reports whether any byte of one came.
func (d *direct) exchange(k *call, c *directConn, s *scratch, closing bool) (_ *http.Response, answered bool, _ error) {
	n, err := c.conn.Write(s.out)
	if n > 0 {
		k.onWrite()
	}
	if err != nil {
		return nil, false, err
	}
	c.left, c.failed = d.maxHeader, false
	s.in.Reset(c)
	if _, err := s.in.Peek(1); err != nil {
		return nil, false, err
	}
	k.onFirstByte()
	var res *http.Response
	for i := 0; ; i++ {
		res, err = readResponse(s.in)
		if err != nil {
			return nil, true, err
		}
		if res.StatusCode > 199 || res.StatusCode < 100 || res.StatusCode == http.StatusSwitchingProtocols {
			break
		}
		if i == maxInformational {
			return nil, true, errInformational
		}
	}
	c.left = math.MaxInt64
	b := &k.direct
	*b = directBody{d: d, k: k, c: c, s: s, r: res.Body, keep: !closing && !res.Close && res.StatusCode > 199}
	if res.Body == http.NoBody {
		b.end(true)
	} else {
		res.Body = b
	}
	return res, true, nil
}
