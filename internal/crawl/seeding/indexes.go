package seeding

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/gate"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/state"
)

// IndexOptions are the settings and the parts by which public indexes are asked.
type IndexOptions struct {
	Starts []datadir.Start
	Scope  *scope.Scope
	Hasher weburl.Hasher
	Params *weburl.Params // removed from the URLs
	Store  *state.Store   // remembers which indexes were asked
	Gate   *gate.Party
	// Hold keeps the crawl from being drained until it is released.
	Hold func() (release func())
	// Add adds pages to the frontier, and returns how many of them were new.
	Add func(ctx context.Context, links []frontier.Link) (added int, err error)
	// Warn adds a line to the report's warnings.
	Warn func(format string, args ...any)
	Log  *slog.Logger
}

// Indexes are the public indexes that are asked for more URLs of the start domains, beside the crawl.
type Indexes struct {
	list []index
	o    IndexOptions // set by Start
	cut  atomic.Bool  // an index was not asked to its end, because the context of Start ended
}

// An index is one public index.
type index struct {
	name  string // as in settings, reports and sitemap.jsonl
	code  uint8  // of its links
	urls  findURLs
	close func()
}

// findURLs hands over the URLs of a domain that an index knows.
type findURLs func(ctx context.Context, domain string, sink sinkFunc) (summary, error)

// factSeeded, followed by an index and a domain, is the name of the fact that the index was asked about the domain. It
// is in the partition of the domain. Its value is the edition in which the rules had last become wider when the first
// URL was judged; earlier versions wrote a word, which counts as 0.
const factSeeded = "seed "

// NewIndexes makes the indexes that the settings name. Nothing is asked yet. Fetcher makes the client that asks the
// index at base, and returns what closes the client. Usual is the default address of that index.
func NewIndexes(s *config.Settings, fetcher func(base, usual string) (fetch.Fetcher, func(), error)) (*Indexes, error) {
	x := &Indexes{}
	usual := config.Defaults(s.Profile)
	for _, i := range []struct {
		code        uint8
		base, usual string // its address, of the setting NAME-base-url
		open        func(base string, f fetch.Fetcher) (findURLs, error)
	}{
		{page.SourceCT, s.CTBaseURL, usual.CTBaseURL, func(base string, f fetch.Fetcher) (findURLs, error) {
			hosts, err := newNames(s)
			if err != nil {
				return nil, err
			}
			ct, err := newCTLog(base, hosts, f)
			return ct.URLs, err
		}},
		{page.SourceCommonCrawl, s.CommonCrawlBaseURL, usual.CommonCrawlBaseURL,
			func(base string, f fetch.Fetcher) (findURLs, error) {
				cc, err := newCommonCrawl(base, f)
				return cc.URLs, err
			}},
	} {
		name := page.SourceName(i.code)
		if !s.Seeds(name) {
			continue
		}
		f, stop, err := fetcher(i.base, i.usual)
		if err != nil {
			return nil, fmt.Errorf("%s-base-url: %w", name, err)
		}
		urls, err := i.open(i.base, f)
		if err != nil {
			return nil, fmt.Errorf("%s-base-url: %w", name, err)
		}
		x.list = append(x.list, index{name, i.code, urls, stop})
	}
	return x, nil
}

// Start asks every index about every start domain, unless it was asked by rules as wide as those of now. Each index has
// a goroutine of its own. The crawl is not drained before they are done; they end early when ctx does. The returned
// function waits for them, which comes before another call.
func (x *Indexes) Start(ctx context.Context, o IndexOptions) (wait func()) {
	x.o = o
	domains := seedDomains(x.o.Starts)
	var running sync.WaitGroup
	for _, s := range x.list {
		release := x.o.Hold()
		running.Go(func() {
			defer release()
			for _, domain := range domains {
				if _, edition, asked := x.asked(&s, domain); asked && edition >= x.widened() {
					continue
				}
				if x.o.Gate.EnterIndex(ctx) != nil {
					x.cut.Store(true)
					return
				}
				x.ask(ctx, &s, domain)
				x.o.Gate.LeaveIndex()
			}
		})
	}
	return running.Wait
}

// IsCut reports whether the indexes may know more than they were asked for, because the context of Start ended.
func (x *Indexes) IsCut() bool { return x.cut.Load() }

// Close closes the clients of the indexes. It comes after the last Start and its wait.
func (x *Indexes) Close() {
	for _, s := range x.list {
		s.close()
	}
}

// asked tells whether an index was asked about a domain, and in which edition the rules had last become wider then.
// Fact is the name of the fact that says so.
func (x *Indexes) asked(s *index, domain string) (fact string, edition uint64, asked bool) {
	fact = factSeeded + s.name + " " + domain
	value, asked := x.o.Store.Facts()[fact]
	edition, _ = strconv.ParseUint(string(value), 10, 64)
	return fact, edition, asked
}

// widened is the edition in which the rules last became wider.
func (x *Indexes) widened() uint64 { return x.o.Scope.History().Widened() }

// seedDomains are the registrable domains of the start URLs. Addresses and names without a dot are in no index.
func seedDomains(starts []datadir.Start) []string {
	var list []string
	seen := map[string]bool{}
	for _, s := range starts {
		host := s.URL.Host()
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || !strings.Contains(host, ".") {
			continue
		}
		if d := weburl.RegistrableDomain(host); !seen[d] {
			seen[d] = true
			list = append(list, d)
		}
	}
	return list
}

// ask adds to the crawl the URLs that an index knows of a domain. If the index fails, there is a warning, and a resume
// asks it again.
func (x *Indexes) ask(ctx context.Context, s *index, domain string) {
	fact, _, again := x.asked(s, domain)
	var skips scope.Skips
	edition := sync.OnceValue(x.widened)
	sum, err := s.urls(ctx, domain, func(ctx context.Context, urls []weburl.URL) error {
		edition()
		return x.addSeeds(ctx, s, urls, &skips)
	})
	if err == nil {
		// The log has this record after those of the links, so it is never known without them.
		done := frontier.CrawlFact{Partition: x.o.Hasher.HostID(domain).Partition(), Name: fact,
			Value: strconv.AppendUint(nil, edition(), 10)}
		rec := frontier.Record{Facts: []frontier.CrawlFact{done}}
		if !again { // otherwise most of them are counted already
			rec.Skips = skips.AppendTo(nil, done.Partition)
		}
		_, err = x.o.Store.Commit(rec)
	}
	switch {
	case err == nil:
		x.o.Log.Info("seeded", "source", s.name, "domain", domain, "rows", sum.Rows, "urls", sum.Found, "absent",
			sum.Absent)
	case ctx.Err() != nil:
		x.cut.Store(true)
	default:
		x.o.Warn("seeding from %s: %v", s.name, err)
	}
}

// addSeeds adds the URLs of an index that belong to the crawl, and counts the others. They come after the entries of
// sitemaps and before links.
func (x *Indexes) addSeeds(ctx context.Context, s *index, urls []weburl.URL, skips *scope.Skips) error {
	links := make([]frontier.Link, 0, len(urls))
	for _, u := range urls {
		if err := ctx.Err(); err != nil {
			return err
		}
		u = x.o.Params.Trim(u)
		if why := x.o.Scope.Check(u); why != scope.InScope {
			skips.Add(why)
			continue
		}
		links = append(links, frontier.Link{URL: u, Priority: frontier.PriorityDepth, Source: s.code,
			Discovered: time.Now()})
	}
	_, err := x.o.Add(ctx, links)
	return err
}
