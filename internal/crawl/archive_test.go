package crawl

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/warctest"
)

// A crawl whose archive cannot be written ends with an error, and records no page that is not archived: when it is
// resumed, it fetches them again.
func TestArchiveCannotBeWritten(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<p>page"))
	}))
	t.Cleanup(site.Close)
	dir := newDir(t)
	s := config.Defaults(config.OwnSite)
	s.WARC = true
	start, err := datadir.ParseStart(site.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Settings: s, Starts: []datadir.Start{start}, Dir: dir, Started: func(*monitor.Monitor) {
		if err := os.WriteFile(dir.Archive(), nil, 0o600); err != nil {
			t.Error(err)
		}
	}}
	if _, err := runAlone(t.Context(), o); err == nil || !strings.Contains(err.Error(), "write archive: ") {
		t.Fatalf("the crawl ended with %v", err)
	}
	if o.Plan, err = datadir.ReadPlan(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir.Archive()); err != nil {
		t.Fatal(err)
	}
	o.Started = nil
	rep, err := runAlone(t.Context(), o)
	if err != nil || rep.Status != page.Complete || rep.Outcomes["ok"] != 1 {
		t.Fatalf("resumed: %+v, %v", rep, err)
	}
	for _, r := range warctest.ReadDir(t, dir.Archive()) {
		if r.Type == "response" && r.URL == site.URL+"/" && string(r.Body) == "<p>page" {
			return
		}
	}
	t.Error("the page is not in the archive")
}
