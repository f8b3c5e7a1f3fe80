package testweb

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"
)

// host is what the server keeps for one host while it runs.
type host struct {
	id   int
	plan *plan
	sent atomic.Int64 // bytes written, by connections
	held atomic.Int32 // requests that wait for a Release; written by connections

	mu       sync.Mutex
	inflight int        // guarded by mu
	gates    []gate     // guarded by mu; nil until the first request
	visits   int        // guarded by mu; numbers the sessions of a session trap
	counts   hostCounts // guarded by mu
	// guarded by mu; a bit for each node that was asked for without conditions in this generation; see Validators
	unasked []uint64
}

// classify says what a URI is.
func (s *Server) classify(host int, uri []byte) (node int, k kind) {
	node = s.web.find(host, uri)
	if node >= 0 || len(uri) < 2 {
		return node, kindPage
	}
	switch {
	case bytes.HasPrefix(uri, []byte("/robots.txt")):
		return node, kindRobots
	case isSitemapPlace(uri):
		return node, kindSitemap
	}
	return node, kindPage
}

// begin counts the request and asks the host's gates.
func (x *exchange) begin() (wait time.Duration, instead func(*exchange)) {
	h, s := x.h, x.s
	s.requests.Add(1)
	raise(&s.mostInflight, s.inflight.Add(1))

	h.mu.Lock()
	defer h.mu.Unlock()
	h.inflight++
	h.counts.begin(x, h.inflight)
	if x.c.host != h {
		x.c.host = h
		h.counts.connections++
	}
	if h.gates == nil && len(h.plan.gates) > 0 {
		for _, make := range h.plan.gates {
			h.gates = append(h.gates, make())
		}
	}
	for _, g := range h.gates {
		d, in := g.pass(x)
		if in != nil {
			return 0, in
		}
		wait += d
	}
	return wait, nil
}

// finish counts the answer. It is called just before an answer's last
// byte is written: the client may then start the next request before this goroutine
// runs again, and must not be seen to have two in flight. Only the first call counts.
func (x *exchange) finish(status int) {
	if x.ended {
		return
	}
	x.ended = true
	x.s.inflight.Add(-1)
	x.h.mu.Lock()
	x.h.inflight--
	x.h.counts.finish(x, status)
	x.h.mu.Unlock()
	if x.s.log != nil {
		x.s.log.add(x, status)
	}
}

func (x *exchange) abort() {
	if x.h != nil {
		x.h.abort()
	}
}

func (h *host) abort() {
	h.mu.Lock()
	h.counts.aborted++
	h.mu.Unlock()
}

// reset clears the statistics and puts the faults back to how they started. Requests
// in flight stay in flight.
func (h *host) reset() {
	h.sent.Store(0)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gates, h.visits, h.unasked = nil, 0, nil
	h.counts = newHostCounts()
}

// forget makes the host ready for another generation.
func (h *host) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unasked = nil
	clear(h.counts.got)
}

// raise sets a to v if that is more.
func raise(a *atomic.Int64, v int64) {
	for {
		old := a.Load()
		if v <= old || a.CompareAndSwap(old, v) {
			return
		}
	}
}
