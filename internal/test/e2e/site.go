package e2e

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Site serves fixed answers by path on loopback. A text that begins with "<?xml" is XML, everything else HTML; a path
// that is not there is a 404.
func Site(t *testing.T, pages map[string]string, header func(path string, h http.Header)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		body = strings.ReplaceAll(body, "{site}", "http://"+r.Host)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if strings.HasPrefix(body, "<?xml") {
			w.Header().Set("Content-Type", "application/xml")
		}
		if header != nil {
			header(r.URL.Path, w.Header())
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// CrawlSite crawls a site to its end and returns what was recorded.
func CrawlSite(t *testing.T, s *httptest.Server, flags ...string) (dir string, lines map[string]Line, got Result) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	got = Run(t, append([]string{"crawl", "--start-url", s.URL, "--profile", "own-site", "--allow-private",
		"--data-dir", dir}, flags...)...)
	Ended(t, got, dir, 0, "complete", "")
	return dir, ReadLines(t, dir), got
}

// MapSite is a web of hand-written hosts that notes what it is asked for. Pages are served by answer, which reports
// false for a 404.
type MapSite struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request) bool

	mu    sync.Mutex
	asked []string      // guarded by mu; host and path, in order
	left  int           // guarded by mu; requests that are answered before the others wait for open
	open  chan struct{} // guarded by mu; closed by release; nil if no request has to wait
}

// Hold answers so many further requests, and lets those after them wait until release or until their client goes away.
func (s *MapSite) Hold(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.open = requests, make(chan struct{})
}

// Release ends a hold.
func (s *MapSite) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.open)
	s.open = nil
}

// note notes a request, and waits if it is held. It reports false if the client went away meanwhile.
func (s *MapSite) note(r *http.Request) bool {
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

func NewMapSite(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) bool) *MapSite {
	t.Helper()
	s := &MapSite{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.note(r) && !s.answer(w, r) {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// Requests are those that begin with a host and path, in order.
func (s *MapSite) Requests(prefix string) []string {
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

// Flags are what a crawl of the site needs, from http://a.test/ on.
func (s *MapSite) Flags(dir string, more ...string) []string {
	return append([]string{"crawl", "--start-url", "http://a.test/", "--resolve", "*:80:" + s.Listener.Addr().String(),
		"--data-dir", dir}, more...)
}

const (
	IndexHead  = `<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
	UrlsetHead = `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
)

// WriteIndex writes a sitemap index of n sitemaps; one that never ends if n is negative.
func WriteIndex(w http.ResponseWriter, r *http.Request, n int, name func(i int) string) {
	fmt.Fprint(w, IndexHead)
	for i := 0; i != n && r.Context().Err() == nil; i++ {
		if _, err := fmt.Fprintf(w, "<sitemap><loc>%s</loc></sitemap>", name(i)); err != nil {
			return // the crawler has read enough
		}
	}
	fmt.Fprint(w, "</sitemapindex>")
}

func WriteURLs(w http.ResponseWriter, urls ...string) {
	fmt.Fprint(w, UrlsetHead)
	for _, u := range urls {
		fmt.Fprintf(w, "<url><loc>%s</loc></url>", u)
	}
	fmt.Fprint(w, "</urlset>")
}

func WritePage(w http.ResponseWriter, title string, links ...string) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<html><title>%s</title>", title)
	for _, l := range links {
		fmt.Fprintf(w, "<a href=%s>x</a> ", l)
	}
}

// EndlessSite has two hundred pages, each of whose links has a new session identifier, and a calendar without an end.
// What it answers depends on the URL only.
type EndlessSite struct {
	Link     func(page int, session string) string
	Requests atomic.Int64
}

const EndlessPages = 200

func (s *EndlessSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var n, year, month int
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	uri := r.URL.RequestURI()
	_, page, isPage := strings.Cut(uri, "/page-")
	switch _, err := fmt.Sscanf(uri, "/calendar/%d/%d", &year, &month); {
	case err == nil:
		at := func(m int) string { return fmt.Sprintf("/calendar/%d/%02d", m/12, m%12+1) }
		m := year*12 + month - 1
		names := "janfebmaraprmayjunjulaugsepoctnovdec"
		fmt.Fprintf(w, "<title>Calendar</title><h1>%s %d</h1><a href=%s>back</a> <a href=%s>on</a>",
			names[3*(month-1):3*month], year, at(m-1), at(m+1))
	case uri == "/" || isPage:
		_, _ = fmt.Sscanf(page, "%d", &n)
		fmt.Fprintf(w, "<title>Page %c%c%c</title><h1>About the page</h1>", 'a'+n/100, 'a'+n/10%10, 'a'+n%10)
		fmt.Fprint(w, "<a href=/calendar/2026/11>calendar</a>")
		for i, to := range []int{0, 1, 2, 3, 4, 5, 2*n + 1, 2*n + 2, n + 1} {
			if to < EndlessPages {
				h := fnv.New64a()
				fmt.Fprint(h, uri, i)
				fmt.Fprintf(w, `<a href="%s">%c</a>`, strings.ReplaceAll(s.Link(to,
					fmt.Sprintf("%.12x", h.Sum64()>>16)), "&", "&amp;"), 'a'+to%26)
			}
		}
	default:
		http.NotFound(w, r)
		return
	}
	s.Requests.Add(1)
}
