package testweb

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/test/long"
)

// allChanges has pages of every kind.
func allChanges() *Changes {
	const share = 0.065
	return &Changes{
		Always: share, Sometimes: share, Vanish: 2 * share, Redirect: share, Move: share, Tokens: share, Counter: share,
		Title:     share,
		Canonical: share, NoIndex: share, NoIndexHeader: share, Disallow: share, Appear: share, Unlink: share,
	}
}

// everyMode gives each host another mode of validators.
func everyMode() (faults []HostFault) {
	for i, mode := range validatorModes() {
		faults = append(faults, On(HostSet(fmt.Sprint(i)), Validators{Mode: mode})...)
	}
	return faults
}

// TestRecrawl crawls a web in several generations and holds what a plain client sees and judges against what the web
// says is right.
func TestRecrawl(t *testing.T) {
	long.Test(t)
	modes := len(validatorModes())
	faults := append(everyMode(),
		slices.Concat(
			On(HostSet(fmt.Sprint(modes)), Down{Generations: []int{2, 3, 4, 5}}),
			On(HostSet(fmt.Sprint(modes+1)), Down{Generations: []int{1}, Refuse: true}, RedirectChain{}, StatusPages{}),
		)...)
	base := Config{
		Hosts: modes + 2, Pages: 30, Links: 6, PageSize: 2000, CrossHost: 0.2, Sitemaps: &Sitemaps{Orphans: 6},
		Changes: allChanges(), Faults: faults,
	}
	seen := make(map[string]int) // changes and differences by kind of page
	for _, tt := range []struct {
		name        string
		seed        uint64
		generations []int
		lastMod     string
	}{
		{"one by one", 1, []int{0, 1, 2, 3, 4, 5, 6}, ""},
		{"with gaps", 2, []int{0, 2, 2, 5, 4}, "none"},
		{"from a later one", 3, []int{3, 4, 7}, "all"},
		{"never moved", 4, []int{0, 0, 0}, "stuck"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := base
			cfg.Seed = tt.seed
			cfg.Sitemaps = &Sitemaps{Orphans: 6, LastMod: tt.lastMod, LastModFrom: 1}
			synctest.Test(t, func(t *testing.T) {
				s, err := StartOn(cfg, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				n := newNaiveRecrawl(t, s)
				defer n.close()
				for i, g := range tt.generations {
					if err := s.SetGeneration(g); err != nil {
						t.Fatal(err)
					}
					n.crawl()
					compareRecrawl(t, n, tt.generations[:i+1], seen)
					if t.Failed() {
						return
					}
				}
			})
		})
	}
	for _, want := range []string{
		"always changed text_hash", "sometimes changed text_hash", "vanish gone", "vanish back",
		"redirect changed redirect_to", "move changed redirect_to", "move new",
		"tokens unchanged", "counter changed text_hash", "counter volatile", "title changed title",
		"canonical changed canonical_url", "noindex changed noindex",
		"noindex_header changed noindex", "disallow changed outcome", "appear new", "unlink unlinked",
		"unlink unchanged", "steady unchanged", "steady changed text_hash",
		"steady stale", "steady lastmod header", "steady lastmod sitemap", "always lastmod changed",
		"noindex_header changed with 304",
	} {
		if seen[want] == 0 {
			t.Errorf("there was no %q in %v", want, seen)
		}
	}
}

// compareRecrawl holds what a client has after its last crawl against what the web expects.
func compareRecrawl(t *testing.T, n *naiveRecrawl, generations []int, seen map[string]int) {
	t.Helper()
	want, err := n.s.ExpectedRecrawl(Crawl{Scope: "any"}, generations...)
	if err != nil {
		t.Fatal(err)
	}
	expected := 0
	for e := range want {
		expected++
		p := n.pages[e.URL]
		if p == nil {
			t.Errorf("generations %v: %s was not found", generations, e.URL)
			continue
		}
		got := p.recrawled(e, n.listed)
		if !e.Undefined && !reflect.DeepEqual(got, e) {
			t.Errorf("generations %v:\n got %+v\nwant %+v", generations, got, e)
		}
		seen[e.Kind+" "+e.Change]++
		for _, d := range e.Differences {
			seen[e.Kind+" "+e.Change+" "+d.Field]++
			mode := n.s.web.plans[mustParse(t, n.s, e.URL).host].validators
			if e.NotModified && mode != validAlways304 && mode != validBare304 {
				seen[e.Kind+" "+e.Change+" with 304"]++
			}
		}
		for what, holds := range map[string]bool{"unlinked": e.Unlinked, "volatile": e.Volatile, "stale": e.Stale > 0,
			"lastmod " + e.LastModFrom: true} {
			if holds {
				seen[e.Kind+" "+what]++
			}
		}
	}
	if expected != len(n.pages) {
		t.Errorf("generations %v: %d URLs are expected, %d were found", generations, expected, len(n.pages))
	}
}

func mustParse(t *testing.T, s *Server, u string) ref {
	t.Helper()
	r, ok := s.web.parse(u)
	if !ok {
		t.Fatalf("%s is not of this web", u)
	}
	return r
}

// recrawled puts what a client has into the form of an expectation, and takes from the expectation what no client can
// know.
func (p *naivePage) recrawled(e Recrawled, listed map[string]time.Time) Recrawled {
	got := Recrawled{
		Expectation: Expectation{
			URL: e.URL, Outcomes: []string{p.facts.outcome}, Status: p.facts.status, Location: p.facts.location,
			Title: p.facts.title, Indexable: p.facts.indexable,
		},
		Canonical: p.facts.canonical, Kind: e.Kind, Change: p.change, Differences: p.differences, First: p.first,
		Changed: p.changed,
		Stale:   p.stale, NotModified: p.notModified, Unlinked: !p.named, Volatile: p.volatile,
	}
	if slices.Contains(e.Outcomes, p.facts.outcome) {
		got.Outcomes = e.Outcomes
	}
	if strings.Contains(e.URL, "/chain-") {
		got.Canonical, got.Indexable = e.Canonical, e.Indexable // pages of a fault have no canonical URL
	}
	at, err := http.ParseTime(p.facts.modified)
	switch inSitemap := listed[e.URL]; {
	case p.facts.outcome != OutcomeOK || p.volatile:
	case err == nil && at.Before(time.Now().Add(-time.Minute)) && !p.misdated:
		got.LastMod, got.LastModFrom = at, LastModHeader
	case !inSitemap.IsZero():
		got.LastMod, got.LastModFrom = inSitemap, LastModSitemap
	case p.changed > 0:
		got.LastModFrom = LastModChanged
	}
	return got
}
