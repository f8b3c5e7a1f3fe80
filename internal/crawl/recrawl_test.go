package crawl

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/datadir"
	"github.com/mapwright/mapwright/internal/crawl/report"
	"github.com/mapwright/mapwright/internal/testweb"
)

// recrawl crawls what is in a directory again.
func (w *memoryWeb) recrawl(s *config.Settings, dir datadir.Dir, again Recrawl) *report.Report {
	w.t.Helper()
	rep, err := runAlone(w.t.Context(), w.recrawlOptions(s, dir, &again))
	if err != nil {
		w.t.Fatal(err)
	}
	return rep
}

// recrawlOptions are those of a recrawl, or of a run that goes on if again is nil.
func (w *memoryWeb) recrawlOptions(s *config.Settings, dir datadir.Dir, again *Recrawl) Options {
	w.t.Helper()
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	o := w.options(s, dir)
	o.Starts, o.Plan, o.Recrawl, o.Log = nil, plan, again, testLog(w.t, slog.LevelInfo)
	return o
}

// move brings the web to a generation, and lets the time pass after which robots.txt is asked for again.
func (w *memoryWeb) move(generation int) {
	w.t.Helper()
	time.Sleep(30 * time.Hour)
	if err := w.SetGeneration(generation); err != nil {
		w.t.Fatal(err)
	}
}

// compareRecrawl compares lines with what a recrawl must report after crawls of a web in some generations.
func compareRecrawl(t *testing.T, web *testweb.Server, lines map[string]line, c testweb.Crawl, generations ...int) {
	t.Helper()
	expected, err := web.ExpectedRecrawl(c, generations...)
	if err != nil {
		t.Fatal(err)
	}
	n, wrong := 0, 0
	bad := func(format string, args ...any) {
		t.Helper()
		if wrong++; wrong <= 20 {
			t.Errorf(format, args...)
		}
	}
	for e := range expected {
		n++
		l, ok := lines[e.URL]
		if !ok {
			bad("%s (%s) is missing", e.URL, e.Kind)
			continue
		}
		if e.Undefined {
			continue
		}
		what := fmt.Sprintf("crawl %v: %s (%s, first %d, changed %d)", generations, e.URL, e.Kind, e.First, e.Changed)
		if !slices.Contains(e.Outcomes, l.Outcome) || e.Status != 0 && l.StatusCode != e.Status || l.RedirectTo != e.Location {
			bad("%s: %s %d %s (%s), want %v %d %s", what, l.Outcome, l.StatusCode, l.RedirectTo, l.Error, e.Outcomes, e.Status, e.Location)
			continue
		}
		if l.Outcome == testweb.OutcomeOK && l.Title != e.Title {
			bad("%s: title %q, want %q", what, l.Title, e.Title)
		}
		want := e.Change
		if e.Stale > 0 {
			want = ""
		}
		if l.Change != want {
			bad("%s: change %q, want %q %+v", what, l.Change, want, e.Differences)
		}
		if l.Stale != e.Stale || l.Volatile != e.Volatile {
			bad("%s: stale %d volatile %v, want %d %v", what, l.Stale, l.Volatile, e.Stale, e.Volatile)
		}
		if l.ChangedAt.IsZero() != (e.Changed == 0) {
			bad("%s: changed_at %v, want a change seen in crawl %d", what, l.ChangedAt, e.Changed)
		}
	}
	t.Logf("crawl %v: %d URLs compared, %d differences", generations, n, wrong)
	if n < len(lines) {
		t.Errorf("%d URLs were found, and %d expected", len(lines), n)
	}
}

// someChanges are pages of every kind.
func someChanges() *testweb.Changes {
	return &testweb.Changes{
		Always: 0.06, Sometimes: 0.06, Vanish: 0.06, Redirect: 0.06, Move: 0.06, Tokens: 0.06, Counter: 0.06, Title: 0.06, Canonical: 0.06, NoIndex: 0.06, NoIndexHeader: 0.06, Disallow: 0.06,
		Appear: 0.06, Unlink: 0.06,
	}
}

// allValidators are hosts with validators of every kind.
func allValidators() (faults []testweb.HostFault, modes []string) {
	modes = []string{"both", "etag", "weak", "gzip_suffix", "date", "none", "always_304", "never_304", "now", "future", "unasked_304"}
	for i, mode := range modes {
		faults = append(faults, testweb.On(testweb.HostSet(fmt.Sprint(i)), testweb.Validators{Mode: mode})...)
	}
	return faults, modes
}

func TestRecrawlsSeeWhatChanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		faults, modes := allValidators()
		web := newMemoryWeb(t, testweb.Config{Seed: 11, Hosts: len(modes), Pages: 120, PageSize: 3000, Links: 6, Changes: someChanges(), Faults: faults, Sitemaps: &testweb.Sitemaps{}})
		s := quick(web.Server)
		dir := newDir(t)
		if _, err := runAlone(t.Context(), web.options(s, dir, web.StartURLs()...)); err != nil {
			t.Fatal(err)
		}
		generations := []int{0}
		compareRecrawl(t, web.Server, readLines(t, dir), testweb.Crawl{}, generations...)
		for generation := 1; generation <= 5; generation++ {
			web.move(generation)
			generations = append(generations, generation)
			rep := web.recrawl(s, dir, Recrawl{})
			if rep.Status != report.Complete {
				t.Fatalf("generation %d: %s (%s)", generation, rep.Status, rep.Reason)
			}
			compareRecrawl(t, web.Server, readLines(t, dir), testweb.Crawl{}, generations...)
		}
	})
}
