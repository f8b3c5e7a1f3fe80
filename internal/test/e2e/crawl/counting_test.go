package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// URLs whose host refuses connections count towards --max-urls like any other.
func TestRefusedConnectionsCount(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for i := range 20 {
			fmt.Fprintf(w, `<a href="http://closed-%d.test/">x</a>`, i)
		}
	}))
	t.Cleanup(site.Close)
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "http://start.test/", "--scope", "any", "--profile", "own-site", "--data-dir", dir,
		"--max-urls", "8", "--max-retries", "0", "--seeding-strategy", "none",
		"--ignore-robots", "--resolve", "start.test:80:"+site.Listener.Addr().String(), "--resolve",
		"*:80:"+e2e.ClosedPort(t))
	rep := e2e.Ended(t, got, dir, 3, "partial", "Reached max_urls limit of 8")
	if rep.Outcomes["connect_error"] != 7 || rep.Outcomes["ok"] != 1 {
		t.Errorf("outcomes %v, want 1 ok and 7 connect_error", rep.Outcomes)
	}
}

// The https URL that is tried for a bare domain counts towards no limit and is no broken link, if plain http is there.
func TestProbeOfABareDomainDoesNotCount(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 30})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", web.HostName(0), "--profile", "own-site", "--data-dir", dir, "--max-urls", "5",
		"--max-host-backoff-secs", "1",
		"--resolve", "*:443:"+e2e.ClosedPort(t), "--resolve", web.Resolve())
	rep := e2e.Ended(t, got, dir, 3, "partial", "Reached max_urls limit of 5")
	if n := e2e.Pages(web); n != 5 || rep.Outcomes["ok"] != 5 {
		t.Errorf("%d pages were asked for, outcomes %v, want 5 ok", n, rep.Outcomes)
	}
	if strings.Contains(got.Stdout, "Broken links") {
		t.Errorf("the closing table names broken links:\n%s", got.Stdout)
	}
}
