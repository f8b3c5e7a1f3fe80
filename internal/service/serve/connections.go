package serve

import (
	"cmp"
	lists "container/list"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	shareOfClient = 4                      // one client has this part of the connections at most
	stalledAfter  = time.Second            // a write that takes so long waits for the client
	tellEvery     = time.Minute            // the log
	roundTrip     = 300 * time.Millisecond // for a client to take its next step
	mostStrange   = 20                     // requests in a row without a valid key; then the connection is closed
	usualSteps    = 5                      // turns that an answer needs, also with TLS and a body
	crowd         = 100                    // requests that wait for turns; then those with long heads are not read
	longHead      = 6 << 10                // bytes, with those of a TLS handshake
	fullFor       = time.Second            // others are taken to wait so long after there was no room
)

// connections is a listener with a bound on all connections, and on those of one client.
//
// What clients without a key send is read, computed and refused in turns, so that the processors are free for others:
// clients have as many turns at once as there are processors, and one client has half of them. A connection has a turn
// from when something has arrived until it reads or writes again, or until its request has shown a valid key, which the
// limits of accounts bound. Meanwhile crawls leave half of the processors. Nothing that may wait is done in a turn.
// Until its first answer, a connection waits for one round: the turns that follow the first come before those of
// others. Its deadlines do not run while it waits for a turn. How long a turn takes depends on the head of the request,
// in which thousands of headers fit: while many wait, a connection that sends a long one without having shown a key is
// closed.
//
// A connection is closable while it waits for its client, or for a turn. If there is no room for a new connection,
// clients share what there is: of the client that has the most, the closable connection is closed that has waited
// longest, until all have as many. A client that has its part already gets room only from its own connections that wait
// for it, or, if it has its share of all, from its own oldest, also if its answer is being sent. If all have one
// connection, the one that has waited longest is closed if it waits for its client. If it waits for a turn, no
// connection is accepted until it has been served: new ones wait in the order in which they came. A wait is for one
// step of a handshake or of a request. A connection whose request comes in many steps waits for its client in any case:
// clients could else make all of them need more turns than there are. Until its first answer, a connection is not
// closed in the first moments of a wait: a client that is far away is not taken for one that does nothing. Connections
// whose last request had a valid key are apart, and go last while they are at most half of all.
//
// Otherwise a connection whose request is answered is closed only if its client does not take the answer.
type connections struct {
	net.Listener
	most    int
	trusted func(netip.Addr) bool // proxies: their connections are those of many clients
	log     *slog.Logger
	turns   turns
	changed chan struct{} // has one if there may be room now, or another connection to close
	closed  chan struct{} // closed by Close
	close   sync.Once

	mu        sync.Mutex
	open      int            // guarded by mu
	clients   map[string]int // guarded by mu; the open connections of each
	waits     int            // guarded by mu; how many have begun, of all connections
	strangers closable       // guarded by mu
	known     closable       // guarded by mu; of requests with a valid key. All of them wait for their clients
	writes    lists.List     // guarded by mu; of write, in the order in which they began
	full      time.Time      // guarded by mu; when there was no room for a connection the last time
	told      time.Time      // guarded by mu; when the log was told that
}

// Limit bounds the connections of a listener.
func (s *Server) Limit(l net.Listener) net.Listener {
	limited := &connections{Listener: l, most: s.Connections, trusted: s.trusted, log: s.Log,
		turns:   turns{most: turnsAtOnce(), each: turnsAtOnce() / 2, waiting: s.Connections},
		changed: make(chan struct{}, 1), closed: make(chan struct{}), clients: map[string]int{}}
	if crawls := s.Service.Shared(); crawls != nil {
		limited.turns.busy = crawls.Yield
	}
	return limited
}

// turnsAtOnce is how many turns clients without a key have at once. One client leaves turns to others.
func turnsAtOnce() int { return max(2, runtime.GOMAXPROCS(0)) }

// Accept waits for a connection, and until there is room for it.
func (l *connections) Accept() (net.Conn, error) {
	for {
		plain, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				l.mu.Lock()
				// net/http accepts again soon
				l.closeLocked(cmp.Or(l.stalledLocked("", stalledAfter), l.strangers.first(), l.known.first()))
				l.mu.Unlock()
			}
			return nil, err
		}
		c, err := l.add(plain)
		if err != nil {
			_ = plain.Close()
			return nil, err
		}
		if c != nil {
			return c, nil
		}
		_ = plain.Close()
	}
}

// Close implements [net.Listener].
func (l *connections) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// add takes a connection as soon as there is room. It returns nil if its client has its part.
func (l *connections) add(plain net.Conn) (*connection, error) {
	client := []string{plain.RemoteAddr().String()}
	if from, err := netip.ParseAddrPort(client[0]); err == nil && !l.trusted(from.Addr().Unmap()) {
		client = clientOf(from.Addr())
	}
	for began := time.Now(); ; {
		c, again := l.tryAdd(plain, client, time.Since(began) >= stalledAfter)
		if again == 0 {
			return c, nil
		}
		select {
		case <-l.changed:
		case <-time.After(again):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// tryAdd takes a connection if there is room, or if room can be made. Otherwise it is to be tried again after the time
// again, or earlier; 0 means never.
func (l *connections) tryAdd(plain net.Conn, client []string, late bool) (c *connection, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ok, again := l.makeRoomLocked(client[0], late); !ok {
		return nil, again
	}
	l.open++
	l.clients[client[0]]++
	c = &connection{Conn: plain, of: l, client: client}
	c.closableLocked(false) // its goroutine, which reads, may begin late
	return c, 0
}

// makeRoomLocked makes room for a connection of a client. If it returns false, again is as in tryAdd. Late says that
// the connection has waited for long.
func (l *connections) makeRoomLocked(client string, late bool) (ok bool, again time.Duration) {
	if l.open >= l.most {
		l.full = time.Now()
	}
	own := l.strangers.below[client]
	var c *connection
	switch {
	case l.clients[client] >= max(1, l.most/shareOfClient):
		c = cmp.Or(own.waiting(), l.known.below[client].waiting(), own.first(), l.stalledLocked(client, roundTrip))
	case l.open < l.most:
		return true, 0
	case l.known.n > l.most/2:
		c = l.known.first()
	case l.strangers.n == 0:
		if c, again = l.stalledLocked("", stalledAfter), stalledAfter; c == nil && late {
			c = l.known.first()
		}
	case l.strangers.order[0].n > own.count()+1:
		c = l.strangers.first()
	case own.count() > 0:
		c = cmp.Or(own.waiting(), l.stalledLocked("", stalledAfter))
	default:
		c, again = l.strangers.waiting(), stalledAfter
		if c != nil {
			if wait := c.patience(); wait > 0 {
				c, again = nil, wait
			}
		}
		c = cmp.Or(c, l.stalledLocked("", stalledAfter))
	}
	if now := time.Now(); now.Sub(l.told) >= tellEvery {
		l.told = now
		l.log.Warn("there are too many connections: the oldest of the clients with the most are closed, new ones wait",
			"open", l.open, "client", client)
	}
	l.closeLocked(c)
	return c != nil, again
}

// stalledLocked is the connection whose write has waited longest for its client, at least so long, or nil. It is one of
// the named client if there is a name.
func (l *connections) stalledLocked(client string, after time.Duration) *connection {
	for e := l.writes.Front(); e != nil; e = e.Next() {
		one := e.Value.(write)
		if time.Since(one.began) < after {
			break
		}
		if !one.c.removed && (client == "" || client == one.c.client[0]) {
			return one.c
		}
	}
	return nil
}

// closeLocked closes a connection, unless it is nil.
func (l *connections) closeLocked(c *connection) {
	if c != nil {
		c.removeLocked()
		_ = c.Conn.Close() // its reader and writer see the error
	}
}

// changedLocked lets Accept look for room again.
func (l *connections) changedLocked() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// connection is one connection. The methods that requests call may be called on a nil connection, which is that of a
// test without a listener.
type connection struct {
	net.Conn
	of      *connections
	client  []string    // of clientOf; a connection of a trusted proxy is a client of its own
	known   atomic.Bool // the last request had a valid key. Set by the goroutine that serves the connection
	strange int         // requests since the last one with a valid key. Used by the same goroutine

	// Guarded by of.mu.
	closable closable
	since    int       // the number of its wait among all, in the order in which they began
	began    time.Time // of the wait
	here     bool      // it waits for a turn, and not for its client
	turn     *turn     // nil if it has none and waits for none
	steps    int       // turns that it asked for since its last answer
	answered bool      // it has had an answer
	handled  bool      // a request is, from when its head has arrived
	head     int       // bytes that were read for the next request
	removed  bool

	readBy, writeBy time.Time // deadlines; zero means none
}

// patience is for how long the connection is not closed though it waits for its client: while it goes on towards its
// first answer, each step has the time of a round trip.
func (c *connection) patience() time.Duration {
	if c.answered || c.steps >= usualSteps {
		return 0
	}
	return roundTrip - time.Since(c.began)
}

// write is a write that has not ended.
type write struct {
	c     *connection
	began time.Time
}

// closableLocked notes that the connection may be closed to make room.
func (c *connection) closableLocked(here bool) {
	c.notClosableLocked()
	if c.here = here; c.removed {
		return
	}
	c.of.waits++
	c.since, c.began = c.of.waits, time.Now()
	if c.known.Load() {
		c.of.known.add(c)
	} else {
		c.of.strangers.add(c)
	}
	c.of.changedLocked()
}

func (c *connection) notClosableLocked() {
	if c.closable.in != nil {
		c.closable.remove()
		c.of.changedLocked()
	}
}

func (c *connection) leaveTurnLocked() {
	if c.turn != nil {
		c.turn.end()
		c.turn = nil
	}
}

func (c *connection) removeLocked() {
	if c.removed {
		return
	}
	c.removed = true
	c.notClosableLocked()
	c.leaveTurnLocked()
	c.of.open--
	if c.of.clients[c.client[0]]--; c.of.clients[c.client[0]] == 0 {
		delete(c.of.clients, c.client[0])
	}
	c.of.changedLocked()
}

// handle is called before a request is looked at. It waits for a turn, unless the request before had a valid key. It
// returns false if the connection is closed: nothing may be done for the request then, because its client sees no
// answer.
func (c *connection) handle() bool {
	if c == nil {
		return true
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.handled, c.head = true, 0
	if c.known.Swap(false) {
		return c.goOnLocked()
	}
	return c.takeTurnLocked()
}

// end is called at the end of the handler. The answer is sent after it.
func (c *connection) end() {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.handled, c.answered, c.steps = false, true, 0
}

// wait notes that the connection waits for its client. It ends the turn.
func (c *connection) wait() {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.waitLocked()
}

func (c *connection) waitLocked() {
	c.leaveTurnLocked()
	c.closableLocked(false)
}

// resume notes that the server goes on after wait or pause. It waits for a turn, unless the request has a valid key. It
// returns false if the connection is closed.
func (c *connection) resume() bool {
	if c == nil {
		return true
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.resumeLocked()
}

func (c *connection) resumeLocked() bool {
	if c.known.Load() {
		return c.goOnLocked()
	}
	return c.takeTurnLocked()
}

// goOnLocked notes that the connection waits for nothing. It returns false if it is closed.
func (c *connection) goOnLocked() bool {
	c.notClosableLocked()
	return !c.removed
}

// pause ends the turn before something that may take long, such as a query of the database.
func (c *connection) pause() {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.leaveTurnLocked()
}

// know notes that the request has a valid key.
func (c *connection) know() {
	if c != nil {
		c.known.Store(true)
		c.pause()
	}
}

// takeTurnLocked waits for a turn of the client, unless the connection has one; the mutex is free meanwhile. It returns
// false if the connection is closed.
func (c *connection) takeTurnLocked() bool {
	if c.removed || c.turn != nil {
		return !c.removed
	}
	one := c.of.turns.ask(c.client...) // not nil: as many may wait as there are connections
	c.turn = one
	c.steps++
	select {
	case <-one.come:
	default:
		if !c.answered && 1 < c.steps && c.steps <= usualSteps {
			one.hurry()
		}
		began := time.Now()
		c.closableLocked(c.steps <= usualSteps)
		c.of.mu.Unlock()
		<-one.come
		c.of.mu.Lock()
		c.postponeLocked(time.Since(began))
	}
	return c.goOnLocked()
}

// postponeLocked moves the deadlines.
func (c *connection) postponeLocked(by time.Duration) {
	if !c.readBy.IsZero() {
		c.readBy = c.readBy.Add(by)
		_ = c.Conn.SetReadDeadline(c.readBy) // it fails if the connection is closed
	}
	if !c.writeBy.IsZero() {
		c.writeBy = c.writeBy.Add(by)
		_ = c.Conn.SetWriteDeadline(c.writeBy)
	}
}

// SetDeadline implements [net.Conn].
func (c *connection) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *connection) SetReadDeadline(t time.Time) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.readBy = t
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements [net.Conn].
func (c *connection) SetWriteDeadline(t time.Time) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.writeBy = t
	return c.Conn.SetWriteDeadline(t)
}

// wasKnown reports whether the last request had a valid key.
func (c *connection) wasKnown() bool {
	if c == nil {
		return false
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.answered && c.strange == 0
}

// isStrangersLast counts a request before its answer. It returns true if the connection is to be closed after it,
// because too many requests had no valid key, or because this one had none and others wait for room. What the client
// has sent beyond it is not read.
func (c *connection) isStrangersLast() bool {
	if c == nil {
		return false
	}
	if c.known.Load() {
		c.strange = 0
		return false
	}
	c.strange++
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	// There may be room at this instant, because another one was closed, though many wait to be accepted.
	return c.strange >= mostStrange || time.Since(c.of.full) < fullFor
}

// Read implements [net.Conn]. While a request is handled, net/http reads in another goroutine to see whether the client
// has gone, or for the body, which calls wait itself.
func (c *connection) Read(p []byte) (int, error) {
	c.of.mu.Lock()
	if !c.handled {
		c.waitLocked()
	}
	c.of.mu.Unlock()
	n, err := c.Conn.Read(p)
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if n == 0 || c.handled {
		return n, err
	}
	if c.head += n; c.head > longHead && !c.known.Load() && c.of.turns.isCrowded() {
		c.of.closeLocked(c)
	}
	if !c.resumeLocked() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements [net.Conn].
func (c *connection) Write(p []byte) (int, error) {
	c.of.mu.Lock()
	c.leaveTurnLocked()
	one := c.of.writes.PushBack(write{c, time.Now()})
	c.of.mu.Unlock()
	n, err := c.Conn.Write(p)
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.writes.Remove(one)
	return n, err
}

// CloseWrite lets net/http end an answer before it closes a connection whose client still sends. The connection then
// waits for the client to read it, for half a second.
func (c *connection) CloseWrite() error {
	c.wait()
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.of.mu.Lock()
	c.removeLocked()
	c.of.mu.Unlock()
	return c.Conn.Close()
}

type connectionKey struct{}

// withConnection is the context of all requests of a connection.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if one, ok := c.(*connection); ok {
		return context.WithValue(ctx, connectionKey{}, one)
	}
	return ctx
}

// connectionOf is the connection of a request, or nil in a test without a listener.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}
