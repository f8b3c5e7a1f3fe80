package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
)

// wantProblems compares the URLs that a report names for some problems.
func wantProblems(t *testing.T, what string, rep *report.Report, want map[problems.Code][]string) {
	t.Helper()
	for code, want := range want {
		i := slices.IndexFunc(rep.Problems, func(p problems.Problem) bool { return p.Code == code.String() })
		var got []string
		for _, item := range rep.Problems[i].Items {
			got = append(got, item.URL)
		}
		if !slices.Equal(got, want) || rep.Problems[i].Result != problems.Found {
			t.Errorf("%s: %s is %s (%s): %q, want %q", what, code, rep.Problems[i].Result, rep.Problems[i].Why, got,
				want)
		}
	}
}

// Orphans, and pages that sitemaps do not list, are found without recorded links: whether the sitemap or the page comes
// first, and in a crawl that ends at its limit and goes on in another run.
func TestOrphans(t *testing.T) {
	t.Parallel()
	urls := map[string]any{
		"a.test/robots.txt": "Sitemap: http://a.test/map.xml\n", "b.test/robots.txt": "Sitemap: http://a.test/b.xml\n",
		"b.test/": plainPage,
	}
	// The hub is known by the sitemap only, so all that it links to is listed before it is read.
	var listed, linked strings.Builder
	want := map[problems.Code][]string{problems.NotInSitemap: {"http://a.test/", "http://b.test/"}}
	for i := range 30 {
		urls[fmt.Sprintf("a.test/%d", i)] = plainPage
		fmt.Fprintf(&listed, "<url><loc>http://a.test/%d</loc></url>", i)
		if i < 20 {
			fmt.Fprintf(&linked, "<a href=/%d>page</a>", i)
		} else {
			want[problems.Orphan] = append(want[problems.Orphan], fmt.Sprintf("http://a.test/%d", i))
		}
	}
	want[problems.Orphan] = append(want[problems.Orphan], "http://a.test/hub")
	linked.WriteString("<a href=http://b.test/gone>a start URL that is not there</a>")
	urls["a.test/"] = "<html><title>Start</title><a href=http://b.test/>b</a><a href=http://b.test/listed>b</a>"
	urls["a.test/map.xml"] = "<urlset><url><loc>http://a.test/hub</loc></url>" + listed.String() + "</urlset>"
	for _, limits := range [][]int{{0}, {4, 10, 0}} {
		// With one run, the second sitemap answers when the page that it lists was found by a link, and the first
		// sitemap was read.
		var found sync.WaitGroup
		if len(limits) == 1 {
			found.Add(2)
		}
		once := func(text string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if len(limits) == 1 {
					found.Done()
				}
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, text)
			}
		}
		urls["b.test/listed"], urls["a.test/hub"] = once(plainPage), once("<html><title>Hub</title>"+linked.String())
		urls["a.test/b.xml"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			found.Wait()
			fmt.Fprint(w, "<urlset><url><loc>http://b.test/listed</loc></url></urlset>")
		})
		s := newHandSite(t, urls)
		dir := newDataDir(t)
		var rep *report.Report
		for run, limit := range limits {
			change := func(s *config.Settings) { s.Scope, s.MaxURLs = "any", limit }
			if run == 0 {
				rep, _ = s.crawl(dir, change, "http://a.test/", "http://b.test/", "http://b.test/gone")
			} else {
				rep, _ = s.resume(dir, nil, change)
			}
		}
		wantProblems(t, fmt.Sprintf("with limits %v", limits), rep, want)
		if rep.BrokenLinks != nil {
			t.Errorf("a start URL is a broken link: %+v", rep.BrokenLinks)
		}
	}
}

// Orphans, and pages that sitemaps do not list, are exact if the machine that reads a sitemap, the one that reads the
// pages which link to its entries, and the one that fetches these entries are three.
func TestClusterOrphans(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const hosts, chain = 9, 20
		w := &timedWeb{answers: map[string]string{}}
		want := map[problems.Code][]string{}
		var starts []string
		for i := range hosts {
			host, next := fmt.Sprintf("h%d.test", i), fmt.Sprintf("http://h%d.test", (i+1)%hosts)
			starts = append(starts, "http://"+host+"/0")
			w.answers[host+"/robots.txt"] = fmt.Sprintf("Sitemap: http://h%d.test/of-h%d.xml\n", (i+2)%hosts, i)
			w.answers[fmt.Sprintf("h%d.test/of-h%d.xml", (i+2)%hosts, i)] = fmt.Sprintf(
				"<urlset><url><loc>http://%[1]s/listed</loc></url><url><loc>http://%[1]s/orphan</loc></url><url><loc>http://%[1]s/found</loc></url></urlset>", host)
			for p := range chain { // meanwhile the machines share the partitions, and read the sitemaps
				w.answers[fmt.Sprintf("%s/%d", host,
					p)] = fmt.Sprintf(`<html><title>%d of %d</title><a href="/%d">next</a>`, p, i, p+1)
			}
			w.answers[host+"/0"] += `<a href="/found">found</a>`
			w.answers[fmt.Sprintf("%s/%d", host,
				chain)] = fmt.Sprintf(`<html><title>last of %d</title><a href="%s/listed">other</a><a href="/unlisted">own</a>`, i, next)
			for _, path := range []string{"listed", "orphan", "found", "unlisted"} {
				w.answers[host+"/"+path] = fmt.Sprintf(`<html><title>%s of %d</title><a href="/%s">itself</a>`, path, i,
					path)
			}
			want[problems.Orphan] = append(want[problems.Orphan], "http://"+host+"/orphan")
		}
		s := w.options(t).Settings
		s.Scope, s.SeedingStrategy = "any", []string{"sitemap"}
		c := newTestCluster(t, nil, s, starts...)
		c.fetcher = w
		won := make(chan *report.Report, 3)
		var wg sync.WaitGroup
		for range 3 {
			m := c.machine()
			wg.Go(func() {
				rep, err := m.run(t.Context())
				if left := (*LeftError)(nil); err != nil && !errors.As(err, &left) {
					t.Error(err)
				}
				if rep != nil {
					wantMachines(t, rep, 3)
					won <- rep
				}
			})
			time.Sleep(time.Second)
		}
		wg.Wait()
		rep := <-won
		for _, p := range rep.Problems {
			if p.Code == problems.NotInSitemap.String() {
				for i := range p.Items {
					if strings.HasSuffix(p.Items[i].URL, "/listed") || strings.HasSuffix(p.Items[i].URL, "/found") ||
						strings.HasSuffix(p.Items[i].URL, "/orphan") {
						t.Errorf("%s is said to be in no sitemap", p.Items[i].URL)
					}
				}
				if p.Count != hosts*(chain+2) {
					t.Errorf("%d pages are in no sitemap, want %d", p.Count, hosts*(chain+2))
				}
			}
		}
		wantProblems(t, "three machines", rep, want)
	})
}
