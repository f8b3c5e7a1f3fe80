package crawl

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
)

// A long robots.txt is parsed in one of the places in which pages are parsed: it takes as long as a large page.
func TestLongRobotsHasAPlace(t *testing.T) {
	t.Parallel()
	var pages atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			_, _ = io.WriteString(w, strings.Repeat("\n", 64<<10))
			return
		}
		pages.Add(1)
		w.Header().Set("Content-Type", "text/html")
	}))
	t.Cleanup(web.Close)
	shared := newShared(t, SharedOptions{MaxWorkers: 4, MaxParsers: 1, RobotsMemory: 1 << 20, BodyMemory: 4 << 20})
	other := shared.parsing.Join("", 1)
	if err := other.Enter(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	o := (&busySite{Server: web}).options(t)
	c, err := newTested(shared, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	var status page.Status
	go func() {
		rep, err := c.Run(t.Context())
		if rep != nil {
			status = rep.Status
		}
		ended <- err
	}()
	for waiting := 0; waiting == 0; runtime.Gosched() {
		c.mu.Lock()
		if c.running != nil && c.running.parsing != nil {
			_, waiting, _ = c.running.parsing.Use()
		}
		c.mu.Unlock()
	}
	if n := pages.Load(); n > 0 {
		t.Errorf("%d pages were requested before robots.txt was parsed", n)
	}
	other.Leave(false)
	if err := <-ended; err != nil || status != page.Complete || pages.Load() == 0 {
		t.Errorf("%v, %s, %d pages", err, status, pages.Load())
	}
}
