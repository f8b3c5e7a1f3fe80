package testweb

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// StatusPages adds URLs that answer with an error: broken links (404, the
// default), forbidden pages (403), failing ones (500). As long as fewer than five 403 or
// ten 5xx come together, they are facts about pages and not about the host.
type StatusPages struct {
	Where  `yaml:",inline"`
	Status int `yaml:"status"` // 400 to 599. Zero means 404
	// RetryAfter goes with it, in full seconds, rounded up. Zero sends none.
	RetryAfter time.Duration `yaml:"retry_after"`
}

// StaleConns closes the connection instead of answering, on every so manieth page
// request that comes over a connection used before: what a keep-alive that ran out
// at the wrong moment looks like. A client is right to send it again.
type StaleConns struct {
	Every int `yaml:"every"` // Zero means 5
}

// NoKeepAlive closes the connection after each answer, and says so.
type NoKeepAlive struct{}

func (StatusPages) Kind() string { return "status" }
func (StaleConns) Kind() string  { return "stale_conns" }
func (NoKeepAlive) Kind() string { return "no_keepalive" }

func (f StatusPages) validate(Config) error {
	if f.Status != 0 && (f.Status < 400 || f.Status > 599) {
		return fmt.Errorf("status %d: want 400 to 599", f.Status)
	}
	return f.check(int64(f.RetryAfter))
}

func (f StatusPages) install(p *plan, _ *web) {
	f.Status = cmp.Or(f.Status, http.StatusNotFound)
	a := Answer{Status: f.Status, RetryAfter: f.RetryAfter}
	refuses := f.Status == http.StatusTooManyRequests || f.Status == http.StatusServiceUnavailable || f.RetryAfter > 0
	f.spread(p, "status-"+strconv.Itoa(f.Status), func(x *exchange) {
		if refuses {
			a.refuse(x)
			return
		}
		x.reply(f.Status, typeHTML, "", simplePage(http.StatusText(f.Status), ""))
	}, func(c Crawl) verdict {
		v := a.refusedFor(c)
		if !f.All {
			v.outcomes = v.outcomes[:1]
		}
		return v
	})
}

func (f StaleConns) validate(Config) error { return notNegative("every", f.Every) }

func (f StaleConns) install(p *plan, _ *web) {
	f.Every = cmp.Or(f.Every, 5)
	p.gates = append(p.gates, func() gate { return &staleGate{f: f} })
}

type staleGate struct {
	f StaleConns
	n int
}

func (g *staleGate) pass(x *exchange) (time.Duration, func(*exchange)) {
	if x.kind != kindPage || x.c.served == 0 {
		return 0, nil
	}
	if g.n++; g.n%g.f.Every != 0 {
		return 0, nil
	}
	return 0, func(x *exchange) { x.c.done = true }
}

func (NoKeepAlive) validate(Config) error { return nil }

func (NoKeepAlive) install(p *plan, _ *web) { p.closeAlways = true }
