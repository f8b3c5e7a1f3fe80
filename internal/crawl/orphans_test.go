package crawl

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/crawl/datadir"
	"github.com/mapwright/mapwright/internal/problems"
)

// Orphans, and pages that sitemaps do not list, are found without recorded links, also if sitemaps list more URLs than are held in memory.
func TestOrphansBeyondMemory(t *testing.T) {
	t.Parallel()
	urls := map[string]any{"a.test/robots.txt": "Sitemap: http://a.test/map.xml\n", "b.test/robots.txt": "Sitemap: http://a.test/b.xml\n", "b.test/": plainPage}
	// The hub is known by the sitemap only, so all that it links to is listed before it is read.
	var listed, linked strings.Builder
	for i := range 30 {
		urls[fmt.Sprintf("a.test/%d", i)] = plainPage
		fmt.Fprintf(&listed, "<url><loc>http://a.test/%d</loc></url>", i)
		if i < 20 {
			fmt.Fprintf(&linked, "<a href=/%d>page</a>", i)
		}
	}
	urls["a.test/"] = "<html><title>Start</title><a href=http://b.test/>b</a><a href=http://b.test/listed>b</a>"
	urls["a.test/map.xml"] = "<urlset><url><loc>http://a.test/hub</loc></url>" + listed.String() + "</urlset>"
	want := map[problems.Code][]string{
		problems.Orphan:       {"http://a.test/20", "http://a.test/21", "http://a.test/22", "http://a.test/23", "http://a.test/24", "http://a.test/25", "http://a.test/26", "http://a.test/27", "http://a.test/28", "http://a.test/29", "http://a.test/hub"},
		problems.NotInSitemap: {"http://a.test/", "http://b.test/"},
	}
	for _, most := range []int{0, 1, 7} {
		// The second sitemap answers when the page that it lists was found by a link, and the first sitemap was read.
		var found sync.WaitGroup
		found.Add(2)
		once := func(text string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				found.Done()
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
		o := Options{Settings: s.settings(nil), Dir: newDataDir(t), Log: slog.New(slog.DiscardHandler), MaxListed: most}
		o.Settings.Scope = "any"
		o.Starts = []datadir.Start{{URL: mustURL(t, "http://a.test/")}, {URL: mustURL(t, "http://b.test/")}}
		rep, _ := s.run(o)
		for code, want := range want {
			i := slices.IndexFunc(rep.Problems, func(p problems.Problem) bool { return p.Code == code.String() })
			var got []string
			for _, item := range rep.Problems[i].Items {
				got = append(got, item.URL)
			}
			if !slices.Equal(got, want) || rep.Problems[i].Result != problems.Found {
				t.Errorf("with %d URLs in memory, %s is %s (%s): %q, want %q", most, code, rep.Problems[i].Result, rep.Problems[i].Why, got, want)
			}
		}
	}
}
