package serve_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

func smallSite() testweb.Config {
	return testweb.Config{Seed: 7, Hosts: 2, Pages: 60, PageSize: 1500, Links: 6,
		Faults: []testweb.HostFault{{Hosts: "*", Fault: testweb.StatusPages{Where: testweb.Where{Count: 3}}},
			{Hosts: "*", Fault: testweb.RedirectChain{}}}}
}

// A person without scripts makes a crawl, watches it, pauses it, lets it go on, and looks at what it found.
func TestStory(t *testing.T) {
	t.Parallel()
	f := newDashboard(t, smallSite(), "")
	b := f.loggedIn()
	f.site.Hold(20)
	form := b.get("/new")
	again := b.submit(form, "/new", map[string]string{"start_urls": "http://h0.test/\nnonsense://x",
		"settings.max_urls": "many", "settings.timeout": "soon"})
	if again.status != http.StatusUnprocessableEntity {
		t.Errorf("a form with faults answers %d", again.status)
	}
	again.want("number 2:", "many", "soon")
	for _, name := range []string{"start_urls", "settings.max_urls", "settings.timeout"} {
		if !fieldHasFault(again, name) {
			t.Errorf("the fault of %s is not beside it", name)
		}
	}
	long := map[string]string{"start_urls": f.site.StartURLs()[0], "key": strings.Repeat("k", 256)}
	if p := b.submit(again, "/new", long); p.status != http.StatusUnprocessableEntity {
		t.Errorf("a form with a long idempotency key answers %d", p.status)
	}
	made := b.submit(again, "/new", map[string]string{"start_urls": f.site.StartURLs()[0], "settings.max_urls": "1000",
		"settings.timeout": "",
		"settings.links":   "true", "name": "My <b>site</b>", "labels": "a, b"})
	if made.status != http.StatusOK || !strings.HasPrefix(made.at.Path, "/crawls/") {
		t.Fatalf("the form leads to %s with status %d: %s", made.at, made.status, textOf(made.root))
	}
	id := strings.TrimPrefix(made.at.Path, "/crawls/")
	made.want("My <b>site</b>")
	f.await(id, service.Running)
	waitFor(t, "20 pages are done", func() bool {
		live := f.svc.Crawls.Live(id)
		return live != nil &&
			live.Done >= 20
	})

	// it may be a second old
	waitFor(t, "the live part shows the host", func() bool {
		return strings.Contains(b.get("/crawls/"+id+"/live").text,
			"h0.test")
	})
	running := b.get("/crawls/" + id)
	running.want("Found", "Requests under way", "Busiest hosts", "h0.test", "Pages per second")
	list := b.get("/")
	if rows := list.rows("Running"); len(rows) != 1 || !strings.Contains(rows[0][0], "My <b>site</b>") {
		t.Errorf("the list shows as running: %q", rows)
	}
	if rows := b.get("/crawls/" + id + "/pages?outcome=ok").rows("Pages"); len(rows) == 0 || len(rows) > 20 {
		t.Errorf("%d pages of the running crawl are listed as ok", len(rows))
	}
	pages := b.get("/crawls/" + id + "/pages")
	for _, row := range pages.rows("Pages") {
		if strings.Contains(row[1], "pending") != (row[4] == "–") {
			t.Errorf("whether a page is indexable: %q", row)
		}
	}
	pages.want("found so far", "the filter by problem come with the files")
	if n := f.svc.Crawls.Live(id).Done; n < 20 || !strings.Contains(textOf(pages.root),
		fmt.Sprintf("%d of them done", n)) {
		t.Errorf("the list of pages does not say that %d are done", n)
	}
	b.get("/crawls/" + id + "/pages?problem=any").want("Problems are known when the crawl has ended")
	b.get("/crawls/"+id+"/page?url="+url.QueryEscape(f.site.StartURLs()[0])).want("status 200", "robots.txt",
		"discovered_at")
	b.get("/crawls/" + id + "/problems").want("Problems are known when the crawl has ended.")

	b.submit(running, "/pause", nil)
	f.await(id, service.Paused)
	paused := b.get("/crawls/" + id)
	paused.want("paused", "Resume", "Paused by a key", "Pages per second")
	if p := b.get("/crawls/" + id + "/page?url=" + url.QueryEscape(f.site.StartURLs()[0])); p.status != http.StatusOK {
		t.Errorf("a page of a paused crawl answers %d: %s", p.status, textOf(p.root))
	}
	if rows := b.get("/").rows("Ended and paused"); len(rows) != 1 {
		t.Errorf("the list shows as paused: %q", rows)
	}
	f.site.Release()
	b.submit(paused, "/resume", nil)
	f.await(id, service.Complete)
	ended := b.get("/crawls/" + id)
	ended.want("The crawl is complete", "report.html", "Answers by status class", "max_urls")

	if head := b.get("/crawls/" + id + "/head"); head.status != http.StatusOK ||
		!strings.Contains(head.text, "Recrawl some pages") {
		t.Errorf("the head alone answers %d", head.status)
	}
	checkPages(t, f, b, id)
	detail := b.get("/crawls/" + id + "/page?url=" + url.QueryEscape(f.site.StartURLs()[0]))
	detail.want("Links to this page", "Links of this page", "content_hash", "robots.txt allows this URL", "click_depth",
		"My <b>site</b>")
	checkProblems(t, f, b, id)
	// Found, done, indexable, errors, warnings: the site has 3 pages that answer 404, and a chain of redirects.
	if rows := b.get("/").rows("Ended and paused"); len(rows) != 1 || !strings.Contains(rows[0][0], "3 errors") ||
		!slices.Equal(rows[0][2:7], []string{"67", "67", "61", "3", "1"}) {
		t.Errorf("the list does not say what is wrong with the site: %q", rows)
	}
	b.get("/crawls/" + id + "/changes").want("There was no recrawl yet")
	b.get("/crawls/" + id + "/page?url=https%3A%2F%2Fnowhere.test%2F").want("The crawl has no record of this URL.")

	refused := b.submit(ended, "/delete", nil)
	if refused.status != http.StatusUnprocessableEntity {
		t.Errorf("a deletion without a tick answers %d", refused.status)
	}
	b.submit(ended, "/delete", map[string]string{"sure": "yes"})
	waitFor(t, "the crawl is gone", func() bool {
		_, err := f.svc.Crawls.Get(t.Context(), f.admin,
			id)
		return err != nil
	})
	if p := b.get("/crawls/" + id); p.status != http.StatusNotFound {
		t.Errorf("a deleted crawl answers %d", p.status)
	}
}

// checkPages compares lists of pages with sitemap.jsonl.
func checkPages(t *testing.T, f *dashboard, b *browser, id string) {
	t.Helper()
	file, err := os.Open(f.svc.Crawls.DataDir(id).JSONL())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	counts := map[string]int{}
	for in := bufio.NewScanner(file); in.Scan(); {
		var l struct {
			URL       string `json:"url"`
			Outcome   string `json:"outcome"`
			Status    int    `json:"status_code"`
			Indexable bool   `json:"indexable"`
		}
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		counts[""]++
		counts["outcome="+l.Outcome]++
		counts[fmt.Sprint("status=", l.Status/100, "xx")]++
		counts[fmt.Sprint("status=", l.Status)]++
		counts[fmt.Sprint("indexable=", l.Indexable)]++
		if strings.Contains(l.URL, "1") {
			counts["q=1"]++
		}
	}
	if counts["status=404"] < 3 {
		t.Errorf("sitemap.jsonl has %d pages with status 404", counts["status=404"])
	}
	for query, want := range counts {
		p := b.get("/crawls/" + id + "/pages?" + query)
		noun := "URLs"
		if want == 1 {
			noun = "URL"
		}
		p.want(fmt.Sprintf("%d %s", want, noun))
		seen := map[string]bool{}
		for at := p; ; {
			for _, row := range at.rows("Pages") {
				if seen[row[0]] {
					t.Errorf("%s: %s is listed twice", query, row[0])
				}
				seen[row[0]] = true
			}
			next := ""
			for _, a := range at.all("a") {
				if attr(a, "rel") == "next" {
					next = attr(a, "href")
				}
			}
			if next == "" {
				break
			}
			at = b.get(next)
		}
		if len(seen) != want {
			t.Errorf("%s: %d pages are listed, want %d", query, len(seen), want)
		}
	}
	first := b.get("/crawls/" + id + "/pages?sort=status&dir=desc").rows("Pages")[0]
	if first[2] != "404" {
		t.Errorf("the page with the largest status is %q", first)
	}
}

// checkProblems compares the page of problems, and the lists of their pages, with report.json.
func checkProblems(t *testing.T, f *dashboard, b *browser, id string) {
	t.Helper()
	text, err := os.ReadFile(f.svc.Crawls.DataDir(id).Report())
	if err != nil {
		t.Fatal(err)
	}
	var rep struct {
		Problems []struct {
			Code, Result, Fix string
			Count             int
		}
	}
	if err := json.Unmarshal(text, &rep); err != nil {
		t.Fatal(err)
	}
	p, found := b.get("/crawls/"+id+"/problems"), 0
	broken := p.rows("The first pages of “Broken links”")
	if len(broken) == 0 {
		t.Error("no broken link is listed")
	}
	for _, row := range broken {
		if !strings.Contains(row[2], "“") {
			t.Errorf("the link to a broken page has no text: %q", row)
		}
	}
	for _, problem := range rep.Problems {
		if problem.Result != "found" {
			continue
		}
		found++
		p.want(problem.Fix)
		noun := "URLs match"
		if problem.Count == 1 {
			noun = "URL matches"
		}
		b.get("/crawls/" + id + "/pages?problem=" + problem.Code).want(fmt.Sprintf("%d %s the filters", problem.Count,
			noun))
	}
	if found == 0 {
		t.Error("the report has no problems, though links of the site are broken")
	}
}

// fieldHasFault says whether a field of the form is marked, and its fault stands beside it.
func fieldHasFault(p *page, name string) bool {
	for n := range p.root.Descendants() {
		if attr(n, "id") == name {
			return attr(n, "aria-invalid") == "true" && strings.Contains(textOf(n.Parent),
				strings.TrimSpace(textOf(byID(p, name+"-fault"))))
		}
	}
	return false
}
