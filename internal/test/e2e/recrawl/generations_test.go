package recrawl

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// changingWeb is a web with pages that change in every way that there is, and hosts with several kinds of validators.
func changingWeb(seed uint64) testweb.Config {
	const share = 0.065
	return testweb.Config{
		Seed: seed, Hosts: 4, Pages: 100, CrossHost: 0.2, Sitemaps: &testweb.Sitemaps{Orphans: 10},
		Changes: &testweb.Changes{
			Always: share, Sometimes: share, Vanish: share, Redirect: share, Move: share, Tokens: share, Counter: share,
			Title:     share,
			Canonical: share, NoIndex: share, NoIndexHeader: share, Disallow: share, Appear: share, Unlink: share,
		},
		Faults: slices.Concat(
			testweb.On("1", testweb.Validators{Mode: "gzip_suffix"}), testweb.On("2", testweb.Validators{Mode: "date"}),
			testweb.On("3", testweb.Validators{Mode: "none"}),
		),
	}
}

// Crawls of a web before and after it changed find what is there at the time, and their facts differ where the web says
// that it changed.
func TestCrawlsOfAWebThatChanges(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, changingWeb(5))
	c := testweb.Crawl{Scope: "any"}
	var crawls []map[string]e2e.Line
	generations := []int{0, 3}
	for _, n := range generations {
		if err := web.SetGeneration(n); err != nil {
			t.Fatal(err)
		}
		web.Reset()
		dir := filepath.Join(t.TempDir(), "data")
		args := []string{"crawl", "--scope", "any", "--profile", "own-site", "--resolve", web.Resolve(), "--data-dir",
			dir}
		for _, start := range web.StartURLs() {
			args = append(args, "--start-url", start)
		}
		e2e.Succeeded(t, e2e.Run(t, args...))
		lines := e2e.ReadLines(t, dir)
		e2e.FoundExactly(t, web, c, lines)
		e2e.AskedOnce(t, web)
		e2e.WellBehaved(t, web, 150, 512)
		crawls = append(crawls, lines)
	}

	list, err := web.ExpectedRecrawl(c, generations...)
	if err != nil {
		t.Fatal(err)
	}
	compared, kinds := 0, map[string]int{}
	for e := range list {
		before, ok1 := crawls[0][e.URL]
		after, ok2 := crawls[1][e.URL]
		if !ok1 || !ok2 { // it is new, or nothing names it any more
			continue
		}
		compared++
		// is no field of a line
		want := slices.DeleteFunc(slices.Clone(e.Differences),
			func(d testweb.Difference) bool { return d.Field == "noindex" })
		if got := differencesOf(before, after); !slices.Equal(got, want) {
			t.Errorf("%s (%s) differs in %v, want %v", e.URL, e.Kind, got, want)
		}
		if len(want) > 0 {
			kinds[e.Kind]++
		}
	}
	for _, kind := range []string{"always", "sometimes", "vanish", "redirect", "move", "counter", "title", "canonical",
		"disallow"} {
		if kinds[kind] == 0 {
			t.Errorf("of %d pages none of the kind %s differs: %v", compared, kind, kinds)
		}
	}
}

// differencesOf lists in what two lines of one URL differ, in the form that the web has for it.
func differencesOf(before, after e2e.Line) []testweb.Difference {
	var list []testweb.Difference
	add := func(field, b, a string) {
		if b != a {
			list = append(list, testweb.Difference{Field: field, Before: b, After: a})
		}
	}
	status := func(l e2e.Line) string {
		if l.StatusCode == 0 {
			return ""
		}
		return strconv.Itoa(l.StatusCode)
	}
	add("outcome", before.Outcome, after.Outcome)
	add("status_code", status(before), status(after))
	add("redirect_to", before.RedirectTo, after.RedirectTo)
	if after.Outcome == testweb.OutcomeOK {
		add("title", before.Title, after.Title)
	}
	if after.Outcome == testweb.OutcomeOK && before.Outcome == testweb.OutcomeOK {
		add("canonical_url", before.CanonicalURL, after.CanonicalURL)
		if before.TextHash != after.TextHash {
			list = append(list, testweb.Difference{Field: "text_hash"})
		}
	}
	return list
}
