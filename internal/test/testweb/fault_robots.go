package testweb

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// CrawlDelay asks for a delay between requests.
type CrawlDelay struct {
	Delay time.Duration `yaml:"delay"` // Zero means 1 s
}

// Disallow adds pages that robots.txt disallows, by prefix and by wildcard, and next to
// them pages that it allows: by a longer Allow, by letter case, beyond a $.
type Disallow struct {
	Count int `yaml:"count"` // pages below the disallowed prefix. Zero means 3
	// Agent is the product token the rules are for; every other crawler is
	// disallowed everything. Empty means the rules are for all.
	Agent string `yaml:"agent"`
}

// Robots makes robots.txt itself hard to get. Without any field it is not there.
type Robots struct {
	// Status is answered instead. Zero means 404, unless another field is set.
	Status int `yaml:"status"`
	// RetryAfter goes with Status, in full seconds, rounded up.
	RetryAfter time.Duration `yaml:"retry_after"`
	// Hang does not answer at all.
	Hang bool `yaml:"hang"`
	// Size pads robots.txt to so many bytes and ends it with a rule that a client that
	// stops reading at 500 KiB does not see.
	Size int `yaml:"size"`
	// Redirects is how many redirects, at most 5, lead to it.
	Redirects int `yaml:"redirects"`
}

// robotsLimit is how much of a robots.txt is read by those who keep to RFC 9309.
const robotsLimit = 500 << 10

func (CrawlDelay) Kind() string { return "crawl_delay" }
func (Disallow) Kind() string   { return "disallow" }
func (Robots) Kind() string     { return "robots" }

// robotsPlan is what a host's robots.txt is like.
type robotsPlan struct {
	Robots
	delay time.Duration
	rules bool
	agent string
}

// readable reports whether a client gets to read the rules.
func (r robotsPlan) readable() bool {
	return r.Status == 0 && !r.Hang
}

// unreachable reports whether robots.txt can not be had, as RFC 9309 means it.
func (r robotsPlan) unreachable() bool {
	return r.Hang || r.Status >= 500 || r.Status == http.StatusTooManyRequests
}

func (f CrawlDelay) validate(Config) error { return notNegative("delay", f.Delay) }

func (f CrawlDelay) install(p *plan, _ *web) {
	f.Delay = cmp.Or(f.Delay, time.Second)
	p.robots.delay = f.Delay
}

func (f Disallow) validate(Config) error { return notNegative("count", f.Count) }

func (f Disallow) install(p *plan, _ *web) {
	f.Count = cmp.Or(f.Count, 3)
	p.robots.rules, p.robots.agent = true, f.Agent
	private := func(uri string) {
		l := pageLeaf(uri, "Private").linked()
		l.private = true
		p.add(l)
	}
	for i := range f.Count {
		private("/private/" + strconv.Itoa(i))
	}
	private("/report.cgi")
	p.add(
		pageLeaf("/private/open/0", "Open").linked(),
		pageLeaf("/Private/0", "Another case").linked(),
		pageLeaf("/report.cgi?full=1", "Beyond the end").linked(),
	)
}

func (f Robots) validate(Config) error {
	var errs []error
	if f.Status != 0 && (f.Status < 400 || f.Status > 599) {
		errs = append(errs, fmt.Errorf("status %d: want 400 to 599", f.Status))
	}
	if f.RetryAfter > 0 && f.Status == 0 {
		errs = append(errs, errors.New("want a status with retry_after"))
	}
	if f.Redirects < 0 || f.Redirects > 5 {
		errs = append(errs, fmt.Errorf("redirects %d: want 0 to 5", f.Redirects))
	}
	if f.Size < 0 || f.RetryAfter < 0 {
		errs = append(errs, errors.New("want no negative size or retry_after"))
	}
	return errors.Join(errs...)
}

func (f Robots) install(p *plan, _ *web) {
	if f == (Robots{}) {
		f.Status = http.StatusNotFound
	}
	p.robots.Robots = f
	if f.Size > 0 {
		l := pageLeaf("/late/0", "Past the limit").linked()
		l.private = f.Size <= robotsLimit
		p.add(l)
	}
}
