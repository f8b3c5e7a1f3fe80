package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// No page, redirect, robots.txt or sitemap leads the crawl to addresses that are not public, though the start itself
// was given one.
func TestNothingLeadsToPrivateAddresses(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]bool{} // guarded by mu; by host
	var private string         // the server by its address
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.Host] = true
		mu.Unlock()
		switch r.Host + r.URL.Path {
		case "site.test/":
			writeLinks(w, []string{
				"/moved", "http://" + private + "/by-link", "http://localhost:" + portOf(private) + "/by-name",
				"http://[::ffff:7f00:1]:" + portOf(private) + "/mapped",
				"http://2130706433:" + portOf(private) + "/as-number", "http://robots.test/",
			})
		case "site.test/moved":
			http.Redirect(w, r, "http://"+private+"/by-redirect", http.StatusFound)
		case "site.test/robots.txt":
			fmt.Fprintf(w, "Sitemap: http://%s/sitemap.xml\n", private)
		case "robots.test/robots.txt":
			http.Redirect(w, r, "http://"+private+"/rules.txt", http.StatusFound)
		default:
			writeLinks(w, nil)
		}
	}))
	t.Cleanup(server.Close)
	private = server.Listener.Addr().String()

	s := small()
	s.Scope = "any"
	s.Resolve = []string{"site.test:80:" + private, "robots.test:80:" + private}
	_, lines := crawlAll(t, s, "http://site.test/")
	for host := range asked {
		if !strings.HasSuffix(host, ".test") {
			t.Errorf("%s was asked", host)
		}
	}
	for _, name := range []string{"by-link", "by-name", "mapped", "as-number", "by-redirect"} {
		found := false
		for url, l := range lines {
			if strings.HasSuffix(url, "/"+name) {
				found = true
				if l.Outcome != "refused_address" {
					t.Errorf("%s is %s, want refused_address", url, l.Outcome)
				}
			}
		}
		if !found {
			t.Errorf("%s is not on record", name)
		}
	}
	if l := lines["http://robots.test/"]; l.Outcome != "ok" || l.Robots == nil || l.Robots.Confidence != "low" {
		t.Errorf("a site whose robots.txt cannot be had is %s, with %+v", l.Outcome, l.Robots)
	}
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
