package crawl

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/state"
)

// tagged is a page with an ETag, which is answered 304 if the request names it.
func tagged(body string) http.HandlerFunc {
	tag := fmt.Sprintf(`"%d"`, len(body))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(body))
	}
}

// newWideSite is a site whose pages are found by links and sitemaps, with something to leave out for every rule.
func newWideSite(t *testing.T) *handSite {
	t.Helper()
	site := newHandSite(t, map[string]any{
		"a.test/robots.txt": "User-agent: *\nAllow: /\nSitemap: http://a.test/map.xml\n",
		"a.test/map.xml": urlset("http://a.test/listed", "http://a.test/listed/old 2020-01-01",
			"http://a.test/shop/listed"),
		"b.a.test/robots.txt": "User-agent: *\nAllow: /\n",
		"c.test/robots.txt":   "User-agent: *\nAllow: /\n",
	})
	for url, links := range map[string]string{
		"a.test/":             `<a href="/d/1">1</a><a href="/shop/1">2</a><a rel="nofollow" href="/login">3</a><a href="/file.pdf">4</a><a href="http://b.a.test/">5</a>`,
		"a.test/d/1":          `<a href="/d/2">1</a><a href="/shop/2">2</a><a href="/moved">3</a>`,
		"a.test/d/2":          `<a href="/d/3">1</a><a href="/d/1">2</a>`,
		"a.test/d/3":          `<a href="/d/4">1</a>`,
		"a.test/d/4":          `<a href="/">home</a>`,
		"a.test/shop/1":       `<a href="/shop/1/more">1</a>`,
		"a.test/shop/1/more":  `<a href="/">home</a>`,
		"a.test/shop/2":       `<a href="/">home</a>`,
		"a.test/shop/listed":  `<a href="/shop/2">2</a>`,
		"a.test/login":        `<a href="/login/form">1</a>`,
		"a.test/login/form":   `<p>form</p>`,
		"a.test/file.pdf":     `<p>not really</p>`,
		"a.test/listed":       `<a href="/under/listed">1</a>`,
		"a.test/under/listed": `<p>one</p>`,
		"a.test/listed/old":   `<p>old</p>`,
		"b.a.test/":           `<a href="/x">1</a>`,
		"b.a.test/x":          `<a href="http://c.test/">1</a>`,
		"c.test/":             `<a href="/x">1</a>`,
		"c.test/x":            `<p>the end</p>`,
	} {
		site.urls[url] = tagged("<html><title>" + url + "</title>" + links)
	}
	site.urls["a.test/moved"] = http.HandlerFunc(http.RedirectHandler("http://b.a.test/moved",
		http.StatusFound).ServeHTTP)
	site.urls["b.a.test/moved"] = tagged("<html><title>moved</title>")
	return site
}

// outcomes are the outcomes of all URLs.
func outcomes(lines map[string]page.Line) map[string]string {
	all := map[string]string{}
	for url, l := range lines {
		all[url] = l.Outcome
	}
	return all
}

// sameMap compares the result of a crawl with that of another one.
func sameMap(t *testing.T, rep, want *report.Report, lines, wantLines map[string]page.Line) {
	t.Helper()
	if got, want := outcomes(lines), outcomes(wantLines); !maps.Equal(got, want) {
		for url := range want {
			if got[url] != want[url] {
				t.Errorf("%s is %q, want %q", url, got[url], want[url])
			}
		}
		for url := range got {
			if want[url] == "" {
				t.Errorf("%s is %q, and should not be there", url, got[url])
			}
		}
	}
	if rep.Status != want.Status || !maps.Equal(rep.SkippedLinks, want.SkippedLinks) {
		t.Errorf("%s (%s), skipped %v; want %s, %v", rep.Status, rep.Reason, rep.SkippedLinks, want.Status,
			want.SkippedLinks)
	}
}

// wideningCases are narrow rules, and wider ones.
func wideningCases() map[string][2]func(*config.Settings) {
	type set = func(*config.Settings)
	return map[string][2]func(*config.Settings){
		"depth": {set(func(s *config.Settings) { s.MaxDepth = 1 }),
			func(s *config.Settings) { s.MaxDepth = 3 }},
		"no depth limit": {set(func(s *config.Settings) { s.MaxDepth = 2 }), nil},
		"start pages": {set(func(s *config.Settings) { s.MaxDepth = 0 }),
			func(s *config.Settings) { s.MaxDepth = 2 }},
		"exclude": {set(func(s *config.Settings) { s.Exclude = []string{"/shop/", "/d/3"} }),
			func(s *config.Settings) { s.Exclude = []string{"/d/3"} }},
		"include": {set(func(s *config.Settings) { s.Include = []string{"/d/"} }),
			func(s *config.Settings) { s.Include = []string{"/d/", "/shop/"} }},
		"no include":      {set(func(s *config.Settings) { s.Include = []string{"/d/[12]"} }), nil},
		"skip extensions": {set(func(s *config.Settings) { s.SkipExtensions = []string{"pdf"} }), nil},
		"scope": {set(func(s *config.Settings) { s.Scope = "host" }),
			func(s *config.Settings) { s.Scope = "any" }},
		"only hosts": {set(func(s *config.Settings) { s.OnlyHosts = []string{"a.test"} }), nil},
		"nofollow":   {nil, func(s *config.Settings) { s.FollowNofollow = true }},
		"since":      {set(func(s *config.Settings) { s.Since = "2024-01-01" }), nil},
		"one up, one down": {set(func(s *config.Settings) { s.MaxDepth, s.Exclude = 1, nil }),
			func(s *config.Settings) { s.MaxDepth, s.Exclude = 3, []string{"/shop/"} }},
	}
}

// A crawl that goes on with wider rules, or is crawled again with them, ends with the map of a crawl that had them from
// the beginning. Pages without links that were left out are not asked for again by a resume.
func TestWiderRules(t *testing.T) {
	long.Test(t)
	t.Parallel()
	for name, rules := range wideningCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fresh := newWideSite(t)
			want, wantLines := fresh.crawl(newDataDir(t), rules[1], "http://a.test/")
			site := newWideSite(t)
			dir := newDataDir(t)
			narrow, lines := site.crawl(dir, rules[0], "http://a.test/")
			if narrow.Status != page.Complete || len(lines) >= len(wantLines)+2 {
				t.Fatalf("the narrow crawl: %s, %d URLs", narrow.Status, len(lines))
			}
			known := maps.Clone(lines)
			before := site.requests()
			rep, lines := site.resume(dir, nil, rules[1])
			if name != "one up, one down" { // there, what was fetched before stays
				sameMap(t, rep, want, lines, wantLines)
			} else if rep.Status != page.Complete || lines["http://a.test/d/3"].Outcome != "ok" ||
				len(byOutcome(lines, page.Excluded)) != 0 {
				t.Errorf("%s: %v", rep.Status, outcomes(lines))
			}
			again := 0
			for url := range known {
				if at := strings.TrimPrefix(url, "http://"); site.requests()[at] > before[at] {
					again++
				}
			}
			if again == len(known) && len(known) > 3 {
				t.Errorf("all %d pages were asked for again", again)
			}
			// Nothing is outdated any more.
			before = site.requests()
			if rep, _ = site.resume(dir, nil, rules[1]); rep.Status != page.Complete ||
				!maps.Equal(site.requests(), before) {
				t.Errorf("another resume: %s, %v; before %v", rep.Status, site.requests(), before)
			}

			dir = newDataDir(t)
			site = newWideSite(t)
			site.crawl(dir, rules[0], "http://a.test/")
			rep, lines = site.resume(dir, &Recrawl{MaxAge: 1 << 50}, rules[1])
			if name != "one up, one down" {
				sameMap(t, rep, want, lines, wantLines)
			}
			if rep.Status != page.Complete || rep.Generation != 1 {
				t.Errorf("recrawl: %s, generation %d", rep.Status, rep.Generation)
			}
		})
	}
}

// Rules that become narrower and wider again bring back what they excluded, as often as that happens.
func TestExcludedURLsComeBack(t *testing.T) {
	t.Parallel()
	fresh := newWideSite(t)
	want, wantLines := fresh.crawl(newDataDir(t), nil, "http://a.test/")
	site, dir := newWideSite(t), newDataDir(t)
	site.crawl(dir, func(s *config.Settings) { s.MaxURLs, s.MaxWorkers = 3, 1 }, "http://a.test/")
	// A page limit ends each of these runs before it is through.
	for i, change := range []func(*config.Settings){
		func(s *config.Settings) { s.Exclude, s.MaxURLs = []string{"/d/", "/shop/", "b.a.test"}, 8 },
		func(s *config.Settings) { s.Exclude, s.MaxURLs = []string{"/shop/"}, 10 },
		func(s *config.Settings) { s.MaxDepth, s.MaxURLs = 0, 12 },
		func(s *config.Settings) { s.MaxDepth, s.MaxURLs = 1, 14 },
	} {
		if _, lines := site.resume(dir, nil, change); i%2 == 0 && len(byOutcome(lines, page.Excluded)) == 0 {
			t.Errorf("run %d excluded nothing", i)
		}
	}
	rep, lines := site.resume(dir, nil, nil)
	sameMap(t, rep, want, lines, wantLines)
}

// Wherever a run with wider rules ends, those after it end with the same map.
func TestWiderRulesAreCutOff(t *testing.T) {
	long.Test(t)
	t.Parallel()
	narrow, wide := func(s *config.Settings) { s.MaxDepth, s.Exclude = 1, []string{"/shop/"} },
		func(s *config.Settings) { s.MaxDepth = 3 }
	want, wantLines := newWideSite(t).crawl(newDataDir(t), wide, "http://a.test/")
	for again, recrawl := range map[string]*Recrawl{"resume": nil, "recrawl": {}} {
		for requests := int64(1); requests <= 12; requests++ {
			site, dir := newWideSite(t), newDataDir(t)
			site.crawl(dir, narrow, "http://a.test/")
			next := recrawl
			for runs := 0; ; runs++ {
				if runs == 40 {
					t.Fatal("the crawl does not end")
				}
				plan, err := datadir.ReadPlan(dir)
				if err != nil {
					t.Fatal(err)
				}
				o := Options{Settings: site.settings(wide), Plan: plan, Recrawl: next, Dir: dir,
					Log: slog.New(slog.DiscardHandler)}
				client, err := NewFetcher(o.Settings, nil)
				if err != nil {
					t.Fatal(err)
				}
				f := &stoppingFetcher{Fetcher: client}
				f.left.Store(requests + int64(runs))
				o.Fetcher = f
				c := newAlone(t, o)
				f.stop = func() { c.Stop([]StopMode{AtOnce, Gracefully}[runs%2]) }
				rep, err := c.Run(t.Context())
				next = nil
				if err := client.Close(); err != nil {
					t.Error(err)
				}
				if err == nil && rep.Status == page.Complete {
					break
				}
			}
			rep, lines := site.resume(dir, nil, wide)
			sameMap(t, rep, want, lines, wantLines)
			if t.Failed() {
				t.Fatalf("%s, cut off after %d requests", again, requests)
			}
		}
	}
}

// A crawl that was begun by a version that did not record what it left out is read again as a whole, if it left out
// anything for the reason.
func TestWiderRulesOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	want, wantLines := newWideSite(t).crawl(newDataDir(t), nil, "http://a.test/")
	for name, narrow := range map[string]func(*config.Settings){
		"scope":            func(s *config.Settings) { s.Scope = "host" },
		"nothing left out": func(s *config.Settings) { s.Exclude = []string{"/nothing/"} },
	} {
		site, dir := newWideSite(t), newDataDir(t)
		site.crawl(dir, narrow, "http://a.test/")
		forgetLeftOut(t, dir)
		before := site.requests()
		rep, lines := site.resume(dir, nil, nil)
		if !maps.Equal(outcomes(lines), outcomes(wantLines)) || rep.Status != want.Status {
			t.Errorf("%s: %s, %v", name, rep.Status, outcomes(lines))
		}
		if same := site.requests()["a.test/d/4"] == before["a.test/d/4"]; same != (name == "nothing left out") {
			t.Errorf("%s: a page that has such links or may have them was not asked for again", name)
		}
	}
}

// forgetLeftOut makes a directory one of an earlier version.
func forgetLeftOut(t *testing.T, dir datadir.Dir) {
	t.Helper()
	s, err := state.Open(dir.State(), state.Options{Mode: state.ExistingOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rec := frontier.Record{Facts: []frontier.CrawlFact{{Name: "scope"}}}
	for p, err := range s.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		facts, err := page.Decode(p.Finish.Facts)
		if err != nil {
			t.Fatal(err)
		}
		facts.LeftOut = nil
		again, f := p.Link, *p.Finish
		again.Visit, again.Before = f.Visit+1, f.Summary()
		f.Visit, f.Before, f.Counted, f.Facts = again.Visit, f.Summary(), false, facts.Append(nil)
		rec.Visits = append(rec.Visits, again)
		rec.Finish = &f
		if _, err := s.Commit(rec); err != nil {
			t.Fatal(err)
		}
		rec = frontier.Record{}
	}
}
