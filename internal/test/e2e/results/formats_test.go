//go:build formats

package results

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/warctest"
)

// tool is a program of the virtual environment that scripts/need-pytools.sh makes.
func tool(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "bin", "pytools", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), path, args...)
}

func runTool(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// pywb replays every page of a crawl and of its recrawl, and warcio finds all digests right.
func TestFormatWARC(t *testing.T) {
	links, pages := "", map[string]string{}
	for i := range 30 {
		path := fmt.Sprintf("/page/%d", i)
		pages[path] = fmt.Sprintf("<title>Page %d</title><p>%s", i, strings.Repeat("text ", i*100))
		links += fmt.Sprintf("<a href=%s>%d</a>", path, i)
	}
	pages["/"] = links
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		if strings.HasPrefix(r.URL.Path, "/page/1") {
			w.Header().Set("ETag", fmt.Sprintf("%q", r.URL.Path))
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
	}))
	t.Cleanup(site.Close)
	dir, _, _ := e2e.CrawlSite(t, site, "--warc")
	e2e.Succeeded(t, e2e.Run(t, "recrawl", "--data-dir", dir))
	paths, err := filepath.Glob(filepath.Join(dir, "warc", "*.warc.gz"))
	if err != nil || len(paths) != 2 {
		t.Fatalf("files %q, %v", paths, err)
	}
	if out := runTool(t, tool(t, "warcio", append([]string{"check", "-v"}, paths...)...)); strings.Contains(out, "fail") ||
		strings.Count(out, "digest pass") < 3*len(pages) {
		t.Errorf("warcio check says:\n%s", out)
	}

	home := t.TempDir()
	for _, args := range [][]string{{"init", "all"}, append([]string{"add", "all"}, paths...)} {
		cmd := tool(t, "wb-manager", args...)
		cmd.Dir = home
		runTool(t, cmd)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	server := tool(t, "wayback", "-b", "127.0.0.1", "-p", port)
	server.Dir, server.Stdout, server.Stderr = home, log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() { _ = server.Process.Kill(); <-ended }()
	for up := false; !up; {
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("pywb ended: %v\n%s", err, text)
		default:
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			up = true
		}
	}
	replays := map[string]int{}
	for _, r := range warctest.ReadDir(t, filepath.Join(dir, "warc")) {
		want, ok := pages[strings.TrimPrefix(r.URL, site.URL)]
		if !ok || r.Type != "response" && r.Type != "revisit" {
			continue
		}
		at := strings.NewReplacer("-", "", "T", "", ":", "").Replace(r.Header.Get("WARC-Date")[:19])
		res, err := http.Get(fmt.Sprintf("http://%s/all/%sid_/%s", addr, at, r.URL))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || string(body) != want {
			t.Errorf("%s %s of %s: replayed with %s, %d of %d bytes, %v", r.Type, r.Header.Get("WARC-Profile"), r.URL,
				res.Status, len(body), len(want), err)
		}
		replays[r.Type+r.Header.Get("WARC-Profile")]++
	}
	if len(replays) != 3 || replays["response"] != len(pages) {
		t.Errorf("replayed %v", replays)
	}
}
