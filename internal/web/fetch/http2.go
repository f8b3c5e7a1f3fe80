package fetch

import (
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// What a server may send over a connection of HTTP/2 that serves no request. All are bytes, or stand for bytes.
const (
	spareOfCall = 4 << 20  // what a request earns
	mostSpare   = 16 << 20 // what can be kept
	spareOfByte = 64       // what a byte earns that is read while a request is under way
	costOfWrite = 64 << 10 // what a write costs

	headOfCall   = 16 << 10 // what is read for a request beside its body
	mostHeads    = 64 << 10 // of them that can be kept
	mostAstray   = 8 << 20  // what an account may read at once for no request
	astrayPerCPU = 2 << 20  // and what of it comes back in a second, for each processor
)

// errFlood says why a connection of HTTP/2 was closed.
var errFlood = errors.New("the server sends frames of HTTP/2 that serve no request")

// frames bounds what a server sends over a connection of HTTP/2 beside its answers. net/http reads whatever comes, also
// while the connection is idle, and answers each PING and SETTINGS by a write of its own: so a server of few bytes, on
// as many connections as are kept, could take all processors.
//
// Requests earn what writes cost, and what is read while none is under way; so do the bytes of answers, which
// WINDOW_UPDATE acknowledges. What is read while requests are under way, but reaches none of them, is read slowly:
// headers of streams that nothing waits for take 80 nanoseconds a byte.
type frames struct {
	account *share
	counts  atomic.Bool // the connection speaks HTTP/2, and a request has had it
	calls   atomic.Int32
	spare   atomic.Int64

	mu     sync.Mutex
	astray int64 // guarded by mu; bytes that were read and have reached no request; below zero, what may
}

func (f *frames) begin() {
	f.calls.Add(1)
	f.earn(spareOfCall)
	f.reached(headOfCall)
	f.counts.Store(true)
}

func (f *frames) end() { f.calls.Add(-1) }

func (f *frames) earn(n int64) {
	if f.spare.Add(n) > mostSpare {
		f.spare.Store(mostSpare)
	}
}

// read counts bytes that were read, and reports whether the connection may stay. The next read is to wait as long.
func (f *frames) read(n int) (wait time.Duration, ok bool) {
	if f.calls.Load() == 0 {
		return 0, f.spare.Add(-int64(n)) >= 0
	}
	f.earn(spareOfByte * int64(n))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.astray += int64(n)
	return f.account.astray.take(min(int64(n), f.astray)), true
}

// reached counts bytes that a request has got.
func (f *frames) reached(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.account.astray.give(min(n, f.astray))
	f.astray = max(f.astray-n, -mostHeads)
}

// isPaid says whether all that was read has reached a request.
func (f *frames) isPaid() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.astray <= 0
}

// write counts a write, and reports whether the connection may stay.
func (f *frames) write() bool { return f.spare.Add(-costOfWrite) >= 0 }

// astray is what the connections of an account have read for no request.
type astray struct {
	mu    sync.Mutex
	bytes int64     // guarded by mu; less what has come back until at
	at    time.Time // guarded by mu
}

// take counts bytes. If there are too many, it returns how long it takes for them to come back.
func (a *astray) take(n int64) time.Duration {
	if n <= 0 {
		return 0
	}
	perSecond := astrayPerCPU * int64(runtime.GOMAXPROCS(0))
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.bytes = max(0, a.bytes-int64(now.Sub(a.at).Seconds()*float64(perSecond))) + n
	a.at = now
	return time.Duration(max(0, a.bytes-mostAstray)) * time.Second / time.Duration(perSecond)
}

// give takes back bytes that have reached a request after all.
func (a *astray) give(n int64) {
	if n <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes = max(0, a.bytes-n)
}

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
	if !c.frames.counts.Load() {
		return n, err
	}
	wait, ok := c.frames.read(n)
	if !ok {
		return 0, errors.Join(errFlood, c.Close())
	}
	const step = 50 * time.Millisecond
	for ; wait > 0 && !c.closed.Load() && !c.frames.isPaid(); wait -= step {
		time.Sleep(min(wait, step))
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	if c.frames.counts.Load() && !c.frames.write() {
		return 0, errors.Join(errFlood, c.Close())
	}
	return c.Conn.Write(p)
}
