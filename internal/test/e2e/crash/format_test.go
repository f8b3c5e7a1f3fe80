package crash

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A crawl of format version 1 is refused by every command that would read it, with both versions named, and is not
// changed. It can be wiped.
func TestOtherFormat(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 20})
	dir := filepath.Join(t.TempDir(), "data")
	crawl := []string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--max-urls", "5"}
	if got := e2e.Run(t, crawl...); got.Code != 3 {
		t.Fatalf("exit status %d, want 3", got.Code)
	}
	if err := os.RemoveAll(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	unpackStore(t, filepath.Join("..", "..", "..", "..", "state", "testdata", "v1.tar.gz"), "closed/",
		filepath.Join(dir, "state"))
	before, fetched := e2e.Picture(t, dir), e2e.Pages(web)
	for _, command := range [][]string{
		{"resume", "--data-dir", dir, "--max-urls", "0"},
		{"export", "--data-dir", dir},
		{"status", "--data-dir", dir},
	} {
		e2e.Refused(t, e2e.Run(t, command...), dir, "has format version 1", "reads 2")
		e2e.Unchanged(t, dir, before)
	}
	e2e.Refused(t, e2e.Run(t, crawl...), dir)
	e2e.Unchanged(t, dir, before)
	if n := e2e.Pages(web); n != fetched {
		t.Errorf("%d pages were fetched", n-fetched)
	}
	e2e.Succeeded(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir))
}

// unpackStore unpacks the files of an archive whose names begin with a prefix into a directory.
func unpackStore(t *testing.T, archive, prefix, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := strings.CutPrefix(h.Name, prefix)
		if !ok {
			continue
		}
		name := filepath.Join(dir, filepath.FromSlash(rest))
		content, err := io.ReadAll(r)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}
