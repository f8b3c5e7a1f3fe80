package http1

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// past is a deadline that has passed.
func past() time.Time { return time.Unix(1, 0) }

// A conn is a connection of HTTP/1.
type conn struct {
	conn   net.Conn // what is spoken over: the socket, or TLS on it
	socket net.Conn
	key    poolKey
	look   func() bool // whether nothing has come from the socket
	isTLS  bool

	// For the exchange that has the connection.
	left   int64     // how many bytes may still be read
	over   error     // what it means to read more
	lines  lineCount // of the headers
	failed bool      // a read failed, by the end of the stream too
	kept   bool      // it was in the pool before
	heads  *Heads    // gets what is read; nil if it is not wanted, and when the headers have come

	idle idleLinks // guarded by Pool.mu
}

func newConn(c net.Conn, key poolKey) *conn {
	socket := c
	secure, isTLS := c.(*tls.Conn)
	if isTLS {
		socket = secure.NetConn()
	}
	return &conn{conn: c, socket: socket, key: key, look: newLook(socket), isTLS: isTLS}
}

// Read reads from the connection, at most as many bytes as are left.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, c.over
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.conn.Read(p)
	if c.isTLS && c.key.t.decrypted != nil {
		c.key.t.decrypted(c.conn, n)
	}
	c.left -= int64(n)
	if c.heads != nil {
		c.heads.Answer = append(c.heads.Answer, p[:n]...)
	}
	if err != nil {
		c.failed = true
	}
	if c.lines.add(p[:n]); c.lines.left < 0 {
		return 0, errManyLines
	}
	return n, err
}

// A lineCount counts the lines of headers as they are read, until an empty one ends them.
type lineCount struct {
	left    int  // less than zero if there were too many
	hasText bool // the line that is being read has something in it
	isOver  bool // the headers have ended
}

func (l *lineCount) add(p []byte) {
	for !l.isOver && len(p) > 0 && l.left >= 0 {
		line, rest, ends := bytes.Cut(p, []byte{'\n'})
		l.hasText = l.hasText || len(line) > 1 || len(line) == 1 && line[0] != '\r'
		if ends {
			l.left--
			l.isOver, l.hasText = !l.hasText, false
		}
		p = rest
	}
}

// next begins with the headers of the next answer, of which some was read with the last one.
func (l *lineCount) next(seen []byte) {
	l.isOver = false
	l.add(seen)
}

// interrupt makes reads and writes fail, those under way too.
func (c *conn) interrupt() { _ = c.socket.SetDeadline(past()) }

// abort closes the connection at once, without TLS's message of its end.
func (c *conn) abort() { _ = c.socket.Close() }

// retire closes an idle connection, with TLS's message of its end.
func (c *conn) retire() { _ = c.conn.Close() }

// quiet reports whether nothing has come over a connection since it was kept: neither its end, nor an answer that was
// not asked for.
func (c *conn) quiet() bool { return c.look == nil || c.look() }

// empty reports whether TLS holds no more bytes after a body, which would otherwise be
// taken for the start of the next answer.
func (c *conn) empty() bool {
	if !c.isTLS {
		return true
	}
	// With a deadline that has passed a read sees only what came before. Such a
	// failure does not spoil a tls.Conn for reading.
	_ = c.socket.SetReadDeadline(past())
	var one [1]byte
	n, err := c.conn.Read(one[:])
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return c.socket.SetReadDeadline(time.Time{}) == nil
}
