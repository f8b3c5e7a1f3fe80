package results

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb/problemsite"
)

// Problems are those that the site knows of itself, whatever the order in which it is crawled, with and without
// recorded links, if the crawl is killed, and after a recrawl.
func TestProblems(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		seed    uint64
		links   bool
		kill    bool
		recrawl bool
		args    []string
	}{
		"one by one": {seed: 1, args: []string{"--workers", "1", "--shards", "1",
			"--max-inflight-per-host", "1"}},
		"wide": {seed: 1, recrawl: true,
			args: []string{"--workers", "64", "--shards", "4", "--max-inflight-per-host", "8"}},
		"links": {seed: 1, links: true, recrawl: true,
			args: []string{"--workers", "16", "--shards", "2", "--max-inflight-per-host", "3"}},
		"killed": {seed: 1, links: true, kill: true,
			args: []string{"--workers", "8", "--shards", "3", "--max-inflight-per-host", "4"}},
		"another": {seed: 2, args: []string{"--workers", "8", "--max-inflight-per-host", "8"}},
		"another, with links, killed": {seed: 2, links: true, kill: true,
			args: []string{"--workers", "16", "--max-inflight-per-host", "8"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := problemsite.New(tt.seed)
			web := &problemWeb{site: site}
			crawl, dir := web.crawl(t, tt.args...)
			if tt.links {
				crawl.Args = append(crawl.Args, "--links")
			}
			if tt.kill {
				reached := web.hold(80)
				p := crawl.Start(t)
				<-reached
				p.Kill()
				web.release()
				crawl.Args = []string{"resume", "--data-dir", dir}
			}
			if got := crawl.Run(t); got.Code != 0 {
				t.Fatalf("exit status %d, want 0", got.Code)
			}
			web.compare(t, dir, tt.links)
			if tt.recrawl {
				crawl.Args = []string{"recrawl", "--data-dir", dir}
				if got := crawl.Run(t); got.Code != 0 {
					t.Fatalf("recrawl: exit status %d, want 0", got.Code)
				}
				web.compare(t, dir, tt.links)
			}
			status := e2e.Run(t, "status", "--json", dir)
			var live struct {
				Problems problems.Totals `json:"problems"`
			}
			if err := json.Unmarshal([]byte(status.Stdout), &live); err != nil || live.Problems.Errors == 0 {
				t.Errorf("the status has problems %+v: %v", live.Problems, err)
			}
		})
	}
}

// problemWeb serves a site with problems over TLS on loopback.
type problemWeb struct {
	site *problemsite.Site

	mu      sync.Mutex
	left    int           // guarded by mu; requests until the web holds
	reached chan struct{} // guarded by mu; closed when it holds, nil if it never does
	ended   chan struct{} // guarded by mu; closed when it holds no more
}

// crawl is a crawl of the site, and its data directory.
func (w *problemWeb) crawl(t *testing.T, args ...string) (e2e.Invocation, string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(w)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	authority := e2e.Write(t, filepath.Join(t.TempDir(), "ca.pem"), string(block))
	dir := filepath.Join(t.TempDir(), "data")
	// Nothing listens at port 9 of this address of the loopback network.
	args = append([]string{
		"crawl", "--start-url", problemsite.Start, "--profile", "own-site", "--resolve", "*:443:" +
			srv.Listener.Addr().String(), "--resolve", "*:9:127.99.99.99:9", "--data-dir", dir,
		"--max-retries", "0", "--max-host-backoff-secs", "1", "--traps=false",
		"--near-duplicates", "--check-soft-404",
	}, args...)
	return e2e.Invocation{Args: args, Env: []string{"SSL_CERT_FILE=" + authority}}, dir
}

// hold answers so many requests and no more, until release. The channel is closed when it holds.
func (w *problemWeb) hold(n int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.reached, w.ended = n, make(chan struct{}), make(chan struct{})
	return w.reached
}

func (w *problemWeb) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ended)
	w.reached = nil
}

func (w *problemWeb) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	ended := w.ended
	holds := false
	if w.reached != nil {
		w.left--
		if holds = w.left < 0; w.left == -1 {
			close(w.reached)
		}
	}
	w.mu.Unlock()
	if holds {
		select {
		case <-ended:
		case <-r.Context().Done():
			return
		}
	}
	w.site.ServeHTTP(out, r)
}

// compare holds report.json and problems.jsonl against what the site knows.
func (w *problemWeb) compare(t *testing.T, dir string, links bool) {
	t.Helper()
	want, err := w.site.Expect(links)
	if err != nil {
		t.Fatal(err)
	}
	want["slow"] = alsoSlow(t, dir, want["slow"])
	var rep struct {
		Problems    []problems.Problem `json:"problems"`
		BrokenLinks struct {
			Items []struct {
				URL string `json:"url"`
			} `json:"items"`
		} `json:"broken_links"`
	}
	e2e.ReadJSON(t, dir, "report.json", &rep)
	got := map[string][]string{}
	for row := range strings.Lines(e2e.Read(t, dir, "problems.jsonl")) {
		var e problems.Entry
		if err := json.Unmarshal([]byte(row), &e); err != nil {
			t.Fatalf("%s: %v", row, err)
		}
		if e.Part == 0 {
			got[e.Code] = append(got[e.Code], e.URL)
		}
	}
	var broken []string
	for _, b := range rep.BrokenLinks.Items {
		broken = append(broken, b.URL)
	}
	if !slices.Equal(broken, want["broken_link"]) {
		t.Errorf("broken_links:\ngot  %q\nwant %q", broken, want["broken_link"])
	}
	for _, p := range rep.Problems {
		if !slices.Equal(got[p.Code], want[p.Code]) {
			t.Errorf("%s:\ngot  %q\nwant %q", p.Code, got[p.Code], want[p.Code])
		}
		result := problems.None
		code, _ := problems.Parse(p.Code)
		switch {
		case p.Code == "link_to_redirect" && !links, code.IsOutside(): // checks of their own find these
			result = problems.NotChecked
		case p.Count > 0:
			result = problems.Found
		}
		if p.Count != int64(len(want[p.Code])) || p.Result != result || p.Result == problems.NotChecked && p.Why == "" {
			t.Errorf("%s: %s, %d URLs (%s), want %s, %d", p.Code, p.Result, p.Count, p.Why, result, len(want[p.Code]))
		}
		if p.Result == problems.None {
			t.Errorf("%s: the site has no such problem, so this tests little", p.Code)
		}
		if !strings.Contains("broken_link link_to_redirect", p.Code) {
			continue
		}
		for _, item := range p.Items {
			w.compareLinks(t, &item, links)
		}
	}
	if len(rep.Problems) != len(problems.Table()) || len(got) != len(want) {
		t.Errorf("%d problems, codes %q, want %q", len(rep.Problems), slices.Sorted(maps.Keys(got)),
			slices.Sorted(maps.Keys(want)))
	}
}

// alsoSlow adds to the pages that the site answers slowly those that a busy machine made slow, by their recorded times.
func alsoSlow(t *testing.T, dir string, slow []string) []string {
	t.Helper()
	for url, line := range e2e.ReadLines(t, dir) {
		isPage := line.Outcome == "ok" && strings.HasPrefix(line.ContentType, "text/html")
		if isPage && line.ResponseTimeMS > 1000*problems.MaxSeconds && !slices.Contains(slow, url) {
			slow = append(slow, url)
		}
	}
	slices.Sort(slow)
	return slow
}

// compareLinks holds the pages that link to an item against the site's.
func (w *problemWeb) compareLinks(t *testing.T, item *problems.Item, links bool) {
	t.Helper()
	want := map[string]string{}
	for _, p := range w.site.Pages() {
		for _, l := range p.Links {
			if _, has := want[p.URL]; l.To == item.URL && !has && links {
				want[p.URL] = l.Text
			}
		}
	}
	got := map[string]string{}
	for i, url := range item.Related {
		if text := item.Texts[i]; text != "" { // a canonical address or a language version has no text
			got[url] = text
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("to %s link %q, want %q", item.URL, got, want)
	}
}
