package testweb

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

const (
	firstBuffer = 1 << 10
	maxHead     = 64 << 10
)

var errHeadTooLong = errors.New("request head too long")

// conn is one client connection, served by one goroutine.
type conn struct {
	srv    *Server
	nc     net.Conn
	raw    net.Conn // what was accepted: nc, or what TLS runs over
	secure bool
	buf    []byte // read, not yet consumed: buf[r:w]
	r, w   int
	host   *host // of the last request
	served int   // requests answered before this one
	done   bool  // close instead of reading another request
	x      exchange
}

// serve answers requests until the client or a fault ends the connection.
func (c *conn) serve() {
	c.buf = make([]byte, firstBuffer)
	if c.raw == nil {
		c.raw = c.nc
	}
	if !c.greet() {
		return
	}
	for !c.done {
		head, ok := c.readHead()
		if !ok {
			return
		}
		c.x = exchange{c: c, s: c.srv}
		if !c.x.req.parse(head) {
			c.done = true
			c.write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
			return
		}
		c.x.handle()
		c.served++
		if !c.skip(c.x.req.bodyLeft) {
			return
		}
	}
}

// greet reads the first bytes and starts TLS if that is what they are.
func (c *conn) greet() bool {
	const handshake = 0x16
	if c.read() != nil {
		return false
	}
	if c.buf[0] != handshake {
		return true
	}
	if c.srv.authority == nil {
		return false
	}
	tc := tls.Server(&replayConn{Conn: c.raw, first: bytes.Clone(c.buf[:c.w])}, c.srv.authority.config())
	c.r, c.w = 0, 0
	c.nc, c.secure = tc, true
	return tc.Handshake() == nil
}

// readHead returns the bytes up to and including the empty line. They stay
// valid until the next call.
func (c *conn) readHead() ([]byte, bool) {
	if c.r == c.w {
		c.r, c.w = 0, 0
	} else if c.r > 0 {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	for seen := 0; ; {
		from := max(0, seen-3)
		if i := bytes.Index(c.buf[from:c.w], []byte("\r\n\r\n")); i >= 0 {
			c.r = from + i + 4
			return c.buf[:c.r], true
		}
		seen = c.w
		if c.read() != nil {
			return nil, false
		}
	}
}

// read reads once, growing the buffer if it is full. What was handed out of the
// old one stays intact.
func (c *conn) read() error {
	if c.w == len(c.buf) {
		if len(c.buf) >= maxHead {
			return errHeadTooLong
		}
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	}
	n, err := c.nc.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil // an error will come again
	}
	return err
}

// skip passes over n bytes of request body.
func (c *conn) skip(n int) bool {
	for n > 0 {
		if c.r == c.w {
			c.r, c.w = 0, 0
			if c.read() != nil {
				return false
			}
		}
		k := min(n, c.w-c.r)
		c.r += k
		n -= k
	}
	return true
}

// wait lets time pass, forever if d is negative. It reports false if the client
// went away meanwhile, which a server that merely slept would not notice.
func (c *conn) wait(d time.Duration) bool {
	if d == 0 {
		return true
	}
	if d > 0 {
		c.nc.SetReadDeadline(time.Now().Add(d))
		defer c.nc.SetReadDeadline(time.Time{})
	}
	for {
		if err := c.read(); err != nil {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}

// write sends b and reports whether the client still took it.
func (c *conn) write(b []byte) bool {
	n, err := c.nc.Write(b)
	if c.host != nil {
		c.host.sent.Add(int64(n))
	}
	if err != nil {
		c.done = true
	}
	return err == nil
}

// reset ends the connection with an RST where there is such a thing.
func (c *conn) reset() {
	c.done = true
	if tcp, ok := c.raw.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.raw.Close()
}

// replayConn gives back bytes that were read before it was known what they are.
type replayConn struct {
	net.Conn
	first []byte
}

func (r *replayConn) Read(b []byte) (int, error) {
	if len(r.first) > 0 {
		n := copy(b, r.first)
		r.first = r.first[n:]
		return n, nil
	}
	return r.Conn.Read(b)
}
