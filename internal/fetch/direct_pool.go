package fetch

import (
	"sync"
	"sync/atomic"
	"time"
)

// An idlePool keeps the connections that nobody uses: at most perHost of an origin
// and max in all, none longer than timeout. The one longest unused goes first. One
// timer, set while there are any, looks after the time.
type idlePool struct {
	perHost, max int
	timeout      time.Duration
	handed       *atomic.Int64 // connections that net/http has; it may keep half of max

	mu     sync.Mutex
	newest map[string]*directConn // guarded by mu; of each origin
	front  *directConn            // guarded by mu; the most recently used of all
	back   *directConn            // guarded by mu; the least recently used
	n      int                    // guarded by mu
	timer  *time.Timer            // guarded by mu; nil until it is needed
	set    bool                   // guarded by mu; the timer is
	closed bool                   // guarded by mu; nothing is kept any more
}

// idleLinks is a connection's place in an idlePool.
type idleLinks struct {
	since         time.Time
	ahead, behind *directConn // in order of use, over all origins
	older         *directConn // of the same origin
	depth         int         // how many of the same origin there are from here on
}

func newIdlePool(o Options, handed *atomic.Int64) *idlePool {
	return &idlePool{perHost: o.MaxIdlePerHost, max: o.MaxIdle, timeout: o.IdleTimeout, handed: handed, newest: make(map[string]*directConn)}
}

// take returns the newest connection of an origin, or nil.
func (p *idlePool) take(origin string) *directConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.newest[origin]
	if c != nil {
		p.removeLocked(c)
	}
	return c
}

// put keeps a connection, or closes it if its origin has enough. Another one may
// have to go for it.
func (p *idlePool) put(c *directConn) {
	var gone *directConn // by way of older
	p.mu.Lock()
	next := p.newest[c.origin]
	if p.closed || next != nil && next.idle.depth >= p.perHost {
		gone = c
	} else {
		p.addLocked(c, next)
		limit := p.max - min(int(p.handed.Load()), p.max/2)
		for p.n > limit {
			last := p.back
			p.removeLocked(last)
			last.idle.older, gone = gone, last
		}
	}
	p.mu.Unlock()
	retireAll(gone)
}

func (p *idlePool) addLocked(c, next *directConn) {
	c.idle = idleLinks{since: time.Now(), behind: p.front, older: next, depth: 1}
	if next != nil {
		c.idle.depth += next.idle.depth
	}
	p.newest[c.origin] = c
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

func (p *idlePool) removeLocked(c *directConn) {
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
	if head := p.newest[c.origin]; head != c {
		for ; head != c; head = head.idle.older {
			head.idle.depth--
			if head.idle.older == c {
				head.idle.older = i.older
				break
			}
		}
	} else if i.older != nil {
		p.newest[c.origin] = i.older
	} else {
		delete(p.newest, c.origin)
	}
	c.idle = idleLinks{}
	p.n--
}

// sweep closes what has been idle for too long, and sets the timer for what will
// be next.
func (p *idlePool) sweep() {
	var gone *directConn
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

// closeAll closes every connection, and for ever those that come back later.
func (p *idlePool) closeAll(forever bool) {
	var gone *directConn
	p.mu.Lock()
	p.closed = p.closed || forever
	for p.back != nil {
		last := p.back
		p.removeLocked(last)
		last.idle.older, gone = gone, last
	}
	if p.set {
		p.set = false
		p.timer.Stop()
	}
	p.mu.Unlock()
	retireAll(gone)
}

// retireAll closes connections that are in no pool any more, one older than the
// other.
func retireAll(c *directConn) {
	for c != nil {
		next := c.idle.older
		c.retire()
		c = next
	}
}
