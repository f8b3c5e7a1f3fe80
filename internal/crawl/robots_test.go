package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/crawl/robotscache"
)

// A robots.txt that redirects is followed hop by hop, on its own host and on another one, and what it says in the end
// holds where it began.
func TestRobotsRedirects(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{} // guarded by mu
	var mux http.ServeMux
	mux.HandleFunc("same.test/robots.txt", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/real.txt", http.StatusMovedPermanently)
	})
	mux.HandleFunc("same.test/real.txt", func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nDisallow: /no")
	})
	mux.HandleFunc("other.test/robots.txt", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://rules.test/x.txt", http.StatusFound)
	})
	mux.HandleFunc("rules.test/x.txt", func(w http.ResponseWriter,
		r *http.Request) {
		http.Redirect(w, r, "/y.txt", http.StatusFound)
	})
	mux.HandleFunc("rules.test/y.txt", func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nDisallow: /no")
	})
	mux.HandleFunc("known.test/robots.txt", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://same.test/robots.txt", http.StatusFound)
	})
	mux.HandleFunc("loop.test/robots.txt", func(w http.ResponseWriter,
		r *http.Request) {
		http.Redirect(w, r, "/robots.txt", http.StatusFound)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		writeLinks(w, []string{"/no", "/yes"})
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.Host+r.URL.Path]++
		mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)

	s := small()
	s.Resolve = []string{"*:80:" + server.Listener.Addr().String()}
	s.SeedingStrategy = []string{"none"}
	_, lines := crawlAll(t, s, "http://same.test/", "http://other.test/", "http://known.test/", "http://loop.test/")
	for url, want := range map[string]string{
		"http://same.test/no": "blocked_by_robots", "http://other.test/no": "blocked_by_robots",
		"http://known.test/no": "blocked_by_robots",
		"http://same.test/yes": "ok", "http://other.test/yes": "ok", "http://known.test/yes": "ok",
		"http://loop.test/no": "ok",
	} {
		if got := lines[url].Outcome; got != want {
			t.Errorf("%s is %q, want %q", url, got, want)
		}
	}
	for at, want := range map[string]int{"loop.test/robots.txt": 1 + robotscache.MaxHops, "rules.test/robots.txt": 0,
		"other.test/robots.txt": 1, "rules.test/y.txt": 1} {
		if asked[at] != want {
			t.Errorf("%s was asked for %d times, want %d", at, asked[at], want)
		}
	}
}
