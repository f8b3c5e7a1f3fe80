package fetch

import (
	"context"
	"strings"
	"sync"
)

// protocols remembers which https origins speak HTTP/2, at least size of them, those
// last asked for. To forget one costs a handshake only if it has a connection open.
//
// If an origin is not known, one request makes a handshake and the others wait for its
// result: with HTTP/2 they need no connection of their own. An origin whose last
// connection of HTTP/2 is closed is not known any more, since net/http would dial for
// each of several requests at once.
type protocols struct {
	size int

	mu     sync.Mutex
	recent map[string]bool          // guarded by mu; whether an origin speaks HTTP/2
	older  map[string]bool          // guarded by mu; the generation before
	asking map[string]chan struct{} // guarded by mu; closed when the handshake has ended
	open   map[string]int           // guarded by mu; connections of HTTP/2 that net/http has open
}

func newProtocols(size int) *protocols {
	return &protocols{size: size, recent: make(map[string]bool), asking: make(map[string]chan struct{}), open: make(map[string]int)}
}

// opened counts a connection of HTTP/2.
func (p *protocols) opened(origin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[origin]++
}

// closed forgets an origin with its last connection of HTTP/2.
func (p *protocols) closed(origin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[origin]--
	if p.open[origin] > 0 {
		return
	}
	delete(p.open, origin)
	if h2, _ := p.knowsLocked(origin); h2 {
		delete(p.recent, origin)
		delete(p.older, origin)
	}
}

// ask reports whether an origin speaks HTTP/2, waiting for the handshake of another call.
// If there is none (mine), the caller must make it and call asked at the end. If that
// handshake fails, the calls that waited for it connect for themselves.
func (p *protocols) ask(ctx context.Context, origin string) (h2, mine bool, err error) {
	p.mu.Lock()
	h2, known := p.knowsLocked(origin)
	wait := p.asking[origin]
	if !known && wait == nil {
		p.asking[origin] = make(chan struct{})
		mine = true
	}
	p.mu.Unlock()
	if known || mine {
		return h2, mine, nil
	}
	select {
	case <-wait:
	case <-ctx.Done():
		return false, false, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h2, _ = p.knowsLocked(origin)
	return h2, false, nil
}

// asked lets those go on who wait for an origin.
func (p *protocols) asked(origin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.asking[origin]; wait != nil {
		close(wait)
		delete(p.asking, origin)
	}
}

// learn remembers what an origin speaks. That it is HTTP/2 counts while a connection is
// open.
func (p *protocols) learn(origin string, h2 bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !h2 || p.open[origin] > 0 {
		p.learnLocked(origin, h2)
	}
}

func (p *protocols) knowsLocked(origin string) (h2, known bool) {
	if h2, known = p.recent[origin]; known {
		return h2, true
	}
	if h2, known = p.older[origin]; known {
		p.learnLocked(origin, h2)
	}
	return h2, known
}

func (p *protocols) learnLocked(origin string, h2 bool) {
	if _, known := p.recent[origin]; !known && len(p.recent) >= p.size {
		p.recent, p.older = make(map[string]bool), p.recent
	}
	p.recent[strings.Clone(origin)] = h2
}
