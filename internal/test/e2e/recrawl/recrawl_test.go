package recrawl

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/sitemaptest"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// crawlSeries is a crawl and its recrawls in one data directory, of a web that changes in between.
type crawlSeries struct {
	web   *testweb.Server
	dir   string
	crawl testweb.Crawl
	flags []string        // of every run
	read  map[string]bool // hosts of which all pages are read in every recrawl

	generations []int       // of the web, by crawl
	began, over []time.Time // of each run
	lines       map[string]e2e.Line
	lastMods    map[string]string // of sitemap.xml, by URL
}

// visitedAgain is every kind of change.
func visitedAgain() *testweb.Changes {
	const share = 0.07
	return &testweb.Changes{
		Always: share, Sometimes: share, Vanish: share, Redirect: share, Move: share, Tokens: share, Counter: share,
		Title:     share,
		Canonical: share, NoIndex: share, NoIndexHeader: share, Disallow: share, Appear: share, Unlink: share,
	}
}

func newSeries(t *testing.T, cfg testweb.Config, flags ...string) *crawlSeries {
	t.Helper()
	return &crawlSeries{web: e2e.Serve(t, cfg), dir: filepath.Join(t.TempDir(), "data"),
		crawl: testweb.Crawl{Scope: "any"},
		flags: flags}
}

// begin moves the web to a generation and returns the command that crawls it: the first time anew, then again.
func (s *crawlSeries) begin(t *testing.T, generation int) []string {
	t.Helper()
	if err := s.web.SetGeneration(generation); err != nil {
		t.Fatal(err)
	}
	s.web.Reset()
	args := []string{"recrawl", "--data-dir", s.dir}
	if len(s.began) == 0 {
		args = []string{"crawl", "--scope", "any", "--profile", "own-site", "--resolve", s.web.Resolve(), "--data-dir",
			s.dir}
		for _, start := range s.web.StartURLs() {
			args = append(args, "--start-url", start)
		}
		args = append(args, s.flags...)
	}
	s.generations = append(s.generations, generation)
	now := time.Now().Truncate(time.Millisecond)
	s.began, s.over = append(s.began, now), append(s.over, now)
	return args
}

// run begins a generation and crawls it to its end.
func (s *crawlSeries) run(t *testing.T, generation int, flags ...string) e2e.Result {
	t.Helper()
	got := e2e.Run(t, append(s.begin(t, generation), flags...)...)
	s.over[s.last()] = time.Now()
	return got
}

// last is the number of the last crawl; 0 is the first.
func (s *crawlSeries) last() int { return len(s.generations) - 1 }

// expected is what the last crawl must report, by URL.
func (s *crawlSeries) expected(t *testing.T) map[string]testweb.Recrawled {
	t.Helper()
	list, err := s.web.ExpectedRecrawl(s.crawl, s.generations...)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]testweb.Recrawled{}
	for e := range list {
		all[e.URL] = e
	}
	return all
}

// check compares all outputs of the last crawl with what the web knows of itself.
func (s *crawlSeries) check(t *testing.T) {
	t.Helper()
	before, lastMods := s.lines, s.lastMods
	s.lines, s.lastMods = e2e.ReadLines(t, s.dir), readLastMods(t, s.dir)
	e2e.FitsSchema(t, s.dir)
	expected := s.expected(t)
	var wrong complaints
	for url, e := range expected {
		l, ok := s.lines[url]
		if !ok {
			wrong.add("%s (%s) is missing", url, e.Kind)
			continue
		}
		s.checkLine(&wrong, l, e)
		s.checkLastMod(&wrong, l, e, lastMods[url])
		if was := lastMods[url]; was != "" && s.lastMods[url] != was && l.Indexable &&
			(l.Change == "unchanged" || l.Stale > 0) {
			wrong.add("%s (%s): the lastmod of a page that did not change was %q and is %q", url, e.Kind, was,
				s.lastMods[url])
		}
	}
	for url := range s.lines {
		if _, ok := expected[url]; !ok {
			wrong.add("%s should not be there", url)
		}
	}
	if s.last() > 0 {
		s.checkChanges(t, &wrong, before, expected)
	}
	wrong.report(t, fmt.Sprintf("crawl %d", s.last()))
}

// checkLine compares a line of sitemap.jsonl with the web's truth.
func (s *crawlSeries) checkLine(wrong *complaints, l e2e.Line, e testweb.Recrawled) {
	is := func(what string, got, want any) {
		if got != want {
			wrong.add("%s (%s, first in crawl %d, changed in %d): %s is %v, want %v", l.URL, e.Kind, e.First, e.Changed,
				what, got, want)
		}
	}
	within := func(what, at string, crawl int) {
		moment, err := time.Parse(time.RFC3339, at)
		is(what+" of the time of crawl "+strconv.Itoa(crawl), err == nil && !moment.Before(s.began[crawl]) &&
			!moment.After(s.over[crawl]), true)
	}
	is("a right outcome", slices.Contains(e.Outcomes, l.Outcome), true)
	is("the redirect", l.RedirectTo, e.Location)
	if l.Outcome == testweb.OutcomeOK {
		is("the title", l.Title, e.Title)
		is("the canonical URL", l.CanonicalURL, e.Canonical)
		is("indexable", l.Indexable, e.Indexable)
	}
	if e.Status != 0 && l.Outcome != testweb.OutcomeHostBlocked {
		is("the status", l.StatusCode, e.Status)
	}
	if e.Stale > 0 { // it was asked for in vain, or not at all if its host was given up before
		is("stale and too often", l.Stale > e.Stale, false)
		return
	}
	is("the generation", l.Generation, s.last())
	is("the change", l.Change, e.Change)
	is("stale", l.Stale, 0)
	is("volatile", l.Volatile, e.Volatile)
	// not every page without links is found; of a host with answers 304, a page that still has the link may not have
	// been read
	if l.Unlinked && s.read[hostName(l.URL)] {
		is("unlinked", true, e.Unlinked)
	}
	within("checked_at is", l.CheckedAt, s.last())
	within("first_seen_at is", l.FirstSeenAt, e.First)
	if e.Changed == 0 {
		is("changed_at", l.ChangedAt, "")
	} else {
		within("changed_at is", l.ChangedAt, e.Changed)
	}
}

// checkLastMod compares what sitemap.xml says of a page with the truth.
func (s *crawlSeries) checkLastMod(wrong *complaints, l e2e.Line, e testweb.Recrawled, before string) {
	got, listed := s.lastMods[l.URL]
	if listed != l.Indexable {
		wrong.add("%s (%s) is indexable: %v, and stands in sitemap.xml: %v", l.URL, e.Kind, l.Indexable, listed)
	}
	if !listed {
		return
	}
	want := ""
	switch e.LastModFrom {
	case testweb.LastModChanged:
		want = l.ChangedAt
	case testweb.LastModHeader, testweb.LastModSitemap:
		want = e.LastMod.Format(time.RFC3339)
	}
	switch {
	case sameMoment(got, want):
	case got == "" && e.LastModFrom == testweb.LastModSitemap && s.last() == 0 && l.Source != "sitemap":
		// a link was found first
	case got == before && got != "" && l.Change == testweb.ChangeUnchanged:
		// what the host's sitemap said once of a page that it does not list any more
	default:
		wrong.add("%s (%s): lastmod %q, want %q from %q", l.URL, e.Kind, got, want, e.LastModFrom)
	}
}

// sameMoment reports whether two texts are of the same second, or both empty.
func sameMoment(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	at, errA := time.Parse(time.RFC3339, a)
	bt, errB := time.Parse(time.RFC3339, b)
	return errA == nil && errB == nil && at.Truncate(time.Second).Equal(bt.Truncate(time.Second))
}

// checkChanges compares changes.jsonl with the web's truth, and with the lines of two crawls.
func (s *crawlSeries) checkChanges(t *testing.T, wrong *complaints, before map[string]e2e.Line,
	expected map[string]testweb.Recrawled) {
	t.Helper()
	seen := map[string]recrawl.Line{}
	schema := e2e.ReadSchemaOf(t, "changes-jsonl")
	text := e2e.Read(t, s.dir, "changes.jsonl")
	for row := range strings.Lines(text) {
		if err := schema.CheckLine([]byte(row)); err != nil {
			wrong.add("changes.jsonl: %v in %s", err, row)
		}
		c := e2e.Parse[recrawl.Line](t, row)
		if _, twice := seen[c.URL]; twice {
			wrong.add("%s stands twice in changes.jsonl", c.URL)
		}
		seen[c.URL] = c
	}
	for url, e := range expected {
		c, ok := seen[url]
		if isChange := e.Change != "" && e.Change != testweb.ChangeUnchanged; ok != isChange {
			wrong.add("%s (%s) stands in changes.jsonl: %v, and its change is %q", url, e.Kind, ok, e.Change)
			continue
		}
		if !ok {
			continue
		}
		if c.Change != e.Change || int(c.Generation) != s.last() {
			wrong.add("%s (%s): changes.jsonl says %s in generation %d, want %s", url, e.Kind, c.Change, c.Generation,
				e.Change)
		}
		if e.Change == testweb.ChangeNew {
			continue // there is nothing before
		}
		want := map[string]recrawl.Values{}
		for _, d := range e.Differences {
			v := recrawl.Values{Before: known(d.Field, d.Before), After: known(d.Field, d.After)}
			if d.Field == "text_hash" {
				v = recrawl.Values{Before: before[url].TextHash, After: s.lines[url].TextHash}
			}
			want[d.Field] = v
		}
		if !maps.Equal(c.Fields, want) {
			wrong.add("%s (%s): changes.jsonl says %v, want %v", url, e.Kind, c.Fields, want)
		}
	}
	for url := range seen {
		if _, ok := expected[url]; !ok {
			wrong.add("%s should not be in changes.jsonl", url)
		}
	}
	printed := e2e.Run(t, "changes", "--json", "--data-dir", s.dir)
	if printed.Code != 0 || printed.Stdout != text {
		t.Errorf("'changes --json' ends with %d and prints something else than changes.jsonl: %s", printed.Code,
			printed.Stderr)
	}
}

// known is a value of the web as changes.jsonl has it.
func known(field, text string) any {
	switch {
	case text == "":
		return nil
	case field == "status_code":
		n, _ := strconv.Atoi(text)
		return float64(n)
	case field == "noindex":
		return text == "true"
	}
	return text
}

// complaints are what is wrong, of which the first are shown.
type complaints []string

func (c *complaints) add(format string, args ...any) { *c = append(*c, fmt.Sprintf(format, args...)) }

func (c complaints) report(t *testing.T, what string) {
	t.Helper()
	if len(c) == 0 {
		return
	}
	slices.Sort(c)
	t.Errorf("%s: %d faults, such as\n\t%s", what, len(c), strings.Join(c[:min(len(c), 20)], "\n\t"))
}

// readLastMods reads the XML sitemaps, by URL, and holds them against their schema.
func readLastMods(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range e2e.SitemapFiles(t, dir) {
		sitemaptest.Files(t, filepath.Join(dir, name))
		var set struct {
			URLs []e2e.Location `xml:"url"`
		}
		if err := xml.Unmarshal([]byte(e2e.Read(t, dir, name)), &set); err != nil {
			t.Fatal(err)
		}
		for _, u := range set.URLs {
			all[u.Loc] = u.LastMod
		}
	}
	return all
}

// hostName is the host of a URL.
func hostName(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

// hostOf is the number of a URL's host.
func hostOf(t *testing.T, web *testweb.Server, raw string) int {
	t.Helper()
	name := hostName(raw)
	for i := range web.StartURLs() {
		if web.HostName(i) == name {
			return i
		}
	}
	t.Fatalf("%s is no URL of the web", raw)
	return 0
}

// validatorModes are all kinds of validators, each on a host of its own.
func validatorModes() (modes []string, faults []testweb.HostFault) {
	modes = []string{"both", "etag", "weak", "gzip_suffix", "date", "future", "none", "never_304", "now", "unasked_304",
		"always_304"}
	for i, mode := range modes {
		faults = append(faults, testweb.On(testweb.HostSet(strconv.Itoa(i)), testweb.Validators{Mode: mode})...)
	}
	return modes, faults
}

// A crawl and three recrawls of a web with every kind of change, and hosts with every kind of validators, right ones
// and wrong ones: all outputs say what the web knows of itself, and bodies are read only where they must be.
func TestRecrawl(t *testing.T) {
	t.Parallel()
	modes, faults := validatorModes()
	s := newSeries(t, testweb.Config{
		Seed: 21, Hosts: len(modes), Pages: 60, PageSize: 3000, Links: 6, Changes: visitedAgain(), Faults: faults,
		Sitemaps: &testweb.Sitemaps{Orphans: 3},
	})
	s.read = map[string]bool{}
	for i, mode := range modes {
		s.read[s.web.HostName(i)] = slices.Contains([]string{"none", "never_304", "now", "unasked_304"}, mode)
	}
	for generation := range 4 {
		before := s.lines
		e2e.Ended(t, s.run(t, generation), s.dir, 0, "complete", "")
		s.check(t)
		if generation > 0 {
			s.checkRequests(t, modes, before)
		}
	}
}

// checkRequests compares what the hosts counted with what a recrawl needs.
func (s *crawlSeries) checkRequests(t *testing.T, modes []string, before map[string]e2e.Line) {
	t.Helper()
	type count struct {
		known    int // pages that were there before, and are not disallowed now
		must     int // pages of which the body must be read: new, different by its validators, or by its headers
		answered int // pages that are answered 304 and are as they were
	}
	counts := make([]count, len(modes))
	for url, e := range s.expected(t) {
		c := &counts[hostOf(t, s.web, url)]
		if before[url].Outcome == testweb.OutcomeOK && e.Outcomes[0] != testweb.OutcomeBlockedByRobots {
			c.known++
		}
		switch {
		case e.Status != 200:
		case e.NotModified && len(e.Differences) == 0:
			c.answered++
		default:
			c.must++
		}
	}
	for i, mode := range modes {
		c, h := counts[i], s.web.HostStats(i)
		verified := h.Bodies - c.must
		switch mode {
		case "none", "unasked_304":
			if h.Conditional != 0 || verified != 0 {
				t.Errorf("crawl %d, host %s: %d conditional requests, and %d bodies, want 0 and %d", s.last(), mode,
					h.Conditional, h.Bodies, c.must)
			}
		case "always_304": // a 304 that names another date gives itself away, and the host is not believed any more
			if (h.Conditional > 0) != (s.last() == 1) || h.Bodies < c.must+c.answered {
				t.Errorf("crawl %d, host %s: %d conditional requests, and %d bodies, want at least %d", s.last(), mode,
					h.Conditional, h.Bodies, c.must+c.answered)
			}
		default:
			// The first ten 304s of a host are verified, and one in a hundred of the others, which is chosen by a hash:
			// twelve of these few pages are never chosen.
			least, most := min(c.answered, 10), min(c.answered, 22)
			if h.Conditional != c.known || verified < least || verified > most {
				t.Errorf("crawl %d, host %s: %d conditional requests, want %d; %d bodies, want %d and %d to %d that "+
					"are verified", s.last(), mode, h.Conditional, c.known, h.Bodies, c.must, least, most)
			}
		}
		if h.Disallowed.Count+h.Baits.Count+h.Unknown.Count > 0 {
			t.Errorf("host %s: against robots.txt %v, baits %v, never named %v", mode, h.Disallowed, h.Baits, h.Unknown)
		}
	}
}

// A host that answers 304 to every conditional request, whatever became of the page, is found out: what the outputs say
// of its pages is right, and nothing conditional is sent to it any more.
func TestRecrawlFindsFalseAnswers(t *testing.T) {
	t.Parallel()
	s := newSeries(t, testweb.Config{
		Seed: 4, Hosts: 2, Pages: 80, PageSize: 3000, Links: 6,
		Changes: &testweb.Changes{Always: 0.7, Vanish: 0.1, Title: 0.1},
		Faults:  testweb.On("1", testweb.Validators{Mode: "bare_304"}),
	})
	const said = "answered 304 for a page that had changed"
	for generation := range 4 {
		got := s.run(t, generation)
		e2e.Ended(t, got, s.dir, 0, "complete", "")
		s.check(t)
		if generation == 0 {
			continue
		}
		honest, other := s.web.HostStats(0), s.web.HostStats(1)
		if honest.Conditional == 0 || honest.Status[304] == 0 {
			t.Errorf("crawl %d: %d conditional requests and %d answers 304 of the host that answers rightly",
				generation, honest.Conditional, honest.Status[304])
		}
		if found := strings.Contains(got.Stderr, said); found != (generation == 1) {
			t.Errorf("crawl %d: the program says %s", generation, got.Stderr)
		}
		if n := other.Conditional; (n > 0) != (generation == 1) {
			t.Errorf("crawl %d: %d conditional requests to a host whose answers are false", generation, n)
		}
	}
}

// A site that answers 500 to everything in one recrawl: the recrawl has failed, sitemap.xml and the other outputs stay
// as they are, byte for byte, and the next recrawl finds what changed since.
func TestRecrawlOfASiteThatIsDown(t *testing.T) {
	t.Parallel()
	s := newSeries(t, testweb.Config{
		Seed: 9, Pages: 40, PageSize: 3000, Links: 6, Changes: visitedAgain(), Sitemaps: &testweb.Sitemaps{},
		Faults: testweb.OnAll(testweb.Down{Generations: []int{2}}),
	}, append(downFlags(), "--csv")...)
	for generation := range 2 {
		e2e.Ended(t, s.run(t, generation), s.dir, 0, "complete", "")
		s.check(t)
	}
	files := []string{"sitemap.xml", "sitemap.jsonl", "sitemap.csv", "changes.jsonl"}
	before := map[string]string{}
	for _, name := range files {
		before[name] = e2e.Read(t, s.dir, name)
	}
	got := s.run(t, 2)
	if rep := e2e.ReadReport(t, s.dir); got.Code != 1 || rep.Status != "failed" || rep.Reason == "" {
		t.Errorf("exit status %d, %s (%s), want 1 and failed", got.Code, rep.Status, rep.Reason)
	}
	for _, name := range files {
		if e2e.Read(t, s.dir, name) != before[name] {
			t.Errorf("a recrawl that failed has replaced %s", name)
		}
	}
	e2e.Ended(t, s.run(t, 3), s.dir, 0, "complete", "")
	s.check(t)
}

// One host of two is down in two recrawls: its pages stay in the outputs as they were. Those that were asked for are
// marked as stale, the others were not checked, since the host was given up.
func TestRecrawlWithAHostThatIsDown(t *testing.T) {
	t.Parallel()
	s := newSeries(t, testweb.Config{
		Seed: 9, Hosts: 2, Pages: 30, PageSize: 3000, Links: 6, Changes: visitedAgain(),
		Faults: testweb.On("1", testweb.Down{Generations: []int{2, 3}}),
	}, downFlags()...)
	for generation := range 5 {
		before := s.lastMods
		e2e.Ended(t, s.run(t, generation), s.dir, 0, "complete", "")
		s.check(t)
		if generation != 2 && generation != 3 {
			continue
		}
		listed, stale := 0, 0
		for url, lastMod := range before {
			if hostOf(t, s.web, url) != 1 {
				continue
			}
			listed++
			if now, is := s.lastMods[url]; !is || now != lastMod {
				t.Errorf("crawl %d: %s stands in sitemap.xml: %v, lastmod %q, was %q", generation, url, is, now,
					lastMod)
			}
			if l := s.lines[url]; l.Stale > 0 {
				stale++
			}
		}
		if listed == 0 || stale == 0 {
			t.Errorf("crawl %d: %d pages of the host that is down were in sitemap.xml, %d are stale", generation,
				listed, stale)
		}
	}
}

// downFlags are for crawls of hosts that fail, so that they are soon given up.
func downFlags() []string {
	return []string{"--max-retries", "0", "--max-host-backoff-secs", "1", "--failure-threshold", "2",
		"--max-host-failures", "2"}
}
