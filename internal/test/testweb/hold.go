package testweb

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// hold keeps requests for pages waiting. See Server.Hold.
type hold struct {
	left atomic.Int64 // pages that are still answered at once; negative when there are none

	mu       sync.Mutex
	released bool       // guarded by mu
	conns    []net.Conn // guarded by mu; of the requests that wait or waited
}

// Hold answers so many further requests for pages at once, and lets those after them wait until Release or until their
// client goes away. So a test decides how far a crawl gets. Requests that wait are in the statistics. A second Hold
// replaces the first, whose requests go on waiting.
func (s *Server) Hold(pages int) {
	h := &hold{}
	h.left.Store(int64(pages))
	s.held.Store(h)
}

// Release ends a Hold.
func (s *Server) Release() {
	h := s.held.Swap(nil)
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	for _, c := range h.conns {
		c.SetReadDeadline(time.Unix(1, 0)) // ends conn.wait
	}
}

// Held is how many requests for pages of the host with number i wait for a Release.
func (s *Server) Held(i int) int { return int(s.hosts[i].held.Load()) }

// SetLatency makes every answer to a request for a page take so much longer, from the next one on. So a test decides
// how long a crawl lasts at least, and may shorten it again.
func (s *Server) SetLatency(d time.Duration) { s.latency.Store(int64(d)) }

// latency is what SetLatency says of the request.
func (x *exchange) latency() time.Duration {
	if x.kind != kindPage {
		return 0
	}
	return time.Duration(x.s.latency.Load())
}

// passHold waits if the request is held. It reports false if the client went away meanwhile.
func (x *exchange) passHold() bool {
	h := x.s.held.Load()
	if h == nil || x.kind != kindPage || h.left.Add(-1) >= 0 {
		return true
	}
	h.mu.Lock()
	if h.released {
		h.mu.Unlock()
		return true
	}
	h.conns = append(h.conns, x.c.nc)
	h.mu.Unlock()
	x.h.held.Add(1)
	defer x.h.held.Add(-1)
	ok := x.c.wait(-1)
	x.c.nc.SetReadDeadline(time.Time{})
	return ok
}
