package crawl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/test/warctest"
)

// The archive has every page that a crawl fetched, also after a kill, and no credential. A recrawl adds revisit
// records. wipe deletes the files and leaves those of the user.
func TestArchive(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 40, Faults: testweb.OnAll(testweb.Files{}, testweb.StatusPages{},
		testweb.RedirectChain{})})
	dir := filepath.Join(t.TempDir(), "data")
	web.Hold(15)
	p := e2e.Start(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--warc", "--header", "X-Key: c0nfidential", "--timeout", "1h")
	p.Until("some pages are done", func() bool { return web.Held(0) > 0 && e2e.Status(t, dir).Done > 5 })
	p.Kill()
	open, err := filepath.Glob(filepath.Join(dir, "warc", "*.open"))
	if err != nil || len(open) != 1 {
		t.Fatalf("files that are open: %q, %v", open, err)
	}
	torn, err := os.OpenFile(open[0], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString("\x1f\x8b\x08 a record that was cut off"); err != nil {
		t.Fatal(err)
	}
	torn.Close()
	web.Release()
	got := e2e.Run(t, "resume", "--data-dir", dir)
	rep := e2e.Ended(t, got, dir, 0, "complete", "")
	if !strings.Contains(got.Stdout, "warc (2 files)") {
		t.Errorf("the files of the archive are not in the table:\n%s", got.Stdout)
	}
	files := slices.DeleteFunc(slices.Clone(rep.Files), func(name string) bool {
		return !strings.HasPrefix(name, "warc/")
	})
	if len(files) != 2 || !e2e.Exists(t, dir, files[0]) {
		t.Errorf("files of the report: %q", rep.Files)
	}
	archive := filepath.Join(dir, "warc")
	responses := map[string]int{} // the last status by URL
	records := warctest.ReadDir(t, archive)
	for _, r := range records {
		if strings.Contains(string(r.Block), "c0nfidential") {
			t.Fatalf("a secret header is in the record of %s", r.URL)
		}
		if text := string(r.Block); r.Type == "warcinfo" && (!strings.Contains(text, "mapwright-profile: own-site\r\n") ||
			!strings.Contains(text, "\r\nmapwright-settings: {") || !strings.Contains(text, `"warc":true`)) {
			t.Errorf("the settings are not in the file's first record:\n%s", text)
		}
		if r.Type == "response" {
			responses[r.URL] = r.Answer.StatusCode
		}
	}
	lines := e2e.ReadLines(t, dir)
	for url, l := range lines {
		if l.StatusCode != responses[url] {
			t.Errorf("%s has the status %d, and in the archive %d", url, l.StatusCode, responses[url])
		}
	}
	if responses[web.StartURLs()[0]+"robots.txt"] == 0 || responses[web.StartURLs()[0]+"sitemap.xml"] == 0 {
		t.Error("robots.txt or the sitemap is not in the archive")
	}

	e2e.Succeeded(t, e2e.Run(t, "recrawl", "--data-dir", dir))
	revisits := map[string]bool{}
	for _, r := range warctest.ReadDir(t, archive)[len(records):] {
		if r.Type != "revisit" {
			continue
		}
		revisits[r.URL] = true
		if !slices.ContainsFunc(records, func(first warctest.Record) bool {
			return first.Type == "response" && first.URL == r.Header.Get("WARC-Refers-To-Target-URI") &&
				first.Header.Get("WARC-Date") == r.Header.Get("WARC-Refers-To-Date") &&
				first.Header.Get("WARC-Payload-Digest") == r.Header.Get("WARC-Payload-Digest")
		}) {
			t.Errorf("the revisit record of %s refers to no record: %v", r.URL, r.Header)
		}
	}
	for url, l := range lines {
		if l.Outcome == "ok" && !revisits[url] {
			t.Errorf("%s has no revisit record", url)
		}
	}

	e2e.Write(t, filepath.Join(archive, "of-the-user.warc.gz"), "x")
	e2e.Succeeded(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir))
	if left, err := os.ReadDir(archive); err != nil || len(left) != 1 {
		t.Errorf("wipe left %v of the archive, %v", left, err)
	}
}
