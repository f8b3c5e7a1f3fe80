package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/report"
)

// The pages of a running crawl can be read in parts: each recorded URL comes once.
func TestPagesOfARunningCrawl(t *testing.T) {
	const pages = 40
	held, release := make(chan struct{}, pages), make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/robots.txt":
			http.NotFound(w, r)
		case "/":
			for i := range pages {
				fmt.Fprintf(w, "<a href=/p%d>x</a>", i)
			}
		default:
			held <- struct{}{}
			<-release
		}
	}))
	defer site.Close()
	start := weburl.MustCanonical(site.URL + "/")
	set := config.Defaults(config.OwnSite)
	set.SeedingStrategy = nil
	shared, err := NewShared(ForOneCrawl(set))
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	c, err := newTested(shared, Options{Settings: set, Starts: []datadir.Start{{URL: start}},
		Dir: datadir.Dir(t.TempDir() + "/crawl"), NoControl: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := c.Pages(t.Context(), report.Search{Most: 1}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("before the run: %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context())
		ended <- err
	}()
	<-held // so the start page is recorded, with its links
	seen := map[string]string{}
	for at, more := (weburl.Key{}), true; more; {
		lines, next, further, err := c.Pages(t.Context(), report.Search{After: at, Most: 7})
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) > 7 || further && len(lines) < 7 {
			t.Errorf("%d pages of 7, more: %v", len(lines), further)
		}
		for _, l := range lines {
			if _, twice := seen[l.URL.String()]; twice {
				t.Errorf("%s comes twice", l.URL)
			}
			seen[l.URL.String()] = l.Outcome
		}
		at, more = next, further
	}
	if len(seen) != 1+pages || seen[start.String()] != "ok" || seen[start.String()+"p7"] != "pending" {
		t.Errorf("%d pages: %v", len(seen), seen)
	}
	for url, want := range map[string]string{start.String(): "ok", start.String() + "p3": "pending", start.String() +
		"none": ""} {
		l, err := c.Page(t.Context(), weburl.MustCanonical(url))
		if err != nil || (l == nil) != (want == "") || l != nil && l.Outcome != want {
			t.Errorf("%s: %+v, %v", url, l, err)
		}
	}
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
