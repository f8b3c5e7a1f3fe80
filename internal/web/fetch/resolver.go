package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// A systemResolver asks the system's DNS servers and tells a name that cannot be
// found from servers that cannot be reached. Go's resolver reports both alike, so
// its sockets are watched.
type systemResolver struct {
	r            *net.Resolver
	probeTimeout time.Duration
	probeKept    time.Duration

	mu     sync.Mutex // held while probing, so that one probe serves all who wait
	probed time.Time  // guarded by mu; when alive was found out
	alive  bool       // guarded by mu
}

func newSystemResolver() *systemResolver {
	var d net.Dialer
	return &systemResolver{
		r:            &net.Resolver{PreferGo: true, Dial: watchedDial(d.DialContext)},
		probeTimeout: 2 * time.Second,
		probeKept:    5 * time.Second,
	}
}

// LookupNetIP does as net.Resolver does. If nothing came from any server, its error wraps errNoResolver or the socket's
// error.
func (s *systemResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	sockets := &socketLog{}
	addrs, err := s.r.LookupNetIP(context.WithValue(ctx, socketLogKey{}, sockets), network, host)
	dns, ok := errors.AsType[*net.DNSError](err)
	if !ok || dns.IsNotFound || sockets.heard.Load() {
		return addrs, err
	}
	out := *dns
	if failed := sockets.failed.Load(); failed != nil {
		out.UnwrapErr = *failed
	} else if dns.IsTimeout && !s.answers() {
		out.UnwrapErr = errNoResolver
	} else {
		return addrs, err
	}
	return nil, &out
}

// answers reports whether any server answers a question that every resolver knows
// the answer to. What it answers does not matter.
func (s *systemResolver) answers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.probed.IsZero() && time.Since(s.probed) < s.probeKept {
		return s.alive
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.probeTimeout)
	defer cancel()
	sockets := &socketLog{}
	_, err := s.r.LookupNS(context.WithValue(ctx, socketLogKey{}, sockets), ".")
	s.alive, s.probed = err == nil || sockets.heard.Load(), time.Now()
	return s.alive
}

// A socketLog is what became of the sockets of one lookup.
type socketLog struct {
	heard  atomic.Bool
	failed atomic.Pointer[error] // the first failure other than a time-out
}

type socketLogKey struct{}

func (l *socketLog) fail(err error) {
	if !isTimeout(err) && !errors.Is(err, net.ErrClosed) {
		l.failed.CompareAndSwap(nil, &err)
	}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func watchedDial(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		sockets, ok := ctx.Value(socketLogKey{}).(*socketLog)
		if !ok { // a lookup that was given up has no values
			sockets = &socketLog{}
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			sockets.fail(err)
			return nil, err
		}
		// Go's resolver waits for an answer after its caller has gone.
		stop := context.AfterFunc(ctx, func() {
			if ctx.Err() == context.Canceled { // time-outs are those of the socket
				_ = conn.Close()
			}
		})
		watched := watchedConn{Conn: conn, sockets: sockets, stop: stop}
		// Go's resolver tells datagrams from streams by this interface.
		if packets, ok := conn.(net.PacketConn); ok {
			return &watchedPackets{watched, packets}, nil
		}
		return &watched, nil
	}
}

type watchedConn struct {
	net.Conn
	sockets *socketLog
	stop    func() bool // the watch of the context
	read    int         // bytes
}

// mostAnswer is how many bytes an answer of DNS has at most: about 250 addresses. Go's resolver makes a socket for
// each, to sort them.
const mostAnswer = 4 << 10

func (c *watchedConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.sockets.heard.Store(true)
	}
	if err != nil {
		c.sockets.fail(err)
	}
	if c.read += n; c.read > mostAnswer {
		return 0, errors.New("the answer of the DNS server is too long")
	}
	return n, err
}

type watchedPackets struct {
	watchedConn
	packets net.PacketConn
}

func (c *watchedPackets) ReadFrom(p []byte) (int, net.Addr, error) { return c.packets.ReadFrom(p) }

func (c *watchedPackets) WriteTo(p []byte, addr net.Addr) (int, error) {
	return c.packets.WriteTo(p, addr)
}
