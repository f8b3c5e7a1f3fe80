package testweb

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config says what a web looks like. Two servers with equal configs serve the same
// bytes, but for dates, session identifiers and explicit ports.
type Config struct {
	// Seed decides every page and link. Zero is a seed like any other.
	Seed uint64 `yaml:"seed"`

	// Hosts is how many hosts there are. Zero means 1.
	Hosts int `yaml:"hosts"`

	// HostName names them; %d stands for the host's number and may be missing if
	// there is only one host. Empty means "h%d.test", which gives each host a
	// registrable domain of its own; "h%d.example.test" makes them subdomains of one.
	HostName string `yaml:"host_name"`

	// Pages is the number of pages of each host, "/" among them; URLs that faults and
	// sitemaps add are not counted. Zero means 10.
	Pages int `yaml:"pages"`

	// PageSize is the size of a page's body in bytes, met exactly unless the
	// links alone need more. Zero means 10,240.
	PageSize int `yaml:"page_size"`

	// Links is the number of links to pages on each page; fragments, mailto and
	// the like, and links to what faults add, come on top. Zero means 30.
	Links int `yaml:"links"`

	// Numbers makes every third word of the text a number: whole, of one to six digits, or a price.
	Numbers bool `yaml:"numbers"`

	// CrossHost is the share, 0 to 1, of links beyond the tree's that lead to
	// other hosts. Zero means none.
	CrossHost float64 `yaml:"cross_host"`

	// Sitemaps, if not nil, gives every host sitemaps.
	Sitemaps *Sitemaps `yaml:"sitemaps"`

	// Changes, if not nil, makes pages change when Server.SetGeneration moves the web on.
	Changes *Changes `yaml:"changes"`

	// Generation is the generation that the web starts with.
	Generation int `yaml:"generation"`

	// Faults are what is wrong, and with which hosts. Where two concern one host, both
	// hold; of two that decide about all its pages, or its robots.txt, the later one wins.
	// Two that add the same URLs are refused: a larger count says the same.
	Faults []HostFault `yaml:"faults"`

	// TLS makes every URL https, under a certificate authority made at start (see
	// Server.Authority). The listener then tells TLS and plain HTTP apart by
	// their first byte, and redirects plain requests.
	TLS bool `yaml:"tls"`

	// ExplicitPort writes the listener's port into every URL, for clients that
	// cannot be told to connect elsewhere.
	ExplicitPort bool `yaml:"explicit_port"`

	// Addr is where to listen. Empty means "127.0.0.1:0".
	Addr string `yaml:"addr"`

	// AdminAddr is where statistics and expectation are served as JSON. Empty means
	// nowhere.
	AdminAddr string `yaml:"admin_addr"`

	// Grace is how long after a refusal a request may still arrive that was on the
	// wire already, and so does not count as too early. Zero means none: right for
	// a client with one request at a time, or in a bubble with none at the same instant.
	Grace time.Duration `yaml:"grace"`

	// Log keeps every request for Server.Log. It takes memory without bound.
	Log bool `yaml:"log"`
}

// Sitemaps gives each host a sitemap at /sitemap.xml that lists all its pages,
// the root included, and orphans.
type Sitemaps struct {
	// Orphans is the number of pages on each host that only the sitemap names.
	Orphans int `yaml:"orphans"`

	// PerFile is the most URLs in one file; with more, /sitemap.xml is an index.
	// Zero means 10,000.
	PerFile int `yaml:"per_file"`

	// Gzip serves the files of an index gzipped; there is then always an index.
	Gzip bool `yaml:"gzip"`

	// LastMod is what the sitemap says of when pages changed: the truth if it is empty, "all" that every page changed
	// in the present generation, "none" nothing, "stuck" that no page changed since generation 0.
	LastMod string `yaml:"last_mod"`

	// LastModFrom is the generation from which on LastMod holds; before it, the truth is said.
	LastModFrom int `yaml:"last_mod_from"`

	// Unlisted leaves the sitemap out of robots.txt: it is then only found by
	// those who look in the usual place.
	Unlisted bool `yaml:"unlisted"`
}

// withDefaults returns the config with every zero that means something else
// replaced by what it means.
func (c Config) withDefaults() Config {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.Hosts, 1)
	def(&c.Pages, 10)
	def(&c.PageSize, 10<<10)
	def(&c.Links, 30)
	c.HostName = cmp.Or(c.HostName, "h%d.test")
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:0")
	if c.Sitemaps != nil {
		s := *c.Sitemaps
		def(&s.PerFile, 10_000)
		c.Sitemaps = &s
	}
	return c
}

// maxNodes keeps a node's number within 32 bits, as the expectation's walk
// stores it.
const maxNodes = 1<<31 - 1

// validate reports every fault of a config that has its defaults.
func (c Config) validate() error {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Hosts < 1 || c.Hosts > maxNodes, "hosts %d: want at least 1", c.Hosts)
	bad(c.Pages < 1 || c.Pages > maxNodes/2, "pages %d: want 1 to %d", c.Pages, maxNodes/2)
	bad(c.PageSize < 0, "page_size %d: want no less than 0", c.PageSize)
	bad(c.Links < 1, "links %d: want at least 1", c.Links)
	bad(!(c.CrossHost >= 0 && c.CrossHost <= 1), "cross_host %v: want 0 to 1", c.CrossHost)
	bad(c.Grace < 0, "grace %v: want no less than 0", c.Grace)
	if s := c.Sitemaps; s != nil {
		bad(s.Orphans < 0 || s.Orphans > maxNodes/2, "sitemaps: orphans %d: want 0 to %d", s.Orphans, maxNodes/2)
		bad(!slices.Contains([]string{"", "all", "none", "stuck"}, s.LastMod),
			"sitemaps: last_mod %q: want all, none or stuck", s.LastMod)
		bad(s.PerFile < 1 || s.PerFile > 50_000, "sitemaps: per_file %d: want 1 to 50000", s.PerFile)
	}
	bad(c.Generation < 0 || c.Generation > maxGeneration, "generation %d: want 0 to %d", c.Generation, maxGeneration)
	if c.Changes != nil {
		errs = append(errs, c.Changes.validate(c.Pages+c.orphans())...)
	}
	if _, err := newNaming(c.HostName, c.Hosts); err != nil {
		errs = append(errs, err)
	}
	for i, f := range c.Faults {
		if err := f.validate(c); err != nil {
			errs = append(errs, fmt.Errorf("fault %d: %w", i, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("bad config: %w", err)
	}
	return nil
}

func (c Config) orphans() int {
	if c.Sitemaps == nil {
		return 0
	}
	return c.Sitemaps.Orphans
}
