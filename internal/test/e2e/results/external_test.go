package results

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A crawl checks the links that leave it, also if it is killed while it does, and all outputs say what it found.
func TestExternalLinks(t *testing.T) {
	t.Parallel()
	var pages, heads atomic.Int64
	release := make(chan struct{})
	resolve := e2e.Handlers(t, map[string]http.HandlerFunc{
		"a.test": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				http.NotFound(w, r)
				return
			}
			pages.Add(1)
			links(w, "http://b.test/gone", "http://b.test/held", "http://dead.test:9/")
		},
		"b.test": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/held" && r.Method == http.MethodHead && heads.Add(1) == 1 {
				select {
				case <-release:
				case <-r.Context().Done():
				}
				return
			}
			if r.URL.Path != "/held" {
				http.NotFound(w, r)
			}
		},
	})
	dir := filepath.Join(t.TempDir(), "data")
	p := e2e.Start(t, "crawl", "http://a.test/", "--resolve", "dead.test:9:"+e2e.ClosedPort(t), "--resolve", resolve,
		"--check-external", "--max-host-backoff-secs", "1", "--data-dir", dir)
	p.Until("a check is under way", func() bool { return heads.Load() > 0 })
	p.Settle(dir)
	p.Kill()
	close(release)
	got := e2e.Run(t, "resume", "--data-dir", dir)
	e2e.Ended(t, got, dir, 0, "complete", "")
	if pages.Load() != 1 || heads.Load() != 2 {
		t.Errorf("%d requests of the page and %d of the check, want 1 and 2", pages.Load(), heads.Load())
	}
	if lines := e2e.ReadLines(t, dir); len(lines) != 1 {
		t.Errorf("%d URLs are pages of the site, want 1", len(lines))
	}
	e2e.Run(t, "export", "--data-dir", dir, "--output", filepath.Join(dir, "again"))
	const edge = `{"from":"http://a.test/","to":%q,"text":%[1]q,"nofollow":false,"outcome":%q%s}`
	for name, want := range map[string]string{
		"links.jsonl": fmt.Sprintf(edge, "http://b.test/gone", "http_error", `,"status_code":404`) + "\n" +
			fmt.Sprintf(edge, "http://b.test/held", "ok", `,"status_code":200`) + "\n" +
			fmt.Sprintf(edge, "http://dead.test:9/", "connect_error", "") + "\n",
		"problems.jsonl": `{"code":"broken_external","url":"http://b.test/gone","value":"404","related":["http://a.test/"],` +
			`"texts":["http://b.test/gone"]}` + "\n" + `{"code":"broken_external","url":"http://dead.test:9/",` +
			`"value":"connect_error","related":["http://a.test/"],"texts":["http://dead.test:9/"]}`,
		"report.html":       "Broken links to other sites",
		"again/links.jsonl": `"outcome":"connect_error"`,
	} {
		if !strings.Contains(e2e.Read(t, dir, name), want) {
			t.Errorf("%s does not have %s:\n%s", name, want, e2e.Read(t, dir, name))
		}
	}
	for _, want := range []string{"Broken external  404 http://b.test/gone, linked from http://a.test/\n",
		" connect_error http://dead.test:9/, linked from http://a.test/\n"} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("the closing table does not have %q:\n%s", want, got.Stdout)
		}
	}
}
