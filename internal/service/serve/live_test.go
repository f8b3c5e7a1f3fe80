package serve

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
)

// samples are the runs of a crawl of which only samples exist. They count how often they are asked.
type samples struct {
	live  *monitor.Live
	asked atomic.Int64
}

func (s *samples) Live(string) *monitor.Live {
	s.asked.Add(1)
	return s.live
}

// bareServer is a server that runs no crawls, and that takes samples for those of running ones.
func bareServer(t *testing.T, runs *samples) *Server {
	t.Helper()
	svc, err := service.Open(t.Context(), service.Options{Dir: t.TempDir(), RecordsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Service: svc, PublicURL: &url.URL{Scheme: "http", Host: "h.test", Path: "/base"}})
	if err != nil {
		t.Fatal(err)
	}
	s.liveOf = runs.Live
	t.Cleanup(func() {
		if err := svc.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A hundred pages that are open cost one sample in a second.
func TestLivePartIsMadeOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := &samples{live: &monitor.Live{Found: 1234}}
		s := bareServer(t, runs)
		c := &service.Crawl{ID: "a", State: service.Running}
		for second := range 3 {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if text := string(s.live.get(c)); !strings.Contains(text, "1,234") {
						t.Errorf("the live part is %q", text)
					}
				})
			}
			all.Wait()
			if n := runs.asked.Load(); n != int64(second+1) {
				t.Errorf("in %d seconds, %d samples were taken", second+1, n)
			}
			time.Sleep(time.Second)
		}
		runs.live = nil
		if s.live.get(c) != nil {
			t.Error("a crawl that has ended has a live part")
		}
		s.live.sweep(time.Now())
		if len(s.live.all) != 1 {
			t.Error("a part that was just asked for is forgotten")
		}
		time.Sleep(2 * keepUnused)
		if s.live.sweep(time.Now()); len(s.live.all) != 0 {
			t.Error("a part that no page asks for is kept")
		}
	})
}

// The charts reach over the whole run, however long it is, in bounded memory.
func TestHistoryReachesOverTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := &samples{live: &monitor.Live{}}
		h := bareServer(t, runs).history
		h.watch("a", 0)
		begin := time.Now()
		for range 100_000 {
			time.Sleep(time.Second)
			runs.live.Found++
			h.sample(time.Now())
		}
		all := h.moments("a")
		if len(all) < maxMoments/2 || len(all) > maxMoments {
			t.Fatalf("%d moments are kept", len(all))
		}
		if first := all[0].at.Sub(begin); first > time.Minute {
			t.Errorf("the first moment is %s after the beginning", first)
		}
		if last := time.Since(all[len(all)-1].at); last > 2*100_000*time.Second/(maxMoments/2) {
			t.Errorf("the last moment was %s ago", last)
		}
		for i, m := range all[1:] {
			if m.found <= all[i].found || m.at.Sub(all[i].at) <= 0 {
				t.Fatalf("moment %d is not after the one before", i+1)
			}
		}
		runs.live = nil
		if h.sample(time.Now()); h.moments("a") != nil {
			t.Error("a crawl that has ended is still watched")
		}
	})
}

// hostile is text that must never become markup, turn text around or widen a page.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202E\u2066{{.}}'`"

// Texts of crawled sites are shown as text on every page.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	s := bareServer(t, &samples{})
	q := &call{Server: s, ctx: t.Context(), page: true, caller: &service.Caller{Account: service.Account{Name: hostile}, Scopes: service.Scopes()}, r: httptest.NewRequest(http.MethodGet, "/", nil), cred: credential{csrf: "token"}}
	long := hostile + strings.Repeat("x", 10_000)
	c := &service.Crawl{ID: "c1", Name: long, Labels: []string{long}, State: service.Paused, Waiting: &service.Waiting{Code: service.WaitDisk, Detail: long}, StartURLs: []string{long}, StartURLCount: 1,
		Settings: map[string]any{"include": []any{long}}, Plan: long, Result: service.Result{Reason: long, Errors: []string{long}, Warnings: []string{long}}}
	frame := q.crawlFrame(c, "pages", "Pages")
	list := &crawlsView{frame: q.frame("Crawls", "crawls"), Query: map[string]string{"q": hostile, "label": hostile}}
	list.add(q, crawlGroup{ID: "queue", Queue: true}, []*service.Crawl{c})
	list.add(q, crawlGroup{ID: "ended"}, []*service.Crawl{c})
	host := monitor.HostUse{Host: long, Why: long}
	live := &monitor.Live{Waiting: long, Busiest: []monitor.HostUse{host}, Resting: []monitor.HostUse{host}, Outcomes: map[string]int64{hostile: 1}, Hosts: map[string]int64{hostile: 1}}
	pages := &pagesView{crawlFrame: frame, Query: map[string]string{"q": hostile}, Columns: (&pagesView{crawlFrame: frame, Query: map[string]string{}}).sortColumns()}
	pages.Rows = []pageRow{pageRowOf(&pageLine{URL: "http://h.test/" + long, Outcome: "ok", Title: long}, false)}
	one := &pageView{crawlFrame: frame, URL: "http://h.test/" + long}
	line := page.NewTable().AppendJSON(nil, &page.Line{URL: weburl.MustCanonical(one.URL), Error: long, Facts: page.Facts{Title: long, RedirectTo: "javascript:alert(1)"}, Robots: &page.LineRobots{Rule: long}})
	if err := one.add(pageFacts{line: line, redirects: []hop{{URL: "javascript:alert(1)"}}}); err != nil {
		t.Fatal(err)
	}
	one.In, one.Out = &linkTable{&frame, &links{Total: 1, Items: []link{{URL: long, Text: long, Rel: long}}}, "In"}, &linkTable{&frame, &links{}, "Out"}
	for name, view := range map[string]any{
		"crawls": list, "new": q.newForm(map[string][]string{"start_urls": {long}, "settings.include": {long}}, []service.FieldError{{Field: "name", Detail: long}, {Field: long, Detail: long}}),
		"crawl": &crawlView{crawlFrame: frame, Outcomes: ui.Counts("Outcomes", "Outcome", "URLs", map[string]int64{hostile: 1}, nil), Settings: settingsTable(c), Starts: startsTable(c)},
		"live":  liveViewOf("/base", c, live, nil), "pages": pages, "page": one,
		"changes": &changesView{crawlFrame: frame, Rows: []changeRow{{URL: long, Change: hostile, Fields: []changedField{{long, long, long}}}}},
		"error":   &errorView{frame: q.frame(hostile, ""), Error: &service.Error{Detail: long, Fields: []service.FieldError{{Field: long, Detail: long}}}},
	} {
		out := &strings.Builder{}
		if err := s.templates.ExecuteTemplate(out, name, view); err != nil {
			t.Fatal(err)
		}
		root, err := html.Parse(strings.NewReader(out.String()))
		if err != nil {
			t.Fatal(err)
		}
		for n := range root.Descendants() {
			for _, a := range n.Attr {
				if n.Data == "img" || strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.HasPrefix(strings.TrimSpace(a.Val), "javascript:") {
					t.Errorf("%s: %s has the attribute %s=%q", name, n.Data, a.Key, a.Val)
				}
			}
			if n.Type == html.ElementNode && n.Data == "script" && (n.FirstChild != nil || len(n.Attr) == 0) {
				t.Errorf("%s: a text became a script", name)
			}
		}
		for n := range root.Descendants() {
			// Fields of forms have what the person has typed.
			if n.Type == html.TextNode && n.Parent.Data != "textarea" && strings.ContainsAny(n.Data, "\u202E\u2066") {
				t.Errorf("%s: characters that turn text around are in %s: %.100q", name, n.Parent.Data, n.Data)
			}
		}
		if strings.Contains(out.String(), "ZgotmplZ") {
			t.Errorf("%s: a value was not safe where it stands", name)
		}
	}
}

func TestPagesQuery(t *testing.T) {
	t.Parallel()
	read := func(q map[string]string) (f pageindex.Filter, fault string) {
		f = readFilter(func(name string) string { return q[name] },
			func(name, detail string) { fault += name + ": " + detail })
		return f, fault
	}
	for _, bad := range []map[string]string{{"outcome": "x"}, {"status": "x"}, {"status": "9xx"}, {"status": "12"}, {"depth": "-1"},
		{"depth": "deep"}, {"indexable": "maybe"}, {"problem": "x"}, {"change": "x"}} {
		if _, fault := read(bad); fault == "" {
			t.Errorf("%+v is accepted", bad)
		}
	}
	filter, fault := read(map[string]string{"q": "a", "outcome": "ok", "status": "2xx", "depth": "2", "indexable": "true", "change": "new"})
	if fault != "" {
		t.Fatal(fault)
	}
	passes, err := filter.Lines()
	if err != nil {
		t.Fatal(err)
	}
	line := func(change func(*page.Line)) *page.Line {
		l := &page.Line{URL: weburl.MustCanonical("http://h.test/A"), Outcome: "ok", StatusCode: 200, Depth: 2, Indexable: true, Change: "new"}
		change(l)
		return l
	}
	if !passes(line(func(*page.Line) {})) {
		t.Error("a page that matches does not pass")
	}
	for i, change := range []func(*page.Line){func(l *page.Line) { l.URL = weburl.MustCanonical("http://h.test/b") }, func(l *page.Line) { l.Outcome = "timeout" },
		func(l *page.Line) { l.StatusCode = 404 }, func(l *page.Line) { l.Depth = 1 },
		func(l *page.Line) { l.Indexable = false }, func(l *page.Line) { l.Change = "" }} {
		if passes(line(change)) {
			t.Errorf("page %d passes", i)
		}
	}
}

func TestDurationText(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"3600": "1h", "5400": "1h30m", "90": "1m30s", `"20m"`: "20m", "0": "0", `"what"`: "what"} {
		if got := durationText(json.RawMessage(value)); got != want {
			t.Errorf("%s is shown as %q, want %q", value, got, want)
		}
	}
}
