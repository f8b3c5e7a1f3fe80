package crash

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// siteKills is how often one crawl of the sites is killed.
const siteKills = 12

// difficultSites are hosts whose crawl depends on what was learned on the way: sessions in links and a calendar
// (shop.test), a sitemap index (maps.test), hosts that refuse every page or fail until they are given up (busy.test
// with Retry-After, shut.test by plain 403s, down.test by errors), and pages, redirects, errors and a robots.txt
// (a.test). What they answer depends on the URL only.
func difficultSites(t *testing.T) *e2e.MapSite {
	shop := &e2e.EndlessSite{Link: func(page int, session string) string {
		return fmt.Sprintf("/page-%d?sid=%s", page,
			session)
	}}
	return e2e.NewMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		path := r.URL.Path
		switch r.Host {
		case "shop.test":
			if path == "/robots.txt" || strings.HasPrefix(path, "/sitemap") {
				return false
			}
			shop.ServeHTTP(w, r)
			return true
		case "maps.test":
			return answerMaps(w, r)
		case "busy.test", "shut.test", "down.test":
			if path == "/robots.txt" || strings.HasPrefix(path, "/sitemap") {
				return false
			}
			if r.Host == "busy.test" {
				w.Header().Set("Retry-After", "1")
			}
			w.WriteHeader(map[string]int{"busy.test": http.StatusTooManyRequests, "shut.test": http.StatusForbidden,
				"down.test": http.StatusInternalServerError}[r.Host])
			return true
		case "a.test":
			return answerPlain(w, r)
		}
		return false
	})
}

// answerMaps serves a host with an index of 40 sitemaps, one of which is an index. They list pages, among them some
// that pages link to, and URLs that are not followed.
func answerMaps(w http.ResponseWriter, r *http.Request) bool {
	const at = "http://maps.test"
	switch path := r.URL.Path; {
	case path == "/robots.txt":
		fmt.Fprintf(w, "Sitemap: %s/map/index\n", at)
	case path == "/map/index":
		e2e.WriteIndex(w, r, 40, func(i int) string { return fmt.Sprintf("%s/map/%d", at, i) })
	case path == "/map/7":
		e2e.WriteIndex(w, r, 10, func(i int) string { return fmt.Sprintf("%s/map/7-%d", at, i) })
	case strings.HasPrefix(path, "/map/"):
		e2e.WriteURLs(w, at+"/of"+path, at+"/of"+path+"/more", at+"/linked/1", "http://else.test/", at+path+".jpg")
	case path == "/":
		e2e.WritePage(w, path, "/linked/1", "/linked/2", "/photo.jpg", "mailto:a@b.test")
	default:
		e2e.WritePage(w, path)
	}
	return true
}

// answerPlain serves the start page, which names the other hosts, and 60 pages in a tree with redirects, errors and
// parts that robots.txt disallows.
func answerPlain(w http.ResponseWriter, r *http.Request) bool {
	n := 0
	switch path := r.URL.Path; {
	case path == "/robots.txt":
		fmt.Fprint(w, "User-agent: *\nDisallow: /private/\n")
	case path == "/":
		list := []string{"/p/1", "http://shop.test/", "http://maps.test/", "/out/1", "mailto:a@b.test"}
		for i := range 12 {
			list = append(list, fmt.Sprintf("http://busy.test/%d", i), fmt.Sprintf("http://shut.test/%d", i),
				fmt.Sprintf("http://down.test/%d", i))
		}
		e2e.WritePage(w, path, list...)
	case strings.HasPrefix(path, "/moved/"):
		http.Redirect(w, r, strings.Replace(path, "moved", "new", 1), http.StatusMovedPermanently)
	case strings.HasPrefix(path, "/new/"):
		e2e.WritePage(w, path)
	case strings.HasPrefix(path, "/p/"):
		if _, err := fmt.Sscanf(path, "/p/%d", &n); err != nil || n > 60 {
			return false
		}
		e2e.WritePage(w, path, fmt.Sprintf("/p/%d", 2*n), fmt.Sprintf("/p/%d", 2*n+1), fmt.Sprintf("/moved/%d", n),
			fmt.Sprintf("/private/%d", n), fmt.Sprintf("/picture-%d.jpg", n), fmt.Sprintf("/out/%d", n))
	default:
		return false
	}
	return true
}

// flagsOfSites crawl the difficult sites. Each host has one request in flight: with more of them, how many of a host's
// pages fail before it is given up depends on the moment. URLs are not tried again, since it is not stored how often a
// URL was tried: after a kill they would be asked in another order.
func flagsOfSites(s *e2e.MapSite, dir string, workers int) []string {
	return s.Flags(dir, "--scope", "any", "--profile", "own-site", "--max-workers", fmt.Sprint(workers),
		"--max-inflight-per-host", "1", "--skip-extensions", "jpg", "--exclude", "/out/",
		"--max-retries", "0", "--failure-threshold", "3", "--max-host-failures", "2", "--save-interval", "100ms")
}

// findings are what a crawl found: each URL with all that does not depend on the moment, the report, and the XML
// sitemap.
type findings struct {
	urls    map[string]string
	ends    map[string]string // without the way on which a URL was found
	titles  map[string]string
	report  map[string]any
	sitemap []string // its entries
	traps   map[string]int
}

func findingsIn(t *testing.T, dir string) findings {
	t.Helper()
	f := findings{urls: map[string]string{}, ends: map[string]string{}, titles: map[string]string{},
		traps: map[string]int{}}
	for _, name := range e2e.SitemapFiles(t, dir) {
		f.sitemap = append(f.sitemap, strings.Split(e2e.Read(t, dir, name), "<url>")...)
	}
	for url, l := range e2e.ReadLines(t, dir) {
		f.ends[url] = fmt.Sprintf("%s %d %q, tried %d times, to %q, %q, %s, %v %s",
			l.Outcome, l.StatusCode, l.Error, l.Attempts, l.RedirectTo, l.Title, l.ContentHash, l.Indexable,
			l.IndexableReason)
		f.urls[url] = fmt.Sprintf("%s, depth %d from %s (%s)", f.ends[url], l.Depth, l.ParentURL, l.Source)
		f.titles[url] = l.Title
		if l.Outcome == "trap" {
			f.traps[l.Error]++
		}
	}
	e2e.ReadJSON(t, dir, "report.json", &f.report)
	for _, name := range []string{
		// times
		"started_at", "ended_at", "elapsed_seconds", "crawl_seconds", "export_seconds", "pages_per_second",
		"slowest_hosts", "response_times", "timeline",
		"settings",                                // with the address of the sites
		"pages_this_run", "hot_set_bytes", "runs", // of runs
	} {
		delete(f.report, name)
	}
	for _, name := range []string{"throttled_hosts", "blocked_hosts"} {
		list, _ := f.report[name].([]any)
		for _, host := range list {
			delete(host.(map[string]any), "mean_response_ms") // a time
		}
	}
	if sections, ok := f.report["sections"].(map[string]any); ok {
		for _, section := range sections["items"].([]any) {
			delete(section.(map[string]any), "p50_ms")
			delete(section.(map[string]any), "p95_ms")
		}
	}
	var warnings []any // without those about the kills themselves, and without the name of the directory
	list, _ := f.report["warnings"].([]any)
	for _, w := range list {
		if text := strings.ReplaceAll(w.(string), dir, "DIR"); !strings.Contains(text,
			"the log ended in the middle of a write") {
			warnings = append(warnings, text)
		}
	}
	f.report["warnings"] = warnings
	return f
}

// steady is the part of the findings that is the same whenever the sites are crawled by several workers, killed or not.
// While one of them records a page, another reads the next page of the host, so that either may be recorded first. By
// that order it is decided which values of a parameter are tried before it is known to make no difference, how far a
// calendar is followed, and from where a URL is found that is named twice. So of shop.test only the pages by their
// titles and the reasons of traps are compared.
func (f findings) steady() findings {
	const shop = "http://shop.test/"
	s := findings{urls: map[string]string{}, report: maps.Clone(f.report)}
	for url, end := range f.ends {
		switch {
		case !strings.HasPrefix(url, shop):
			s.urls[url] = end
		case f.titles[url] != "":
			s.urls[shop+" "+f.titles[url]] = "found"
		}
	}
	for reason := range f.traps {
		s.urls[shop+" "+reason] = "found"
	}
	for _, entry := range f.sitemap {
		if !strings.Contains(entry, shop) {
			s.sitemap = append(s.sitemap, entry)
		}
	}
	for _, name := range []string{"urls", "bytes", "indexable", "traps", "duplicate_titles", "problems", "sections",
		"depths"} {
		delete(s.report, name)
	}
	for name, counted := range map[string][]string{"outcomes": {"ok", "trap"}, "skipped_links": {"trap"},
		"not_indexable": {"error"}, "status_classes": {"2xx"}} {
		counts := maps.Clone(s.report[name].(map[string]any))
		for _, what := range counted {
			delete(counts, what)
		}
		s.report[name] = counts
	}
	return s
}

// same compares findings with those of a crawl that was never killed.
func (f findings) same(t *testing.T, want findings) {
	t.Helper()
	e2e.SameStory(t, f.urls, want.urls)
	for name := range want.report {
		if !reflect.DeepEqual(f.report[name], want.report[name]) {
			t.Errorf("the report says %s %v, want %v", name, f.report[name], want.report[name])
		}
	}
	if len(f.report) != len(want.report) {
		t.Errorf("the report has %d values, want %d", len(f.report), len(want.report))
	}
	if !slices.Equal(f.sitemap, want.sitemap) {
		t.Error("sitemap.xml is another one")
	}
}

// wholeCrawl is what a crawl of the difficult sites finds that is never killed, and how many requests it makes in which
// time.
func wholeCrawl(t *testing.T, workers int) (f findings, requests int, took time.Duration) {
	t.Helper()
	s := difficultSites(t)
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, flagsOfSites(s, dir, workers)...)
	rep := e2e.Ended(t, got, dir, 0, "complete", "")
	f = findingsIn(t, dir)
	t.Logf("%d workers, %d requests, outcomes %v, traps %v, skipped %v", workers, len(s.Requests("")), rep.Outcomes,
		f.traps, rep.SkippedLinks)
	for _, outcome := range []string{"ok", "redirect", "http_error", "throttled", "blocked_by_robots", "trap",
		"host_blocked"} {
		if rep.Outcomes[outcome] == 0 {
			t.Errorf("no URL is %s: the sites do not do what this test is about", outcome)
		}
	}
	if f.traps["trap: ineffective_parameter"] == 0 || f.traps["trap: endless_sequence"] == 0 ||
		len(rep.BlockedHosts) != 3 || len(rep.SkippedLinks) < 3 {
		t.Errorf("traps %v, blocked hosts %v, links skipped for %v: the sites do not do what this test is about",
			f.traps, rep.BlockedHosts, rep.SkippedLinks)
	}
	return f, len(s.Requests("")), got.Took
}

// A crawl of sites with sessions, a calendar, sitemap indexes and hosts that are given up ends as one that was never
// killed, wherever it is killed: the same URLs, outcomes, trap reasons, depths, counts of skipped links, report and
// sitemap. With several workers, that holds for all that is the same in any two crawls of them.
func TestCrashDifficultSites(t *testing.T) {
	t.Parallel()
	seed := *e2e.CrashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crash-seed %d", seed)
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprint("workers=", workers), func(t *testing.T) {
			t.Parallel()
			want, requests, took := wholeCrawl(t, workers)
			if t.Failed() {
				t.FailNow()
			}
			for n, left := 0, max((*e2e.Crashes+1)/2, 6); left > 0; n, left = n+1, left-siteKills {
				t.Run(fmt.Sprint("crawl ", n), func(t *testing.T) {
					t.Parallel()
					rnd := rand.New(rand.NewPCG(seed, uint64(n)))
					for kills := min(left, siteKills); kills > 0 && !t.Failed(); {
						killed, got := killSites(t, workers, rnd, kills, requests, took)
						t.Logf("killed %d times", killed)
						if workers == 1 {
							got.same(t, want)
						} else {
							got.steady().same(t, want.steady())
						}
						kills -= killed
					}
				})
			}
		})
	}
}

// killSites crawls the difficult sites and kills the crawl up to so many times. It returns how often the crawl was
// killed, and what it found in the end.
func killSites(t *testing.T, workers int, rnd *rand.Rand, most, requests int, took time.Duration) (killed int,
	_ findings) {
	s := difficultSites(t)
	dir := filepath.Join(t.TempDir(), "data")
	args := flagsOfSites(s, dir, workers)
	for killed < most {
		p := e2e.Start(t, args...)
		late := took/10 + time.Duration(rnd.Int64N(int64(took/3))) // when only hosts that rest are left
		before := len(s.Requests(""))
		enough := before + 10 + rnd.IntN(2*requests/most)
		p.UntilEnded(func() bool {
			n := len(s.Requests(""))
			return n >= enough || n >= before+5 && time.Since(p.Began) > late
		})
		if killed >= e2e.KillsAnywhere {
			p.Settle(dir)
		}
		select { // which may be while it writes a checkpoint or the outputs
		case <-time.After(time.Duration(rnd.IntN(20)) * time.Millisecond):
		case <-p.Done:
		}
		got := p.Kill()
		args = []string{"resume", "--data-dir", dir, "--save-interval", fmt.Sprint(20+rnd.IntN(300), "ms"), "--shards",
			fmt.Sprint(1 + rnd.IntN(5))}
		if got.Code == 0 { // it was done before; a further resume would try the hosts again that were given up
			return killed, findingsIn(t, dir)
		}
		if got.Code != -1 {
			t.Fatalf("exit status %d, want 0", got.Code)
		}
		killed++
	}
	e2e.Ended(t, e2e.Run(t, args...), dir, 0, "complete", "")
	return killed, findingsIn(t, dir)
}

// What a killed crawl saved at its last checkpoint, or at both that it keeps, is cut short or altered. A resume
// computes it anew from the records and comes to the result of a crawl that was never killed.
func TestDamagedSnapshotsAfterAKill(t *testing.T) {
	t.Parallel()
	want, requests, _ := wholeCrawl(t, 1)
	for name, damage := range map[string]struct {
		all    bool // of both checkpoints
		change func([]byte) []byte
	}{
		"cut short":         {false, func(b []byte) []byte { return b[:len(b)/2] }},
		"altered":           {false, func(b []byte) []byte { b[len(b)/2] ^= 16; return b }},
		"empty":             {false, func([]byte) []byte { return nil }},
		"both are cut":      {true, func(b []byte) []byte { return b[:len(b)/2] }},
		"both are altered":  {true, func(b []byte) []byte { b[len(b)-20] ^= 1; return b }},
		"none is different": {true, func(b []byte) []byte { return b }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := difficultSites(t)
			dir := filepath.Join(t.TempDir(), "data")
			s.Hold(requests / 2)
			p := e2e.Start(t, append(flagsOfSites(s, dir, 1), "--save-interval", "20ms", "--timeout", "1h")...)
			p.Until("half of the requests were made and there are two checkpoints", func() bool {
				return len(s.Requests("")) > requests/2 && len(checkpointFiles(t, dir, ".checkpoint")) >= 2
			})
			p.Kill()
			s.Release()
			files := checkpointFiles(t, dir, ".snap")
			newest := strings.TrimSuffix(filepath.Base(slices.Max(checkpointFiles(t, dir, ".checkpoint"))),
				".checkpoint")
			damaged := 0
			for _, file := range files {
				if !damage.all && !strings.HasPrefix(filepath.Base(file), newest) {
					continue
				}
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, damage.change(b), 0o600); err != nil {
					t.Fatal(err)
				}
				damaged++
			}
			got := e2e.Run(t, "resume", "--data-dir", dir)
			e2e.Ended(t, got, dir, 0, "complete", "")
			const said = "what was learned from pages cannot be read from the last checkpoint"
			if says := strings.Contains(got.Stderr, said); damaged == 0 || says == (name == "none is different") {
				t.Errorf("%d files were damaged, and the program says %s", damaged, got.Stderr)
			}
			findingsIn(t, dir).same(t, want)
		})
	}
}

// If both checkpoints of a killed crawl are damaged, and the log does not begin with the crawl any more, what was
// learned from pages is lost. A resume would come to another result, so it is refused. The state is as it was, and can
// still be exported.
func TestDamagedSnapshotsWithoutTheWholeLog(t *testing.T) {
	t.Parallel()
	s := difficultSites(t)
	dir := filepath.Join(t.TempDir(), "data")
	s.Hold(20)
	p := e2e.Start(t, append(flagsOfSites(s, dir, 1), "--timeout", "1h")...)
	p.Until("some requests were made", func() bool { return len(s.Requests("")) > 20 })
	p.Kill()
	logs := checkpointFiles(t, dir, ".wal")
	if len(logs) == 0 {
		t.Fatal("there is no log")
	}
	s.Hold(20)
	p = e2e.Start(t, "resume", "--data-dir", dir, "--save-interval", "20ms")
	p.Until("checkpoints have cut the log of the first run", func() bool {
		return len(s.Requests("")) > 40 && slices.Min(checkpointFiles(t, dir, ".wal")) > slices.Max(logs)
	})
	p.Kill()
	s.Release()
	for _, file := range checkpointFiles(t, dir, ".snap") {
		if err := os.Truncate(file, 20); err != nil {
			t.Fatal(err)
		}
	}
	asked := len(s.Requests(""))
	for range 2 {
		got := e2e.Run(t, "resume", "--data-dir", dir)
		if got.Code != 1 || !strings.Contains(got.Stderr, "what was learned from pages is lost") ||
			!strings.Contains(got.Stderr, "fold-traps") {
			t.Errorf("exit status %d, want 1 and what is damaged: %s", got.Code, got.Stderr)
		}
	}
	if n := len(s.Requests("")); n != asked {
		t.Errorf("%d requests were made by a crawl that is refused", n-asked)
	}
	if got := e2e.Run(t, "export", "--data-dir", dir); got.Code != 0 {
		t.Errorf("export: exit status %d: %s", got.Code, got.Stderr)
	}
	if urls := len(e2e.ReadLines(t, dir)); urls < 20 {
		t.Errorf("%d URLs are exported", urls)
	}
}

// checkpointFiles are the files of a data directory's checkpoints with an extension.
func checkpointFiles(t *testing.T, dir, ext string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(filepath.Join(dir, "state"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ext) {
			list = append(list, path)
		}
		return nil // a file may be gone, and the directory not there yet
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
