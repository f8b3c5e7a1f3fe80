package fetch

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
)

// What a server may send over a connection of HTTP/2 that serves no request. All are bytes, or stand for bytes.
const (
	spareOfCall = 4 << 20  // what a request earns
	mostSpare   = 16 << 20 // what can be kept
	spareOfByte = 64       // what a byte earns that is read while a request is under way
	costOfWrite = 64 << 10 // what a write costs
)

// errFlood says why a connection of HTTP/2 was closed.
var errFlood = errors.New("the server sends frames of HTTP/2 that serve no request")

// frames bounds what a server sends over a connection of HTTP/2 beside its answers. net/http reads whatever comes, also
// while the connection is idle, and answers each PING and SETTINGS by a write of its own: so a server of few bytes, on
// as many connections as are kept, could take all processors.
//
// Requests earn what writes cost, and what is read while none is under way; so do the bytes of answers, which
// WINDOW_UPDATE acknowledges.
type frames struct {
	counts atomic.Bool // the connection speaks HTTP/2, and a request has had it
	calls  atomic.Int32
	spare  atomic.Int64
}

func (f *frames) begin() {
	f.calls.Add(1)
	f.earn(spareOfCall)
	f.counts.Store(true)
}

func (f *frames) end() { f.calls.Add(-1) }

func (f *frames) earn(n int64) {
	if f.spare.Add(n) > mostSpare {
		f.spare.Store(mostSpare)
	}
}

// read counts bytes that were read, and reports whether the connection may stay.
func (f *frames) read(n int) bool {
	if f.calls.Load() == 0 {
		return f.spare.Add(-int64(n)) >= 0
	}
	f.earn(spareOfByte * int64(n))
	return true
}

// write counts a write, and reports whether the connection may stay.
func (f *frames) write() bool { return f.spare.Add(-costOfWrite) >= 0 }

// framesOf are those of a connection of HTTP/2, or nil.
func framesOf(conn net.Conn) *frames {
	if secure, ok := conn.(*tls.Conn); ok && isHTTP2(secure) {
		if counted, ok := secure.NetConn().(*countedConn); ok {
			return &counted.frames
		}
	}
	return nil
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.frames.counts.Load() && !c.frames.read(n) {
		return 0, errors.Join(errFlood, c.Close())
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	if c.frames.counts.Load() && !c.frames.write() {
		return 0, errors.Join(errFlood, c.Close())
	}
	return c.Conn.Write(p)
}
