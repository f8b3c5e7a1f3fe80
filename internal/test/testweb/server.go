package testweb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Server serves one web until it is closed.
type Server struct {
	web       *web
	hosts     []host
	authority *Authority  // nil without TLS
	log       *requestLog // nil unless asked for
	listener  net.Listener
	admin     *admin // nil unless asked for

	buffers  sync.Pool // *buffer
	lastDate atomic.Pointer[dateText]
	held     atomic.Pointer[hold] // nil unless requests are held
	latency  atomic.Int64         // nanoseconds; see SetLatency

	generation atomic.Pointer[generation] // the present one; written under genMu
	genMu      sync.Mutex

	// Totals, written by connections.
	requests, inflight, mostInflight, connections, unknownHosts atomic.Int64

	wg     sync.WaitGroup // all goroutines of the server
	mu     sync.Mutex
	open   map[net.Conn]struct{} // guarded by mu
	closed bool                  // guarded by mu
}

// Start listens on Config.Addr and serves.
func Start(cfg Config) (*Server, error) {
	addr := cfg.withDefaults().Addr
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	s, err := StartOn(cfg, l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// StartOn serves on a listener that is already there, and closes it when the server
// is closed. With a nil listener the server is only reached through Dial.
func StartOn(cfg Config, l net.Listener) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	port := ""
	if cfg.ExplicitPort {
		if l == nil {
			return nil, errors.New("an explicit port needs a listener")
		}
		_, p, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, fmt.Errorf("find the listener's port: %w", err)
		}
		port = ":" + p
	}
	w, err := newWeb(cfg, port)
	if err != nil {
		return nil, err
	}
	s := &Server{web: w, listener: l, hosts: make([]host, cfg.Hosts), open: make(map[net.Conn]struct{})}
	first, err := (&generation{}).to(cfg.Generation, time.Time{})
	if err != nil {
		return nil, err
	}
	s.generation.Store(first)
	for i := range s.hosts {
		s.hosts[i] = host{id: i, plan: w.plans[i], counts: newHostCounts()}
	}
	if cfg.Log {
		s.log = new(requestLog)
	}
	if cfg.TLS {
		if s.authority, err = newAuthority(); err != nil {
			return nil, err
		}
	}
	if cfg.AdminAddr != "" {
		if s.admin, err = startAdmin(s, cfg.AdminAddr); err != nil {
			return nil, err
		}
	}
	if l != nil {
		s.wg.Go(s.accept)
	}
	return s, nil
}

// accept starts a goroutine for each connection until the listener is closed.
func (s *Server) accept() {
	for {
		nc, err := s.listener.Accept()
		switch {
		case err == nil:
			s.serve(nc)
		case errors.Is(err, net.ErrClosed) || s.isClosed():
			return
		default: // out of file descriptors, most likely: they come back
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// serve answers on a connection in a goroutine of its own, or closes it if the server
// is closed.
func (s *Server) serve(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		nc.Close()
		return false
	}
	s.open[nc] = struct{}{}
	s.connections.Add(1)
	s.wg.Go(func() {
		c := &conn{srv: s, nc: nc, raw: nc}
		c.serve()
		c.nc.Close() // lets TLS take its leave
		nc.Close()
		s.mu.Lock()
		delete(s.open, nc)
		s.mu.Unlock()
	})
	return true
}

// Dial connects to the server in memory, whatever the address. It has the form of
// net/http's Transport.DialContext and works inside a synctest bubble.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	name, _, _ := net.SplitHostPort(addr)
	if i, ok := s.web.names.lookup([]byte(name)); ok {
		if d := s.web.plans[i].down(s.Generation()); d != nil && d.Refuse {
			return nil, fmt.Errorf("dial %s: %w", addr, syscall.ECONNREFUSED)
		}
	}
	client, server := net.Pipe()
	if !s.serve(server) {
		client.Close()
		return nil, fmt.Errorf("dial %s: %w", addr, net.ErrClosed)
	}
	return client, nil
}

// Close stops serving, ends all connections and waits for every goroutine of
// the server. It may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	for nc := range s.open {
		nc.Close()
	}
	s.mu.Unlock()
	var err error
	if first && s.listener != nil {
		err = s.listener.Close()
	}
	if first && s.admin != nil {
		err = errors.Join(err, s.admin.close())
	}
	s.wg.Wait()
	return err
}

// Addr returns the address the server listens on, or nothing if it does not.
func (s *Server) Addr() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// AdminAddr returns the address of the admin listener, or nothing if there is
// none.
func (s *Server) AdminAddr() string {
	if s.admin == nil {
		return ""
	}
	return s.admin.addr
}

// Resolve returns the value of --resolve that sends every request to the server.
func (s *Server) Resolve() string {
	port := "80"
	switch {
	case s.web.port != "":
		port = s.web.port[1:]
	case s.web.cfg.TLS:
		port = "443"
	}
	return "*:" + port + ":" + s.Addr()
}

// StartURLs returns the root of every host.
func (s *Server) StartURLs() []string {
	urls := make([]string, len(s.hosts))
	for i := range urls {
		urls[i] = s.web.url(ref{i, 0})
	}
	return urls
}

// HostName returns the name of the host with number i.
func (s *Server) HostName(i int) string { return s.web.names.name(i) }
