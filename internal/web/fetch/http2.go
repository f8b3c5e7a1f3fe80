package fetch

import (
	"cmp"
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

	headOfCall = 4 << 10  // what is read for a request beside its body
	mostHeads  = 16 << 10 // of them that can be kept

	// What is read and reaches no request may take a tenth of the processors' time for each account, and more at once
	// if there was less before; as much again if it takes little for a byte. Bodies take less still, and are bounded by
	// their windows.
	astrayShare  = 10
	astrayAtOnce = 500 * time.Millisecond // of each processor
	bodyByte     = 6 * time.Nanosecond
	cheapByte    = 100 * time.Nanosecond
	firstByte    = 20 * time.Nanosecond  // what is expected of a connection
	dearestByte  = 800 * time.Nanosecond // a header of one byte, by HPACK, takes half of it
	mostCharged  = 50 * time.Millisecond // what a connection gets back when the bytes reach a request after all
)

// errFlood says why a connection was closed.
var errFlood = errors.New("the server sends frames of HTTP/2, or messages of TLS, that serve no request")

// frames bounds what a server sends beside its answers over a connection of TLS. net/http reads whatever comes over
// HTTP/2, also while the connection is idle, and answers each PING and SETTINGS by a write of its own; crypto/tls does so
// for each KeyUpdate. So a server of few bytes, on as many connections as are kept, could take all processors.
//
// Requests earn what writes cost, and what is read while none is under way; so do the bytes of answers, which
// WINDOW_UPDATE acknowledges. What is read and reaches no request is charged to the account by the time that it takes,
// and waits while that is too much: headers of streams that nothing waits for take 400 nanoseconds a byte, and bodies
// that nothing wants one or two. What reaches a request later, because it is read before, gets back its charge.
type frames struct {
	account *share
	isUsed  atomic.Bool // a request has had the connection, so writes are counted
	isHTTP2 atomic.Bool // and it speaks HTTP/2, so reads are
	calls   atomic.Int32
	spare   atomic.Int64

	mu      sync.Mutex
	astray  int64         // guarded by mu; bytes that were read and have reached no request; below zero, what may
	charged time.Duration // guarded by mu; what the account is charged for them
	perByte time.Duration // guarded by mu; what they took before
	last    int64         // guarded by mu; those of the last read, which is being computed
	taken   time.Duration // guarded by mu; what is charged for them until it is known
	since   time.Time     // guarded by mu; when that began
}

// send is called before a request is sent.
func (f *frames) send() {
	f.earn(spareOfCall)
	f.isUsed.Store(true)
}

// begin is called after send if the connection speaks HTTP/2.
func (f *frames) begin() {
	f.calls.Add(1)
	f.reached(headOfCall)
	f.isHTTP2.Store(true)
}

func (f *frames) end() { f.calls.Add(-1) }

func (f *frames) earn(n int64) {
	if f.spare.Add(n) > mostSpare {
		f.spare.Store(mostSpare)
	}
}

// read counts bytes that were read, and reports whether the connection may stay.
func (f *frames) read(n int) (ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.astray += int64(n)
	f.last = max(0, min(int64(n), f.astray))
	if f.calls.Load() > 0 {
		f.earn(spareOfByte * int64(n))
		return true
	}
	return f.spare.Add(-int64(n)) >= 0
}

// compute says whether what was read last may be computed now.
func (f *frames) compute() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.perByte = cmp.Or(f.perByte, firstByte)
	if take := time.Duration(f.last) * f.perByte; take > 0 && f.perByte > bodyByte {
		if !f.account.astray.take(take, f.perByte <= cheapByte) {
			return false
		}
		f.taken = take
	}
	f.since = time.Now()
	return true
}

// computed charges the account for what the last read took. A goroutine that had to wait for a processor seems to take
// more, so what a byte takes is believed step by step.
func (f *frames) computed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == 0 {
		return
	}
	bytes := time.Duration(f.last)
	perByte := min(time.Since(f.since)/bytes, dearestByte)
	if f.taken > 0 {
		f.account.astray.charge(bytes*perByte - f.taken)
		f.charged = min(f.charged+bytes*perByte, mostCharged) // what was long ago has come back
	}
	f.perByte, f.last, f.taken = max(1, min(perByte, 2*f.perByte)), 0, 0
}

// reached counts bytes that a request has got. The account is not charged for them any more.
func (f *frames) reached(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.astray > 0 {
		back := time.Duration(float64(f.charged) * float64(min(n, f.astray)) / float64(f.astray))
		f.charged -= back
		f.account.astray.charge(-back)
	}
	f.astray = max(f.astray-n, -mostHeads)
}

// write counts a write, and reports whether the connection may stay.
func (f *frames) write() bool { return f.spare.Add(-costOfWrite) >= 0 }

// astray is the time that the connections of an account take for what reaches no request.
type astray struct {
	mu   sync.Mutex
	used time.Duration // guarded by mu; less what has come back until at
	at   time.Time     // guarded by mu
}

// take uses time, unless too much is used already.
func (a *astray) take(d time.Duration, isCheap bool) bool {
	processors := time.Duration(runtime.GOMAXPROCS(0))
	most := astrayAtOnce * processors
	if isCheap {
		most *= 2
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if past := now.Sub(a.at); past < a.used*astrayShare/processors {
		a.used -= past * processors / astrayShare
	} else {
		a.used = 0
	}
	a.at = now
	if a.used > most {
		return false
	}
	a.used += d
	return true
}

// charge adds to what is used, or takes from it.
func (a *astray) charge(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = max(0, a.used+d)
}

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
	c.frames.computed()
	n, err := c.Conn.Read(p)
	if !c.frames.read(n) {
		return 0, errors.Join(errFlood, c.Close())
	}
	// What others have taken comes back soon if it took little. If it did not, many wait.
	const most = 200 * time.Millisecond
	for wait := 5 * time.Millisecond; !c.frames.compute() && !c.closed.Load(); wait = min(2*wait, most) {
		time.Sleep(wait)
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	if c.frames.isUsed.Load() && !c.frames.write() {
		return 0, errors.Join(errFlood, c.Close())
	}
	return c.Conn.Write(p)
}
