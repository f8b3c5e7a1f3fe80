package crawl

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// endlessStory says of each URL what became of it, and which trap it is. It counts the pages by title.
func endlessStory(t *testing.T, dir string) (all map[string]string, titles, traps map[string]int) {
	all, titles, traps = map[string]string{}, map[string]int{}, map[string]int{}
	for url, l := range e2e.ReadLines(t, dir) {
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
			site := &e2e.EndlessSite{Link: link}
			web := httptest.NewServer(site)
			t.Cleanup(web.Close)
			begin := func(dir string) []string {
				return []string{"crawl", "--start-url", web.URL + "/", "--profile", "own-site", "--max-workers", "1",
					"--save-interval", "30ms", "--data-dir", dir}
			}
			dir := filepath.Join(t.TempDir(), "whole")
			rep := e2e.Ended(t, e2e.Run(t, begin(dir)...), dir, 0, "complete", "")
			want, titles, traps := endlessStory(t, dir)
			requests := site.Requests.Load()
			t.Logf("%d requests, traps %v, skipped %v", requests, traps, rep.SkippedLinks)
			if len(titles) != e2e.EndlessPages+1 || requests > 1000 {
				t.Errorf("%d pages were found, want %d and the calendar; %d requests, want at most 1000", len(titles),
					e2e.EndlessPages, requests)
			}
			if traps["trap: ineffective_parameter"] == 0 || traps["trap: endless_sequence"] == 0 || len(traps) != 2 {
				t.Errorf("traps are %v", traps)
			}

			dir = filepath.Join(t.TempDir(), "killed")
			args := begin(dir)
			for i := range 6 {
				p := e2e.Start(t, args...)
				enough := site.Requests.Load() + 20 + rng.Int64N(requests/6)
				p.UntilEnded(func() bool { return site.Requests.Load() >= enough })
				if i >= e2e.KillsAnywhere {
					p.Settle(dir)
				}
				p.Kill()
				args = []string{"resume", "--data-dir", dir}
			}
			again := e2e.Ended(t, e2e.Run(t, args...), dir, 0, "complete", "")
			got, _, traps := endlessStory(t, dir)
			t.Logf("after kills: traps %v, skipped %v", traps, again.SkippedLinks)
			e2e.SameStory(t, got, want)
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
	e2e.Ended(t, e2e.Run(t, "crawl", "--start-url", web.URL+"/", "--profile", "own-site", "--data-dir", dir), dir, 0,
		"complete", "")
	outcomes := map[string]int{}
	for _, l := range e2e.ReadLines(t, dir) {
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
	e2e.Ended(t, e2e.Run(t, "crawl", "--start-url", web.URL+"/", "--profile", "own-site", "--data-dir", dir), dir, 0,
		"complete", "")
	outcomes := map[string]int{}
	for _, l := range e2e.ReadLines(t, dir) {
		outcomes[l.Outcome]++
	}
	if want := 2*threads + threads/perList; outcomes["ok"] != want || len(outcomes) != 1 {
		t.Errorf("outcomes are %v, want %d pages", outcomes, want)
	}
}
