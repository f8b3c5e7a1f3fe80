package report

import (
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// Checks that --only-hosts leaves out are not said to have found nothing.
func TestChecksOfOnlyHosts(t *testing.T) {
	for name, c := range map[string]struct {
		only    []string
		outcome page.Outcome // of a check; 0 if there is none
		want    string
	}{
		"no check":                     {nil, 0, problems.None},
		"no check of these hosts":      {[]string{"x.test"}, 0, problems.NotChecked},
		"a check":                      {[]string{"x.test", "y.test"}, page.OK, problems.None},
		"a check that was left out":    {[]string{"x.test"}, page.Excluded, problems.NotChecked},
		"a check that robots.txt bars": {[]string{"y.test"}, page.BlockedByRobots, problems.None},
	} {
		s := newSite(t)
		if c.outcome != 0 {
			u := weburl.MustCanonical("https://y.test/file")
			link := frontier.Link{Key: frontier.CheckKey(s.store.Hasher(), u), URL: u, Sitemap: true, Check: true,
				Priority: frontier.PriorityCheck, Source: page.SourceCheck, Discovered: s.at}
			s.commit(frontier.Record{Links: []frontier.Link{link}})
			f := (&recrawl.Answer{Outcome: c.outcome, At: s.at}).Record()
			f.Key, f.Visit, f.Sitemap, f.Attempts = link.Key, 1, true, 1
			s.commit(frontier.Record{Finish: f})
			if err := s.store.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		settings := config.Defaults(config.Polite)
		settings.CheckExternal, settings.CheckAssets, settings.OnlyHosts = true, true, c.only
		rep := &Report{Status: page.Complete}
		crawl := &Crawl{Store: s.store, Settings: settings, Dir: s.dir}
		if err := crawl.Complete(t.Context(), rep); err != nil {
			t.Fatal(err)
		}
		for _, p := range rep.Problems {
			if p.Code != problems.BrokenExternal.String() && p.Code != problems.BrokenAsset.String() {
				continue
			}
			if p.Result != c.want || (p.Result == problems.NotChecked) != strings.Contains(p.Why, "--only-hosts") {
				t.Errorf("%s: %s is %s, %q", name, p.Code, p.Result, p.Why)
			}
		}
	}
}
