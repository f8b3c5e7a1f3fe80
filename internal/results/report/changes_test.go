package report

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

var firstCrawl = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// site is a crawl of x.test in a store, whose generations a test writes.
type site struct {
	t          *testing.T
	dir        datadir.Dir
	store      *state.Store
	generation uint32
	at         time.Time
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := datadir.Dir(t.TempDir())
	s, err := state.Open(dir.State(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &site{t: t, dir: dir, store: s, at: firstCrawl}
}

// begin begins the next generation, a week later.
func (s *site) begin() {
	s.generation++
	s.at = s.at.AddDate(0, 0, 7)
	s.commit(frontier.Record{Facts: []frontier.CrawlFact{{Name: page.FactGeneration,
		Value: []byte{'0' + byte(s.generation)}}}})
}

func (s *site) commit(r frontier.Record) {
	s.t.Helper()
	if _, err := s.store.Commit(r); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) url(path string) weburl.URL { return weburl.MustCanonical("https://x.test/" + path) }

// visit records what a visit of a page found, with links to other pages.
func (s *site) visit(path string, now recrawl.Answer, links ...string) {
	s.t.Helper()
	u := s.url(path)
	key := s.store.Hasher().Key(u)
	p, known, err := s.store.Page(context.Background(), key)
	if err != nil || !known {
		s.t.Fatalf("%s is not known: %v", path, err)
	}
	now.At = s.at
	visit, seen := uint32(1), frontier.Link{}.Before
	v := recrawl.Verdict{Outcome: now.Outcome, Status: now.Status, Facts: &now.Facts, RedirectTo: now.Facts.RedirectTo}
	if s.generation > 0 {
		var before *recrawl.Known
		if p.Finish != nil {
			if before, err = recrawl.KnownFrom(p.Finish); err != nil {
				s.t.Fatal(err)
			}
			visit, seen = p.Finish.Visit+1, p.Finish.Summary()
			again := p.Link
			again.Visit, again.Before = visit, seen
			s.commit(frontier.Record{Visits: []frontier.Link{again}})
		}
		v = recrawl.Judge(before, &now)
	}
	f := v.Record(&now)
	f.Key, f.Visit, f.Before, f.Generation, f.Attempts, f.Counted = key, visit, seen, s.generation, 1, true
	r := frontier.Record{Finish: f}
	for _, to := range links {
		s.link(u, to, &r)
	}
	s.commit(r)
}

// add records a start page and the first visit of it, without waiting for the store.
func (s *site) add(path string, now recrawl.Answer) {
	s.t.Helper()
	u := s.url(path)
	key := s.store.Hasher().Key(u)
	now.At = s.at
	v := recrawl.Verdict{Outcome: now.Outcome, Status: now.Status, Facts: &now.Facts}
	f := v.Record(&now)
	f.Key, f.Visit, f.Attempts, f.Counted = key, 1, 1, true
	s.commit(frontier.Record{Finish: f, Links: []frontier.Link{{Key: key, URL: u, Source: page.SourceStart,
		Discovered: s.at}}})
}

// link adds a link to a record: as a new one, or as one that is named again.
func (s *site) link(from weburl.URL, to string, r *frontier.Record) {
	s.t.Helper()
	u := s.url(to)
	key := s.store.Hasher().Key(u)
	_, known, err := s.store.Page(context.Background(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	if !known {
		source := page.SourceLink
		if from.IsZero() {
			source = page.SourceStart
		}
		r.Links = append(r.Links, frontier.Link{Key: key, URL: u, Parent: from, Source: source, Discovered: s.at})
	}
	if s.generation > 0 {
		r.Named = append(r.Named, frontier.Named{Key: key, Linked: true, Generation: s.generation})
	}
}

// complete writes the outputs, and returns the report and the lines of the two JSON files by path.
func (s *site) complete(status page.Status) (*Report, map[string]page.Line, map[string]recrawl.Line) {
	s.t.Helper()
	if err := s.store.Flush(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	rep := &Report{Status: status}
	defaults := config.Defaults(config.Polite)
	c := &Crawl{Store: s.store, Settings: defaults, Dir: s.dir}
	if err := c.Complete(context.Background(), rep); err != nil {
		s.t.Fatal(err)
	}
	lines, changes := map[string]page.Line{}, map[string]recrawl.Line{}
	readJSON(s.t, s.dir.JSONL(), func(l page.Line) { lines[strings.TrimPrefix(l.URL.String(), "https://x.test/")] = l })
	if s.generation > 0 {
		readJSON(s.t, s.dir.Changes(), func(l recrawl.Line) {
			changes[strings.TrimPrefix(l.URL,
				"https://x.test/")] = l
		})
	}
	return rep, lines, changes
}

func readJSON[T any](t *testing.T, path string, each func(T)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(text)) {
		var l T
		if err := json.Unmarshal([]byte(row), &l); err != nil {
			t.Fatalf("%v in %s", err, row)
		}
		each(l)
	}
}

// text is the answer of a page that was read.
func text(hash uint64, change ...func(*page.Facts)) recrawl.Answer {
	f := &page.Facts{ContentType: "text/html", Title: "T", ContentHash: new(page.Hash(hash)),
		TextHash: new(page.Hash(hash)), ETag: `"e"`, ResponseTime: new(page.Millis(time.Millisecond))}
	for _, c := range change {
		c(f)
	}
	return recrawl.Answer{Outcome: page.OK, Status: 200, Facts: *f}
}

func TestRecrawlOutputs(t *testing.T) {
	s := newSite(t)
	r := frontier.Record{}
	s.link(weburl.URL{}, "", &r)
	s.commit(r)
	s.visit("", text(1), "same", "changes", "gone", "moves", "fails", "unlinked", "dated")
	dated := func(f *page.Facts) {
		f.LastModifiedHeader, f.LastModified = "Sun, 01 Feb 2026 10:00:00 GMT",
			page.Time{Time: time.Date(2026, 2, 1, 10, 0, 0, 0, time.UTC)}
	}
	for _, path := range []string{"same", "changes", "gone", "moves", "fails", "unlinked"} {
		s.visit(path, text(10))
	}
	s.visit("dated", text(10, dated))
	rep, lines, _ := s.complete(page.Complete)
	if rep.Generation != 0 || rep.Changes != nil || slices.Contains(rep.Files, "changes.jsonl") {
		t.Errorf("the report of a first crawl: %+v", rep)
	}
	if l := lines["same"]; l.Generation != 0 || l.Change != "" || !l.FirstSeenAt.Equal(firstCrawl) ||
		!l.CheckedAt.Equal(firstCrawl) || !l.ChangedAt.IsZero() || l.TextHash == nil {
		t.Errorf("a line of a first crawl: %+v", l)
	}
	first := readFile(t, filepath.Join(string(s.dir), "sitemap.xml"))

	s.begin()
	second := s.at
	s.visit("", text(2), "same", "changes", "gone", "moves", "fails", "dated", "new")
	s.visit("same", recrawl.Answer{Status: 304, Conditional: true})
	s.visit("changes", text(11, func(f *page.Facts) { f.Title = "U" }))
	s.visit("gone", recrawl.Answer{Outcome: page.HTTPError, Status: 404})
	s.visit("moves", recrawl.Answer{Outcome: page.Redirect, Status: 301,
		Facts: page.Facts{RedirectTo: "https://x.test/changes"}})
	s.visit("fails", recrawl.Answer{Outcome: page.HTTPError, Status: 503})
	s.visit("unlinked", text(10))
	s.visit("new", text(12))
	rep, lines, changes := s.complete(page.Complete)

	if want := map[string]int64{"new": 1, "changed": 3, "gone": 1, "unchanged": 2, "stale": 1,
		"not_checked": 1}; rep.Generation != 1 || !maps.Equal(rep.Changes, want) {
		t.Errorf("generation %d, changes %v, want %v", rep.Generation, rep.Changes, want)
	}
	if want := map[string]int64{"text_hash": 2, "title": 1, "outcome": 1, "status_code": 1,
		"redirect_to": 1}; !maps.Equal(rep.ChangedFields, want) || rep.Unlinked != 1 {
		t.Errorf("fields %v, %d unlinked", rep.ChangedFields, rep.Unlinked)
	}
	if !slices.Contains(rep.Files, "changes.jsonl") {
		t.Errorf("files %v", rep.Files)
	}
	for path, want := range map[string]struct {
		change             string
		crawled, changedAt time.Time
		stale              int
		unlinked           bool
		outcome            string
	}{
		"":         {"changed", second, second, 0, false, "ok"},
		"same":     {"unchanged", firstCrawl, time.Time{}, 0, false, "ok"},
		"changes":  {"changed", second, second, 0, false, "ok"},
		"gone":     {"gone", second, second, 0, false, "http_error"},
		"moves":    {"changed", second, second, 0, false, "redirect"},
		"fails":    {"", firstCrawl, time.Time{}, 1, false, "ok"},
		"unlinked": {"unchanged", firstCrawl, time.Time{}, 0, true, "ok"},
		"new":      {"new", second, time.Time{}, 0, false, "ok"},
	} {
		l := lines[path]
		if l.Generation != 1 || l.Change != want.change || !l.CrawledAt.Equal(want.crawled) ||
			!l.ChangedAt.Equal(want.changedAt) || !l.CheckedAt.Equal(second) {
			t.Errorf("/%s: %+v", path, l)
		}
		if l.Stale != want.stale || l.Unlinked != want.unlinked || l.Outcome != want.outcome ||
			(l.Error != "") != (want.stale > 0) {
			t.Errorf("/%s: %+v", path, l)
		}
	}
	if l := lines["dated"]; l.Generation != 0 || l.Unlinked || l.Change != "" {
		t.Errorf("a page that was not checked: %+v", l)
	}
	if got := slices.Sorted(maps.Keys(changes)); !slices.Equal(got, []string{"", "changes", "gone", "moves", "new"}) {
		t.Errorf("changes.jsonl has %q", got)
	}
	want := recrawl.Line{SchemaVersion: 1, URL: "https://x.test/changes", Generation: 1, Change: "changed",
		CheckedAt: page.Time{Time: second},
		Fields: map[string]recrawl.Values{"title": {Before: "T", After: "U"},
			"text_hash": {Before: "000000000000000a", After: "000000000000000b"}}}
	if got := changes["changes"]; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	xml := readFile(t, filepath.Join(string(s.dir), "sitemap.xml"))
	for _, entry := range []string{
		"<loc>https://x.test/same</loc></url>", "<loc>https://x.test/fails</loc></url>",
		"<loc>https://x.test/new</loc></url>",
		"<loc>https://x.test/changes</loc><lastmod>2026-03-08T12:00:00Z</lastmod>",
		"<loc>https://x.test/dated</loc><lastmod>2026-02-01T10:00:00Z</lastmod>",
	} {
		if !strings.Contains(strings.Join(strings.Fields(xml), ""), entry) {
			t.Errorf("no %s in\n%s", entry, xml)
		}
	}
	if strings.Contains(xml, "x.test/gone") || strings.Contains(xml, "x.test/moves") {
		t.Errorf("a page that is not there is listed:\n%s", xml)
	}

	// A recrawl that fails replaces nothing.
	s.begin()
	s.visit("same", recrawl.Answer{Outcome: page.HTTPError, Status: 404})
	rep, _, _ = s.complete(page.Failed)
	if readFile(t, filepath.Join(string(s.dir), "sitemap.xml")) != xml || rep.Changes["gone"] != 1 ||
		len(rep.Warnings) == 0 || !slices.Equal(rep.Files, []string{"report.json", "report.html"}) {
		t.Errorf("after a recrawl that failed: %+v", rep)
	}
	if first == xml {
		t.Error("the first recrawl changed nothing")
	}

	// Changes of both recrawls, and of one kind.
	var all, gone []string
	for l, err := range Changes(t.Context(), s.store, nil, 1, page.NoChange) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimPrefix(l.URL, "https://x.test/"))
	}
	for l, err := range Changes(t.Context(), s.store, nil, 1, page.Gone) {
		if err != nil {
			t.Fatal(err)
		}
		gone = append(gone, strings.TrimPrefix(l.URL, "https://x.test/"))
	}
	if !slices.Equal(all, []string{"", "changes", "gone", "moves", "new", "same"}) ||
		!slices.Equal(gone, []string{"gone", "same"}) {
		t.Errorf("changes %q, gone %q", all, gone)
	}
}

// The site is down during a recrawl, and the recrawl ends as a whole one: the XML sitemap is byte for byte the same.
func TestSiteDown(t *testing.T) {
	s := newSite(t)
	r := frontier.Record{}
	s.link(weburl.URL{}, "", &r)
	s.commit(r)
	s.visit("", text(1), "a", "b")
	s.visit("a", text(2))
	s.visit("b", text(3))
	s.complete(page.Complete)
	before := readFile(t, filepath.Join(string(s.dir), "sitemap.xml"))
	for i := range 4 {
		s.begin()
		for _, path := range []string{"", "a", "b"} {
			s.visit(path, recrawl.Answer{Outcome: page.HTTPError, Status: 500})
		}
		rep, lines, changes := s.complete(page.Complete)
		if i < 3 {
			if readFile(t, filepath.Join(string(s.dir), "sitemap.xml")) != before || rep.Changes["stale"] != 3 ||
				lines["a"].Stale != i+1 || len(changes) > 0 {
				t.Errorf("generation %d: %v, %+v", i+1, rep.Changes, lines["a"])
			}
		} else if rep.Indexable != 0 || rep.Changes["changed"] != 3 || lines["a"].StatusCode != 500 {
			t.Errorf("generation %d: %v, %+v", i+1, rep.Changes, lines["a"])
		}
	}
}

// A URL is marked as long as the page that first linked to it, as it was last read, does not link to it.
func TestUnlinked(t *testing.T) {
	s := newSite(t)
	r := frontier.Record{}
	s.link(weburl.URL{}, "", &r)
	s.commit(r)
	s.visit("", text(1), "a", "b")
	s.visit("a", text(2))
	s.visit("b", text(3), "c")
	s.visit("c", text(4))
	unlinked := func(want ...string) {
		t.Helper()
		s.visit("a", recrawl.Answer{Status: 304, Conditional: true})
		s.visit("c", recrawl.Answer{Status: 304, Conditional: true})
		_, lines, _ := s.complete(page.Complete)
		var got []string
		for path, l := range lines {
			if l.Unlinked {
				got = append(got, path)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("generation %d: unlinked are %q, want %q", s.generation, got, want)
		}
	}
	s.begin() // nothing is read again
	s.visit("", recrawl.Answer{Status: 304, Conditional: true})
	unlinked()
	s.begin() // the root drops a
	s.visit("", text(5), "b")
	unlinked("a")
	s.begin() // and is not read again
	s.visit("", recrawl.Answer{Status: 304, Conditional: true})
	unlinked("a")
	s.begin() // another page links to a
	s.visit("b", text(6), "a", "c")
	unlinked()
	s.begin() // b is gone: what else links to c is not known
	s.visit("b", recrawl.Answer{Outcome: page.HTTPError, Status: 404})
	unlinked()
	s.begin() // the root links to a again
	s.visit("", text(7), "a", "b")
	unlinked()
}

func TestSitemapLastMod(t *testing.T) {
	day := func(n int) time.Time { return firstCrawl.AddDate(0, 0, n) }
	for name, c := range map[string]struct {
		first, again, want time.Time
	}{
		"never listed":                {time.Time{}, time.Time{}, time.Time{}},
		"listed once":                 {day(-9), time.Time{}, day(-9)},
		"listed again":                {day(-9), day(-5), day(-5)},
		"between checks of the same":  {day(-9), day(3), day(-9)},
		"at the last check":           {day(-9), day(7), day(-9)},
		"after the last check":        {day(-9), day(8), day(8)},
		"between, and never before":   {time.Time{}, day(3), time.Time{}},
		"before the facts were found": {time.Time{}, day(0), day(0)},
	} {
		rec := &state.Page{Link: frontier.Link{LastMod: c.first}, Listed: state.NamedIn{LastMod: c.again},
			FactsAt: day(0), Finish: &frontier.Finish{CheckedAt: day(7)}}
		if got := sitemapLastMod(rec); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := sitemapLastMod(&state.Page{Listed: state.NamedIn{LastMod: day(3)}}); !got.Equal(day(3)) {
		t.Errorf("a page that was never checked: %v", got)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
