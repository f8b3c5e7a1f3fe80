package crawl

import (
	"path/filepath"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A page that resets its connection, kept or new, is asked for MAX_RETRIES times more, by the web's count.
func TestResettingPageIsAskedForAsOftenAsAllowed(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 10, Log: true,
		Faults: testweb.OnAll(testweb.Reset{Where: testweb.Where{Count: 1}})})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Invocation{
		Args: []string{"crawl", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(), "--data-dir",
			dir, "--max-host-backoff-secs", "1"},
		Env: []string{"MAX_RETRIES=2"},
	}.Run(t)
	if got.Code != 0 {
		t.Errorf("exit status %d, want 0", got.Code)
	}
	sends := map[string]int{}
	for _, r := range web.Log() {
		sends[r.URL]++
	}
	broken := 0
	for url, l := range e2e.ReadLines(t, dir) {
		if l.Outcome != "read_error" {
			continue
		}
		broken++
		if sends[url] != 3 || l.Attempts != 3 {
			t.Errorf("%s was asked for %d times and has %d attempts, want 3", url, sends[url], l.Attempts)
		}
	}
	if broken != 1 {
		t.Errorf("%d pages failed, want 1", broken)
	}
}
