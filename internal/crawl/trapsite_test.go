package crawl

import (
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/traps"
	"github.com/mapwright/mapwright/internal/test/long"
)

// someWords is a text of letters that is another one for every number.
func someWords(n int) string {
	syllables := []string{"ba", "ke", "lo", "mi", "nu", "ra", "se", "to", "wi", "zu"}
	var b strings.Builder
	for _, c := range strconv.Itoa(n + 10) {
		b.WriteString(syllables[c-'0'])
	}
	return b.String()
}

// token is a value that is another one for every text and number.
func token(format, text string, n int) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", text, n)
	return fmt.Sprintf(format, h.Sum64()>>8)
}

// sessionSite is a site of pages, each of whose links has a new value: URLs without end.
type sessionSite struct {
	pages    int
	url      func(page int, token string) string
	format   string // of a token
	requests atomic.Int64
}

func (s *sessionSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" || r.URL.Path == "/sitemap.xml" {
		http.NotFound(w, r)
		return
	}
	s.requests.Add(1)
	n := 0
	if _, after, ok := strings.Cut(r.RequestURI, "/page-"); ok {
		fmt.Sscanf(after, "%d", &n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<title>%s</title><h1>About %s</h1>", someWords(n), someWords(n*7))
	// A menu, the pages below this one, and some others.
	for i, to := range []int{0, 1, 2, 3, 4, 5, 2*n + 1, 2*n + 2, n + 1, n * 3, n * 5} {
		if to < s.pages {
			href := s.url(to, token(s.format, r.RequestURI, i))
			fmt.Fprintf(&b, "<a href=\"%s\">%s</a>\n", strings.ReplaceAll(href, "&", "&amp;"), someWords(to))
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, b.String())
}

// sessionForms are ways to write a session identifier.
func sessionForms() map[string]*sessionSite {
	query := func(name string) func(int, string) string {
		return func(page int, token string) string { return fmt.Sprintf("/page-%d.html?%s=%s", page, name, token) }
	}
	return map[string]*sessionSite{
		"sid":        {url: query("sid"), format: "%.12x"},
		"digits":     {url: query("sid"), format: "%d"},
		"s":          {url: query("s"), format: "%x"},
		"token":      {url: query("token"), format: "%x"},
		"session-id": {url: query("session-id"), format: "%x"},
		"among others": {url: func(p int, t string) string {
			return fmt.Sprintf("/page-%d.html?a=1&sid=%s&b=2", p,
				t)
		}, format: "%x"},
		"jsessionid": {url: func(p int, t string) string {
			return fmt.Sprintf("/page-%d.html;jsessionid=%s", p,
				t)
		}, format: "%X"},
		"segment": {url: func(p int, t string) string { return fmt.Sprintf("/s/%s/page-%d.html", t, p) },
			format: "%x"},
		"first segment": {url: func(p int, t string) string { return fmt.Sprintf("/(S(%s))/page-%d.html", t, p) },
			format: "%x"},
		"last segment": {url: func(p int, t string) string { return fmt.Sprintf("/page-%d/%s", p, t) },
			format: "%x"},
		"one path": {url: func(p int, t string) string {
			return fmt.Sprintf("/index.php?id=%s&n=/page-%d", t,
				p)
		}, format: "%x"},
		"two of a kind": {url: func(p int, t string) string {
			return fmt.Sprintf("/page-%d.html?x=%s&y=1%s", p, t,
				t)
		}, format: "%x"},
		"nameless": {url: func(p int, t string) string { return fmt.Sprintf("/page-%d.html;%s", p, t) },
			format: "%x"},
		"name is changed": {url: func(p int, t string) string { return fmt.Sprintf("/page-%d.html?%s=1", p, t) },
			format: "%x"},
	}
}

// A site that puts a new value into every link is found as a whole, and the crawl ends soon.
func TestSessionIdentifiers(t *testing.T) {
	long.Test(t)
	for name, site := range sessionForms() {
		t.Run(name, func(t *testing.T) {
			site.pages = 200
			start := time.Now()
			_, lines := crawlAll(t, small(), serveSite(t, site)+"/page-0.html")
			found, reasons := map[string]bool{}, map[string]int{}
			for _, l := range lines {
				if l.Outcome == "ok" {
					found[l.Title] = true
				}
				reasons[l.trap()]++
			}
			t.Logf("%d titles, %d requests, %v, %v", len(found), site.requests.Load(), reasons, time.Since(start))
			if len(found) != site.pages {
				t.Errorf("%d pages were found, want %d", len(found), site.pages)
			}
			most := int64(1000)
			switch name {
			case "last segment", "name is changed":
				most = 4000 // these are told by the pages' texts alone
			default:
				if reasons[traps.Ineffective] == 0 {
					t.Errorf("no URL is called %s: %v", traps.Ineffective, reasons)
				}
			}
			if n := site.requests.Load(); n > most {
				t.Errorf("%d requests, want at most %d", n, most)
			}
		})
	}
}
