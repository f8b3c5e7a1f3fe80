package fetch

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A moment is a time since the start of a call, or unset.
type moment struct{ v atomic.Int64 }

func (m *moment) set(d time.Duration) { m.v.Store(int64(d) + 1) }
func (m *moment) clear()              { m.v.Store(0) }

func (m *moment) get() (time.Duration, bool) {
	v := m.v.Load()
	return time.Duration(v - 1), v > 0
}

// alarms keeps timers, which are cheaper to set again than to make. The zero value is
// ready.
type alarms struct{ pool sync.Pool }

func (p *alarms) get() *alarm {
	if a, ok := p.pool.Get().(*alarm); ok {
		return a
	}
	a := &alarm{home: p}
	a.timer = time.AfterFunc(math.MaxInt64, a.ring)
	return a
}

// An alarm is the timer of a call. It may go off for the call before, if that one ends at the same moment. This does no
// harm, because tick reads the clock.
type alarm struct {
	home  *alarms
	timer *time.Timer
	call  atomic.Pointer[call]
}

func (a *alarm) set(c *call, d time.Duration) {
	a.call.Store(c)
	a.timer.Reset(d)
}

func (a *alarm) ring() {
	if c := a.call.Load(); c != nil {
		c.tick()
	}
}

// stop gives the alarm back. The call must be marked as ended before.
func (a *alarm) stop() {
	a.timer.Stop()
	a.call.Store(nil)
	a.home.pool.Put(a)
}

// rateWindow is over how long the rate of a body is measured.
const rateWindow = 5 * time.Second

// tick ends the call if a time-out is due and otherwise sleeps until one may be.
func (c *call) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	now := time.Since(c.start)
	next := c.timeout + c.pausedLocked()
	if now >= next {
		c.cancelLocked(&timeoutError{"no end within " + c.timeout.String()})
		return
	}
	wrote, isWritten := c.wrote.get()
	_, isAnswered := c.firstByte.get()
	switch {
	case c.inBody.Load():
		if c.minRate > 0 && now >= c.window && c.tooSlowLocked(now) {
			c.cancelLocked(&timeoutError{"body too slow"})
			return
		}
		if c.minRate > 0 {
			next = min(next, c.window)
		}
	case isWritten && !isAnswered:
		due := wrote + c.headers
		if now >= due {
			c.cancelLocked(&timeoutError{"no headers within " + c.headers.String()})
			return
		}
		next = min(next, due)
	default:
		next = min(next, now+min(c.headers, rateWindow))
	}
	c.alarm.timer.Reset(next - now)
}

// tooSlowLocked measures the body since the last look, over the time spent waiting for
// it: a caller that reads a stream slowly must not make the host look slow. It opens the
// next window.
func (c *call) tooSlowLocked(now time.Duration) bool {
	bytes, busy := c.bytes.Load(), time.Duration(c.busy.Load())
	if since, reading := c.readSince.get(); reading {
		busy += now - since
	}
	c.window = now + rateWindow
	waited := busy - c.lastBusy
	if waited < rateWindow {
		// Look again when a whole window of waiting can have passed.
		c.window = now + rateWindow - waited
		return false
	}
	slow := float64(bytes-c.lastRead) < float64(c.minRate)*waited.Seconds()
	c.lastRead, c.lastBusy = bytes, busy
	return slow
}

// Timings are how long the parts of a request took. Those of a connection that
// was there already are zero.
type Timings struct {
	DNS, Connect, TLS time.Duration
	// Wait is from the request's last write to the response's first byte: how long
	// the server took.
	Wait time.Duration
	// Total is from the call of Do to the end of the body, without the wait for a turn to compute.
	Total time.Duration
}

func (c *call) timings() Timings {
	c.mu.Lock()
	t := Timings{Total: time.Since(c.start) - c.pausedLocked()}
	c.mu.Unlock()
	if !c.reused.Load() {
		t.DNS, t.Connect, t.TLS = time.Duration(c.dns.Load()), time.Duration(c.connect.Load()),
			time.Duration(c.tls.Load())
	}
	first, answered := c.firstByte.get()
	if wrote, ok := c.wrote.get(); ok && answered && first > wrote {
		t.Wait = first - wrote
	}
	return t
}
