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

// errFlood says why a connection was closed.
var errFlood = errors.New("the server sends frames of HTTP/2, or messages of TLS, that serve no request")

// frames bounds what a server sends beside its answers over a connection of TLS. net/http reads whatever comes over
// HTTP/2, also while the connection is idle, and answers each PING and SETTINGS by a write of its own; crypto/tls does so
// for each KeyUpdate. So a server of few bytes, on as many connections as are kept, could take all processors.
//
// Requests earn what writes cost, and what is read while none is under way; so do the bytes of answers, which
// WINDOW_UPDATE acknowledges. What is read while a request is under way is bounded by the time of the request alone.
type frames struct {
	isUsed  atomic.Bool // a request has had the connection, so writes are counted
	isHTTP2 atomic.Bool // and it speaks HTTP/2, so reads are
	calls   atomic.Int32
	spare   atomic.Int64
}

// send is called before a request is sent.
func (f *frames) send() {
	f.earn(spareOfCall)
	f.isUsed.Store(true)
}

// begin is called after send if the connection speaks HTTP/2.
func (f *frames) begin() {
	f.calls.Add(1)
	f.isHTTP2.Store(true)
}

func (f *frames) end() { f.calls.Add(-1) }

func (f *frames) earn(n int64) {
	if f.spare.Add(n) > mostSpare {
		f.spare.Store(mostSpare)
	}
}

// read counts bytes that were read, and reports whether the connection may stay.
func (f *frames) read(n int) bool {
	if f.calls.Load() > 0 {
		f.earn(spareOfByte * int64(n))
		return true
	}
	return f.spare.Add(-int64(n)) >= 0
}

// write counts a write, and reports whether the connection may stay.
func (f *frames) write() bool { return f.spare.Add(-costOfWrite) >= 0 }

// framesOf are those of a connection of TLS, or nil.
func framesOf(conn net.Conn) *frames {
	if secure, ok := conn.(*tls.Conn); ok {
		if counted, ok := secure.NetConn().(*countedConn); ok {
			return &counted.frames
		}
	}
	return nil
}

func (c *countedConn) Read(p []byte) (int, error) {
	if !c.frames.isHTTP2.Load() {
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p)
	if !c.frames.read(n) {
		return 0, errors.Join(errFlood, c.Close())
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	if c.frames.isUsed.Load() && !c.frames.write() {
		return 0, errors.Join(errFlood, c.Close())
	}
	return c.Conn.Write(p)
}
