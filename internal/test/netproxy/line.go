package netproxy

import (
	"net"
	"sync"
	"time"
)

// A Line is a long way to a server: what one side sends arrives at the other some time later, in order, and as much at
// once as was sent.
type Line struct {
	listener net.Listener
	server   Target
	oneWay   time.Duration
	wg       sync.WaitGroup

	mu    sync.Mutex
	ended bool                  // guarded by mu
	conns map[net.Conn]struct{} // guarded by mu; both ends of all connections
}

// NewLine listens on a loopback address for a server. Close ends it.
func NewLine(server Target, oneWay time.Duration) (*Line, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	line := &Line{listener: l, server: server, oneWay: oneWay, conns: map[net.Conn]struct{}{}}
	line.wg.Go(line.accept)
	return line, nil
}

// Target is the line as a server.
func (l *Line) Target() Target { return Target{"tcp", l.listener.Addr().String()} }

// Close ends the line and all its connections.
func (l *Line) Close() error {
	err := l.listener.Close()
	l.mu.Lock()
	l.ended = true
	for c := range l.conns {
		_ = c.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
	return err
}

func (l *Line) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(l.server.Network, l.server.Address)
		if err != nil {
			_ = client.Close()
			continue
		}
		l.mu.Lock()
		if l.ended {
			_, _ = client.Close(), server.Close()
		}
		l.conns[client], l.conns[server] = struct{}{}, struct{}{}
		l.mu.Unlock()
		var ways sync.WaitGroup
		ways.Go(func() { l.pass(client, server) })
		ways.Go(func() { l.pass(server, client) })
		l.wg.Go(func() {
			ways.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.conns, client)
			delete(l.conns, server)
		})
	}
}

// parcel is what was read at once, and when it arrives.
type parcel struct {
	bytes []byte
	at    time.Time
}

// mostParcels bounds what is under way on a connection.
const mostParcels = 1 << 12

// pass passes on what one side sends. When that side has ended, the other one ends too, as much later.
func (l *Line) pass(from, to net.Conn) {
	under := make(chan parcel, mostParcels)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(under)
		for {
			buf := make([]byte, 64<<10)
			n, err := from.Read(buf)
			under <- parcel{buf[:n], time.Now().Add(l.oneWay)}
			if err != nil {
				return
			}
		}
	})
	for p := range under {
		time.Sleep(time.Until(p.at))
		if _, err := to.Write(p.bytes); err != nil {
			break
		}
	}
	_, _ = from.Close(), to.Close()
	for range under { // until the reader has seen the end
	}
	reading.Wait()
}
