package crawl

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/test/long"
)

// part is a part of an ordinary site: below its path it answers with links, until it ends.
type part struct {
	path  string // of its first page
	pages int    // of all it has
	links func(r *http.Request) []string
	text  func(r *http.Request) string // nil for one that no other page has
}

// intParam is the value of a parameter, or zero.
func intParam(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.FormValue(name))
	return n
}

// ordinaryParts are what ordinary sites have that looks like a trap at first sight.
func ordinaryParts() []part {
	const lists, depth, topics, months, days = 5000, 80, 1000, 300, 600
	today := time.Now().UTC()
	day := func(n int) string { return today.AddDate(0, 0, -n).Format("/strip/2006/01/02") }
	month := func(n int) string {
		return time.Date(today.Year(), today.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, -n,
			0).Format("/archive/2006/01")
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
	same := func(text string) func(*http.Request) string { return func(*http.Request) string { return text } }
	linked := func(length int, at func(int) string) func(*http.Request) []string {
		return chain(length, at, func(int) []string { return nil })
	}
	numbered := func(format string) func(int) string { return func(n int) string { return fmt.Sprintf(format, n) } }
	return []part{
		{"/news?cat=3&sort=new&page=1", lists, func(r *http.Request) []string {
			n := intParam(r, "page")
			var links []string
			for p := n + 1; p <= min(n+8, lists); p++ {
				links = append(links, fmt.Sprintf("/news?cat=3&sort=new&page=%d", p))
			}
			return links
		}, nil},
		{"/shop?", 7 * 7 * 7 * 7 * 3, facets, nil},
		{"/forum/topic.php?f=1&view=flat&t=1", topics, func(r *http.Request) []string {
			t := intParam(r, "t")
			var links []string
			for next := 2 * t; next <= min(2*t+1, topics); next++ {
				links = append(links, fmt.Sprintf("/forum/topic.php?f=1&view=flat&t=%d", next))
			}
			return links
		}, nil},
		{"/level-1/", depth, func(r *http.Request) []string {
			if n := strings.Count(r.URL.Path, "/"); n <= depth {
				return []string{fmt.Sprintf("level-%d/", n)}
			}
			return nil
		}, nil},
		{"/store/0/0/0/0/0/0/", 1, func(*http.Request) []string { return nil }, nil},
		// A blog's archive of 25 years, each month of which is found on the one after it.
		{month(0), 2 * months, chain(months, month, func(n int) []string {
			return []string{month(n) +
				"/what-happened"}
		}), nil},
		// A daily strip: pages that are named by their day and lead to nothing but other days.
		{day(0), days, chain(days, day, func(int) []string { return nil }), nil},
		// A comic of images alone.
		{"/comic/0", 600, linked(600, numbered("/comic/%d")), func(r *http.Request) string {
			return "<img src=\"/strips" + strings.TrimPrefix(r.URL.Path, "/comic") + ".png\">"
		}},
		// An archive whose pages show nothing but signs, and lead to articles.
		{"/signs/0", 2 * 300, chain(300, numbered("/signs/%d"),
			func(n int) []string { return []string{fmt.Sprintf("/signs/%d/story", n)} }), func(r *http.Request) string {
			if strings.HasSuffix(r.URL.Path, "/story") {
				return token("<h1>%d</h1>", r.RequestURI, 0)
			}
			return "<p>* * *</p>"
		}},
		// Films alone.
		{"/film/0", 300, linked(300, numbered("/film/%d")), func(r *http.Request) string {
			return "<video><source src=\"/films" + strings.TrimPrefix(r.URL.Path, "/film") + ".mp4\"></video>"
		}},
		// Sentences that differ in a few letters.
		{"/sentence/0", 300, linked(300, numbered("/sentence/%d")), func(r *http.Request) string {
			n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/sentence/"))
			return fmt.Sprintf("<p>Here is all that we have to say of the product with the name %c%c, which we sell "+
				"in our shop at all times.</p>", 'a'+n/26, 'a'+n%26)
		}},
		// Tables of numbers, most of them small.
		{"/table/0", 400, linked(400, numbered("/table/%d")), func(r *http.Request) string {
			var b strings.Builder
			for i := range 12 {
				fmt.Fprintf(&b, "<td>%s</td>", token("%d", r.URL.Path, i)[:1+i%5])
			}
			return b.String()
		}},
		// Products that differ in a price with decimals alone.
		{"/price/0", 400, linked(400, numbered("/price/%d")), func(r *http.Request) string {
			n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/price/"))
			return fmt.Sprintf("<p>A hat of felt for <b>%d,%02d</b> €</p>", 10+n/100, n%100)
		}},
		// Short articles, each found on the one before.
		{"/short/0", 500, linked(500, numbered("/short/%d")), func(r *http.Request) string {
			n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/short/"))
			return "<p>" + someWords(n) + "</p>"
		}},
		// Pages in forty languages that are not translated: the text does not depend on the language.
		{"/lang/0?lang=l0", 30 * 40, func(r *http.Request) []string {
			var links []string
			for i := range 40 {
				links = append(links, fmt.Sprintf("%s?lang=l%d", r.URL.Path, i))
			}
			if n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/lang/")); n+1 < 30 {
				links = append(links, fmt.Sprintf("/lang/%d?lang=l0", n+1))
			}
			return links
		}, func(r *http.Request) string {
			n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/lang/"))
			return "<p>untranslated " + someWords(n) + "</p>"
		}},
		// A search that finds nothing, offered with every word.
		{"/search?q=w0", 300, func(r *http.Request) []string {
			var links []string
			for i := range 300 {
				links = append(links, fmt.Sprintf("/search?q=w%d", i))
			}
			return links
		}, same("<p>Nothing was found")},
		// Lists that can be sorted, and pages that ask to log in and return.
		{"/sorted/0?sort=up", 60*4 + 60, func(r *http.Request) []string {
			n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/sorted/"))
			links := []string{fmt.Sprintf("/login?return=/sorted/%d", n)}
			for _, by := range []string{"up", "down", "name", "price"} {
				links = append(links, fmt.Sprintf("/sorted/%d?sort=%s", n, by))
			}
			if n+1 < 60 {
				links = append(links, fmt.Sprintf("/sorted/%d?sort=up", n+1))
			}
			return links
		}, func(r *http.Request) string {
			n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/sorted/"))
			return "<p>list " + someWords(n) + "</p>"
		}},
		{"/login", 1, func(*http.Request) []string { return nil }, same("<p>Please log in")},
		// Members with a page of their own and with sections, which are empty for the first sixty members.
		{"/members/list", 1 + 100*7, func(r *http.Request) []string {
			var links []string
			if r.URL.Path == "/members/list" {
				for n := range 100 {
					links = append(links, fmt.Sprintf("/members/m%d/home", n))
				}
			} else if member, home := strings.CutSuffix(r.URL.Path, "/home"); home {
				for _, section := range []string{"posts", "friends", "photos", "likes", "groups", "events"} {
					links = append(links, member+"/"+section)
				}
			}
			return links
		}, func(r *http.Request) string {
			var n int
			var section string
			_, _ = fmt.Sscanf(r.URL.Path, "/members/m%d/%s", &n, &section)
			if n < 60 && section != "" && section != "home" {
				return "<p>There are no " + section
			}
			return "<p>member " + section + " " + someWords(n)
		}},
		// Products with sections, most of which are empty.
		{"/product/0/info", 5 * 150, func(r *http.Request) []string {
			var n int
			_, _ = fmt.Sscanf(r.URL.Path, "/product/%d/", &n)
			var links []string
			for _, section := range []string{"info", "reviews", "questions", "offers", "related"} {
				links = append(links, fmt.Sprintf("/product/%d/%s", n, section))
			}
			if n+1 < 150 {
				links = append(links, fmt.Sprintf("/product/%d/info", n+1))
			}
			return links
		}, func(r *http.Request) string {
			var n int
			var section string
			_, _ = fmt.Sscanf(r.URL.Path, "/product/%d/%s", &n, &section)
			if section == "info" || n%40 == 39 {
				return "<p>" + section + " " + someWords(n)
			}
			return "<p>There are no " + section
		}},
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

// Nothing of an ordinary site is called a trap, and all of it is found.
func TestOrdinarySitesAreNotTraps(t *testing.T) {
	long.Test(t)
	t.Parallel()
	parts := ordinaryParts()
	var mux http.ServeMux
	var first []string
	want := 1
	for _, p := range parts {
		first = append(first, p.path)
		want += p.pages
		root, _, _ := strings.Cut(p.path[1:], "/")
		root, _, _ = strings.Cut(root, "?")
		answer := func(w http.ResponseWriter, r *http.Request) { writePage(w, r, p.text, p.links(r)) }
		mux.HandleFunc("/"+root, answer)
		mux.HandleFunc("/"+root+"/", answer)
	}
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { writePage(w, r, nil, first) })
	rep, lines := crawlAll(t, small(), serveSite(t, &mux)+"/")
	for _, l := range lines {
		if l.Outcome != "ok" {
			t.Errorf("%s is %s: %s", l.URL, l.Outcome, l.Error)
		}
	}
	if len(lines) != want || rep.SkippedLinks[scope.Trapped.String()] > 0 {
		t.Errorf("%d pages were found and %d links left out, want %d and none", len(lines),
			rep.SkippedLinks[scope.Trapped.String()], want)
	}
}

// writePage answers with a text and links.
func writePage(w http.ResponseWriter, r *http.Request, text func(*http.Request) string, links []string) {
	own := "<h1>" + token("%d", r.RequestURI, 0) + "</h1>\n"
	if text != nil {
		own = text(r)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, own)
	writeLinks(w, links)
}

func writeLinks(w http.ResponseWriter, links []string) {
	var b strings.Builder
	for _, l := range links {
		b.WriteString("<a href=\"" + l + "\">x</a>\n")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, b.String())
}
