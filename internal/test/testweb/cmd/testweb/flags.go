package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

type options struct {
	config testweb.Config
	keep   bool
}

// parse reads the flags. A config file is read first and flags change what it says,
// whatever their order.
func parse(args []string, stderr io.Writer) (options, error) {
	o := options{config: testweb.Config{AdminAddr: "127.0.0.1:0", Grace: 100 * time.Millisecond}}
	base := flag.NewFlagSet("testweb", flag.ContinueOnError)
	var file string
	var demo bool
	register(base, &options{}, &file, &demo)
	base.SetOutput(stderr)
	base.Usage = func() {
		fmt.Fprintf(stderr, "Usage: testweb [flags]\n\nFlags:\n")
		base.PrintDefaults()
		fmt.Fprintf(stderr, "\nFaults: %s\n", strings.Join(testweb.Kinds(), ", "))
	}
	if err := base.Parse(args); err != nil {
		return o, err
	}
	if base.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", base.Arg(0))
	}
	if demo {
		addr, grace := o.config.AdminAddr, o.config.Grace
		o.config = testweb.DemoConfig()
		o.config.AdminAddr, o.config.Grace = addr, grace
	}
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return o, err
		}
		defer f.Close()
		c, err := testweb.ReadConfig(f)
		if err != nil {
			return o, fmt.Errorf("%s: %w", file, err)
		}
		c.AdminAddr = cmp.Or(c.AdminAddr, o.config.AdminAddr)
		o.config = c
	}
	again := flag.NewFlagSet("testweb", flag.ContinueOnError)
	again.SetOutput(io.Discard)
	register(again, &o, &file, &demo)
	return o, again.Parse(args)
}

// register binds flags to options, with what these hold as the defaults.
func register(fs *flag.FlagSet, o *options, file *string, demo *bool) {
	c := &o.config
	fs.StringVar(file, "config", "", "read the config from a JSON or YAML `file`; flags change what it says")
	fs.BoolVar(demo, "demo", false, "serve the demo site")
	fs.BoolVar(&o.keep, "keep", false, "go on when standard input is closed")
	fs.Uint64Var(&c.Seed, "seed", c.Seed, "decides every page and link")
	fs.IntVar(&c.Hosts, "hosts", c.Hosts, "number of hosts (0: 1)")
	fs.StringVar(&c.HostName, "host-name", c.HostName, "their names; %d is the number (empty: h%d.test)")
	fs.IntVar(&c.Pages, "pages", c.Pages, "pages of each host (0: 10)")
	fs.IntVar(&c.PageSize, "page-size", c.PageSize, "bytes of a page (0: 10240)")
	fs.IntVar(&c.Links, "links", c.Links, "links on a page (0: 30)")
	fs.BoolVar(&c.Numbers, "numbers", c.Numbers, "make every third word of the text a number")
	fs.Float64Var(&c.CrossHost, "cross-host", c.CrossHost, "share of links that lead to other hosts, 0 to 1")
	fs.BoolVar(&c.TLS, "tls", c.TLS, "serve https")
	fs.BoolVar(&c.ExplicitPort, "explicit-port", c.ExplicitPort, "write the port into every URL")
	fs.StringVar(&c.Addr, "addr", c.Addr, "where to listen (empty: 127.0.0.1:0)")
	fs.StringVar(&c.AdminAddr, "admin-addr", c.AdminAddr, "where to serve statistics and expectation (empty: nowhere)")
	fs.DurationVar(&c.Grace, "grace", c.Grace, "how long after a refusal a request may still arrive")
	fs.BoolVar(&c.Log, "log", c.Log, "keep every request")
	fs.IntVar(&c.Generation, "generation", c.Generation,
		"generation that the web starts with; POST /generation?n=1 of the admin changes it")
	fs.Func("changes", "make pages change: `'sometimes=0.5 rate=0.01 vanish=0.1'`", func(s string) (err error) {
		c.Changes, err = testweb.ParseChanges(s)
		return err
	})
	fs.Func("fault", "add a fault: `'kind=hang hosts=3-5 count=2 for=100ms'` (repeatable)", func(s string) error {
		f, err := testweb.ParseFault(s)
		if err == nil {
			c.Faults = append(c.Faults, f)
		}
		return err
	})

	// Any of the sitemap flags makes sitemaps.
	maps := func() *testweb.Sitemaps {
		if c.Sitemaps == nil {
			c.Sitemaps = new(testweb.Sitemaps)
		}
		return c.Sitemaps
	}
	number := func(set func(int)) func(string) error {
		return func(s string) error {
			var n int
			if _, err := fmt.Sscanf(s, "%d", &n); err != nil {
				return err
			}
			set(n)
			return nil
		}
	}
	fs.BoolFunc("sitemaps", "give every host a sitemap", func(string) error { maps(); return nil })
	fs.BoolFunc("sitemap-gzip", "gzip it, behind an index", func(string) error { maps().Gzip = true; return nil })
	fs.BoolFunc("sitemap-unlisted", "leave it out of robots.txt",
		func(string) error { maps().Unlisted = true; return nil })
	fs.Func("sitemap-orphans", "`number` of pages on each host that only the sitemap names",
		number(func(n int) { maps().Orphans = n }))
	fs.Func("sitemap-last-mod", "what it says of when pages changed: `all`, none or stuck (else the truth)",
		func(s string) error {
			maps().LastMod = s
			return nil
		})
	fs.Func("sitemap-last-mod-from", "`generation` from which on it says so",
		number(func(n int) { maps().LastModFrom = n }))
	fs.Func("sitemap-per-file", "most URLs in one file (`number`; 0: 10000)",
		number(func(n int) { maps().PerFile = n }))
}
