package crawl

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// -q prints nothing but warnings and errors, -v one line per request, and --list fetches only the URLs that are given.
func TestQuietVerboseList(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" || r.URL.Path == "/sitemap.xml" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<a href="/a">a</a> <a href="/b">b</a> <a href="/c">c</a>`))
	}))
	t.Cleanup(site.Close)
	file := filepath.Join(t.TempDir(), "urls.txt")
	if err := os.WriteFile(file, []byte(site.URL+"/a\n"+site.URL+"/b # two of them\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	quiet, verbose := filepath.Join(t.TempDir(), "quiet"), filepath.Join(t.TempDir(), "verbose")
	got := e2e.Run(t, "crawl", "-q", "--delay", "0", site.URL, "--data-dir", quiet)
	if e2e.Succeeded(t, got); got.Stdout+got.Stderr != "" {
		t.Errorf("-q prints %q", got.Stdout+got.Stderr)
	}
	if !e2e.Exists(t, quiet, "sitemap.xml") || !e2e.Exists(t, quiet, "mapwright.log") {
		t.Error("-q left out files")
	}
	if got := e2e.Run(t, "crawl", "-q", site.URL, "--data-dir", quiet); got.Code != 2 || got.Stderr == "" {
		t.Errorf("-q hides an error: %d", got.Code)
	}
	// What is wrong is seen nevertheless: an error, and that certificates are not checked.
	safe := httptest.NewTLSServer(site.Config.Handler)
	t.Cleanup(safe.Close)
	got = e2e.Run(t, "crawl", "-q", "--list", safe.URL, "--delay", "0", "--data-dir", filepath.Join(t.TempDir(), "tls"))
	if got.Code != 1 || !strings.Contains(got.Stderr, "level=ERROR") || !strings.Contains(got.Stderr, "give --ca-file") ||
		strings.Contains(got.Stderr, "level=INFO") || got.Stdout != "" {
		t.Errorf("exit status %d", got.Code)
	}
	insecure := filepath.Join(t.TempDir(), "insecure")
	got = e2e.Run(t, "crawl", "-q", "--list", safe.URL, "--insecure", "--delay", "0", "--data-dir", insecure)
	if got.Code != 0 || strings.Count(got.Stderr, "CERTIFICATES ARE NOT CHECKED") != 1 || got.Stdout != "" {
		t.Errorf("exit status %d", got.Code)
	}
	if log := e2e.Read(t, insecure, "mapwright.log"); strings.Count(log, "CERTIFICATES ARE NOT CHECKED") != 1 {
		t.Errorf("the log has\n%s", log)
	}
	got = e2e.Run(t, "crawl", "-v", "--list", file, "--delay", "0", "--data-dir", verbose)
	if got.Code != 0 {
		t.Errorf("exit status %d", got.Code)
	}
	var fetched []string
	for line := range strings.Lines(got.Stderr) {
		if _, rest, ok := strings.Cut(line, "msg=fetched url="+site.URL); ok {
			path, _, _ := strings.Cut(rest, " ")
			fetched = append(fetched, path)
		}
	}
	slices.Sort(fetched)
	if want := []string{"/a", "/b", "/robots.txt"}; !slices.Equal(fetched, want) {
		t.Errorf("-v has lines for %q, want %q:\n%s", fetched, want, got.Stderr)
	}
}

// Every command that takes a data directory takes it as an argument.
func TestDirectoryArguments(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Succeeded(t, e2e.Run(t, "demo", "-q", "--data-dir", dir))
	for _, command := range []string{"status", "export", "resume"} {
		e2e.Succeeded(t, e2e.Run(t, command, dir))
	}
	keys := filepath.Join(t.TempDir(), "keys")
	for _, command := range []string{"create", "list", "login"} {
		e2e.Succeeded(t, e2e.Run(t, "keys", command, keys))
	}
	for _, command := range []string{"join --cluster postgres://127.0.0.1:1/x", "serve", "keys list"} {
		args := append(strings.Fields(command), dir, "--data-dir", keys)
		e2e.Refused(t, e2e.Run(t, args...), "given twice")
	}
}
