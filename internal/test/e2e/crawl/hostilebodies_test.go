package crawl

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// packed compresses text by the encodings of a Content-Encoding header, the last being the outermost.
func packed(t *testing.T, text, encodings string) string {
	t.Helper()
	for _, name := range strings.Split(encodings, ", ") {
		var buf bytes.Buffer
		var w io.WriteCloser
		switch name {
		case "gzip":
			w = gzip.NewWriter(&buf)
		case "br":
			w = brotli.NewWriterLevel(&buf, 3)
		case "zstd":
			w, _ = zstd.NewWriter(&buf)
		}
		_, _ = io.WriteString(w, text)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text = buf.String()
	}
	return text
}

// Few bytes that expand to much in some layer of their compression cost a bounded amount of work, as a page, as
// robots.txt and as a sitemap. The crawl records what they were and goes on.
func TestBodiesThatExpand(t *testing.T) {
	t.Parallel()
	empty := strings.Repeat(packed(t, "", "gzip"), 1<<20) // 20 MB and more of members without content
	outer := []string{"br", "zstd", "gzip", "zstd, br", "br, zstd"}
	bodies := map[string]string{}
	links := ""
	for i, o := range outer {
		bodies[fmt.Sprintf("/p%d", i)] = packed(t, empty, o)
		links += fmt.Sprintf("<a href=/p%d>%s</a>", i, o)
	}
	spaces := packed(t, strings.Repeat(" ", 48<<20)+"<urlset></urlset>", "br")
	answer := func(w http.ResponseWriter, contentType, encoding, body string) {
		w.Header().Set("Content-Type", contentType)
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		_, _ = io.WriteString(w, body)
	}
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			answer(w, "text/html", "", links)
		case "/robots.txt":
			answer(w, "text/plain", "", "Sitemap: /spaces.xml\n")
		case "/spaces.xml":
			answer(w, "application/xml", "br", spaces)
		default:
			var i int
			_, _ = fmt.Sscanf(r.URL.Path, "/p%d", &i)
			answer(w, "text/html", "gzip, "+outer[i], bodies[r.URL.Path])
		}
	}))
	defer hostile.Close()
	rules := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			answer(w, "text/plain", "gzip, br", bodies["/p0"])
			return
		}
		answer(w, "text/html", "", "a page")
	}))
	defer rules.Close()

	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--start-url", hostile.URL+"/", "--start-url", rules.URL+"/", "--profile", "own-site",
		"--data-dir", dir)
	rep := e2e.Ended(t, got, dir, 0, "complete", "")
	lines := e2e.ReadLines(t, dir)
	for path := range bodies {
		if l := lines[hostile.URL+path]; l.Outcome != "too_large" ||
			l.Error != "body: larger than the limit of 10485760 bytes (--max-body-size)" {
			t.Errorf("%s: %s, %q, want it too large", path, l.Outcome, l.Error)
		}
	}
	if l := lines[rules.URL+"/"]; l.Outcome != "ok" || l.Robots.Confidence != "low" {
		t.Errorf("the page beside a hostile robots.txt: %+v", l)
	}
	if text := strings.Join(rep.Warnings, "\n"); !strings.Contains(text, "/spaces.xml: ") ||
		!strings.Contains(text, "it expands to more than 256 times the bytes that came") {
		t.Errorf("no warning of the sitemap that expands: %s", text)
	}
}
