package http1

import (
	"cmp"
	"sync"
	"time"
)

// PoolOptions are the settings of a Pool.
type PoolOptions struct {
	// MaxIdlePerHost is how many idle connections are kept for one origin of one
	// Transport. Zero means 4.
	MaxIdlePerHost int
	// MaxIdle is how many are kept in all. Zero means 2,048.
	MaxIdle int
	// IdleTimeout is how long one is kept. Zero means 90 s.
	IdleTimeout time.Duration
	// Elsewhere is how many connections of other clients count as idle ones too. They
	// take at most half of MaxIdle. Nil means none.
	Elsewhere func() int
}

// A Pool keeps the connections that no exchange uses: at most MaxIdlePerHost of an origin
// and MaxIdle in all, none longer than IdleTimeout. The one longest unused is closed
// first. One timer, set while there are any, serves all of them.
//
// A connection is kept for the Transport that opened it, and no other gets it.
type Pool struct {
	perHost, max int
	timeout      time.Duration
	elsewhere    func() int
	memories     sync.Pool // of *Memory

	mu     sync.Mutex
	newest map[poolKey]*conn // guarded by mu; the newest connection of each key
	front  *conn             // guarded by mu; the most recently used of all
	back   *conn             // guarded by mu; the least recently used
	n      int               // guarded by mu
	timer  *time.Timer       // guarded by mu; nil until it is needed
	set    bool              // guarded by mu; the timer is set
	closed bool              // guarded by mu; nothing is kept any more
}

// A poolKey says which requests a connection can serve.
type poolKey struct {
	t      *Transport
	origin string
}

// NewPool makes an empty Pool.
func NewPool(o PoolOptions) *Pool {
	p := &Pool{perHost: o.MaxIdlePerHost, max: o.MaxIdle, timeout: o.IdleTimeout, elsewhere: o.Elsewhere,
		newest: make(map[poolKey]*conn)}
	p.perHost = cmp.Or(p.perHost, 4)
	p.max = cmp.Or(p.max, 2048)
	p.timeout = cmp.Or(p.timeout, 90*time.Second)
	if p.elsewhere == nil {
		p.elsewhere = func() int { return 0 }
	}
	return p
}

// idleLinks is a connection's place in a Pool.
type idleLinks struct {
	since         time.Time
	ahead, behind *conn // in order of use, over all origins
	older         *conn // of the same origin
	depth         int   // how many of the same origin there are from here on
}

// take returns the newest connection of a key, or nil.
func (p *Pool) take(key poolKey) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.newest[key]
	if c != nil {
		p.removeLocked(c)
	}
	return c
}

// put keeps a connection, or closes it if its origin has enough. Another one may be closed to make room for it.
func (p *Pool) put(c *conn) {
	var gone *conn // linked by older
	p.mu.Lock()
	next := p.newest[c.key]
	if p.closed || c.key.t.closed || next != nil && next.idle.depth >= p.perHost {
		gone = c
	} else {
		p.addLocked(c, next)
		limit := p.max - min(p.elsewhere(), p.max/2)
		for p.n > limit {
			last := p.back
			p.removeLocked(last)
			last.idle.older, gone = gone, last
		}
	}
	p.mu.Unlock()
	retireAll(gone)
}

func (p *Pool) addLocked(c, next *conn) {
	c.idle = idleLinks{since: time.Now(), behind: p.front, older: next, depth: 1}
	if next != nil {
		c.idle.depth += next.idle.depth
	}
	p.newest[c.key] = c
	if p.front != nil {
		p.front.idle.ahead = c
	} else {
		p.back = c
	}
	p.front = c
	p.n++
	if !p.set {
		p.set = true
		if p.timer == nil {
			p.timer = time.AfterFunc(p.timeout, p.sweep)
		} else {
			p.timer.Reset(p.timeout)
		}
	}
}

func (p *Pool) removeLocked(c *conn) {
	i := &c.idle
	if i.ahead != nil {
		i.ahead.idle.behind = i.behind
	} else {
		p.front = i.behind
	}
	if i.behind != nil {
		i.behind.idle.ahead = i.ahead
	} else {
		p.back = i.ahead
	}
	if head := p.newest[c.key]; head != c {
		for ; head != c; head = head.idle.older {
			head.idle.depth--
			if head.idle.older == c {
				head.idle.older = i.older
				break
			}
		}
	} else if i.older != nil {
		p.newest[c.key] = i.older
	} else {
		delete(p.newest, c.key)
	}
	c.idle = idleLinks{}
	p.n--
}

// sweep closes what has been idle for too long, and sets the timer for what will
// be next.
func (p *Pool) sweep() {
	var gone *conn
	p.mu.Lock()
	p.set = false
	for p.back != nil {
		last := p.back
		left := p.timeout - time.Since(last.idle.since)
		if left > 0 {
			p.set = true
			p.timer.Reset(left)
			break
		}
		p.removeLocked(last)
		last.idle.older, gone = gone, last
	}
	p.mu.Unlock()
	retireAll(gone)
}

// CloseIdle closes every connection in the pool.
func (p *Pool) CloseIdle() { p.closeAll(false) }

// Close closes every connection in the pool, and every other one when it is given back.
func (p *Pool) Close() { p.closeAll(true) }

func (p *Pool) closeAll(forever bool) {
	p.mu.Lock()
	p.closed = p.closed || forever
	gone := p.removeAllLocked(nil)
	p.mu.Unlock()
	retireAll(gone)
}

// closeOf is closeAll for the connections of one Transport.
func (p *Pool) closeOf(t *Transport, forever bool) {
	p.mu.Lock()
	t.closed = t.closed || forever
	gone := p.removeAllLocked(t)
	p.mu.Unlock()
	retireAll(gone)
}

// removeAllLocked takes out the connections of one Transport, or all of them if it is
// nil, linked by older.
func (p *Pool) removeAllLocked(t *Transport) (gone *conn) {
	for c := p.back; c != nil; {
		next := c.idle.ahead
		if t == nil || c.key.t == t {
			p.removeLocked(c)
			c.idle.older, gone = gone, c
		}
		c = next
	}
	if p.n == 0 && p.set {
		p.set = false
		p.timer.Stop()
	}
	return gone
}

// retireAll closes connections that are in no pool any more, linked by older.
func retireAll(c *conn) {
	for c != nil {
		next := c.idle.older
		c.retire()
		c = next
	}
}
