package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state"
)

// asCrawler makes the test binary run the crawler instead of the tests.
const asCrawler = "SMALLCRAWLER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asCrawler) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestAsMapwright crawls the demo site with both crawlers: once in one run, and once with a kill halfway.
func TestAsMapwright(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-pgo=off", "-o", bin+string(filepath.Separator), "./cmd/mapwright",
		"./internal/test/testweb/cmd/testweb")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	start := serveDemo(t, filepath.Join(bin, "testweb"))
	want := mapwrightCrawl(t, filepath.Join(bin, "mapwright"), start)
	if len(want) < 40 {
		t.Fatalf("mapwright finds only %d URLs", len(want))
	}

	t.Run("one run", func(t *testing.T) {
		dir := t.TempDir()
		all, _ := crawl(t, "-own-site", "-data", dir, start)
		compare(t, all, want)
		checkKeys(t, dir, want)

		all, finished := crawl(t, "-own-site", "-data", dir, start)
		compare(t, all, want)
		if len(finished) > 0 {
			t.Errorf("a run after the end finishes %q again", finished)
		}
	})
	t.Run("killed", func(t *testing.T) {
		dir := t.TempDir()
		before := crawlAndKill(t, 15, "-own-site", "-data", dir, start)
		all, after := crawl(t, "-own-site", "-data", dir, start)
		compare(t, all, want)
		for _, u := range before {
			if slices.Contains(after, u) {
				t.Errorf("%s was finished before the kill, and is finished again after it", u)
			}
		}
	})
}

// serveDemo serves the demo site until the test ends, and returns its start URL.
func serveDemo(t *testing.T, testweb string) string {
	t.Helper()
	cmd := exec.Command(testweb, "--demo")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // the program ends when it is closed
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("testweb: %v", err)
		}
	})
	var ready struct {
		StartURL string `json:"start_url"`
	}
	if err := json.NewDecoder(stdout).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	return ready.StartURL
}

// page is what both crawlers say about a URL.
type page struct {
	Outcome    string `json:"outcome"`
	Status     int    `json:"status_code"`
	Title      string `json:"title"`
	RedirectTo string `json:"redirect_to"`
}

// mapwrightCrawl returns what command mapwright finds in the same scope, by URL.
func mapwrightCrawl(t *testing.T, mapwright, start string) map[string]page {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	cmd := exec.Command(mapwright, "crawl", "--start-url", start, "--data-dir", dir, "--profile", "own-site", "--scope",
		"host", "--seeding-strategy", "none")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mapwright: %v\n%s", err, out)
	}
	f, err := os.Open(filepath.Join(dir, "sitemap.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := map[string]page{}
	for lines := json.NewDecoder(f); ; {
		var line struct {
			URL string `json:"url"`
			page
		}
		if err := lines.Decode(&line); err == io.EOF {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		found[line.URL] = line.page
	}
}

// command is the crawler as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asCrawler+"=1")
	return cmd
}

// crawl runs the crawler to its end. It returns all URLs that the crawl knows, and those that this run finished.
func crawl(t *testing.T, args ...string) (all map[string]page, finished []string) {
	t.Helper()
	cmd := command(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("smallcrawler: %v\n%s", err, stderr.String())
	}
	all = map[string]page{}
	for line := range strings.Lines(stdout.String()) {
		field := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(field) != 4 {
			t.Fatalf("line %q", line)
		}
		p := page{Outcome: field[0], Title: field[3]}
		if p.Outcome == "redirect" {
			p.Title, p.RedirectTo = "", field[3]
		}
		if err := json.Unmarshal([]byte(field[1]), &p.Status); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if _, twice := all[field[2]]; twice {
			t.Errorf("%s is listed twice", field[2])
		}
		all[field[2]] = p
	}
	for line := range strings.Lines(stderr.String()) {
		finished = append(finished, progressURL(t, line))
	}
	return all, finished
}

// crawlAndKill runs the crawler behind a proxy that answers its first requests only, kills it when it has finished so
// many URLs, and returns these.
func crawlAndKill(t *testing.T, urls int, args ...string) (finished []string) {
	t.Helper()
	forward := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {},
		Transport: &http.Transport{DisableKeepAlives: true}}
	var requests atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > int64(urls)+1 { // robots.txt is one more
			<-r.Context().Done()
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close() // waits for all requests, so the crawler must have been killed
	cmd := command(t, append([]string{"-proxy", proxy.URL}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(stderr)
	for len(finished) < urls && lines.Scan() {
		finished = append(finished, progressURL(t, lines.Text()))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	for lines.Scan() { // what was printed before the kill
		finished = append(finished, progressURL(t, lines.Text()))
	}
	if err := cmd.Wait(); err == nil || len(finished) < urls {
		t.Fatalf("the crawler ended by itself (%v) after %d of %d URLs", err, len(finished), urls)
	}
	return finished
}

// progressURL is the URL of a progress line.
func progressURL(t *testing.T, line string) string {
	t.Helper()
	_, u, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " http")
	if !ok {
		t.Fatalf("smallcrawler says %q", line)
	}
	return "http" + u
}

func compare(t *testing.T, got, want map[string]page) {
	t.Helper()
	for _, u := range slices.Sorted(maps.Keys(want)) {
		if g, known := got[u]; !known {
			t.Errorf("%s is missing", u)
		} else if g != want[u] {
			t.Errorf("%s is %+v, want %+v", u, g, want[u])
		}
	}
	for _, u := range slices.Sorted(maps.Keys(got)) {
		if _, known := want[u]; !known {
			t.Errorf("%s is not in mapwright's list", u)
		}
	}
}

// checkKeys computes the keys of all URLs with a hasher of its own, and finds the URLs by them, in the partition of
// their host.
func checkKeys(t *testing.T, dir string, want map[string]page) {
	t.Helper()
	store, err := state.Open(dir, state.Options{Mode: state.ExistingOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	hasher := weburl.NewHasher(store.Seed())
	keys := map[weburl.Key]bool{}
	for text := range want {
		u, err := weburl.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		key := hasher.Key(u)
		keys[key] = true
		if p, known, err := store.Page(t.Context(), key); err != nil || !known || p.Link.URL != u {
			t.Errorf("page of %s by its key: %v, %v, %v", u, p.Link.URL, known, err)
		}
	}
	for key := range keys {
		partition := key.Host.Partition()
		n := 0
		for k, err := range store.Keys(t.Context(), partition, partition) {
			if err != nil || !keys[k] {
				t.Fatalf("key %v of partition %d: %v", k, partition, err)
			}
			n++
		}
		if n != len(keys) {
			t.Errorf("partition %d has %d keys, want %d", partition, n, len(keys))
		}
		break // one host, one partition
	}
}

func TestRobots(t *testing.T) {
	const file = `
User-agent: other
Disallow: /

User-Agent: third
User-agent: *   # everyone
Disallow: /private/
Allow: /private/open/
Disallow: /*.cgi$
Disallow:
Disallow: /same
Allow: /same

User-agent: last
Disallow: /last
`
	for path, want := range map[string]bool{
		"/": true, "/private": true, "/private/": false, "/private/a": false, "/private/open/a": true,
		"/Private/a": true,
		"/a.cgi":     false, "/a.cgi?b": true, "/same": true, "/last": true,
	} {
		u, err := weburl.Parse("http://site.example" + path)
		if err != nil {
			t.Fatal(err)
		}
		origin := frontier.OriginFact{State: frontier.OriginAnswered, Body: []byte(file)}
		if got := isAllowed(origin, u); got != want {
			t.Errorf("%s: %v", path, got)
		}
		if isAllowed(frontier.OriginFact{State: frontier.OriginFailed}, u) ||
			!isAllowed(frontier.OriginFact{State: frontier.OriginNone}, u) {
			t.Errorf("%s without a robots.txt", path)
		}
	}
}
