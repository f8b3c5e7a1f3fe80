package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A URL that is refused is named without the user name and the password in it, and nothing is made.
func TestRefusedURLsHidePasswords(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	crawl := func(flags ...string) []string { return append([]string{"crawl", "--data-dir", dir}, flags...) }
	for _, args := range [][]string{
		crawl("--start-url", "http://user:s3cret@exa mple.test/"),
		crawl("--start-url", "https://user:s3cret@[::1/"),
		crawl("--start-url", "https://user:s3cret@a.test:99999/path"),
		crawl("--start-url", "ftp://user:s3cret@a.test/"),
		crawl("--start-url", "user:s3cret@a.test"),
		crawl("--start-url", "http://user:s3cret@a.test/"),
		crawl("--start-url", "HTTPS:\\\\s3cret@a.test\\x"),
		crawl("--start-url", "http:/user:s3cret@a.test"),
		crawl("--start-url", "http://user:@s3cret@a b.test"),
		crawl("--start-url", "http://user:a#s3cret@a.test"),
		crawl("--start-url", "http://a.test/", "--base-url", "http://user:s3cret@a b.test/"),
		crawl("--start-url", "http://a.test/", "--ct-base-url", "user:s3cret@a.test"),
		crawl("--start-url", "http://a.test/", "--header-to", "https://user:s3cret@a.test"),
		crawl("--start-url", "http://a.test/", "--proxy", "user:s3cret@a b.test"),
		crawl("--start-url", "http://a.test/", "--header", "X-Token: s3cret\nX: y"),
		crawl("--start-url", "http://a.test/", "--header", "X Token: s3cret"),
		crawl("--start-url", "http://a.test/", "--basic-auth", "user:s3cret"),
		crawl("--start-url", "http://a.test/", "--basic-auth", "user:my@s3cret word"),
		crawl("--start-url", "http://a.test/", "--user-agent", "two\nlines"),
		{"inspect", "http://user:s3cret@exa mple.test/"},
		{"robots", "http://user:s3cret@exa mple.test/"},
	} {
		got := e2e.Run(t, args...)
		e2e.Refused(t, got)
		if strings.Contains(got.Stderr, "s3cret") {
			t.Errorf("%q: %s", args, got.Stderr)
		}
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			t.Fatalf("%q: the data directory was made (%v)", args, err)
		}
	}
	for _, u := range []string{"http://user:s3cret@a.test:80", "user:s3cret@a.test:80"} {
		got := e2e.Run(t, crawl("--print-config", "--proxy", u, "--base-url", "http://user:s3cret@a.test/")...)
		e2e.Succeeded(t, got)
		if strings.Contains(got.Stdout, "s3cret") {
			t.Errorf("--print-config shows the password of %s", u)
		}
	}
}
