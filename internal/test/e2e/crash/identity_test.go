package crash

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// TestOtherIdentity lets the program meet a crawl that was begun by a version with other rules for URLs. Every command
// that would look up URLs in it is refused with both identities named, before it changes or fetches anything; wipe
// deletes the crawl.
func TestOtherIdentity(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 20})
	dir := filepath.Join(t.TempDir(), "data")
	crawl := []string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--max-urls", "5"}
	if got := e2e.Run(t, crawl...); got.Code != 3 {
		t.Fatalf("exit status %d, want 3", got.Code)
	}
	ours, other := changeIdentity(t, filepath.Join(dir, "state", "FORMAT"))
	before, fetched := e2e.Picture(t, dir), e2e.Pages(web)
	for _, command := range [][]string{
		{"resume", "--data-dir", dir, "--max-urls", "0"},
		{"export", "--data-dir", dir},
		{"status", "--data-dir", dir},
	} {
		e2e.Refused(t, e2e.Run(t, command...), dir, ours, other, "the version that began it", "begin a new one")
		e2e.Unchanged(t, dir, before)
	}
	e2e.Refused(t, e2e.Run(t, crawl...), dir, "already holds a crawl")
	e2e.Unchanged(t, dir, before)
	if n := e2e.Pages(web); n != fetched {
		t.Errorf("%d pages were fetched", n-fetched)
	}
	e2e.Succeeded(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir))
}

// changeIdentity puts another identity into a FORMAT file, with the right checksum, and returns both.
func changeIdentity(t *testing.T, name string) (was, is string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(`url=\d+ idna=[\d.]+ suffixes=[\d-]+/[0-9a-f]{8}`).FindIndex(b)
	if at == nil {
		t.Fatalf("no identity in %s: %q", name, b)
	}
	was = string(b[at[0]:at[1]])
	last := &b[at[1]-1] // of the suffix list's hash
	if *last++; *last > '9' {
		*last = '0'
	}
	is = string(b[at[0]:at[1]])
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	b = b[:len(b)-sum.Size()]
	sum.Write(b)
	b = sum.Sum(b)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return was, is
}
