package testweb

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Refusal faults concern pages only: robots.txt and sitemaps are answered as ever
// (see Robots for refusing the former).

// OverRate refuses pages asked for faster than a rate, by a token bucket.
type OverRate struct {
	PerSecond float64 `yaml:"per_second"` // must be given
	Burst     int     `yaml:"burst"`      // size of the bucket. Zero means 1
	Answer    `yaml:",inline"`
}

// OverConcurrency refuses pages while too many requests of any kind are in flight.
type OverConcurrency struct {
	Max    int `yaml:"max"` // most in flight that are still answered; must be given
	Answer `yaml:",inline"`
}

// RefuseFirst refuses the first requests for each URL, then answers.
type RefuseFirst struct {
	Count  int `yaml:"count"` // refusals of each URL, at most 255. Zero means 1
	Answer `yaml:",inline"`
}

// RefuseBursts refuses a run of page requests every so many, by count and not by
// time: of each Every requests the last Length are refused. Up to 3 in a
// row a crawl that tries again three times loses nothing.
type RefuseBursts struct {
	Every  int              `yaml:"every"`  // Zero means 20
	Length int              `yaml:"length"` // Zero means 3
	Answer `yaml:",inline"` // whose status is 503 unless given
}

// RefuseAll refuses every page, for ever.
type RefuseAll struct {
	Answer `yaml:",inline"`
}

// Answer is how a host refuses.
type Answer struct {
	// Status is 429, 503 or 403. Zero means 429, if nothing else is said.
	Status int `yaml:"status"`
	// RetryAfter is sent in full seconds, rounded up. Zero sends none.
	RetryAfter time.Duration `yaml:"retry_after"`
	// Date writes Retry-After as a date.
	Date bool `yaml:"date"`
}

func (OverRate) Kind() string        { return "over_rate" }
func (OverConcurrency) Kind() string { return "over_concurrency" }
func (RefuseFirst) Kind() string     { return "refuse_first" }
func (RefuseBursts) Kind() string    { return "refuse_bursts" }
func (RefuseAll) Kind() string       { return "refuse_all" }

func (a Answer) status() int {
	if a.Status == 0 {
		return http.StatusTooManyRequests
	}
	return a.Status
}

func (a Answer) check() error {
	switch a.status() {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusForbidden:
	default:
		return fmt.Errorf("status %d: want 429, 503 or 403", a.Status)
	}
	if a.RetryAfter < 0 {
		return fmt.Errorf("retry_after %v: want no less than 0", a.RetryAfter)
	}
	return nil
}

// refuse answers so, and notes when the host wants to be asked again.
func (a Answer) refuse(x *exchange) {
	extra, until := a.retryAfter(time.Now())
	x.h.mu.Lock()
	x.h.counts.refuse(time.Now(), a.status(), until)
	x.h.mu.Unlock()
	x.reply(a.status(), typeText, extra, "later, please\n")
}

// retryAfter returns the header and the time it comes to.
func (a Answer) retryAfter(now time.Time) (header string, until time.Time) {
	if a.RetryAfter == 0 {
		return "", time.Time{}
	}
	secs := (a.RetryAfter + time.Second - 1) / time.Second
	if a.Date {
		// A date has no fractions: one rounded up never says too little.
		until = now.Add(secs*time.Second + time.Second - 1).Truncate(time.Second)
		return "Retry-After: " + until.UTC().Format(http.TimeFormat) + "\r\n", until
	}
	return "Retry-After: " + strconv.Itoa(int(secs)) + "\r\n", now.Add(secs * time.Second)
}

// refusedFor is the verdict on a URL that is refused until retries run out.
func (a Answer) refusedFor(Crawl) verdict {
	outcome := OutcomeHTTPError
	if a.status() == http.StatusTooManyRequests {
		outcome = OutcomeThrottled
	}
	return verdict{outcomes: []string{outcome, OutcomeHostBlocked}, status: a.status()}
}

func (f OverRate) validate(Config) error {
	if !(f.PerSecond > 0) || f.Burst < 0 {
		return errors.New("want a positive per_second and no negative burst")
	}
	return f.check()
}

func (f OverRate) install(p *plan, _ *web) {
	f.Burst = max(f.Burst, 1)
	p.gates = append(p.gates, func() gate { return &rateGate{f: f, tokens: float64(f.Burst)} })
}

type rateGate struct {
	f      OverRate
	tokens float64
	last   time.Time
}

func (g *rateGate) pass(x *exchange) (time.Duration, func(*exchange)) {
	if x.kind != kindPage {
		return 0, nil
	}
	if !g.last.IsZero() {
		g.tokens = min(float64(g.f.Burst), g.tokens+x.start.Sub(g.last).Seconds()*g.f.PerSecond)
	}
	g.last = x.start
	const rounding = 1e-9 // a client that keeps the rate to the nanosecond keeps it
	if g.tokens < 1-rounding {
		return 0, g.f.refuse
	}
	g.tokens--
	return 0, nil
}

func (f OverConcurrency) validate(Config) error {
	if f.Max < 1 {
		return fmt.Errorf("max %d: want at least 1", f.Max)
	}
	return f.check()
}

func (f OverConcurrency) install(p *plan, _ *web) {
	p.gates = append(p.gates, func() gate { return concurrencyGate{f} })
}

type concurrencyGate struct{ f OverConcurrency }

func (g concurrencyGate) pass(x *exchange) (time.Duration, func(*exchange)) {
	if x.kind == kindPage && x.h.inflight > g.f.Max {
		return 0, g.f.refuse
	}
	return 0, nil
}

func (f RefuseFirst) validate(Config) error {
	if f.Count < 0 || f.Count > 255 {
		return fmt.Errorf("count %d: want 0 to 255", f.Count)
	}
	return f.check()
}

func (f RefuseFirst) install(p *plan, _ *web) {
	f.Count = max(f.Count, 1)
	p.gates = append(p.gates, func() gate { return &firstGate{f: f} })
	p.outlasts = func(c Crawl) *verdict {
		if f.Count <= c.MaxRetries {
			return nil
		}
		v := f.refusedFor(c)
		return &v
	}
}

type firstGate struct {
	f     RefuseFirst
	times []uint8 // by node
}

func (g *firstGate) pass(x *exchange) (time.Duration, func(*exchange)) {
	if x.kind != kindPage || x.node < 0 {
		return 0, nil
	}
	if g.times == nil {
		g.times = make([]uint8, x.s.web.nodes(x.h.id))
	}
	if n := &g.times[x.node]; int(*n) < g.f.Count {
		*n++
		return 0, g.f.refuse
	}
	return 0, nil
}

func (f RefuseBursts) validate(Config) error {
	if f.Every < 0 || f.Length < 0 || f.Every > 0 && f.Length > f.Every {
		return fmt.Errorf("every %d, length %d: want length within every", f.Every, f.Length)
	}
	return f.check()
}

func (f RefuseBursts) install(p *plan, _ *web) {
	f.Every = cmp.Or(f.Every, 20)
	f.Length = cmp.Or(f.Length, min(3, f.Every))
	f.Status = cmp.Or(f.Status, http.StatusServiceUnavailable)
	p.gates = append(p.gates, func() gate { return &burstGate{f: f} })
}

type burstGate struct {
	f RefuseBursts
	n int
}

func (g *burstGate) pass(x *exchange) (time.Duration, func(*exchange)) {
	if x.kind != kindPage {
		return 0, nil
	}
	at := g.n % g.f.Every
	g.n++
	if at >= g.f.Every-g.f.Length {
		return 0, g.f.refuse
	}
	return 0, nil
}

func (f RefuseAll) validate(Config) error { return f.check() }

func (f RefuseAll) install(p *plan, _ *web) {
	p.same = &sameAnswer{answer: f.refuse, verdict: f.refusedFor}
}
