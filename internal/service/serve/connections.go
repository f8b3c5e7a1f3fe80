package serve

import (
	"container/heap"
	lists "container/list"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	shareOfClient = 4           // one client has this part of the connections at most
	stalledAfter  = time.Second // a write that takes so long waits for the client
	tellEvery     = time.Minute // the log
	mostStrange   = 20          // requests in a row without a valid key; then the connection is closed
)

// connections is a listener with a bound on all connections, and on those of one client. A connection waits while the
// server can do nothing for it, because its request has not arrived whole. If there is no room for a new connection,
// the one that has waited longest is closed: one of the same client if that has its share, else one of the client with
// the most that wait. If none waits, a connection is closed whose client does not take its answer. Others are never
// closed.
//
// What clients without a key send is read, computed and refused in turns, so that the processors are free for others:
// clients have as many turns at once as there are processors, and one client has half of them. A connection has a turn
// from when something has arrived until it reads or writes again, or until its request has shown a valid key, which the
// limits of accounts bound. Nothing that may wait is done in a turn.
type connections struct {
	net.Listener
	most    int
	trusted func(netip.Addr) bool // proxies: their connections are those of many clients
	log     *slog.Logger
	turns   turns[*connecting]

	mu        sync.Mutex
	open      int                          // guarded by mu
	addresses map[netip.Prefix]*connecting // guarded by mu
	order     connectingHeap               // guarded by mu; all clients that have connections
	told      time.Time                    // guarded by mu; when the log was told that connections are closed
}

// connecting is a client that has connections. Its fields are guarded by the mutex of connections.
type connecting struct {
	address netip.Prefix // not valid for a connection of a trusted proxy, which is a client of its own
	open    map[*connection]bool
	waiting lists.List // of *connection; the one that has waited longest is the first
	place   int        // in the heap
}

// longest is the connection that has waited longest, or nil.
func (c *connecting) longest() *connection {
	if first := c.waiting.Front(); first != nil {
		return first.Value.(*connection)
	}
	return nil
}

// connectingHeap has the client with the most waiting connections at the top. If several have as many, it is the client
// whose connection has waited longest.
type connectingHeap []*connecting

func (h connectingHeap) Len() int { return len(h) }

func (h connectingHeap) Less(i, j int) bool {
	if n, m := h[i].waiting.Len(), h[j].waiting.Len(); n != m || n == 0 {
		return n > m
	}
	return h[i].longest().since.Before(h[j].longest().since)
}

func (h connectingHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *connectingHeap) Push(c any) {
	one := c.(*connecting)
	one.place = len(*h)
	*h = append(*h, one)
}

func (h *connectingHeap) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	*h = slices.Delete(*h, last, last+1)
	return one
}

// Limit bounds the connections of a listener.
func (s *Server) Limit(l net.Listener) net.Listener {
	return &connections{Listener: l, most: s.Connections, trusted: s.trusted, log: s.Log,
		turns:     turns[*connecting]{most: turnsAtOnce(), each: turnsAtOnce() / 2, waiting: s.Connections},
		addresses: map[netip.Prefix]*connecting{}}
}

// turnsAtOnce is how many turns clients without a key have at once. One client leaves turns to others.
func turnsAtOnce() int { return max(2, runtime.GOMAXPROCS(0)) }

// Accept waits for a connection for which there is room.
func (l *connections) Accept() (net.Conn, error) {
	for {
		plain, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				l.mu.Lock()
				l.makeRoomLocked(l.order) // net/http accepts again soon
				l.mu.Unlock()
			}
			return nil, err
		}
		if c := l.add(plain); c != nil {
			return c, nil
		}
		_ = plain.Close() // all others are being answered
	}
}

// address is what a peer is counted under: its address, or for IPv6 the network that one customer usually has. It is
// not valid if the peer is a trusted proxy.
func (l *connections) address(peer net.Addr) netip.Prefix {
	from, err := netip.ParseAddrPort(peer.String())
	if addr := from.Addr().Unmap(); err == nil && !l.trusted(addr) {
		return network(addr)
	}
	return netip.Prefix{}
}

// add takes a connection. It returns nil if there is no room for it.
func (l *connections) add(plain net.Conn) *connection {
	address := l.address(plain.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	client := l.addresses[address]
	switch {
	case client != nil && len(client.open) >= max(1, l.most/shareOfClient):
		if !l.makeRoomLocked([]*connecting{client}) {
			return nil
		}
	case l.open >= l.most:
		if !l.makeRoomLocked(l.order) {
			return nil
		}
	}
	if client = l.addresses[address]; client == nil {
		client = &connecting{address: address, open: map[*connection]bool{}}
		heap.Push(&l.order, client)
		if address.IsValid() {
			l.addresses[address] = client
		}
	}
	c := &connection{Conn: plain, of: l, client: client}
	client.open[c] = true
	l.open++
	c.waitLocked()
	return c
}

// makeRoomLocked closes one connection of the given clients, the first of which has the most waiting connections. It
// returns false if there is none to close.
func (l *connections) makeRoomLocked(of []*connecting) bool {
	if len(of) == 0 {
		return false
	}
	c := of[0].longest()
	if c == nil {
		c = stalled(of)
	}
	if c == nil {
		return false
	}
	c.removeLocked()
	_ = c.Conn.Close() // its reader and writer see the error
	if now := time.Now(); now.Sub(l.told) >= tellEvery {
		l.told = now
		l.log.Warn("there are too many connections: those that wait longest for their clients are closed",
			"open", l.open, "address", c.RemoteAddr().String())
	}
	return true
}

// stalled is the connection whose write has waited longest for its client, or nil.
func stalled(of []*connecting) (longest *connection) {
	began := time.Now().Add(-stalledAfter).UnixNano()
	for _, client := range of {
		for c := range client.open {
			if at := c.writing.Load(); at != 0 && at < began {
				longest, began = c, at
			}
		}
	}
	return longest
}

// connection is one connection. The methods that requests call may be called on a nil connection, which is that of a
// test without a listener.
type connection struct {
	net.Conn
	of      *connections
	client  *connecting
	writing atomic.Int64 // when the present write began, in Unix nanoseconds; 0 if there is none. Set by Write
	known   atomic.Bool  // the last request had a valid key. Set by the goroutine that serves the connection
	strange int          // requests since the last one with a valid key. Used by the same goroutine

	turnMu  sync.Mutex         // taken after of.mu
	turn    *turn[*connecting] // guarded by turnMu; nil if the connection has none and waits for none
	handled bool               // guarded by turnMu; a request is, from when its head has arrived

	// Guarded by of.mu.
	since   time.Time      // when it began to wait
	waits   *lists.Element // nil while its request is answered; HTTP/1.1 has one at a time
	removed bool
}

// waitLocked puts the connection behind all waiting connections of its client.
func (c *connection) waitLocked() {
	c.since = time.Now()
	if c.waits == nil {
		c.waits = c.client.waiting.PushBack(c)
	} else {
		c.client.waiting.MoveToBack(c.waits)
	}
	heap.Fix(&c.of.order, c.client.place)
}

func (c *connection) stopWaitingLocked() {
	if c.waits != nil {
		c.client.waiting.Remove(c.waits)
		c.waits = nil
		heap.Fix(&c.of.order, c.client.place)
	}
}

func (c *connection) removeLocked() {
	if c.removed {
		return
	}
	c.stopWaitingLocked()
	c.pause()
	c.removed = true
	delete(c.client.open, c)
	c.of.open--
	if len(c.client.open) == 0 {
		heap.Remove(&c.of.order, c.client.place)
		delete(c.of.addresses, c.client.address)
	}
}

// hasHead notes that the head of a request has arrived and a body is to follow.
func (c *connection) hasHead() {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.waits != nil {
		c.waitLocked()
	}
}

// begin notes that a request has arrived whole. It returns false if the connection is closed: nothing may be done for
// the request then, because its client sees no answer.
func (c *connection) begin() bool {
	if c == nil {
		return true
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.removed {
		return false
	}
	c.stopWaitingLocked()
	return true
}

// end is called at the end of the handler. The answer is sent after it.
func (c *connection) end() {
	if c == nil {
		return
	}
	c.turnMu.Lock()
	c.handled = false
	c.turnMu.Unlock()
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if !c.removed && c.waits == nil {
		c.waitLocked()
	}
}

// takeTurn waits for a turn of the client, unless the connection has one.
func (c *connection) takeTurn() {
	c.turnMu.Lock()
	one := c.takeTurnLocked()
	c.turnMu.Unlock()
	c.awaitTurn(one)
}

func (c *connection) takeTurnLocked() *turn[*connecting] {
	if c.turn == nil {
		c.turn = c.of.turns.ask(c.client)
	}
	return c.turn
}

func (c *connection) awaitTurn(one *turn[*connecting]) {
	if one == nil {
		return // this cannot be: as many may wait as there are connections
	}
	select {
	case <-one.come:
	default:
		<-one.come
		// What is woken runs next, within the time of the one that woke it. Without this, goroutines that end their
		// turns wake one another for 10 ms before any other runs, such as the one that accepts connections: of 4,000
		// connections that send requests, this makes seconds.
		runtime.Gosched()
	}
}

func (c *connection) leaveTurnLocked() {
	if c.turn != nil {
		c.turn.end()
		c.turn = nil
	}
}

// handle is called before a request is looked at. It waits for a turn, unless the request before had a valid key.
func (c *connection) handle() {
	if c == nil {
		return
	}
	c.turnMu.Lock()
	c.handled = true
	c.turnMu.Unlock()
	if !c.known.Swap(false) {
		c.takeTurn()
	}
}

// pause ends the turn, or the wait for it, before something that may take long, such as a query of the database.
func (c *connection) pause() {
	if c == nil {
		return
	}
	c.turnMu.Lock()
	defer c.turnMu.Unlock()
	c.leaveTurnLocked()
}

// resume waits for a turn after pause, unless the request has a valid key.
func (c *connection) resume() {
	if c != nil && !c.known.Load() {
		c.takeTurn()
	}
}

// know notes that the request has a valid key.
func (c *connection) know() {
	if c != nil {
		c.known.Store(true)
		c.pause()
	}
}

// isStrangersLast counts a request before its answer. It returns true if the connection is to be closed after it,
// because too many requests had no valid key. What the client has sent beyond it is not read.
func (c *connection) isStrangersLast() bool {
	if c == nil {
		return false
	}
	if c.known.Load() {
		c.strange = 0
		return false
	}
	c.strange++
	return c.strange >= mostStrange
}

// Read implements [net.Conn]. While a request is handled, this leaves its turn alone: net/http reads in another
// goroutine then, to see whether the client has gone.
func (c *connection) Read(p []byte) (int, error) {
	c.turnMu.Lock()
	if !c.handled {
		c.leaveTurnLocked()
	}
	c.turnMu.Unlock()
	n, err := c.Conn.Read(p)
	c.turnMu.Lock()
	var one *turn[*connecting]
	if n > 0 && !c.handled && !c.known.Load() {
		one = c.takeTurnLocked()
	}
	c.turnMu.Unlock()
	c.awaitTurn(one)
	return n, err
}

// Write implements [net.Conn].
func (c *connection) Write(p []byte) (int, error) {
	c.pause()
	c.writing.Store(time.Now().UnixNano())
	defer c.writing.Store(0)
	return c.Conn.Write(p)
}

// CloseWrite lets net/http end an answer before it closes a connection whose client still sends.
func (c *connection) CloseWrite() error {
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
