package crawl

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/seed"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A source is a public index that is asked for more URLs of the start domains, beside the crawl.
type source struct {
	name  string // as in settings, reports and sitemap.jsonl
	code  uint8  // of its links
	urls  func(ctx context.Context, domain string, sink seed.Sink) (seed.Summary, error)
	close func()
}

// seeds says whether the settings name a source of URLs.
func seeds(s *config.Settings, name string) bool {
	return slices.Contains(s.SeedingStrategy, name) || slices.Contains(s.SeedingStrategy, "all")
}

// newSources are the indexes that the settings name. Nothing is asked yet.
func (r *run) newSources(given Fetcher) ([]source, error) {
	var list []source
	usual := config.Defaults(r.settings.Profile)
	if s := r.settings; seeds(s, "ct") {
		hosts, err := newNames(s)
		if err != nil {
			return nil, err
		}
		f, stop, err := sourceFetcher(s, s.CTBaseURL, usual.CTBaseURL, given)
		if err != nil {
			return nil, fmt.Errorf("ct-base-url: %w", err)
		}
		ct, err := seed.NewCT(s.CTBaseURL, hosts, seed.Options{Fetcher: f})
		if err != nil {
			return nil, fmt.Errorf("ct-base-url: %w", err)
		}
		list = append(list, source{"ct", sourceCT, ct.URLs, stop})
	}
	if s := r.settings; seeds(s, "commoncrawl") {
		f, stop, err := sourceFetcher(s, s.CommonCrawlBaseURL, usual.CommonCrawlBaseURL, given)
		if err != nil {
			return nil, fmt.Errorf("commoncrawl-base-url: %w", err)
		}
		cc, err := seed.NewCommonCrawl(s.CommonCrawlBaseURL, seed.Options{Fetcher: f})
		if err != nil {
			return nil, fmt.Errorf("commoncrawl-base-url: %w", err)
		}
		list = append(list, source{"commoncrawl", sourceCommonCrawl, cc.URLs, stop})
	}
	return list, nil
}

// sourceHeaders is how long an index may think about a question. Some take most of a minute.
const sourceHeaders = 90 * time.Second

// sourceSockets are enough for one request and a look-up. They come out of the reserve of open files.
const sourceSockets = 8

// sourceFetcher makes the client that asks an index. It has the crawl's settings except what is meant for the crawled hosts: the extra
// headers, which may be secrets, and the private addresses that start URLs name. If the user chose the address of the index (usual is
// the default), the index may have an address that is not public, on its port.
func sourceFetcher(s *config.Settings, base, usual string, given Fetcher) (f Fetcher, stop func(), err error) {
	at, err := urlnorm.Parse(base)
	if err != nil {
		return nil, nil, err
	}
	if given != nil {
		return given, func() {}, nil
	}
	o, err := fetchOptions(s, nil)
	if err != nil {
		return nil, nil, err
	}
	if base != usual {
		o.AllowHosts = allowedHosts(Start{URL: at})
	}
	o.Header, o.PrivateHeader = nil, nil
	o.HeaderTimeout, o.MaxInflight, o.MaxIdlePerHost = sourceHeaders, 1, 1
	o.MaxSockets = sourceSockets
	client, err := fetch.New(o)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { _ = client.Close() }, nil
}

// startSources asks every index about every start domain, each index in a goroutine of its own. The crawl is not drained before they are
// done; they end early when ctx does. The returned function waits for them.
func (r *run) startSources(ctx context.Context) (wait func()) {
	domains := seedDomains(r.starts)
	var running sync.WaitGroup
	for _, s := range r.sources {
		release := r.frontier.Source()
		running.Go(func() {
			defer release()
			defer s.close()
			for _, domain := range domains {
				if ctx.Err() == nil {
					r.ask(ctx, &s, domain)
				}
			}
		})
	}
	return running.Wait
}

// seedDomains are the registrable domains of the start URLs. Addresses and names without a dot are in no index.
func seedDomains(starts []Start) []string {
	var list []string
	seen := map[string]bool{}
	for _, s := range starts {
		host := s.URL.Host()
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || !strings.Contains(host, ".") {
			continue
		}
		if d := urlnorm.RegistrableDomain(host); !seen[d] {
			seen[d] = true
			list = append(list, d)
		}
	}
	return list
}

// ask takes what an index knows of a domain into the crawl. An index that fails is a warning, and is asked again by a resume.
func (r *run) ask(ctx context.Context, s *source, domain string) {
	fact := factSeeded + s.name + " " + domain
	if _, done := runFact(r.store, fact); done {
		return
	}
	sum, err := s.urls(ctx, domain, func(ctx context.Context, urls []urlnorm.URL) error { return r.addSeeds(ctx, s, urls) })
	if err == nil {
		// In the log this stands behind the links, so it cannot be known without them.
		_, err = r.store.Commit(frontier.Record{Facts: []frontier.CrawlFact{r.factOf(domain, fact, []byte("done"))}})
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.warn("seeding from %s: %v", s.name, err)
	default:
		r.log.Info("seeded", "source", s.name, "domain", domain, "rows", sum.Rows, "urls", sum.Found, "absent", sum.Absent)
	}
}

// addSeeds adds the URLs of an index that belong to the crawl. They come after the entries of sitemaps and before links.
func (r *run) addSeeds(ctx context.Context, s *source, urls []urlnorm.URL) error {
	links := make([]frontier.Link, 0, len(urls))
	for _, u := range urls {
		if why := r.scope.Check(u); why != InScope {
			r.tally.skipped(why)
			continue
		}
		links = append(links, frontier.Link{URL: u, Priority: frontier.PriorityDepth, Source: s.code, Discovered: time.Now()})
	}
	n, err := r.frontier.Add(ctx, links)
	r.tally.seeded(n)
	return err
}
