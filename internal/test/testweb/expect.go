package testweb

import (
	"cmp"
	"fmt"
	"iter"
	"time"
)

// Crawl says how a crawl was run, as far as that changes what it must report. The
// zero value is a crawl from all start URLs with Mapwright's defaults.
type Crawl struct {
	// Starts are the start URLs, which must be URLs of this web in canonical form.
	// None means all of Server.StartURLs.
	Starts []string
	// Scope is host, domain, subdomains, prefix or any. Empty means domain.
	Scope string
	// NoSitemaps is for a crawl that was not seeded by the sitemaps of its start
	// hosts.
	NoSitemaps bool
	// MaxDepth is the most links from a start page to a URL. Zero means no limit.
	// It is only exact without sitemaps.
	MaxDepth int

	FollowNofollow bool
	IgnoreRobots   bool
	RobotsStrict   bool // robots.txt that cannot be had disallows everything

	Timeout   time.Duration // for one fetch. Zero means 20 s
	BodyLimit int64         // after decompression. Zero means 10 MiB
	// MaxRetries is how often a refused URL is tried again. Zero means 3.
	MaxRetries int
	// MaxRedirects is how many redirects in a row are followed. Zero means 10.
	MaxRedirects int
}

func (c Crawl) withDefaults(s *Server) Crawl {
	if len(c.Starts) == 0 {
		c.Starts = s.StartURLs()
	}
	c.Scope = cmp.Or(c.Scope, "domain")
	c.Timeout = cmp.Or(c.Timeout, 20*time.Second)
	c.BodyLimit = cmp.Or(c.BodyLimit, 10<<20)
	c.MaxRetries = cmp.Or(c.MaxRetries, 3)
	c.MaxRedirects = cmp.Or(c.MaxRedirects, 10)
	c.NoSitemaps = c.NoSitemaps || s.web.cfg.Sitemaps == nil
	return c
}

// Expectation is what a correct crawl reports of one URL.
type Expectation struct {
	URL      string   `json:"url"`                // canonical
	Outcomes []string `json:"outcomes"`           // any of them is right
	Status   int      `json:"status,omitempty"`   // 0 if any or none is right
	Location string   `json:"location,omitempty"` // where it redirects to
	Title    string   `json:"title,omitempty"`
	Depth    int      `json:"depth"` // links from the nearest start page; redirects do not count
	// Indexable is whether it belongs into an XML sitemap, if its outcome is ok.
	Indexable bool `json:"indexable"`
}

// Trap is an endless family of URLs. How many of them a crawl reports, and as
// what, is its own affair: Expected lists none.
type Trap struct {
	Kind   string `json:"kind"`
	Prefix string `json:"prefix"` // of all its URLs
}

// Traps returns the traps of all hosts.
func (s *Server) Traps() []Trap {
	var list []Trap
	for h, p := range s.web.plans {
		for _, t := range p.traps {
			list = append(list, Trap{t.kind, string(s.web.appendOrigin(nil, h)) + t.prefix})
		}
	}
	return list
}

// Expected returns the exact set of URLs that a correct first crawl of the web in its present generation reports, each
// once, but for those inside traps. Nothing is kept of what was yielded but a bit for each URL, so that it works for
// millions.
func (s *Server) Expected(c Crawl) (iter.Seq[Expectation], error) {
	c = c.withDefaults(s)
	wk, err := newWalk(s.web, c, s.generation.Load())
	if err != nil {
		return nil, fmt.Errorf("expect crawl: %w", err)
	}
	return wk.expectations, nil
}
