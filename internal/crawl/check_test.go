package crawl

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
)

// linkSite is a site at a.test that links to others, and notes the methods of all requests.
type linkSite struct {
	*handSite
	methods sync.Mutex
	by      map[string][]string // guarded by methods; methods by URL
}

// newLinkSite makes a site. Answers of other hosts are a status, or a URL to redirect to.
func newLinkSite(t *testing.T, pages map[string]string, others map[string]any) *linkSite {
	urls := map[string]any{}
	for path, body := range pages {
		urls["a.test"+path] = "<html><title>t</title>" + body + "</html>"
	}
	s := &linkSite{handSite: newHandSite(t, urls), by: map[string][]string{}}
	s.other = func(w http.ResponseWriter, r *http.Request) {
		url := r.Host + r.URL.RequestURI()
		s.methods.Lock()
		s.by[url] = append(s.by[url], r.Method)
		s.methods.Unlock()
		switch answer := others[url].(type) {
		case int:
			w.WriteHeader(answer)
		case string:
			http.Redirect(w, r, answer, http.StatusMovedPermanently)
		case func(http.ResponseWriter, *http.Request):
			answer(w, r)
		default:
			http.NotFound(w, r)
		}
	}
	return s
}

// methodsOf are the methods by which a URL was asked for, since the last call for it.
func (s *linkSite) methodsOf(url string) string {
	s.methods.Lock()
	defer s.methods.Unlock()
	defer delete(s.by, url)
	return strings.Join(s.by[url], " ")
}

// checking are the settings of a crawl that checks links.
func checking(change func(*config.Settings)) func(*config.Settings) {
	return func(o *config.Settings) {
		o.Profile, o.CheckExternal, o.SeedingStrategy = config.Polite, true, nil // without delays
		if change != nil {
			change(o)
		}
	}
}

// found are the URLs of a problem, with the value and the related pages of each.
func found(t *testing.T, rep *report.Report, code problems.Code) map[string]string {
	t.Helper()
	at := slices.IndexFunc(rep.Problems, func(p problems.Problem) bool { return p.Code == code.String() })
	all := map[string]string{}
	for _, item := range rep.Problems[at].Items {
		all[item.URL] = fmt.Sprintf("%s%v%v", item.Value, item.Related, item.Texts)
	}
	return all
}

func TestExternalLinksAreChecked(t *testing.T) {
	t.Parallel()
	noHead := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_, _ = w.Write([]byte(strings.Repeat("x", 1<<20)))
	}
	s := newLinkSite(t, map[string]string{
		"/": `<a href="/2">2</a><a href="/go">go</a><a href="http://ok.test/">ok</a><a href="http://gone.test/x">lost</a>
			<a href="http://gone.test/x#part">again</a><a href="http://nohead.test/">n</a><a href="http://moved.test/">m</a>
			<a href="http://moved.test/2">m2</a><a href="http://loop.test/">l</a><a href="http://secret.test/">s</a>
			<a rel=nofollow href="http://nofollow.test/">nf</a><a href="http://robots.test/no">r</a>
			<a href="http://busy.test/">b</a>`,
		"/2": `<a href="http://gone.test/x">lost too</a><a href="http://out.test/deep">d</a>`,
	}, map[string]any{
		"a.test/go": "http://out.test/lost", "ok.test/": 200, "gone.test/x": 404, "moved.test/": "http://ok.test/",
		"moved.test/2": "http://gone.test/x", "loop.test/": "/2", "loop.test/2": "/", "secret.test/": 403,
		"nofollow.test/": 410, "out.test/lost": 404, "out.test/deep": 500, "nohead.test/": noHead, "robots.test/no": 200,
		"robots.test/robots.txt": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "User-agent: *\nDisallow: /no")
		},
		"busy.test/": 429,
	})
	dir := datadir.Dir(t.TempDir() + "/data")
	rep, lines := s.crawl(dir, checking(func(o *config.Settings) {
		o.MaxDepth, o.MaxRetries = 1, 0
	}), "http://a.test/")
	wantURLs(t, "pages", slices.Sorted(maps.Keys(lines)), "http://a.test/", "http://a.test/2", "http://a.test/go")
	if rep.Status != "complete" || rep.Pages != 3 || rep.URLs != 3 {
		t.Errorf("status %s, %d pages, %d URLs", rep.Status, rep.Pages, rep.URLs)
	}
	for url, want := range map[string]string{"ok.test/": "HEAD", "gone.test/x": "HEAD GET", "nohead.test/": "HEAD GET",
		"moved.test/": "HEAD", "robots.test/no": "", "busy.test/": "HEAD", "nofollow.test/": "HEAD GET",
		"robots.test/robots.txt": "GET", "ok.test/robots.txt": "GET"} {
		if got := s.methodsOf(url); got != want {
			t.Errorf("%s was asked for by %q, want %q", url, got, want)
		}
	}
	broken := found(t, rep, problems.BrokenExternal)
	want := map[string]string{
		"http://gone.test/x":    "404[http://a.test/ http://a.test/2][lost lost too]",
		"http://moved.test/2":   "404[http://a.test/][m2]",
		"http://loop.test/":     "redirect_loop[http://a.test/][l]",
		"http://nofollow.test/": "410[http://a.test/][nf]",
		"http://out.test/lost":  "404[http://a.test/go][]",
		"http://out.test/deep":  "500[http://a.test/2][d]",
	}
	if !maps.Equal(broken, want) {
		t.Errorf("broken:\n got %v\nwant %v", broken, want)
	}
	unknown := found(t, rep, problems.ExternalUnchecked)
	if want := (map[string]string{"http://secret.test/": "403[http://a.test/][s]",
		"http://robots.test/no": "blocked_by_robots[http://a.test/][r]", "http://busy.test/": "429[http://a.test/][b]",
	}); !maps.Equal(unknown, want) {
		t.Errorf("not checked:\n got %v\nwant %v", unknown, want)
	}
	edges, err := os.ReadFile(string(dir) + "/links.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"from":"http://a.test/","to":"http://ok.test/","text":"ok","nofollow":false,"outcome":"ok","status_code":200}`,
		`"to":"http://moved.test/2","text":"m2","nofollow":false,"outcome":"http_error","status_code":404,` +
			`"redirect_to":"http://gone.test/x"}`,
		`{"from":"http://a.test/","to":"http://a.test/2","text":"2","nofollow":false}`,
	} {
		if !strings.Contains(string(edges), want) {
			t.Errorf("links.jsonl has no %s:\n%s", want, edges)
		}
	}
}

// Neither the page limit nor a limit of pages per host holds checks back, and --max-checks does. A resume with a
// higher limit checks the rest.
func TestChecksHaveALimitOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newLinkSite(t, map[string]string{
		"/": `<a href="/2">2</a><a href="/3">3</a><a href="http://x.test/1">1</a><a href="http://x.test/2">2</a>
			<a href="http://x.test/3">3</a>`,
	}, nil)
	dir := datadir.Dir(t.TempDir() + "/data")
	rep, _ := s.crawl(dir, checking(func(o *config.Settings) { o.MaxURLs, o.MaxChecks = 1, 2 }), "http://a.test/")
	if got := found(t, rep, problems.BrokenExternal); len(got) != 2 {
		t.Errorf("%d checks were made, want 2: %v", len(got), got)
	}
	if rep.Pages != 1 || rep.Status != "partial" || rep.SkippedLinks["max_checks"] != 1 {
		t.Errorf("%d pages, %s, %v", rep.Pages, rep.Status, rep.SkippedLinks)
	}
	if !slices.ContainsFunc(rep.Warnings, func(w string) bool { return strings.Contains(w, "--max-checks") }) {
		t.Errorf("no warning names the limit: %q", rep.Warnings)
	}
	for _, pages := range []int64{3, 0} { // the second resume has nothing to do
		rep, _ = s.resume(dir, nil, checking(func(o *config.Settings) { o.MaxChecks = 3 }))
		if got := found(t, rep, problems.BrokenExternal); len(got) != 3 || rep.Pages != pages {
			t.Errorf("%d checks after a resume with a higher limit, want 3: %v; %d pages, want %d", len(got), got,
				rep.Pages, pages)
		}
	}
	for _, path := range []string{"1", "2", "3"} {
		if got := s.methodsOf("x.test/" + path); got != "HEAD GET" {
			t.Errorf("x.test/%s was asked for by %q, want once", path, got)
		}
	}
}

// A resume that turns checks on reads the pages again that have links out of scope. A recrawl checks all once more.
// What is out of scope at first becomes a page if the scope becomes wider.
func TestChecksOfLaterRuns(t *testing.T) {
	t.Parallel()
	others := map[string]any{"x.test/": 404}
	s := newLinkSite(t, map[string]string{"/": `<a href="/2">2</a><a href="http://b.a.test/">b</a>`,
		"/2": `<a href="http://x.test/">x</a>`, "/plain": "",
	}, others)
	s.urls["b.a.test/"] = plainPage
	dir := datadir.Dir(t.TempDir() + "/data")
	host := func(o *config.Settings) { o.Scope = "host" }
	s.crawl(dir, host, "http://a.test/")
	if got := s.methodsOf("x.test/"); got != "" {
		t.Fatalf("asked for by %s without the setting", got)
	}
	for range 2 { // the second resume has nothing to do
		rep, _ := s.resume(dir, nil, checking(host))
		if got := found(t, rep, problems.BrokenExternal); len(got) != 1 || got["http://x.test/"] == "" {
			t.Errorf("broken after a resume: %v", got)
		}
	}
	if got := s.methodsOf("x.test/"); got != "HEAD GET" {
		t.Errorf("x.test was asked for by %q", got)
	}
	others["x.test/"] = 200
	rep, _ := s.resume(dir, &Recrawl{}, checking(host))
	if got := found(t, rep, problems.BrokenExternal); len(got) != 0 || s.methodsOf("x.test/") != "HEAD" {
		t.Errorf("broken after a recrawl: %v", got)
	}
	_, lines := s.resume(dir, nil, checking(nil))
	if l := lines["http://b.a.test/"]; l.StatusCode != 200 || len(lines) != 3 {
		t.Errorf("b.a.test in a wider scope: %+v of %d lines", l, len(lines))
	}
}

// Hosts of other sites are asked at a polite pace and by their robots.txt, whatever the crawl does with its own.
func TestChecksArePoliteInACrawlOfOnesOwnSite(t *testing.T) {
	t.Parallel()
	var times []time.Time
	var mu sync.Mutex
	note := func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Now())
	}
	s := newLinkSite(t, map[string]string{"/": `<a href="http://x.test/1">1</a><a href="http://x.test/2">2</a>
		<a href="http://x.test/no">no</a>`}, map[string]any{"x.test/1": note, "x.test/2": note, "x.test/no": 200,
		"x.test/robots.txt": func(w http.ResponseWriter, r *http.Request) {
			note(w, r)
			fmt.Fprint(w, "User-agent: *\nDisallow: /no")
		}})
	s.crawl(datadir.Dir(t.TempDir()+"/data"), checking(func(o *config.Settings) {
		o.Profile, o.IgnoreRobots = config.OwnSite, true
	}), "http://a.test/")
	if len(times) != 3 || s.methodsOf("x.test/no") != "" || s.methodsOf("a.test/robots.txt") != "" {
		t.Fatalf("%d requests of x.test, want 3; x.test/no: %q", len(times), s.methodsOf("x.test/no"))
	}
	for i := range 2 {
		if gap := times[i+1].Sub(times[i]); gap < 400*time.Millisecond {
			t.Errorf("requests are %v apart", gap)
		}
	}
}

// The same holds for hosts that are asked only because robots.txt of the own site leads there.
func TestOtherHostsOfRobotsArePaced(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	times := map[string][]time.Time{}
	note := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			times[r.Host] = append(times[r.Host], time.Now())
			fmt.Fprint(w, answer)
		}
	}
	urls := map[string]any{"maps.example/robots.txt": note("User-agent: *\nAllow: /\n")}
	var starts []string
	for i := range 8 {
		host := fmt.Sprintf("h%d.test", i)
		urls[host+"/"] = plainPage
		starts = append(starts, "http://"+host+"/")
		urls[host+"/robots.txt"] = fmt.Sprintf("User-agent: *\nAllow: /\nSitemap: http://maps.example/%d.xml\n", i)
		urls[fmt.Sprintf("maps.example/%d.xml", i)] = note(urlset())
		if i%2 == 1 {
			urls[host+"/robots.txt"] = http.HandlerFunc(http.RedirectHandler(fmt.Sprintf("http://rules.example/%d", i),
				http.StatusFound).ServeHTTP)
			urls[fmt.Sprintf("rules.example/%d", i)] = note("User-agent: *\nAllow: /\n")
		}
	}
	newHandSite(t, urls).crawl(newDataDir(t), nil, starts...)
	for host, first := range map[string]int{
		"maps.example":  1,
		"rules.example": 2, // two may be under way before one has ended
	} {
		at := times[host]
		if len(at) < 4 {
			t.Errorf("%s had %d requests", host, len(at))
		}
		for i := first; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < 400*time.Millisecond {
				t.Errorf("%s: requests are %v apart", host, gap)
			}
		}
	}
}

// A link to an element that its page does not have is reported, on the same page, on others and in a recrawl in which
// no page has changed.
func TestFragmentsAreChecked(t *testing.T) {
	t.Parallel()
	s := newLinkSite(t, map[string]string{
		"/": `<a href="#here">h</a><a href="#nowhere">n</a><a href="/2#part">p</a><a href="/2#lost">lost</a>
			<a href="/2#lost">lost again</a><a href="/moved#x">m</a><a href="http://b.test/#x">b</a><p id=here>`,
		"/2": `<a href="/#gone">g</a><a name=part></a><a href="/2#lost">self</a>`,
	}, map[string]any{"a.test/moved": "/2"})
	dir := datadir.Dir(t.TempDir() + "/data")
	rep, _ := s.crawl(dir, func(o *config.Settings) { o.CheckFragments, o.SeedingStrategy = true, nil }, "http://a.test/")
	for range 2 {
		want := map[string]string{
			"http://a.test/#nowhere": "[http://a.test/][n]",
			"http://a.test/2#lost":   "[http://a.test/ http://a.test/2][lost self]",
			"http://a.test/#gone":    "[http://a.test/2][g]",
		}
		if got := found(t, rep, problems.BrokenFragment); !maps.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		if !slices.ContainsFunc(rep.Problems, func(p problems.Problem) bool {
			return p.Code == "broken_external" &&
				p.Result == problems.NotChecked
		}) {
			t.Error("links to other sites count as checked")
		}
		rep, _ = s.resume(dir, &Recrawl{}, func(o *config.Settings) { o.CheckFragments, o.SeedingStrategy = true, nil })
	}
	edges, err := os.ReadFile(string(dir) + "/links.jsonl")
	if want := `"to":"http://a.test/2","fragment":"part","text":"p"`; err != nil || !strings.Contains(string(edges), want) {
		t.Errorf("links.jsonl has no %s:\n%s", want, edges)
	}
}

// Files that pages load are checked in and out of scope, each once.
func TestAssetsAreChecked(t *testing.T) {
	t.Parallel()
	sized := func(kind string, size int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
	}
	s := newLinkSite(t, map[string]string{
		"/": `<link rel=stylesheet href="/lost.css"><script src="http://cdn.test/a.js"></script><img src="/big.png" alt=x>
			<img src="data:image/gif;base64,R0" data-src="/lazy.png" srcset="/s1.png 1x, /s2.png 2x">
			<picture><source srcset="/p.webp 800w"><img src="/big.png"></picture><video src="/film.mp4" poster="/still.jpg"></video>
			<a href="/manual.pdf">manual</a><a href="/2">2</a><img src="/secret/x.png"><a href="http://cdn.test/no">no</a>`,
		"/2": `<img src="/big.png"><link rel=icon href="/lost.ico"><link rel=alternate href="/feed">`,
	}, map[string]any{"a.test/lost.css": 404, "cdn.test/a.js": 500, "a.test/big.png": sized("image/png", 600<<10),
		"a.test/lazy.png": sized("image/png", 100), "a.test/s1.png": 200, "a.test/s2.png": 404, "a.test/p.webp": 410,
		"a.test/film.mp4": sized("video/mp4", 11<<20), "a.test/manual.pdf": sized("application/pdf", 600<<10),
		"a.test/lost.ico": "/gone.ico", "a.test/feed": 200, "a.test/still.jpg": 404})
	dir := datadir.Dir(t.TempDir() + "/data")
	rep, lines := s.crawl(dir, checking(func(o *config.Settings) {
		o.CheckExternal, o.CheckAssets, o.MaxRetries, o.SkipExtensions = false, true, 0, []string{"pdf"}
		o.Exclude = []string{"/secret/"}
	}), "http://a.test/")
	wantURLs(t, "pages", slices.Sorted(maps.Keys(lines)), "http://a.test/", "http://a.test/2", "http://a.test/feed")
	if want, got := (map[string]string{
		"http://a.test/lost.css": "404[http://a.test/][]", "http://cdn.test/a.js": "500[http://a.test/][]",
		"http://a.test/s2.png": "404[http://a.test/][]", "http://a.test/p.webp": "410[http://a.test/][]",
		"http://a.test/lost.ico": "404[http://a.test/2][]", "http://a.test/still.jpg": "404[http://a.test/][]",
	}), found(t, rep, problems.BrokenAsset); !maps.Equal(got, want) {
		t.Errorf("broken:\n got %v\nwant %v", got, want)
	}
	if want, got := (map[string]string{
		"http://a.test/big.png":  "614400[http://a.test/ http://a.test/2][ ]",
		"http://a.test/film.mp4": "11534336[http://a.test/][]",
	}), found(t, rep, problems.LargeAsset); !maps.Equal(got, want) {
		t.Errorf("large:\n got %v\nwant %v", got, want)
	}
	for url, want := range map[string]string{"a.test/big.png": "HEAD", "a.test/manual.pdf": "HEAD",
		"a.test/secret/x.png": "", "cdn.test/no": "", "a.test/feed": "GET", "a.test/s2.png": "HEAD GET"} {
		if got := s.methodsOf(url); got != want {
			t.Errorf("%s was asked for by %q, want %q", url, got, want)
		}
	}
	edges, err := os.ReadFile(string(dir) + "/links.jsonl")
	if want := `{"from":"http://a.test/2","to":"http://a.test/big.png","nofollow":false,"asset":true,"outcome":"ok",` +
		`"status_code":200,"content_length":614400}`; err != nil || !strings.Contains(string(edges), want) {
		t.Errorf("links.jsonl has no %s:\n%s", want, edges)
	}
}

// A URL that was a page of the crawl, and is of another site now, is checked and reported as one.
func TestPageBecomesCheckedURL(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.test/": `<html><a href="http://www.a.test/old">x</a>`, "www.a.test/old": plainPage,
	})
	dir := newDataDir(t)
	rep, _ := s.crawl(dir, checking(func(o *config.Settings) { o.Links = true }), "http://a.test/")
	if rep.Outcomes["ok"] != 2 {
		t.Fatalf("first crawl: %v", rep.Outcomes)
	}
	delete(s.urls, "www.a.test/old")
	rep, _ = s.resume(dir, &Recrawl{}, checking(func(o *config.Settings) { o.Links, o.Scope = true, "host" }))
	if got := found(t, rep, problems.BrokenExternal); len(got) != 1 || got["http://www.a.test/old"] == "" {
		t.Errorf("broken links to other sites: %v, want the one that was a page", got)
	}
	if got := found(t, rep, problems.BrokenLink); len(got) != 0 {
		t.Errorf("broken links: %v", got)
	}
}
