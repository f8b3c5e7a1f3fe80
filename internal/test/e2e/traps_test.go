package e2e

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// endlessSite has two hundred pages, each of whose links has a new session identifier, and a calendar without an end.
// What it answers depends on the URL only.
type endlessSite struct {
	link     func(page int, session string) string
	requests atomic.Int64
}

const endlessPages = 200

func (s *endlessSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
			if to < endlessPages {
				h := fnv.New64a()
				fmt.Fprint(h, uri, i)
				fmt.Fprintf(w, `<a href="%s">%c</a>`, strings.ReplaceAll(s.link(to,
					fmt.Sprintf("%.12x", h.Sum64()>>16)), "&", "&amp;"), 'a'+to%26)
			}
		}
	default:
		http.NotFound(w, r)
		return
	}
	s.requests.Add(1)
}

// endlessStory says of each URL what became of it, and which trap it is. It counts the pages by title.
func endlessStory(t *testing.T, dir string) (all map[string]string, titles, traps map[string]int) {
	all, titles, traps = map[string]string{}, map[string]int{}, map[string]int{}
	for url, l := range readLines(t, dir) {
		all[url] = fmt.Sprintf("%s %d %s %q", l.Outcome, l.StatusCode, l.Error, l.Title)
		if l.Outcome == "ok" {
			titles[l.Title]++
		} else {
			traps[l.Error]++
		}
	}
	return all, titles, traps
}

// A site with sessions in its links and with a calendar is found as a whole, in few requests, and the crawl ends. If it
// is killed on the way, again and again, the result is the same.
func TestEndlessSites(t *testing.T) {
	t.Parallel()
	for name, link := range map[string]func(int, string) string{
		"short names": func(page int, session string) string { return fmt.Sprintf("/page-%d?s=%s", page, session) },
		"path parameters": func(page int, session string) string {
			return fmt.Sprintf("/page-%d;jsessionid=%s", page,
				session)
		},
		"path segments": func(page int, session string) string { return fmt.Sprintf("/%s/page-%d", session, page) },
		"other parameters": func(page int, session string) string {
			return fmt.Sprintf("/page-%d?a=1&session-id=%s&b=2", page, session)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			site := &endlessSite{link: link}
			web := httptest.NewServer(site)
			t.Cleanup(web.Close)
			begin := func(dir string) []string {
				return []string{"crawl", "--start-url", web.URL + "/", "--profile", "own-site", "--max-workers", "1",
					"--save-interval", "30ms", "--data-dir", dir}
			}
			dir := filepath.Join(t.TempDir(), "whole")
			rep := ended(t, run(t, begin(dir)...), dir, 0, "complete", "")
			want, titles, traps := endlessStory(t, dir)
			requests := site.requests.Load()
			t.Logf("%d requests, traps %v, skipped %v", requests, traps, rep.SkippedLinks)
			if len(titles) != endlessPages+1 || requests > 1000 {
				t.Errorf("%d pages were found, want %d and the calendar; %d requests, want at most 1000", len(titles),
					endlessPages, requests)
			}
			if traps["trap: ineffective_parameter"] == 0 || traps["trap: endless_sequence"] == 0 || len(traps) != 2 {
				t.Errorf("traps are %v", traps)
			}

			dir = filepath.Join(t.TempDir(), "killed")
			args := begin(dir)
			for i := range 6 {
				p := start(t, args...)
				enough := site.requests.Load() + 20 + rng.Int64N(requests/6)
				p.untilEnded(func() bool { return site.requests.Load() >= enough })
				if i >= killsAnywhere {
					p.settle(dir)
				}
				p.kill()
				args = []string{"resume", "--data-dir", dir}
			}
			again := ended(t, run(t, args...), dir, 0, "complete", "")
			got, _, traps := endlessStory(t, dir)
			t.Logf("after kills: traps %v, skipped %v", traps, again.SkippedLinks)
			sameStory(t, got, want)
			if !maps.Equal(again.SkippedLinks, rep.SkippedLinks) {
				t.Errorf("links were skipped for %v, want %v", again.SkippedLinks, rep.SkippedLinks)
			}
		})
	}
}

// A shop whose products differ in their price alone, and whose lists do not differ at all, is no trap.
func TestShopWhosePricesDiffer(t *testing.T) {
	t.Parallel()
	const products, perList = 3000, 20
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var id, list int
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if _, err := fmt.Sscanf(r.URL.Path, "/product/%d", &id); err == nil {
			fmt.Fprintf(w, "<h1>A hat</h1><p>for <b><i>€</i>%d.%02d</b> <a href=/>home</a>", 10+id/100, id%100)
			return
		}
		if _, err := fmt.Sscanf(r.URL.RequestURI(), "/list?page=%d", &list); err != nil && r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "<h1>Hats</h1>")
		for id := list * perList; id < (list+1)*perList; id++ {
			fmt.Fprintf(w, "<a href=/product/%d>A hat</a> ", id)
		}
		if (list+1)*perList < products {
			fmt.Fprintf(w, "<a href='/list?page=%d'>more</a>", list+1)
		}
	}))
	t.Cleanup(web.Close)
	dir := filepath.Join(t.TempDir(), "data")
	ended(t, run(t, "crawl", "--start-url", web.URL+"/", "--profile", "own-site", "--data-dir", dir), dir, 0,
		"complete", "")
	outcomes := map[string]int{}
	for _, l := range readLines(t, dir) {
		outcomes[l.Outcome]++
	}
	if want := products + products/perList; outcomes["ok"] != want || len(outcomes) != 1 {
		t.Errorf("outcomes are %v, want %d pages", outcomes, want)
	}
}

// A forum most of whose threads show one of four texts, and lead to new links all the same, is no trap while every
// third says something new.
func TestForumOfFewTexts(t *testing.T) {
	t.Parallel()
	const threads, perList = 1200, 30
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var id, list int
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if _, err := fmt.Sscanf(r.URL.Path, "/thread/%d", &id); err == nil {
			text := id % 4
			if id%3 == 0 {
				text = id
			}
			said := strings.Map(func(c rune) rune { return c - '0' + 'a' }, strconv.Itoa(text))
			fmt.Fprintf(w, "<h1>A thread</h1><p>%s <a href=/reply/%d>reply</a>", said, id)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/reply/") {
			fmt.Fprint(w, "<h1>Log in</h1>")
			return
		}
		if _, err := fmt.Sscanf(r.URL.RequestURI(), "/list?page=%d", &list); err != nil && r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "<h1>Threads</h1>")
		for id := list * perList; id < (list+1)*perList; id++ {
			fmt.Fprintf(w, "<a href=/thread/%d>A thread</a> ", id)
		}
		if (list+1)*perList < threads {
			fmt.Fprintf(w, "<a href='/list?page=%d'>more</a>", list+1)
		}
	}))
	t.Cleanup(web.Close)
	dir := filepath.Join(t.TempDir(), "data")
	ended(t, run(t, "crawl", "--start-url", web.URL+"/", "--profile", "own-site", "--data-dir", dir), dir, 0,
		"complete", "")
	outcomes := map[string]int{}
	for _, l := range readLines(t, dir) {
		outcomes[l.Outcome]++
	}
	if want := 2*threads + threads/perList; outcomes["ok"] != want || len(outcomes) != 1 {
		t.Errorf("outcomes are %v, want %d pages", outcomes, want)
	}
}
