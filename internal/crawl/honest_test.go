package crawl

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// part is a part of an honest site: below its path it answers with links, until it ends.
type part struct {
	path  string // of its first page
	pages int    // of all it has
	links func(r *http.Request) []string
}

// intParam is the value of a parameter, or zero.
func intParam(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.FormValue(name))
	return n
}

// honestParts are what honest sites have that looks like a trap at first sight.
func honestParts() []part {
	const lists, depth, topics, months, days = 5000, 80, 1000, 300, 600
	today := time.Now().UTC()
	day := func(n int) string { return today.AddDate(0, 0, -n).Format("/strip/2006/01/02") }
	month := func(n int) string {
		return time.Date(today.Year(), today.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, -n, 0).Format("/archive/2006/01")
	}
	age := func(r *http.Request, at func(int) string, most int) int {
		for n := range most {
			if at(n) == r.URL.Path {
				return n
			}
		}
		return most
	}
	chain := func(length int, at func(int) string, more func(n int) []string) func(*http.Request) []string {
		return func(r *http.Request) []string {
			n := age(r, at, length)
			if n == length {
				return nil
			}
			links := append(more(n), "/", at(0))
			if n+1 < length {
				links = append(links, at(n+1))
			}
			return links
		}
	}
	return []part{
		{"/news?cat=3&sort=new&page=1", lists, func(r *http.Request) []string {
			n := intParam(r, "page")
			var links []string
			for p := n + 1; p <= min(n+8, lists); p++ {
				links = append(links, fmt.Sprintf("/news?cat=3&sort=new&page=%d", p))
			}
			return links
		}},
		{"/shop?", 7 * 7 * 7 * 7 * 3, facets},
		{"/forum/topic.php?f=1&view=flat&t=1", topics, func(r *http.Request) []string {
			t := intParam(r, "t")
			var links []string
			for next := 2 * t; next <= min(2*t+1, topics); next++ {
				links = append(links, fmt.Sprintf("/forum/topic.php?f=1&view=flat&t=%d", next))
			}
			return links
		}},
		{"/level-1/", depth, func(r *http.Request) []string {
			if n := strings.Count(r.URL.Path, "/"); n <= depth {
				return []string{fmt.Sprintf("level-%d/", n)}
			}
			return nil
		}},
		{"/store/0/0/0/0/0/0/", 1, func(*http.Request) []string { return nil }},
		// A blog's archive of 25 years, each month of which is found on the one after it.
		{month(0), 2 * months, chain(months, month, func(n int) []string { return []string{month(n) + "/what-happened"} })},
		// A daily strip: pages that are named by their day and lead to nothing but other days.
		{day(0), days, chain(days, day, func(int) []string { return nil })},
	}
}

// facets is a listing with four filters of six values and an order, written in one order however they were chosen.
func facets(r *http.Request) []string {
	names := []string{"brand", "color", "fit", "size"}
	write := func(values map[string]string) string {
		var q []string
		for _, n := range append(names, "sort") {
			if values[n] != "" {
				q = append(q, n+"="+values[n])
			}
		}
		return "/shop?" + strings.Join(q, "&")
	}
	chosen := map[string]string{}
	for _, n := range append(names, "sort") {
		chosen[n] = r.FormValue(n)
	}
	var links []string
	with := func(name, value string) {
		before := chosen[name]
		chosen[name] = value
		links = append(links, strings.ReplaceAll(write(chosen), "&", "&amp;"))
		chosen[name] = before
	}
	for _, n := range names {
		if chosen[n] == "" {
			for v := range 6 {
				with(n, strconv.Itoa(v))
			}
		}
	}
	with("sort", "price")
	with("sort", "name")
	return links
}

// Nothing of an honest site is called a trap, and all of it is found.
func TestHonestSitesAreNotTraps(t *testing.T) {
	t.Parallel()
	parts := honestParts()
	var mux http.ServeMux
	var first []string
	want := 1
	for _, p := range parts {
		first = append(first, p.path)
		want += p.pages
		root, _, _ := strings.Cut(p.path[1:], "/")
		root, _, _ = strings.Cut(root, "?")
		answer := func(w http.ResponseWriter, r *http.Request) { writeLinks(w, p.links(r)) }
		mux.HandleFunc("/"+root, answer)
		mux.HandleFunc("/"+root+"/", answer)
	}
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { writeLinks(w, first) })
	rep, lines := crawlAll(t, small(), serveSite(t, &mux)+"/")
	for _, l := range lines {
		if l.Outcome != "ok" {
			t.Errorf("%s is %s: %s", l.URL, l.Outcome, l.Error)
		}
	}
	if len(lines) != want || rep.SkippedLinks[string(Trapped)] > 0 {
		t.Errorf("%d pages were found and %d links left out, want %d and none", len(lines), rep.SkippedLinks[string(Trapped)], want)
	}
}

func writeLinks(w http.ResponseWriter, links []string) {
	var b strings.Builder
	for _, l := range links {
		b.WriteString("<a href=\"" + l + "\">x</a>\n")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, b.String())
}
