package recrawl_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/parser"
)

// visitor visits URLs of the synthetic web with net/http, and judges each answer.
type visitor struct {
	t          *testing.T
	client     *http.Client
	parser     *parser.Parser
	known      map[string]*recrawl.Known
	first      bool            // the first crawl
	distrusted map[string]bool // hosts whose 304s were found to be false
}

// visit asks for a URL as a recrawl would, and records what it found. Every 304 is verified.
func (v *visitor) visit(e testweb.Recrawled) recrawl.Verdict {
	known := v.known[e.URL]
	if slices.Contains(e.Outcomes, testweb.OutcomeBlockedByRobots) && e.Stale == 0 {
		return v.judge(e.URL, known, &recrawl.Answer{Outcome: page.BlockedByRobots, At: time.Now(),
			Facts: page.Facts{Robots: page.Robots{Checked: true}}})
	}
	u := weburl.MustCanonical(e.URL)
	conditions := recrawl.Conditions(known)
	if v.distrusted[u.Host()] {
		conditions = nil
	}
	verdict := v.judge(e.URL, known, v.ask(u, conditions, false))
	if verdict.NotModified {
		again := v.ask(u, nil, false)
		again.Verifies = true
		verdict = v.judge(e.URL, v.known[e.URL], again)
	}
	if verdict.FalseNotModified {
		v.distrusted[u.Host()] = true
	}
	return verdict
}

// judge judges an answer, asks again if it must, and keeps what is to be recorded.
func (v *visitor) judge(url string, known *recrawl.Known, a *recrawl.Answer) recrawl.Verdict {
	v.t.Helper()
	verdict := recrawl.Verdict{Outcome: a.Outcome, Status: a.Status, Facts: &a.Facts}
	if !v.first {
		verdict = recrawl.Judge(known, a)
	}
	switch verdict.ReadAgain {
	case recrawl.ReadPage:
		again := v.ask(weburl.MustCanonical(url), nil, false)
		again.Verifies = true
		return v.judge(url, known, again)
	case recrawl.ReadAround:
		return v.judge(url, known, v.ask(weburl.MustCanonical(url), nil, true))
	}
	now := &recrawl.Known{Outcome: verdict.Outcome, Status: verdict.Status, Facts: verdict.Facts,
		ChangedAt: verdict.ChangedAt, Changes: verdict.Changes, Failures: verdict.Failures}
	if verdict.KeepFacts {
		now.Facts = known.Facts
	}
	v.known[url] = now
	return verdict
}

// ask makes one request.
func (v *visitor) ask(u weburl.URL, conditions http.Header, noCache bool) *recrawl.Answer {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		v.t.Fatal(err)
	}
	if req.Header = conditions.Clone(); req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Accept-Encoding", "gzip")
	a := &recrawl.Answer{At: time.Now(), Conditional: conditions != nil, NoCache: noCache, Facts: page.Facts{}}
	resp, err := v.client.Do(req)
	if err != nil {
		a.Outcome, a.Facts.Error = page.ConnectError, err.Error()
		return a
	}
	defer resp.Body.Close()
	a.Status, a.Header = resp.StatusCode, resp.Header
	a.Facts.ContentType, a.Facts.ETag = resp.Header.Get("Content-Type"), resp.Header.Get("Etag")
	recrawl.TakeHeaders(&a.Facts, resp.Header, a.At)
	switch {
	case a.Status == 200:
		a.Outcome = page.OK
	case a.Status >= 300 && a.Status < 400 && a.Status != 304:
		target, err := u.Resolve(resp.Header.Get("Location"))
		if err != nil {
			v.t.Fatal(err)
		}
		a.Outcome, a.Facts.RedirectTo = page.Redirect, target.String()
		return a
	default:
		a.Outcome = page.HTTPError
		return a
	}
	v.parse(u, resp, a)
	return a
}

// parse reads a page.
func (v *visitor) parse(u weburl.URL, resp *http.Response, a *recrawl.Answer) {
	v.t.Helper()
	if !strings.HasPrefix(a.Facts.ContentType, "text/html") {
		return
	}
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(body)
		if err != nil {
			v.t.Fatal(err)
		}
		body = zip
	}
	text, err := io.ReadAll(body)
	if err != nil {
		v.t.Fatal(err)
	}
	var pg parser.Page
	if err := v.parser.Parse(&pg, parser.Input{URL: u, Body: text, Header: resp.Header}); err != nil {
		v.t.Fatal(err)
	}
	f := &a.Facts
	f.Title, f.Canonical, f.NoIndex, f.WordCount = pg.Title, pg.Canonical, pg.NoIndex, &pg.WordCount
	f.ContentHash, f.TextHash = new(page.Hash(pg.ContentHash)), new(page.Hash(pg.VisibleHash))
	if !v.first {
		f.SimHash = new(page.Hash(pg.SimHash))
	}
	a.Modified = pg.Modified
	if f.LastModified.IsZero() {
		f.LastModified.Time = pg.Modified
	}
}

// differing are the differences of a verdict in the form of the synthetic web, which has no values for a hash.
func differing(t *testing.T, v *recrawl.Verdict) []testweb.Difference {
	t.Helper()
	if len(v.Differences) == 0 {
		return nil
	}
	_, all, err := recrawl.DecodeDifferences(v.Differences)
	if err != nil {
		t.Fatal(err)
	}
	var list []testweb.Difference
	for _, d := range all {
		if d.Field == recrawl.TextHash {
			d.Before, d.After = "", ""
		}
		list = append(list, testweb.Difference{Field: d.Field.String(), Before: d.Before, After: d.After})
	}
	return list
}

// Visits of a web that changes find what the web knows to be right, whatever validators its hosts have.
func TestWebThatChanges(t *testing.T) {
	modes := []string{"both", "etag", "weak", "gzip_suffix", "date", "none", "always_304", "never_304", "now", "future",
		"unasked_304"}
	const share = 0.065
	cfg := testweb.Config{
		Hosts: len(modes) + 2, Pages: 40, Links: 6, PageSize: 3000, CrossHost: 0.2,
		Changes: &testweb.Changes{
			Always: share, Sometimes: share, Vanish: 2 * share, Redirect: share, Move: share, Tokens: share,
			Counter: share, Title: share,
			Canonical: share, NoIndex: share, NoIndexHeader: share, Disallow: share, Appear: share, Unlink: share,
		},
	}
	for i, mode := range modes {
		cfg.Faults = append(cfg.Faults, testweb.On(testweb.HostSet(fmt.Sprint(i)), testweb.Validators{Mode: mode})...)
	}
	cfg.Faults = append(cfg.Faults, testweb.On(testweb.HostSet(fmt.Sprint(len(modes))),
		testweb.Down{Generations: []int{2, 3, 4, 5}})...)
	cfg.Faults = append(cfg.Faults, testweb.On(testweb.HostSet(fmt.Sprint(len(modes)+1)),
		testweb.Down{Generations: []int{1}, Refuse: true})...)
	for seed, tt := range []struct {
		generations []int
		distrusted  []string // modes of hosts that answer 304 although the text changed
	}{
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, []string{"always_304"}},
		// a text that is older than the one before is not modified since, by its date
		{[]int{0, 2, 2, 5, 4}, []string{"date", "always_304", "future"}},
		{[]int{0, 4, 7}, []string{"always_304"}},
	} {
		cfg.Seed = uint64(seed)
		synctest.Test(t, func(t *testing.T) {
			var distrusted []string
			for host := range visitGenerations(t, cfg, tt.generations) {
				distrusted = append(distrusted, host)
			}
			var want []string
			for _, mode := range tt.distrusted {
				want = append(want, fmt.Sprintf("h%d.test", slices.Index(modes, mode)))
			}
			if slices.Sort(distrusted); !slices.Equal(distrusted, want) {
				t.Errorf("generations %v: false 304s were found of %v, want %v", tt.generations, distrusted, want)
			}
		})
	}
}

// visitGenerations visits all pages of a web in some generations, and returns the hosts whose 304s are false.
func visitGenerations(t *testing.T, cfg testweb.Config, generations []int) map[string]bool {
	s, err := testweb.StartOn(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := parser.New(parser.Options{SimHash: true})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{
		Transport:     &http.Transport{DialContext: s.Dial, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	v := &visitor{t: t, client: client, parser: p, known: map[string]*recrawl.Known{}, distrusted: map[string]bool{}}
	for i, generation := range generations {
		if err := s.SetGeneration(generation); err != nil {
			t.Fatal(err)
		}
		want, err := s.ExpectedRecrawl(testweb.Crawl{Scope: "any"}, generations[:i+1]...)
		if err != nil {
			t.Fatal(err)
		}
		v.first = i == 0
		for e := range want {
			if e.Undefined {
				continue
			}
			v.compare(e, v.visit(e), generations[:i+1])
		}
		time.Sleep(time.Hour) // of the bubble
	}
	return v.distrusted
}

// compare compares a verdict with what is right.
func (v *visitor) compare(e testweb.Recrawled, got recrawl.Verdict, generations []int) {
	v.t.Helper()
	known := v.known[e.URL]
	if !slices.Contains(e.Outcomes, known.Outcome.String()) || e.Status != 0 && e.Status != known.Status ||
		e.Location != known.Facts.RedirectTo {
		v.t.Errorf("generations %v, %s: %v %d %s, want %v %d %s", generations, e.URL, known.Outcome, known.Status,
			known.Facts.RedirectTo, e.Outcomes, e.Status, e.Location)
	}
	if int(got.Failures) != e.Stale {
		v.t.Errorf("generations %v, %s: stale %d, want %d", generations, e.URL, got.Failures, e.Stale)
	}
	if e.Stale > 0 { // what is kept was compared before
		return
	}
	if e.Change == testweb.ChangeNew {
		got.Differences = nil
	}
	if is := differing(v.t, &got); got.Change.String() != e.Change || !slices.Equal(is, e.Differences) {
		v.t.Errorf("generations %v, %s (%s): %v, differs in %v, want %s, %v", generations, e.URL, e.Kind, got.Change,
			is, e.Change, e.Differences)
	}
	if known.Facts.Volatile() != e.Volatile {
		v.t.Errorf("generations %v, %s (%s): volatile is %v", generations, e.URL, e.Kind, !e.Volatile)
	}
	if e.LastModFrom == testweb.LastModHeader != !known.Facts.LastModified.IsZero() && known.Outcome == page.OK &&
		!e.Volatile {
		v.t.Errorf("generations %v, %s (%s): last modified %v, want %v from %q", generations, e.URL, e.Kind,
			known.Facts.LastModified, e.LastMod, e.LastModFrom)
	}
	if e.LastModFrom == testweb.LastModHeader && !known.Facts.LastModified.Equal(e.LastMod) {
		v.t.Errorf("generations %v, %s (%s): last modified %v, want %v", generations, e.URL, e.Kind,
			known.Facts.LastModified, e.LastMod)
	}
	if (e.Changed > 0) != !known.ChangedAt.IsZero() {
		v.t.Errorf("generations %v, %s (%s): changed at %v, want crawl %d", generations, e.URL, e.Kind, known.ChangedAt,
			e.Changed)
	}
}
