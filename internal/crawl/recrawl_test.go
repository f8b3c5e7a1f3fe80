package crawl

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// recrawled is a crawl of a web that changes, in a bubble.
type recrawled struct {
	*memoryWeb
	settings    *config.Settings
	dir         datadir.Dir
	crawl       testweb.Crawl
	generations []int // of the web, by crawl
}

// newRecrawled crawls a web in generation 0.
func newRecrawled(t *testing.T, cfg testweb.Config) *recrawled {
	t.Helper()
	web := newMemoryWeb(t, cfg)
	r := &recrawled{memoryWeb: web, settings: quick(web.Server), dir: newDir(t), generations: []int{0}}
	r.settings.MaxRetries, r.crawl.MaxRetries = 1, 1
	if _, err := runAlone(t.Context(), web.options(r.settings, r.dir, web.StartURLs()...)); err != nil {
		t.Fatal(err)
	}
	return r
}

// options are those of a recrawl, or of a run that goes on if again is nil.
func (r *recrawled) options(again *Recrawl) Options {
	r.t.Helper()
	plan, err := datadir.ReadPlan(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	o := r.memoryWeb.options(r.settings, r.dir)
	o.Starts, o.Plan, o.Recrawl, o.Log = nil, plan, again, testLog(r.t, slog.LevelInfo)
	return o
}

// move brings the web to a generation, an hour later. A robots.txt from before would still count in a crawl.
func (r *recrawled) move(generation int) {
	r.t.Helper()
	time.Sleep(time.Hour)
	r.Reset()
	if err := r.SetGeneration(generation); err != nil {
		r.t.Fatal(err)
	}
	r.generations = append(r.generations, generation)
}

// again crawls what is in the directory again, to the end.
func (r *recrawled) again(again *Recrawl) *report.Report {
	r.t.Helper()
	rep, err := runAlone(r.t.Context(), r.options(again))
	if err != nil {
		r.t.Fatal(err)
	}
	return rep
}

// lastMods are the dates in the XML sitemaps, zero for a URL without one.
func (r *recrawled) lastMods() map[string]time.Time {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(string(r.dir), "sitemap*.xml"))
	if err != nil {
		r.t.Fatal(err)
	}
	dates := map[string]time.Time{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			r.t.Fatal(err)
		}
		var set struct {
			URLs []struct {
				Loc     string `xml:"loc"`
				LastMod string `xml:"lastmod"`
			} `xml:"url"`
		}
		if err := xml.Unmarshal(text, &set); err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
		for _, u := range set.URLs {
			var at time.Time
			if u.LastMod != "" {
				if at, err = time.Parse(time.RFC3339, u.LastMod); err != nil {
					r.t.Fatalf("%s: %v", name, err)
				}
			}
			dates[u.Loc] = at
		}
	}
	return dates
}

// compare compares what was written with what the web knows of itself.
func (r *recrawled) compare() {
	t := r.t
	t.Helper()
	expected, err := r.ExpectedRecrawl(r.crawl, r.generations...)
	if err != nil {
		t.Fatal(err)
	}
	lines, dates, changes := readLines(t, r.dir), r.lastMods(), r.changes()
	wrong := 0
	bad := func(format string, args ...any) {
		t.Helper()
		if wrong++; wrong <= 20 {
			t.Errorf("crawls %v: "+format, append([]any{r.generations}, args...)...)
		}
	}
	seen := 0
	for e := range expected {
		seen++
		l, ok := lines[e.URL]
		if !ok {
			bad("%s (%s) is missing", e.URL, e.Kind)
			continue
		}
		if e.Undefined {
			continue
		}
		what := fmt.Sprintf("%s (%s, first %d, changed %d)", e.URL, e.Kind, e.First, e.Changed)
		if !slices.Contains(e.Outcomes, l.Outcome) || e.Status != 0 && l.StatusCode != e.Status ||
			l.RedirectTo != e.Location {
			bad("%s: %s %d %s (%s), want %v %d %s", what, l.Outcome, l.StatusCode, l.RedirectTo, l.Error, e.Outcomes,
				e.Status, e.Location)
			continue
		}
		if l.Outcome == testweb.OutcomeOK && (l.Title != e.Title || l.Indexable != e.Indexable) {
			bad("%s: %q, indexable %v, want %q, %v", what, l.Title, l.Indexable, e.Title, e.Indexable)
		}
		want := e.Change
		if e.Stale > 0 {
			want = ""
		}
		if l.Change != want {
			bad("%s: change %q, want %q %+v", what, l.Change, want, e.Differences)
		}
		if c, listed := changes[e.URL]; listed != (want != "" && want != testweb.ChangeUnchanged) || listed &&
			c.Change != want {
			bad("%s: changes.jsonl has %+v, want %q", what, c, want)
		} else if want == testweb.ChangeChanged {
			fields := map[string]bool{}
			for _, d := range e.Differences {
				fields[d.Field] = true
			}
			if !maps.EqualFunc(fields, c.Fields, func(bool, any) bool { return true }) {
				bad("%s: changes.jsonl has %v, want %+v", what, c.Fields, e.Differences)
			}
		}
		if l.Stale != e.Stale || l.Volatile != e.Volatile {
			bad("%s: stale %d volatile %v, want %d %v", what, l.Stale, l.Volatile, e.Stale, e.Volatile)
		}
		if l.ChangedAt.IsZero() != (e.Changed == 0) {
			bad("%s: changed_at %v, want a change seen in crawl %d", what, l.ChangedAt, e.Changed)
		}
		at, listed := dates[e.URL]
		if listed != l.Indexable {
			bad("%s: in the XML sitemap: %v, indexable: %v", what, listed, l.Indexable)
		}
		lastMod := e.LastMod
		if e.LastModFrom == testweb.LastModChanged {
			lastMod = l.ChangedAt
		}
		// What the sitemap said of a page that it lists no more still counts for us, and a first crawl does not take
		// the date of a page that it knew before it read the sitemap.
		known := e.Kind == "unlink" || len(r.generations) == 1 && e.LastModFrom == testweb.LastModSitemap
		if listed && !known && !at.Truncate(time.Second).Equal(lastMod.Truncate(time.Second)) {
			bad("%s: lastmod %v, want %v (%s)", what, at, lastMod, e.LastModFrom)
		}
	}
	if seen != len(lines) {
		bad("%d URLs were found, want %d", len(lines), seen)
	}
}

// change is a line of changes.jsonl.
type change struct {
	URL    string         `json:"url"`
	Change string         `json:"change"`
	Fields map[string]any `json:"fields"`
}

// changes reads changes.jsonl, if there is one.
func (r *recrawled) changes() map[string]change {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(string(r.dir), "changes.jsonl"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	all := map[string]change{}
	for row := range bytes.Lines(text) {
		var c change
		if err := json.Unmarshal(row, &c); err != nil {
			r.t.Fatalf("%s: %v", row, err)
		}
		all[c.URL] = c
	}
	return all
}

// someChanges are pages of every kind.
func someChanges() *testweb.Changes {
	return &testweb.Changes{
		Always: 0.06, Sometimes: 0.06, Vanish: 0.06, Redirect: 0.06, Move: 0.06, Tokens: 0.06, Counter: 0.06,
		Title: 0.06, Canonical: 0.06, NoIndex: 0.06, NoIndexHeader: 0.06, Disallow: 0.06,
		Appear: 0.06, Unlink: 0.06,
	}
}

// changingWeb has a host with validators of every kind, and pages that change in every way.
func changingWeb(pages int) testweb.Config {
	modes := []string{"both", "etag", "weak", "gzip_suffix", "date", "none", "always_304", "never_304", "now", "future",
		"unasked_304"}
	cfg := testweb.Config{Seed: 11, Hosts: len(modes), Pages: pages, PageSize: 3000, Links: 6, Changes: someChanges(),
		Sitemaps: &testweb.Sitemaps{}}
	for i, mode := range modes {
		cfg.Faults = append(cfg.Faults, testweb.On(testweb.HostSet(fmt.Sprint(i)), testweb.Validators{Mode: mode})...)
	}
	return cfg
}

// Every kind of page, with every kind of validator: the changes and the dates are those that the web knows.
func TestRecrawlsSeeWhatChanged(t *testing.T) {
	long.Test(t)
	inBubble(t, func(t *testing.T) {
		r := newRecrawled(t, changingWeb(50))
		r.compare()
		for generation := 1; generation <= 5; generation++ {
			r.move(generation)
			if rep := r.again(&Recrawl{}); rep.Status != page.Complete || rep.Generation != uint32(generation) {
				t.Fatalf("generation %d: %s (%s)", rep.Generation, rep.Status, rep.Reason)
			}
			r.compare()
			wellBehaved(t, r.Server)
		}
	})
}

// stoppingFetcher calls stop at a request.
type stoppingFetcher struct {
	fetch.Fetcher
	left atomic.Int64 // requests until then
	stop func()
}

func (f *stoppingFetcher) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	if f.left.Add(-1) == 0 {
		f.stop()
	}
	return f.Fetcher.Do(ctx, r)
}

// newAlone makes a crawl that is alone in its process.
func newAlone(t *testing.T, o Options) *tested {
	t.Helper()
	shared, err := NewShared(ForOneCrawl(o.Settings))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	c, err := newTested(shared, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The outcome of a recrawl that is stopped again and again is that of one that is not.
func TestRecrawlGoesOnAfterStops(t *testing.T) {
	long.Test(t)
	inBubble(t, func(t *testing.T) {
		r := newRecrawled(t, changingWeb(30))
		for generation := 1; generation <= 3; generation++ {
			r.move(generation)
			again := &Recrawl{}
			runs := 0
			for ended := false; !ended; {
				runs++
				mode := []StopMode{Gracefully, AtOnce}[runs%2]
				o := r.options(again)
				again = nil
				f := &stoppingFetcher{Fetcher: o.Fetcher}
				f.left.Store(int64(10 * runs)) // each run is stopped later than the one before
				o.Fetcher = f
				c := newAlone(t, o)
				f.stop = func() { c.Stop(mode) }
				rep, err := c.Run(t.Context())
				if err != nil && mode == Gracefully {
					t.Fatal(err)
				}
				ended = err == nil && rep.Status == page.Complete
			}
			t.Logf("generation %d: %d runs", generation, runs)
			if runs < 3 {
				t.Errorf("the recrawl ended after %d runs: nothing was tested", runs)
			}
			r.compare()
		}
	})
}

// Bodies are read only of pages that changed, and of the sample.
func TestRecrawlReadsOnlyWhatChanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const pages = 600
		r := newRecrawled(t, testweb.Config{Seed: 5, Pages: pages, PageSize: 2000, Links: 6,
			Changes: &testweb.Changes{Sometimes: 0.2, Rate: 0.1}})
		r.move(1)
		r.again(&Recrawl{})
		r.compare()
		changed := 0
		for _, l := range readLines(t, r.dir) {
			if l.Change == testweb.ChangeChanged {
				changed++
			}
		}
		stats := r.HostStats(0)
		sample := stats.Bodies - changed
		if stats.Conditional != pages || changed == 0 || changed > pages/10 {
			t.Errorf("%d conditional requests for %d pages, of which %d changed", stats.Conditional, pages, changed)
		}
		if sample < 10 || sample > 40 {
			t.Errorf("%d bodies were sent, of %d pages that changed and a sample of %d", stats.Bodies, changed, sample)
		}
	})
}

// A host that answers 304 whatever it is asked is found out: it is asked without conditions from then on.
func TestHostThatAlwaysAnswers304(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const pages = 300
		r := newRecrawled(t, testweb.Config{
			// so that the first ten answers show it
			Seed: 6, Pages: pages, PageSize: 2000, Links: 6, Changes: &testweb.Changes{Always: 0.8},
			Faults: testweb.On("0", testweb.Validators{Mode: "bare_304"}),
		})
		for generation := 1; generation <= 2; generation++ {
			r.move(generation)
			r.again(&Recrawl{})
			r.compare()
			stats := r.HostStats(0)
			switch {
			case generation == 1 && stats.Conditional == 0:
				t.Error("the host was never asked conditionally")
			case generation == 2 && stats.Conditional > 0:
				t.Errorf("the host was asked conditionally %d times after it had been found out", stats.Conditional)
			case stats.Bodies < pages:
				t.Errorf("generation %d: only %d of %d pages were read", generation, stats.Bodies, pages)
			}
		}
	})
}

// If the site is down, what is known stays for three recrawls, and no output is replaced by those that failed.
func TestRecrawlOfASiteThatIsDown(t *testing.T) {
	for name, refuse := range map[string]bool{"answers 500": false, "refuses connections": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRecrawled(t, testweb.Config{
					Seed: 8, Pages: 15, PageSize: 2000, Links: 4, Changes: &testweb.Changes{Sometimes: 0.5, Rate: 0.5},
					Sitemaps: &testweb.Sitemaps{},
					Faults:   testweb.On("0", testweb.Down{Generations: []int{2, 3}, Refuse: refuse}),
				})
				r.move(1)
				r.again(&Recrawl{})
				r.compare()
				files := []string{"sitemap.xml", "sitemap.jsonl", "changes.jsonl"}
				before := map[string]string{}
				for _, name := range files {
					before[name] = r.file(name)
				}
				for generation := 2; generation <= 3; generation++ {
					r.move(generation)
					rep := r.again(&Recrawl{})
					if rep.Status != page.Failed || rep.Success || len(rep.Errors) == 0 ||
						rep.Generation != uint32(generation) {
						t.Errorf("%s (%s), generation %d, errors %v", rep.Status, rep.Reason, rep.Generation,
							rep.Errors)
					}
					for _, name := range files {
						if r.file(name) != before[name] {
							t.Errorf("%s was replaced", name)
						}
					}
					if text := r.file("report.json"); !strings.Contains(text, `"failed"`) {
						t.Errorf("report.json does not say that the recrawl failed:\n%s", text)
					}
				}
				r.move(4)
				if rep := r.again(&Recrawl{}); rep.Status != page.Complete {
					t.Errorf("when the site is up again: %s (%s)", rep.Status, rep.Reason)
				}
				r.compare()
			})
		})
	}
}

// file is the text of a file of the data directory.
func (r *recrawled) file(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(string(r.dir), name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// A recrawl visits what its terms choose, and a later one has its own.
func TestRecrawlOfAPart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRecrawled(t, testweb.Config{Seed: 9, Pages: 200, PageSize: 2000, Links: 6})
		start := r.StartURLs()[0]
		checked := func() (in map[int]int) {
			in = map[int]int{}
			for url, l := range readLines(t, r.dir) {
				if url != start { // which is always visited
					in[l.Generation]++
				}
			}
			return in
		}
		time.Sleep(time.Hour)
		r.again(&Recrawl{Include: []string{"/d[0-4]/"}, Exclude: []string{"/d3/"}})
		first := checked()
		for url, l := range readLines(t, r.dir) {
			within := strings.Contains(url, "/d0/") || strings.Contains(url, "/d1/") || strings.Contains(url, "/d2/") ||
				strings.Contains(url, "/d4/") || url == start
			if (l.Generation == 1) != within {
				t.Errorf("%s: generation %d", url, l.Generation)
			}
		}
		if first[1] == 0 || first[0] == 0 {
			t.Fatalf("generations of pages: %v", first)
		}
		time.Sleep(time.Hour)
		r.again(&Recrawl{MaxAge: 90 * time.Minute}) // the others were checked an hour ago
		if second := checked(); second[2] != first[0] || second[1] != first[1] {
			t.Errorf("generations of pages: %v, before that %v", second, first)
		}
		time.Sleep(time.Hour)
		r.again(&Recrawl{})
		if third := checked(); third[3] != first[0]+first[1] {
			t.Errorf("generations of pages: %v", third)
		}
	})
}

// Page limits count one generation. A recrawl that a limit ended goes on where it was.
func TestRecrawlWithALimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRecrawled(t, testweb.Config{Seed: 10, Pages: 100, PageSize: 2000, Links: 6,
			Faults: testweb.On("0", testweb.Validators{Mode: "none"})})
		r.settings.MaxURLs = 40
		pages := func(generation int) (n int) {
			for _, l := range readLines(t, r.dir) {
				if l.Generation == generation {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Hour)
		if rep := r.again(&Recrawl{}); rep.Status != page.Partial || pages(1) != 40 {
			t.Errorf("%s (%s), %d pages", rep.Status, rep.Reason, pages(1))
		}
		r.settings.MaxURLs = 60
		if rep := r.again(nil); rep.Status != page.Partial || pages(1) != 60 {
			t.Errorf("resumed: %s (%s), %d pages", rep.Status, rep.Reason, pages(1))
		}
		time.Sleep(time.Hour)
		if rep := r.again(&Recrawl{}); rep.Status != page.Partial || pages(2) != 60 || pages(0) != 0 {
			t.Errorf("the next generation: %s (%s), %d pages, and %d were never visited again", rep.Status, rep.Reason,
				pages(2), pages(0))
		}
		r.settings.MaxURLs = 0
		if rep := r.again(nil); rep.Status != page.Complete || pages(2) != 100 {
			t.Errorf("resumed without a limit: %s (%s), %d pages", rep.Status, rep.Reason, pages(2))
		}
	})
}

// Pages that a sitemap says have changed are visited first, then those that changed most often, then the others.
func TestRecrawlOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{
			Seed: 15, Pages: 150, PageSize: 2000, Links: 6, Log: true,
			Changes: &testweb.Changes{Sometimes: 0.6, Rate: 0.3}, Sitemaps: &testweb.Sitemaps{},
		})
		r := &recrawled{memoryWeb: web, settings: quick(web.Server), dir: newDir(t), generations: []int{0}}
		r.settings.MaxWorkers = 1
		if _, err := runAlone(t.Context(), web.options(r.settings, r.dir, web.StartURLs()...)); err != nil {
			t.Fatal(err)
		}
		changed := map[string]int{} // visits that saw a change, by URL
		for generation := 1; generation <= 4; generation++ {
			time.Sleep(time.Hour)
			checked := time.Now()
			time.Sleep(time.Hour)
			r.Reset()
			if err := r.SetGenerationAt(generation, time.Now()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			r.again(&Recrawl{})
			lines := readLines(t, r.dir)
			class := func(url string) (newer bool, changes int) {
				return lines[url].Change == testweb.ChangeChanged && lines[url].LastModified.After(checked),
					changed[url]
			}
			seen, classes := map[string]bool{}, map[bool]int{}
			before, last := true, 1<<30
			for _, q := range r.Log() {
				if l, page := lines[q.URL]; !page || seen[q.URL] || l.Source == "start" {
					continue // robots.txt, a sitemap, or a verification
				}
				seen[q.URL] = true
				newer, changes := class(q.URL)
				if newer && !before || newer == before && changes > last {
					t.Errorf("generation %d: %s (newer %v, %d changes) is visited after one with %v, %d", generation,
						q.URL, newer, changes, before, last)
				}
				before, last = newer, changes
				classes[newer]++
			}
			if classes[true] == 0 || classes[false] == 0 {
				t.Errorf("generation %d: nothing to compare: %v", generation, classes)
			}
			for url, l := range lines {
				if l.Change == testweb.ChangeChanged {
					changed[url]++
				}
			}
		}
	})
}

// A recrawl keeps to the depth of its crawl, and gives new pages the depth that a crawl gives them.
func TestRecrawlWithADepth(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{
			Seed: 16, Pages: 300, PageSize: 2000, Links: 4, Changes: &testweb.Changes{Appear: 0.3, Span: 1},
			Faults: testweb.On("0", testweb.Validators{Mode: "none"}),
		})
		r := &recrawled{memoryWeb: web, settings: quick(web.Server), dir: newDir(t)}
		r.settings.MaxDepth = 3
		if _, err := runAlone(t.Context(), web.options(r.settings, r.dir, web.StartURLs()...)); err != nil {
			t.Fatal(err)
		}
		before := readLines(t, r.dir)
		r.move(1)
		r.again(&Recrawl{})
		_, fresh := web.crawlAll(r.settings, web.StartURLs()...)
		after, added := readLines(t, r.dir), 0
		for url, l := range after {
			if _, known := before[url]; known {
				if l.Depth != before[url].Depth {
					t.Errorf("%s: depth %d, before that %d", url, l.Depth, before[url].Depth)
				}
				continue
			}
			added++
			if f, ok := fresh[url]; !ok || l.Depth < f.Depth || l.Depth > 3 || l.Change != testweb.ChangeNew {
				t.Errorf("%s: new at depth %d (%q), a crawl now finds it at %d (%v)", url, l.Depth, l.Change, f.Depth,
					ok)
			}
		}
		if added == 0 || added == len(fresh) {
			t.Errorf("%d of %d pages are new: nothing was tested", added, len(fresh))
		}
	})
}

// A limit of pages for each host counts one generation too.
func TestRecrawlWithALimitPerHost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{Seed: 13, Hosts: 2, Pages: 60, PageSize: 2000, Links: 6})
		r := &recrawled{memoryWeb: web, settings: quick(web.Server), dir: newDir(t)}
		if _, err := runAlone(t.Context(), web.options(r.settings, r.dir, web.StartURLs()...)); err != nil {
			t.Fatal(err)
		}
		r.settings.MaxURLsPerHost = 25
		for generation := 1; generation <= 3; generation++ {
			time.Sleep(time.Hour)
			r.Reset()
			rep := r.again(&Recrawl{})
			visited := map[string]int{}
			for url, l := range readLines(t, r.dir) {
				if l.Generation == generation {
					visited[mustURL(t, url).Host()]++
				}
			}
			// Verifications of answers 304 are visits of the same pages, and count.
			if rep.Status != page.Partial || len(visited) != 2 {
				t.Fatalf("generation %d: %s (%s), pages %v", generation, rep.Status, rep.Reason, visited)
			}
			for i := range 2 {
				pages := r.HostStats(i).Pages
				if n := visited[r.HostName(i)]; n == 0 || n > 25 || pages > 25 {
					t.Errorf("generation %d: %d pages of %s were visited with %d requests", generation, n,
						r.HostName(i), pages)
				}
			}
		}
	})
}

// A safe crawl that a limit ended is not crawled again: it has its pages once. One that is complete may be, within the
// same caps.
func TestRecrawlOfASafeCrawl(t *testing.T) {
	inSlotOfItsOwn(t, func(t *testing.T) {
		for _, pages := range []int{20, 80} {
			web := newMemoryWeb(t, testweb.Config{Seed: 14, Pages: pages, PageSize: 2000, Links: 6})
			settings := config.Defaults(config.Safe)
			settings.Resolve = resolveTo(web.Server)
			r := &recrawled{memoryWeb: web, settings: settings, dir: newDir(t)}
			rep, err := runAlone(t.Context(), web.options(settings, r.dir, web.StartURLs()...))
			if err != nil {
				t.Fatal(err)
			}
			if pages <= config.SafePages {
				if again := r.again(&Recrawl{}); rep.Status != page.Complete || again.Status != page.Complete ||
					again.Pages < int64(pages) {
					t.Errorf("%d pages: %s, then %s (%s) with %d pages", pages, rep.Status, again.Status, again.Reason,
						again.Pages)
				}
				continue
			}
			if _, err := runAlone(t.Context(), r.options(&Recrawl{})); rep.Status != page.Partial ||
				!errors.Is(err, ErrNotAgain) || !strings.Contains(err.Error(), "safe crawl") {
				t.Errorf("%d pages: %s, then %v", pages, rep.Status, err)
			}
		}
	})
}

// A crawl that is not finished is not crawled again.
func TestRecrawlOfWhatIsNotFinished(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{Seed: 12, Pages: 50})
		r := &recrawled{memoryWeb: web, settings: quick(web.Server), dir: newDir(t)}
		c := newAlone(t, web.options(r.settings, r.dir, web.StartURLs()...))
		c.Stop(Gracefully)
		if _, err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := runAlone(t.Context(), r.options(&Recrawl{})); !errors.Is(err, ErrNotAgain) ||
			!strings.Contains(err.Error(), "mapwright resume --data-dir") {
			t.Errorf("a crawl that was stopped: %v", err)
		}
		if rep := r.again(nil); rep.Status != page.Complete || rep.Generation != 0 {
			t.Errorf("resumed after that: %s, generation %d", rep.Status, rep.Generation)
		}
		if rep := r.again(&Recrawl{}); rep.Status != page.Complete || rep.Generation != 1 {
			t.Errorf("crawled again after that: %s, generation %d", rep.Status, rep.Generation)
		}
	})
}
