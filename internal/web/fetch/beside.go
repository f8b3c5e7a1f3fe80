package fetch

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// What a server may send beside its answers over a connection of TLS, in bytes.
const (
	mostHandshake = 80 << 10 // what comes before the first request

	// Over HTTP/1: what was read and is not decrypted yet when more is read, which is less than a record. Further bytes
	// were no part of an answer, and an account may have so many of them in a second.
	mostUndecrypted = 20 << 10
	besideRate      = 1 << 20

	// Over HTTP/2: what is read while no request is under way, and what writes stand for.
	spareOfCall = 4 << 20  // what a request earns
	mostSpare   = 16 << 20 // what can be kept
	spareOfByte = 64       // what a byte earns that is read while a request is under way
	costOfWrite = 64 << 10 // what a write costs, over HTTP/1 too
)

// errFlood says why a connection was closed.
var errFlood = errors.New("the server sends frames of HTTP/2, or messages of TLS, that serve no request")

// beside bounds what a server sends beside its answers over a connection of TLS. It costs much for few bytes, so a
// server could take all processors over as many connections as are used or kept.
//
// crypto/tls computes new keys for each KeyUpdate, and a session for each ticket, of which sixteen may come before each
// byte of an answer. A connection of HTTP/1 is closed if its account has read too much of that.
//
// net/http reads whatever comes over HTTP/2, also while the connection is idle, and answers each PING and SETTINGS by a
// write of its own, as crypto/tls does for a KeyUpdate. Requests earn what writes cost, and what is read while none is
// under way; so do the bytes of answers, which WINDOW_UPDATE acknowledges. What is read while a request is under way is
// bounded by the time of the request alone.
type beside struct {
	account *rate.Limiter
	use     atomic.Int32
	read    atomic.Int64 // bytes of the handshake, or that were not decrypted
	record  int64        // what a record has beside its content; set before http1Use
	isOld   bool         // it is older than TLS 1.3; set before http1Use
	calls   atomic.Int32 // requests that are under way over HTTP/2
	spare   atomic.Int64
}

// What a connection is used for.
const (
	otherUse int32 = iota // nothing is counted
	handshakeUse
	http1Use
	http2Use
)

func newBesideLimit() *rate.Limiter { return rate.NewLimiter(besideRate, besideRate) }

func (b *beside) serve(use int32) {
	b.read.Store(0)
	b.use.Store(use)
}

// serveHTTP1 begins with the first request over HTTP/1.
func (b *beside) serveHTTP1(version uint16) {
	b.record = 24
	if b.isOld = version < tls.VersionTLS13; b.isOld {
		b.record = 96 // small records may be padded much
	}
	b.serve(http1Use)
}

// send is called before a request is sent.
func (b *beside) send() { b.earn(spareOfCall) }

// begin is called after send if the connection speaks HTTP/2.
func (b *beside) begin() {
	b.calls.Add(1)
	b.use.Store(http2Use)
}

func (b *beside) end() { b.calls.Add(-1) }

func (b *beside) earn(n int64) {
	if b.spare.Add(n) > mostSpare {
		b.spare.Store(mostSpare)
	}
}

// decrypted counts bytes of answers over HTTP/1 that came at once, which is from one record.
func (b *beside) decrypted(n int) {
	content := int64(n)
	if b.isOld {
		content += content / 2 // there are no messages beside answers that cost much
	}
	if b.read.Add(-content-b.record) < 0 {
		b.read.Store(0)
	}
}

// mayRead reports whether more may be read.
func (b *beside) mayRead() bool {
	over := b.read.Load() - mostUndecrypted
	if b.use.Load() != http1Use || over <= 0 {
		return true
	}
	b.read.Add(-over)
	return b.account.AllowN(time.Now(), int(over))
}

// hasRead counts bytes that were read, and reports whether the connection may stay.
func (b *beside) hasRead(n int) bool {
	switch b.use.Load() {
	case handshakeUse:
		return b.read.Add(int64(n)) <= mostHandshake
	case http1Use:
		b.read.Add(int64(n))
	case http2Use:
		if b.calls.Load() == 0 {
			return b.spare.Add(-int64(n)) >= 0
		}
		b.earn(spareOfByte * int64(n))
	}
	return true
}

// mayWrite counts a write, and reports whether the connection may stay.
func (b *beside) mayWrite() bool {
	return b.use.Load() < http1Use || b.spare.Add(-costOfWrite) >= 0
}

// besideOf is that of a connection of TLS, or nil.
func besideOf(conn net.Conn) *beside {
	if secure, ok := conn.(*tls.Conn); ok {
		if counted, ok := secure.NetConn().(*countedConn); ok {
			return &counted.beside
		}
	}
	return nil
}

func (c *countedConn) Read(p []byte) (int, error) {
	if !c.beside.mayRead() {
		return 0, errors.Join(errFlood, c.Close())
	}
	n, err := c.Conn.Read(p)
	if !c.beside.hasRead(n) {
		return 0, errors.Join(errFlood, c.Close())
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	if !c.beside.mayWrite() {
		return 0, errors.Join(errFlood, c.Close())
	}
	return c.Conn.Write(p)
}
