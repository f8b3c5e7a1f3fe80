package results

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// What a server sends does not reach the terminal as commands to it.
func TestTerminalEscapes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page, robots := filepath.Join(dir, "page.html"), filepath.Join(dir, "robots.txt")
	e2e.Write(t, page, "<title>a\x1b]0;x\x07b\u009b2J\u202e</title><meta name=description "+
		"content='\x1b[31m'><h1>h\u0085</h1><a href='javascript:\x1b[2J'>x</a><a href='/a'>b</a>")
	e2e.Write(t, robots, "User-agent: *\nDisallow: /a\x1b[2J\u009b\u202e\nSitemap: http://a.test/\x1b[31m.xml\n")
	for _, args := range [][]string{
		{"inspect", page}, {"inspect", "--json", page},
		{"robots", "--file", robots, "http://a.test/a%1B[2J"}, {"robots", "--json", "--file", robots, "http://a.test/"},
		{"inspect", "missing\x1b[31m.html"}, {"crawl", "--start-url", "ftp://\x1b[31m"},
	} {
		got := e2e.Run(t, args...)
		if i := strings.IndexFunc(got.Stdout+got.Stderr, func(r rune) bool {
			return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r == 0x202e || r == 0xfffd
		}); i >= 0 {
			t.Errorf("%q: character %d of %q", args, i, got.Stdout+got.Stderr)
		}
	}
}
