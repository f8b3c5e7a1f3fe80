package fetch

import (
	"context"
	"strings"
	"sync"
)

// protocols remembers which https origins speak HTTP/2, at least size of them, those
// last asked for. To forget one costs a handshake only if it has a connection open.
//
// Of an origin that nobody knows one handshake is made first, and other requests
// wait for what it brings: if that is HTTP/2 they need no connection of their own.
type protocols struct {
	size int

	mu     sync.Mutex
	recent map[string]bool          // guarded by mu; whether an origin speaks HTTP/2
	older  map[string]bool          // guarded by mu; the generation before
	asking map[string]chan struct{} // guarded by mu; closed when it is known, or was not to be had
}

func newProtocols(size int) *protocols {
	return &protocols{size: size, recent: make(map[string]bool), asking: make(map[string]chan struct{})}
}

// ask reports whether an origin speaks HTTP/2, waiting for whoever is finding out.
// If nobody is, it is the caller who must, and call asked at the end. One who has
// waited in vain connects by himself.
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

func (p *protocols) learn(origin string, h2 bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnLocked(origin, h2)
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
