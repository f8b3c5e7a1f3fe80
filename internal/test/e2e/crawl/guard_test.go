package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A start URL with an address opens its own port of that address and no other. --resolve to a private address needs no
// --allow-private.
func TestStartAddressOpensItsPortOnly(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(other.Close)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a href="%s/secret">other port</a> <a href="http://resolved.test/">resolved</a>`, other.URL)
	}))
	t.Cleanup(site.Close)
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", site.URL+"/", "--scope", "any", "--profile", "own-site", "--data-dir", dir,
		"--seeding-strategy", "none",
		"--resolve", "resolved.test:80:"+site.Listener.Addr().String())
	if got.Code != 0 {
		t.Errorf("exit status %d, want 0", got.Code)
	}
	lines := e2e.ReadLines(t, dir)
	for url, want := range map[string]string{site.URL + "/": "ok", "http://resolved.test/": "ok", other.URL +
		"/secret": "refused_address"} {
		if lines[url].Outcome != want {
			t.Errorf("%s: %q, want %q", url, lines[url].Outcome, want)
		}
	}
	if text := lines[other.URL+"/secret"].Error; !strings.Contains(text,
		"127.0.0.1 is not a public address (loopback)") {
		t.Errorf("the error is %q", text)
	}
	if asked.Load() != 0 {
		t.Errorf("%d requests reached the other port", asked.Load())
	}
}
