package crawl

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/internal/web/warc"
)

// NewFetcher makes a fetcher by the settings. If a start URL names an IP address or localhost, the fetcher may reach it
// on that port, even if the address is not public.
func NewFetcher(s *config.Settings, starts []datadir.Start) (*fetch.Client, error) {
	o, err := fetchOptions(s, starts)
	if err != nil {
		return nil, err
	}
	return fetch.New(o)
}

// newFetcher makes the client of one crawl, which shares sockets and memory with those of others.
func (r *run) newFetcher() (*fetch.Client, error) {
	m := &r.o.Managed
	o, err := fetchOptions(r.settings, r.starts)
	if err != nil {
		return nil, err
	}
	if r.archive != nil {
		o.Archive = r.archive
	}
	if m.GuardStarts {
		o.AllowHosts = nil
	}
	o.Account, o.HideAddresses, o.Compute = m.Account, m.Given != nil, r.compute
	if m.hasOperatorHeaders() {
		if o.PrivateTo, err = headerAudience(r.settings, nil); err != nil {
			return nil, err
		}
	}
	return r.shared.client.For(o)
}

// openArchive opens the archive of a crawl; nil if the settings ask for none. Users of a service are not told the name
// of its machine. In a crawl of several machines the names of files contain the identifier of the machine, because
// the files of all machines are put together and several machines can have the same name.
func openArchive(o *Options, s *config.Settings, starts []datadir.Start) (*warc.Writer, error) {
	if !s.WARC {
		return nil, nil
	}
	robots, machine := "classic", ""
	if s.IgnoreRobots {
		robots = "ignore"
	}
	switch {
	case o.Managed.Given != nil:
		machine = "service"
	case o.Cluster != nil:
		host, _ := os.Hostname()
		machine = fmt.Sprintf("%.50s.%.8s", host, o.Cluster.Machine())
	}
	settings, err := json.Marshal(s.Shown(o.Managed.Given)) // as report.json has them; it has no line breaks
	if err != nil {
		return nil, err
	}
	return warc.Open(warc.Options{Dir: o.Dir.Archive(), Space: o.outputRoom().Space, Machine: machine,
		Software: "Mapwright/" + o.Version,
		Info: []string{"isPartOf", starts[0].URL.String(), "http-header-user-agent", s.UserAgent, "robots", robots,
			"mapwright-profile", string(s.Profile), "mapwright-settings", string(settings)}})
}

// hasOperatorHeaders reports whether the crawl's headers, if it has any, come from the operator of a service and not
// from its user.
func (m *Managed) hasOperatorHeaders() bool { return m.Given != nil && !m.Given["header"] }

func fetchOptions(s *config.Settings, starts []datadir.Start) (fetch.Options, error) {
	o := fetch.Options{
		UserAgent: s.UserAgent, AllowPrivate: s.AllowPrivate, NoHTTP2: !s.HTTP2, Timeout: s.Timeout,
		MaxBody:     s.MaxBodySize,
		MaxInflight: s.MaxWorkers, MaxIdlePerHost: min(s.MaxInflightPerHost, s.MaxWorkers),
	}
	for _, st := range starts {
		host := strings.Trim(st.URL.Host(), "[]")
		if _, err := netip.ParseAddr(host); err == nil || weburl.IsLocalhost(host) {
			o.AllowHosts = append(o.AllowHosts, allowedHosts(st)...)
		}
	}
	for _, text := range s.Resolve {
		rule, err := fetch.ParseResolve(text)
		if err != nil {
			return o, err
		}
		o.Resolve = append(o.Resolve, rule)
	}
	if s.Proxy != "" {
		proxy, err := fetch.ParseProxy(s.Proxy)
		if err != nil {
			return o, err
		}
		o.Proxy = proxy
	}
	o.Header, o.PrivateHeader = http.Header{}, http.Header{}
	for _, h := range s.Headers {
		name, value, _ := strings.Cut(h, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if fetch.IsPublicHeader(name) {
			o.Header.Add(name, value)
		} else {
			o.PrivateHeader.Add(name, value)
		}
	}
	var err error
	if o.PrivateTo, err = headerAudience(s, starts); err != nil {
		return o, err
	}
	return o, access(&o, s, starts)
}

// allowedHosts are a start's host and port in the form of fetch.Options.AllowHosts. A bare domain may be tried on port
// 80 too.
func allowedHosts(st datadir.Start) []string {
	host, port := strings.Trim(st.URL.Host(), "[]"), st.URL.Port()
	switch {
	case port != "":
		return []string{net.JoinHostPort(host, port)}
	case st.Bare:
		return []string{net.JoinHostPort(host, "443"), net.JoinHostPort(host, "80")}
	case st.URL.Scheme() == "http":
		return []string{net.JoinHostPort(host, "80")}
	}
	return []string{net.JoinHostPort(host, "443")}
}

// headerAudience is the set of origins that get headers that may be credentials: those of the start URLs and those that
// the user names. A bare domain stands for its https origin alone, because the plain http that it may fall back to can
// be read on the way.
func headerAudience(s *config.Settings, starts []datadir.Start) (fetch.Audience, error) {
	var a fetch.Audience
	for _, st := range starts {
		a.AddURL(st.URL)
	}
	for _, text := range s.HeaderTo {
		if err := a.Add(text); err != nil {
			return a, fmt.Errorf("header-to: %w", err)
		}
	}
	return a, nil
}

// paceConfig is the pace that a profile and its settings give every host.
func paceConfig(s *config.Settings) pace.Config {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	return pace.Config{
		MinDelay: ms(s.MinDelayMS), MaxDelay: ms(s.MaxDelayMS), BaseDelay: ms(s.BaseDelayMS),
		FollowLatency: s.Profile == config.Polite && s.MaxDelayMS > 0,
		MaxInflight:   s.MaxInflightPerHost, Adaptive: s.Profile == config.OwnSite,
		Step: ms(s.AdaptiveStepMS), MaxLearned: time.Duration(s.MaxAdaptiveDelaySecs) * time.Second,
		ProbeAfter: s.ProbeAfterSuccesses,
		MaxBackoff: time.Duration(s.MaxHostBackoffSecs) * time.Second, MaxFailures: s.MaxHostFailures,
	}
}

// frontierOptions are the options of a frontier that follow from the settings alone.
func frontierOptions(s *config.Settings) frontier.Options {
	off := func(n int) int {
		if n == 0 {
			return frontier.Off
		}
		return n
	}
	o := frontier.Options{
		Shards: s.Shards, Pace: paceConfig(s),
		MaxInMemory: s.GlobalFrontierSizeLimit, MaxHosts: s.ReadyHeapSizeLimit, MaxVerify: s.FPCheckSemaphoreLimit,
		MaxRobots:      s.RobotsFetchSemaphoreLimit,
		FilterCapacity: s.BloomCapacity, FilterFPRate: s.BloomFPRate,
		MaxURLs: int64(s.PageCap()), MaxURLsPerHost: int64(s.MaxURLsPerHost),
		MaxRetries: off(s.MaxRetries), FailureThreshold: off(s.FailureThreshold), CancelOnThrottle: s.CancelOnThrottle,
		LevelByLevel: s.MaxDepth >= 0, IgnoreRobots: s.IgnoreRobots, SkipSitemaps: !s.Seeds("sitemap"),
	}
	if s.Profile == config.OwnSite {
		o.KeepTurn = ownSiteTurn
	}
	return o
}

// newFrontier makes the frontier over the store.
func (r *run) newFrontier() (*frontier.Frontier, error) {
	counters, generation, cluster := r.store.Counters(), r.visits.Generation(), r.o.Cluster
	if counters.Generation < generation {
		counters.Counted = 0 // page limits count one generation
	}
	o := frontierOptions(r.settings)
	o.Seed, o.Registry, o.Account = r.store.Seed(), r.shared.pace, r.o.Managed.Account
	o.URLsUsed, o.Run = int64(counters.Counted), r.store.Run()
	o.Continues, o.HotSetBytes, o.Generation = began(r.store), r.o.Managed.HotSetBytes, generation
	o.Admit, o.Names, o.Observe = r.admit, namesOf, r.observe
	if r.settings.PerIP {
		var machines func() int
		if cluster != nil {
			machines = cluster.Machines
		}
		o.Addresses = r.shared.addresses.Share(r.o.Managed.Account, machines)
	}
	if cluster != nil {
		o.Closed, o.MayStart, o.Continues, o.MaxURLs = true, cluster.MayStart, r.store.Run(), 0
		o.Grants = cluster.Crawl().MaxURLs > 0
	}
	return frontier.New(o, r.store)
}

// namesOf says what it means that this source names a URL: a page links to it, a sitemap lists it, or an index has it.
func namesOf(source uint8) frontier.Names {
	switch source {
	case page.SourceLink, page.SourceRedirect:
		return frontier.Linked
	case page.SourceSitemap:
		return frontier.Listed
	case page.SourceCT, page.SourceCommonCrawl:
		return frontier.Indexed
	}
	return 0
}

// ownSiteTurn is how many leases in a row a host gets in own-site: more of its requests find an open connection.
const ownSiteTurn = 16

// sourceHeaders is how long an index may take until it answers. Some take most of a minute.
const sourceHeaders = 90 * time.Second

// sourceSockets are enough for one request and a look-up. They are part of the reserve of open files.
const sourceSockets = 8

// sourceFetcher makes the client that asks an index. It has the crawl's settings except what is meant for the crawled
// hosts: the extra headers, credentials, the client certificate, certificates that are not checked, and the
// private addresses that start URLs name. If base is not usual,
// the user chose the address of the index. It may then be an address that is not public, on its port.
func (r *run) sourceFetcher(base, usual string) (f fetch.Fetcher, stop func(), err error) {
	at, err := weburl.Parse(base)
	if err != nil {
		return nil, nil, err
	}
	if r.o.Fetcher != nil {
		return r.o.Fetcher, func() {}, nil
	}
	o, err := fetchOptions(r.settings, nil)
	if err != nil {
		return nil, nil, err
	}
	if base != usual {
		o.AllowHosts = allowedHosts(datadir.Start{URL: at})
	}
	o.Header, o.PrivateHeader, o.HideAddresses = nil, nil, r.o.Managed.Given != nil
	o.BasicAuth, o.Cookies, o.ClientCert, o.Insecure = nil, nil, nil, false
	o.HeaderTimeout, o.MaxInflight, o.MaxIdlePerHost = sourceHeaders, 1, 1
	o.MaxSockets = sourceSockets
	client, err := fetch.New(o)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { _ = client.Close() }, nil
}
