package testweb

import (
	"net/http"
	"time"
)

// kind is what a request is for, as far as statistics and faults tell it apart.
type kind uint8

const (
	kindPage kind = iota // anything but the two below
	kindRobots
	kindSitemap
)

// exchange is one request and its answer. It is part of its connection and is
// reused by the next.
type exchange struct {
	c      *conn
	s      *Server
	req    request
	h      *host
	gen    *generation // the web's when the request began
	node   int
	kind   kind
	broken bool // answered so that no client can be content: not counted as a fetch
	ended  bool
	start  time.Time
	body   int64 // bytes of body sent, or about to be
}

// handle answers the request: it is counted first, then come the host's gates, then what is
// there.
func (x *exchange) handle() {
	x.start = time.Now()
	x.gen = x.s.generation.Load()
	if x.req.close {
		x.c.done = true
	}
	host, ok := x.s.web.names.lookup(x.req.host)
	if !ok {
		x.s.unknownHosts.Add(1)
		x.c.host = nil
		x.ended = true
		x.text(http.StatusMisdirectedRequest, "no such host\n")
		return
	}
	x.h = &x.s.hosts[host]
	x.node, x.kind = x.s.classify(host, x.req.uri)
	wait, instead := x.begin()
	if x.h.plan.closeAlways {
		x.c.done = true
	}
	defer x.finish(0) // for answers that never got as far as a status
	if !x.passHold() || !x.c.wait(wait+x.latency()) {
		x.gone()
		return
	}
	switch {
	case !x.req.get && !x.req.head:
		x.text(http.StatusMethodNotAllowed, "GET or HEAD\n")
	case x.s.authority != nil && !x.c.secure:
		x.redirect(http.StatusMovedPermanently, x.h.id, string(x.req.uri))
	case x.h.plan.down(x.gen.n) != nil:
		x.h.plan.down(x.gen.n).answer(x)
	case instead != nil:
		instead(x)
	case x.kind == kindRobots:
		x.robots()
	case x.kind == kindSitemap:
		x.sitemap()
	default:
		x.page()
	}
}

// page answers a request for anything but robots.txt and sitemaps.
func (x *exchange) page() {
	w := x.s.web
	switch {
	case x.h.plan.same != nil && x.node != nodeAsset:
		x.h.plan.same.answer(x)
	case x.node >= 0:
		if l := w.leaf(x.h.id, x.node); l != nil {
			l.answer(x)
		} else {
			x.tree()
		}
	case x.node == nodeTrap:
		x.h.plan.trap(x.req.uri).answer(x)
	case x.node == nodeAsset:
		x.text(http.StatusOK, "/* nothing */\n")
	default:
		x.text(http.StatusNotFound, "nothing here\n")
	}
}

// gone notes that the client left before it had its answer.
func (x *exchange) gone() {
	x.c.done = true
	x.finish(0)
	x.h.abort()
}
