package crawl

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// What the largest index names is on disk and not in memory: the crawl with 50,000 sitemaps left needs no more memory
// than any other, and a resume goes on with them.
func TestLargeIndexOnDisk(t *testing.T) {
	t.Parallel()
	read := make(chan struct{}) // the index was read as far as it is read
	pid := make(chan int, 1)
	var memory int64 // of the crawl when all sitemaps are queued, in MB
	s := e2e.NewMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			fmt.Fprint(w, "Sitemap: http://a.test/index.xml\n")
		case path == "/index.xml":
			e2e.WriteIndex(w, r, 50_000, func(i int) string {
				return fmt.Sprintf("http://a.test/map/%d/%s.xml", i, strings.Repeat("x", 200))
			})
			close(read)
		case strings.HasPrefix(path, "/map/"):
			e2e.WriteURLs(w, "http://a.test/p"+path)
		case path == "/":
			e2e.WritePage(w, path, "/last")
		case path == "/last":
			<-read
			memory = e2e.OwnMemory(<-pid)
			e2e.WritePage(w, path, "/more")
		default:
			e2e.WritePage(w, path)
		}
		return true
	})
	dir := filepath.Join(t.TempDir(), "data")
	p := e2e.Start(t, s.Flags(dir, "--profile", "own-site", "--max-urls", "2", "--timeout", "1h")...)
	pid <- p.Cmd.Process.Pid
	e2e.Ended(t, p.Wait(), dir, 3, "partial", "max_urls")
	t.Logf("the crawl had %d MB of memory", memory)
	if runtime.GOOS == "linux" && !e2e.RaceDetector && (memory == 0 || memory > 500) { // elsewhere it cannot be told
		t.Errorf("the crawl had %d MB of memory, want at most 500", memory)
	}
	before := len(s.Requests("a.test/map/"))
	e2e.Ended(t, e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", "6", "--max-inflight-per-host", "1"), dir, 3,
		"partial",
		"max_urls")
	// Pages and sitemaps take turns, and nothing is asked for again.
	if n := len(s.Requests("a.test/map/")) - before; n < 2 || n > 8 {
		t.Errorf("for 4 further pages %d sitemaps were read", n)
	}
	if n := len(s.Requests("a.test/index.xml")); n != 1 {
		t.Errorf("the index was asked for %d times", n)
	}
}

// The start page is the first request after robots.txt, and pages come between the sitemaps.
func TestPagesComeBetweenSitemaps(t *testing.T) {
	t.Parallel()
	const children = 100
	s := e2e.NewMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			fmt.Fprint(w, "Sitemap: http://a.test/map/index\n")
		case path == "/map/index":
			e2e.WriteIndex(w, r, children, func(i int) string { return fmt.Sprintf("http://a.test/map/%d", i) })
		case strings.HasPrefix(path, "/map/"):
			e2e.WriteURLs(w, "http://a.test/of"+path)
		case path == "/":
			var links []string
			for i := range children {
				links = append(links, fmt.Sprintf("/page/%d", i))
			}
			e2e.WritePage(w, path, links...)
		default:
			e2e.WritePage(w, path)
		}
		return true
	})
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Ended(t, e2e.Run(t, s.Flags(dir, "--profile", "own-site", "--workers", "1")...), dir, 0, "complete", "")
	asked := s.Requests("")
	if want := []string{"a.test/robots.txt", "a.test/", "a.test/map/index"}; !slices.Equal(asked[:3], want) {
		t.Errorf("the first requests are %q, want %q", asked[:3], want)
	}
	for i := 2; i < 2*children; i += 2 {
		if !strings.HasPrefix(asked[i], "a.test/map/") || strings.HasPrefix(asked[i+1], "a.test/map/") {
			t.Fatalf("requests %d and %d are %q: want a sitemap and a page in turns", i, i+1, asked[i:i+2])
		}
	}
	for i, path := range s.Requests("a.test/map/")[1:] {
		if want := fmt.Sprintf("a.test/map/%d", i); path != want {
			t.Fatalf("sitemap %d is %s, want %s: they are read in the order of the index", i, path, want)
		}
	}
	if n := len(e2e.ReadLines(t, dir)); n != 1+2*children {
		t.Errorf("%d URLs, want %d", n, 1+2*children)
	}
}

// A safe crawl of a site with a thousand sitemaps has its pages.
func TestSafeCrawlWithManySitemaps(t *testing.T) {
	t.Parallel()
	s := e2e.NewMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			fmt.Fprint(w, "Sitemap: http://a.test/map/index\n")
		case path == "/map/index":
			e2e.WriteIndex(w, r, 1000, func(i int) string { return fmt.Sprintf("http://a.test/map/%d", i) })
		case strings.HasPrefix(path, "/map/"):
			e2e.WriteURLs(w, "http://a.test/of"+path)
		default:
			e2e.WritePage(w, path)
		}
		return true
	})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, s.Flags(dir, "--safe")...)
	sitemaps := len(s.Requests("a.test/map/"))
	pages := len(s.Requests("a.test/")) - sitemaps - 1 // robots.txt
	if pages < sitemaps-1 {
		t.Errorf("%d pages and %d sitemaps were asked for", pages, sitemaps)
	}
	// The time limit of safe crawls is by the clock: on a machine that is too slow it comes first.
	if rep := e2e.ReadReport(t, dir); !strings.Contains(rep.Reason, "timeout") && pages != 50 {
		t.Errorf("%d pages, want 50: %s, exit status %d", pages, rep.Reason, got.Code)
	}
}

// The sitemaps of a foreign host are read only if a robots.txt in scope names them, or an index of the same host that
// is so named, and only if the host's own robots.txt allows it. There is a limit.
func TestForeignSitemaps(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"closed.test/robots.txt": "User-agent: *\nDisallow: /\n",
		"open.test/robots.txt":   "", "open.test/index": e2e.IndexHead +
			"<sitemap><loc>http://open.test/child</loc></sitemap><sitemap><loc>http://other.test/child</loc></sitemap></sitemapindex>",
		"open.test/child": e2e.UrlsetHead + "<url><loc>http://a.test/from-open</loc></url></urlset>",
		"a.test/index": e2e.IndexHead +
			"<sitemap><loc>http://other.test/named</loc></sitemap><sitemap><loc>http://a.test/own</loc></sitemap></sitemapindex>",
		"a.test/own": e2e.UrlsetHead + "<url><loc>http://a.test/from-own</loc></url></urlset>",
	}
	robots := "Sitemap: http://a.test/index\nSitemap: http://open.test/index\n"
	for i := range 100 { // a warning each; the report has room for 200
		robots += fmt.Sprintf("Sitemap: http://closed.test/%d\n", i)
	}
	answers["a.test/robots.txt"] = robots
	s := e2e.NewMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		body, ok := answers[r.Host+r.URL.Path]
		switch {
		case ok:
			fmt.Fprint(w, body)
		case r.Host == "a.test":
			e2e.WritePage(w, r.URL.Path)
		default:
			return false
		}
		return true
	})
	dir := filepath.Join(t.TempDir(), "data")
	rep := e2e.Ended(t, e2e.Run(t, s.Flags(dir, "--profile", "own-site")...), dir, 0, "complete", "")
	for host, want := range map[string][]string{
		"closed.test/": {"closed.test/robots.txt"}, "other.test/": nil,
		"open.test/": {"open.test/robots.txt", "open.test/index", "open.test/child"},
	} {
		if got := s.Requests(host); !slices.Equal(got, want) {
			t.Errorf("asked for %q, want %q", got, want)
		}
	}
	lines := e2e.ReadLines(t, dir)
	for _, url := range []string{"http://a.test/from-open", "http://a.test/from-own"} {
		if lines[url].Outcome != "ok" {
			t.Errorf("%s: %q", url, lines[url].Outcome)
		}
	}
	said := strings.Join(rep.Warnings, "\n")
	for _, want := range []string{"http://other.test/named was not read: its host is not in scope",
		"http://other.test/child was not read",
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
			fmt.Fprint(w, e2e.IndexHead)
			for i := range 300 {
				fmt.Fprintf(w, "<sitemap><loc>http://a.test/map/%d</loc></sitemap>", i)
			}
			_ = http.NewResponseController(w).Flush() // the client may be gone
			<-r.Context().Done()
		case path == "/map/index":
			e2e.WriteIndex(w, r, 400, func(i int) string { return fmt.Sprintf("http://a.test/map/%d", i%350) })
		case strings.HasPrefix(path, "/map/"):
			e2e.WriteURLs(w, "http://a.test/of"+path, "http://a.test/of"+path+"/2", "http://else.test/",
				"http://a.test/photo.jpg")
		case path == "/late":
			e2e.WriteURLs(w, "http://a.test/late-1", "http://b.test/late-2")
		case path == "/":
			e2e.WritePage(w, path, "/1", "/2")
		default:
			e2e.WritePage(w, path)
		}
		return true
	}
	crawl := func(kills int) (map[string]int, map[string]string, *e2e.MapSite) {
		s := e2e.NewMapSite(t, answer)
		dir := filepath.Join(t.TempDir(), "data")
		args := s.Flags(dir, "--profile", "own-site", "--skip-extensions", "jpg", "--max-inflight-per-host", "4")
		for i := range kills {
			hang.Store(i < e2e.KillsAnywhere)
			p := e2e.Start(t, args...)
			least := 1
			if i >= e2e.KillsAnywhere {
				least = 20 // those in flight before are done
			}
			until := len(s.Requests("")) + least + rnd.IntN(200)
			p.UntilEnded(func() bool { return len(s.Requests("")) >= until })
			if i >= e2e.KillsAnywhere {
				p.Settle(dir)
			}
			p.Kill()
			args = []string{"resume", "--data-dir", dir}
		}
		hang.Store(false)
		rep := e2e.Ended(t, e2e.Run(t, args...), dir, 0, "complete", "")
		outcomes := map[string]string{}
		for url, l := range e2e.ReadLines(t, dir) {
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
