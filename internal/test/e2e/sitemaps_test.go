package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// mapSite is a web of hand-written hosts that notes what it is asked for. Pages are served by answer, which reports
// false for a 404.
type mapSite struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request) bool

	mu    sync.Mutex
	asked []string      // guarded by mu; host and path, in order
	left  int           // guarded by mu; requests that are answered before the others wait for open
	open  chan struct{} // guarded by mu; closed by release; nil if no request has to wait
}

// hold answers so many further requests, and lets those after them wait until release or until their client goes away.
func (s *mapSite) hold(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.open = requests, make(chan struct{})
}

// release ends a hold.
func (s *mapSite) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.open)
	s.open = nil
}

// note notes a request, and waits if it is held. It reports false if the client went away meanwhile.
func (s *mapSite) note(r *http.Request) bool {
	s.mu.Lock()
	s.asked = append(s.asked, r.Host+r.URL.Path)
	open := s.open
	if open != nil && s.left > 0 {
		s.left--
		open = nil
	}
	s.mu.Unlock()
	if open == nil {
		return true
	}
	select {
	case <-open:
		return true
	case <-r.Context().Done():
		return false
	}
}

func newMapSite(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) bool) *mapSite {
	t.Helper()
	s := &mapSite{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.note(r) && !s.answer(w, r) {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// requests are those that begin with a host and path, in order.
func (s *mapSite) requests(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, a := range s.asked {
		if strings.HasPrefix(a, prefix) {
			list = append(list, a)
		}
	}
	return list
}

// flags are what a crawl of the site needs, from http://a.test/ on.
func (s *mapSite) flags(dir string, more ...string) []string {
	return append([]string{"crawl", "--start-url", "http://a.test/", "--resolve", "*:80:" + s.Listener.Addr().String(),
		"--data-dir", dir}, more...)
}

const (
	indexHead  = `<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
	urlsetHead = `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
)

// writeIndex writes a sitemap index of n sitemaps; one that never ends if n is negative.
func writeIndex(w http.ResponseWriter, r *http.Request, n int, name func(i int) string) {
	fmt.Fprint(w, indexHead)
	for i := 0; i != n && r.Context().Err() == nil; i++ {
		if _, err := fmt.Fprintf(w, "<sitemap><loc>%s</loc></sitemap>", name(i)); err != nil {
			return // the crawler has read enough
		}
	}
	fmt.Fprint(w, "</sitemapindex>")
}

func writeURLs(w http.ResponseWriter, urls ...string) {
	fmt.Fprint(w, urlsetHead)
	for _, u := range urls {
		fmt.Fprintf(w, "<url><loc>%s</loc></url>", u)
	}
	fmt.Fprint(w, "</urlset>")
}

func writePage(w http.ResponseWriter, title string, links ...string) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<html><title>%s</title>", title)
	for _, l := range links {
		fmt.Fprintf(w, "<a href=%s>x</a> ", l)
	}
}

// What the largest index names is on disk and not in memory: the crawl with 50,000 sitemaps left needs no more memory
// than any other, and a resume goes on with them.
func TestLargeIndexOnDisk(t *testing.T) {
	t.Parallel()
	read := make(chan struct{}) // the index was read as far as it is read
	pid := make(chan int, 1)
	var memory int64 // of the crawl when all sitemaps are queued, in MB
	s := newMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			fmt.Fprint(w, "Sitemap: http://a.test/index.xml\n")
		case path == "/index.xml":
			writeIndex(w, r, 50_000, func(i int) string {
				return fmt.Sprintf("http://a.test/map/%d/%s.xml", i, strings.Repeat("x", 200))
			})
			close(read)
		case strings.HasPrefix(path, "/map/"):
			writeURLs(w, "http://a.test/p"+path)
		case path == "/":
			writePage(w, path, "/last")
		case path == "/last":
			<-read
			memory = ownMemory(<-pid)
			writePage(w, path, "/more")
		default:
			writePage(w, path)
		}
		return true
	})
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, s.flags(dir, "--profile", "own-site", "--max-urls", "2", "--timeout", "1h")...)
	pid <- p.cmd.Process.Pid
	ended(t, p.wait(), dir, 3, "partial", "max_urls")
	t.Logf("the crawl had %d MB of memory", memory)
	if runtime.GOOS == "linux" && !raceDetector && (memory == 0 || memory > 500) { // elsewhere it cannot be told
		t.Errorf("the crawl had %d MB of memory, want at most 500", memory)
	}
	before := len(s.requests("a.test/map/"))
	ended(t, run(t, "resume", "--data-dir", dir, "--max-urls", "6", "--max-inflight-per-host", "1"), dir, 3, "partial",
		"max_urls")
	// Pages and sitemaps take turns, and nothing is asked for again.
	if n := len(s.requests("a.test/map/")) - before; n < 2 || n > 8 {
		t.Errorf("for 4 further pages %d sitemaps were read", n)
	}
	if n := len(s.requests("a.test/index.xml")); n != 1 {
		t.Errorf("the index was asked for %d times", n)
	}
}

// The start page is the first request after robots.txt, and pages come between the sitemaps.
func TestPagesComeBetweenSitemaps(t *testing.T) {
	t.Parallel()
	const children = 100
	s := newMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			fmt.Fprint(w, "Sitemap: http://a.test/map/index\n")
		case path == "/map/index":
			writeIndex(w, r, children, func(i int) string { return fmt.Sprintf("http://a.test/map/%d", i) })
		case strings.HasPrefix(path, "/map/"):
			writeURLs(w, "http://a.test/of"+path)
		case path == "/":
			var links []string
			for i := range children {
				links = append(links, fmt.Sprintf("/page/%d", i))
			}
			writePage(w, path, links...)
		default:
			writePage(w, path)
		}
		return true
	})
	dir := filepath.Join(t.TempDir(), "data")
	ended(t, run(t, s.flags(dir, "--profile", "own-site", "--workers", "1")...), dir, 0, "complete", "")
	asked := s.requests("")
	if want := []string{"a.test/robots.txt", "a.test/", "a.test/map/index"}; !slices.Equal(asked[:3], want) {
		t.Errorf("the first requests are %q, want %q", asked[:3], want)
	}
	for i := 2; i < 2*children; i += 2 {
		if !strings.HasPrefix(asked[i], "a.test/map/") || strings.HasPrefix(asked[i+1], "a.test/map/") {
			t.Fatalf("requests %d and %d are %q: want a sitemap and a page in turns", i, i+1, asked[i:i+2])
		}
	}
	for i, path := range s.requests("a.test/map/")[1:] {
		if want := fmt.Sprintf("a.test/map/%d", i); path != want {
			t.Fatalf("sitemap %d is %s, want %s: they are read in the order of the index", i, path, want)
		}
	}
	if n := len(readLines(t, dir)); n != 1+2*children {
		t.Errorf("%d URLs, want %d", n, 1+2*children)
	}
}

// A safe crawl of a site with a thousand sitemaps has its pages.
func TestSafeCrawlWithManySitemaps(t *testing.T) {
	t.Parallel()
	s := newMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			fmt.Fprint(w, "Sitemap: http://a.test/map/index\n")
		case path == "/map/index":
			writeIndex(w, r, 1000, func(i int) string { return fmt.Sprintf("http://a.test/map/%d", i) })
		case strings.HasPrefix(path, "/map/"):
			writeURLs(w, "http://a.test/of"+path)
		default:
			writePage(w, path)
		}
		return true
	})
	dir := filepath.Join(t.TempDir(), "data")
	got := run(t, s.flags(dir, "--safe")...)
	sitemaps := len(s.requests("a.test/map/"))
	pages := len(s.requests("a.test/")) - sitemaps - 1 // robots.txt
	if pages < sitemaps-1 {
		t.Errorf("%d pages and %d sitemaps were asked for", pages, sitemaps)
	}
	// The time limit of safe crawls is by the clock: on a machine that is too slow it comes first.
	if rep := readReport(t, dir); !strings.Contains(rep.Reason, "timeout") && pages != 50 {
		t.Errorf("%d pages, want 50: %s, exit status %d", pages, rep.Reason, got.code)
	}
}

// The sitemaps of a foreign host are read only if a robots.txt in scope names them, or an index of the same host that
// is so named, and only if the host's own robots.txt allows it. There is a limit.
func TestForeignSitemaps(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"closed.test/robots.txt": "User-agent: *\nDisallow: /\n",
		"open.test/robots.txt":   "", "open.test/index": indexHead +
			"<sitemap><loc>http://open.test/child</loc></sitemap><sitemap><loc>http://other.test/child</loc></sitemap></sitemapindex>",
		"open.test/child": urlsetHead + "<url><loc>http://a.test/from-open</loc></url></urlset>",
		"a.test/index": indexHead +
			"<sitemap><loc>http://other.test/named</loc></sitemap><sitemap><loc>http://a.test/own</loc></sitemap></sitemapindex>",
		"a.test/own":           urlsetHead + "<url><loc>http://a.test/from-own</loc></url></urlset>",
		"many.test/robots.txt": "",
	}
	robots := "Sitemap: http://a.test/index\nSitemap: http://open.test/index\n"
	for i := range 1050 {
		robots += fmt.Sprintf("Sitemap: http://closed.test/%d\nSitemap: http://many.test/%d\n", i, i)
	}
	answers["a.test/robots.txt"] = robots
	s := newMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		body, ok := answers[r.Host+r.URL.Path]
		switch {
		case ok:
			fmt.Fprint(w, body)
		case r.Host == "a.test":
			writePage(w, r.URL.Path)
		case r.Host == "many.test":
			writeURLs(w, "http://a.test/many"+r.URL.Path)
		default:
			return false
		}
		return true
	})
	dir := filepath.Join(t.TempDir(), "data")
	rep := ended(t, run(t, s.flags(dir, "--profile", "own-site")...), dir, 0, "complete", "")
	for host, want := range map[string][]string{
		"closed.test/": {"closed.test/robots.txt"}, "other.test/": nil,
		"open.test/": {"open.test/robots.txt", "open.test/index", "open.test/child"},
	} {
		if got := s.requests(host); !slices.Equal(got, want) {
			t.Errorf("asked for %q, want %q", got, want)
		}
	}
	if n := len(s.requests("many.test/")); n != 1+1000 {
		t.Errorf("%d requests to a foreign host, want 1001", n)
	}
	lines := readLines(t, dir)
	for _, url := range []string{"http://a.test/from-open", "http://a.test/from-own"} {
		if lines[url].Outcome != "ok" {
			t.Errorf("%s: %q", url, lines[url].Outcome)
		}
	}
	said := strings.Join(rep.Warnings, "\n")
	for _, want := range []string{"the limit is 1000 for this host, which is not in scope",
		"http://other.test/named was not read: its host is not in scope", "http://other.test/child was not read",
		"robots.txt of its host disallows it"} {
		if !strings.Contains(said, want) {
			t.Errorf("no warning says %q", want)
		}
	}
}

// A crawl that is killed at any moment while it reads an index and what it names finds the same URLs as one that is
// not, counts skipped links once, and reads no sitemap again that it has finished.
func TestKilledWhileReadingAnIndex(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var hang atomic.Bool // the index stops in the middle
	answer := func(w http.ResponseWriter, r *http.Request) bool {
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			fmt.Fprint(w, "Sitemap: http://a.test/map/index\nSitemap: http://b.test/late\n")
		case path == "/map/index" && hang.Load():
			fmt.Fprint(w, indexHead)
			for i := range 300 {
				fmt.Fprintf(w, "<sitemap><loc>http://a.test/map/%d</loc></sitemap>", i)
			}
			_ = http.NewResponseController(w).Flush() // the client may be gone
			<-r.Context().Done()
		case path == "/map/index":
			writeIndex(w, r, 400, func(i int) string { return fmt.Sprintf("http://a.test/map/%d", i%350) })
		case strings.HasPrefix(path, "/map/"):
			writeURLs(w, "http://a.test/of"+path, "http://a.test/of"+path+"/2", "http://else.test/",
				"http://a.test/photo.jpg")
		case path == "/late":
			writeURLs(w, "http://a.test/late-1", "http://b.test/late-2")
		case path == "/":
			writePage(w, path, "/1", "/2")
		default:
			writePage(w, path)
		}
		return true
	}
	crawl := func(kills int) (map[string]int, map[string]string, *mapSite) {
		s := newMapSite(t, answer)
		dir := filepath.Join(t.TempDir(), "data")
		args := s.flags(dir, "--profile", "own-site", "--skip-extensions", "jpg", "--max-inflight-per-host", "4")
		for i := range kills {
			hang.Store(i < killsAnywhere)
			p := start(t, args...)
			least := 1
			if i >= killsAnywhere {
				least = 20 // those in flight before are done
			}
			until := len(s.requests("")) + least + rnd.IntN(200)
			p.untilEnded(func() bool { return len(s.requests("")) >= until })
			if i >= killsAnywhere {
				p.settle(dir)
			}
			p.kill()
			args = []string{"resume", "--data-dir", dir}
		}
		hang.Store(false)
		rep := ended(t, run(t, args...), dir, 0, "complete", "")
		outcomes := map[string]string{}
		for url, l := range readLines(t, dir) {
			outcomes[url] = fmt.Sprint(l.Outcome, " ", l.Source, " ", l.Depth)
		}
		return rep.SkippedLinks, outcomes, s
	}
	wantSkipped, want, _ := crawl(0)
	skipped, got, _ := crawl(6)
	if len(want) != 3+700+1 {
		t.Errorf("a crawl that is not killed finds %d URLs", len(want))
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d URLs after kills, want %d, and some may have become something else", len(got), len(want))
	}
	if !maps.Equal(skipped, wantSkipped) {
		t.Errorf("links were skipped for %v after kills, want %v", skipped, wantSkipped)
	}
}
