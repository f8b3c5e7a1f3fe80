package seeding

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

func TestSeedDomains(t *testing.T) {
	var list []datadir.Start
	for _, u := range []string{"https://www.example.co.uk/", "http://example.co.uk/x", "http://a.github.io/",
		"http://127.0.0.1/", "http://[::1]/", "http://localhost/", "http://b.test/"} {
		list = append(list, datadir.Start{URL: mustURL(t, u)})
	}
	if got := seedDomains(list); !slices.Equal(got, []string{"example.co.uk", "a.github.io", "b.test"}) {
		t.Errorf("got %q", got)
	}
}

type fakeDNS map[string]error

func (f fakeDNS) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if err := f[host]; err != nil {
		return nil, err
	}
	return []netip.Addr{netip.IPv4Unspecified()}, nil
}

func TestNames(t *testing.T) {
	down := errors.New("no server answers")
	dns := fakeDNS{"gone.test": &net.DNSError{IsNotFound: true},
		"unknown.test": &net.DNSError{Err: "timeout", IsTimeout: true, UnwrapErr: down}}
	for _, c := range []struct {
		resolve []string
		proxy   string
		host    string
		want    string
		err     error
	}{
		{nil, "", "here.test", "https", nil},
		{nil, "", "gone.test", "", nil},
		{nil, "", "unknown.test", "", down},
		{nil, "http://proxy.test", "gone.test", "https", nil},
		{[]string{"*:80:127.0.0.1"}, "", "gone.test", "http", nil},
		{[]string{"*:80:127.0.0.1", "*.test:443:127.0.0.1"}, "", "gone.test", "https", nil},
		{[]string{"*.else:443:127.0.0.1", "else.test:*:127.0.0.1"}, "", "gone.test", "", nil},
		{[]string{"gone.test:*:127.0.0.1"}, "", "gone.test", "https", nil},
	} {
		n, err := newNames(&config.Settings{Resolve: c.resolve, Proxy: c.proxy})
		if err != nil {
			t.Fatal(err)
		}
		n.dns = dns
		if got, err := n.Scheme(t.Context(), c.host); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s by %q and proxy %q: %q, %v", c.host, c.resolve, c.proxy, got, err)
		}
	}
}

func mustURL(t *testing.T, text string) weburl.URL {
	t.Helper()
	u, err := weburl.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Every source of URLs that a user can choose has the same name in the settings and in sitemap.jsonl, and is asked if
// it is an index.
func TestEverySourceHasOneName(t *testing.T) {
	var names []string
	for code := page.SourceSitemap; page.SourceName(code) != "unknown"; code++ {
		names = append(names, page.SourceName(code))
	}
	s := config.Defaults(config.OwnSite)
	s.SeedingStrategy = nil
	for _, e := range s.Table() {
		if e.Name != "seeding-strategy" {
			continue
		}
		if err := e.Value.Set(strings.Join(names, ",")); err != nil {
			t.Fatal(err)
		}
	}
	none := func(string, string) (fetch.Fetcher, func(), error) { return &fetch.Client{}, func() {}, nil }
	x, err := NewIndexes(s, none)
	if err != nil {
		t.Fatal(err)
	}
	for i, index := range x.list {
		if index.name != names[1+i] {
			t.Errorf("index %d is %s, want %s", i, index.name, names[1+i])
		}
	}
	if len(x.list) != len(names)-1 || !slices.Equal(s.SeedingStrategy, names) {
		t.Errorf("%d indexes for the sources %q", len(x.list), s.SeedingStrategy)
	}
	s.SeedingStrategy = []string{"all"}
	if all, err := NewIndexes(s, none); err != nil || len(all.list) != len(x.list) {
		t.Errorf("all indexes are %v, %v, want %d", all, err, len(x.list))
	}
}
