package results

import (
	"bytes"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/state"
)

var exportURLs = flag.Int("export-urls", 20_000, "URLs of the larger crawl that TestExportMemory exports")

// madeUp makes the data directory of a crawl of so many pages, without a crawl.
func madeUp(t *testing.T, n int) string {
	t.Helper()
	dir := datadir.Dir(filepath.Join(t.TempDir(), "data"))
	s, err := state.Open(dir.State(), state.Options{Mode: state.CreateOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	start, err := weburl.Parse("https://www.example.test/")
	if err != nil {
		t.Fatal(err)
	}
	if err := datadir.NewPlan(config.Defaults(config.Polite), []datadir.Start{{URL: start}}).Write(dir); err != nil {
		t.Fatal(err)
	}
	hasher, now := s.Hasher(), time.Now()
	const batch = 1000
	for first := 0; first < n; first += batch {
		recs := make([]frontier.Record, 0, batch)
		for i := first; i < min(first+batch, n); i++ {
			u, ok := weburl.FromCanonical(fmt.Sprintf("https://www%d.example.test/section-%d/a-page-with-a-name-of-usual-length-%d.html", i%1000, i%37, i))
			if !ok {
				t.Fatal("a made-up URL is not canonical")
			}
			facts := page.Facts{
				ContentType: "text/html; charset=utf-8", ContentLength: new(int64(10240)),
				ContentHash: new(page.Hash(i)), ResponseTime: new(page.Millis(20 * time.Millisecond)),
				WordCount: new(500), LinkCount: new(30),
				Title:       fmt.Sprintf("A page with the number %d", i),
				Description: "What a page says of itself in a sentence or two, which is about as long as this one.",
				H1:          "A page", Language: "en",
				LastModified: page.Time{Time: now}, Robots: page.Robots{Checked: true, Allowed: true, CheckedAt: now},
			}
			key := hasher.Key(u)
			recs = append(recs, frontier.Record{
				Links: []frontier.Link{{Key: key, URL: u, Depth: 3, Priority: 19, Source: 1, Parent: start,
					Discovered: now}},
				Finish: &frontier.Finish{Key: key, Outcome: uint8(page.OK), Status: 200, Attempts: 1, CheckedAt: now,
					Bytes: 10240, Facts: facts.Append(nil)},
			})
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(recs...); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return string(dir)
}

// An export takes as much memory for many URLs as for some. What counts is memory of its own: the store's files are
// mapped, and what the kernel keeps of them in free memory counts as the process's too, but is released when memory is
// needed.
func TestExportMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory of one's own is told apart only on Linux")
	}
	for _, n := range []int{*exportURLs / 5, *exportURLs} {
		dir := madeUp(t, n)
		began := time.Now()
		own, res := measureExport(t, dir)
		if res.Pages != n || res.Indexable != n {
			t.Errorf("%d URLs: %+v", n, res)
		}
		t.Logf("%d URLs: peak %d MB of its own, %v, %d files", n, own, time.Since(began).Round(time.Millisecond),
			len(res.Files))
		if own > mostMemory && !e2e.RaceDetector {
			t.Errorf("%d URLs took %d MB, want at most %d", n, own, mostMemory)
		}
	}
}

// mostMemory is what an export may take of any number of URLs, in MB. Most of it is the store settling after it was
// written to; the export by itself takes some 25.
const mostMemory = 300

// measureExport exports a crawl and returns the most memory of its own that it took, in MB.
func measureExport(t *testing.T, dir string) (own int64, res exported) {
	t.Helper()
	var out bytes.Buffer
	cmd := unhurried(t, "export", "--json", "--csv", "--gzip", "--data-dir", dir)
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			own = max(own, e2e.OwnMemory(cmd.Process.Pid))
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return own, e2e.Parse[exported](t, out.String())
		}
	}
}
