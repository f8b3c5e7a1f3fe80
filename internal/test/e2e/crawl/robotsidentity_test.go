package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A robotsSite has a start page that links to eight pages under /private/ and eight under /public/, and notes what is
// asked for. Its sitemap is never answered while hang is set.
type robotsSite struct {
	*httptest.Server
	robots  string // robots.txt; empty means 503
	clients e2e.Clients

	mu    sync.Mutex
	hang  bool     // guarded by mu
	asked []string // guarded by mu; paths
}

func newRobotsSite(t *testing.T, robots string) *robotsSite {
	s := &robotsSite{robots: robots}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = s.clients.Note
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *robotsSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	hang := s.hang
	s.mu.Unlock()
	switch {
	case r.URL.Path == "/robots.txt" && s.robots == "":
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/robots.txt":
		fmt.Fprint(w, s.robots)
	case strings.HasSuffix(r.URL.Path, ".xml") && hang:
		<-r.Context().Done()
	case strings.HasSuffix(r.URL.Path, ".xml"):
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<html><title>%s</title>", r.URL.Path)
		for i := range 8 {
			fmt.Fprintf(w, "<a href=/private/%d>x</a><a href=/public/%d>x</a>", i, i)
		}
	}
}

// count is how often paths with a prefix were asked for.
func (s *robotsSite) count(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range s.asked {
		if strings.HasPrefix(path, prefix) {
			n++
		}
	}
	return n
}

func (s *robotsSite) crawl(t *testing.T, dir string, flags ...string) {
	t.Helper()
	args := append([]string{"crawl", "--start-url", s.URL + "/", "--profile", "own-site", "--data-dir", dir,
		"--max-urls", "1"}, flags...)
	if got := e2e.Run(t, args...); got.Code != 3 {
		t.Fatalf("exit status %d, want 3", got.Code)
	}
}

// A crawl that is resumed under another name goes by what the stored robots.txt says to that name, also for pages that
// are queued already.
func TestResumeUnderAnotherName(t *testing.T) {
	t.Parallel()
	site := newRobotsSite(t,
		"User-agent: Mapwright\nDisallow:\n\nUser-agent: otherbot\nDisallow: /private/\nCrawl-delay: 0.05\n")
	dir := filepath.Join(t.TempDir(), "data")
	site.crawl(t, dir)
	rep := e2e.Ended(t, e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", "0", "--user-agent",
		"otherbot/1.0 (+https://bot.test/)"), dir, 0, "complete", "")
	if n := site.count("/private/"); n != 0 {
		t.Errorf("%d pages were fetched that robots.txt does not allow to otherbot", n)
	}
	if n := site.count("/robots.txt"); n != 1 {
		t.Errorf("robots.txt was asked for %d times, want once", n)
	}
	if rep.Outcomes["blocked_by_robots"] != 8 || rep.Outcomes["ok"] != 9 {
		t.Errorf("outcomes %v, want 8 blocked_by_robots and 9 ok", rep.Outcomes)
	}
	for url, l := range e2e.ReadLines(t, dir) {
		private, public := strings.Contains(url, "/private/"), strings.Contains(url, "/public/")
		if (private || public) && (l.Robots == nil || l.Robots.CrawlDelay != 0.05 ||
			private != (l.Robots.Rule == "Disallow: /private/")) {
			t.Errorf("%s: robots %+v", url, l.Robots)
		}
	}

	// The other way round: what is queued may be fetched now.
	site = newRobotsSite(t, "User-agent: otherbot\nDisallow: /public/\n\nUser-agent: *\nDisallow: /private/\n")
	dir = filepath.Join(t.TempDir(), "data")
	site.crawl(t, dir, "--user-agent", "otherbot/1.0")
	e2e.Ended(t, e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", "0", "--user-agent", "thirdbot/1.0"), dir, 0,
		"complete",
		"")
	if private, public := site.count("/private/"), site.count("/public/"); private+public != 0 {
		t.Errorf("%d private and %d public pages were fetched, want none: each is disallowed to the name that it was "+
			"found or leased under", private, public)
	}
}

// A robots.txt that could not be fetched in an earlier run disallows everything to a resume with --robots-strict: pages
// that are queued, and sitemaps.
func TestResumeWithRobotsStrict(t *testing.T) {
	t.Parallel()
	strict := func(site *robotsSite, dir string) e2e.Result {
		t.Helper()
		site.mu.Lock()
		site.hang = false
		before := len(site.asked)
		site.mu.Unlock()
		got := e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", "0", "--robots-strict")
		site.mu.Lock()
		defer site.mu.Unlock()
		for _, path := range site.asked[before:] {
			if path != "/robots.txt" {
				t.Errorf("%s was asked for, though robots.txt could not be fetched", path)
			}
		}
		return got
	}
	site := newRobotsSite(t, "")
	dir := filepath.Join(t.TempDir(), "pages")
	site.crawl(t, dir, "--seeding-strategy", "none", "--max-host-backoff-secs", "1")
	rep := e2e.Ended(t, strict(site, dir), dir, 0, "complete", "")
	if rep.Outcomes["ok"] != 1 || rep.Outcomes["blocked_by_robots"] != 16 {
		t.Errorf("outcomes %v, want 1 ok and 16 blocked_by_robots", rep.Outcomes)
	}

	site = newRobotsSite(t, "")
	site.mu.Lock()
	site.hang = true
	site.mu.Unlock()
	dir = filepath.Join(t.TempDir(), "sitemaps")
	p := e2e.Start(t, "crawl", "--start-url", site.URL+"/", "--profile", "own-site", "--data-dir", dir,
		"--max-host-backoff-secs", "1")
	p.Until("a sitemap is asked for", func() bool { return site.count("/sitemap") > 0 })
	p.Kill()
	site.clients.Gone(t, site.Listener.Addr().String())
	strict(site, dir)
}
