package crawl

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// Headers of any length are recorded in part, and where a redirect leads is no URL then.
func TestLongHeadersAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 50_000)
	header := func(status int, fields ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(fields); i += 2 {
				w.Header().Set(fields[i], fields[i+1])
			}
			w.WriteHeader(status)
		}
	}
	s := newHandSite(t, map[string]any{
		"a.test/": `<html><a href="/far">x</a><a href="/quotes">x</a><a href="/mail">x</a><a href="/near">x</a>
			<a href="/head">x</a><a href="http://b.test/">x</a>`,
		"a.test/far":    header(301, "Location", "/"+long),
		"a.test/quotes": header(301, "Location", "/"+strings.Repeat("\"", 4000)), // 12,000 bytes in its canonical form
		"a.test/mail":   header(301, "Location", "mailto:"+long),
		"a.test/near":   header(301, "Location", "/"+strings.Repeat("n", 8000)),
		"a.test/head": header(200, "Etag", `"`+long[:20_000]+`"`, "Content-Type", "image/png; x="+long[:20_000],
			"Last-Modified", long[:20_000]),
		"b.test/": header(301, "Location", "http://c.test/"+long),
	})
	dir := newDataDir(t)
	rep, lines := s.crawl(dir, checking(func(o *config.Settings) { o.Links = true }), "http://a.test/")
	if rep.Status != page.Complete || rep.SkippedLinks[scope.TooLong.String()] != 3 {
		t.Errorf("status %s, skipped %v", rep.Status, rep.SkippedLinks)
	}
	for path, want := range map[string]string{"far": "too long, 50001 bytes: /xxx",
		"quotes": "too long, 12014 bytes: http://a.test/%22%22", "mail": "too long, 50007 bytes: mailto:xxx"} {
		l := lines["http://a.test/"+path]
		if l.Outcome != "redirect" || !strings.HasPrefix(l.RedirectTo, want) || len(l.RedirectTo) > 300 ||
			!strings.Contains(l.Error, "and the limit is 8192") {
			t.Errorf("%s: %s to %.300q, error %.300q", path, l.Outcome, l.RedirectTo, l.Error)
		}
	}
	if l := lines["http://a.test/near"]; l.RedirectTo != "http://a.test/"+strings.Repeat("n", 8000) || l.Error != "" {
		t.Errorf("near: to %.300q, error %.300q", l.RedirectTo, l.Error)
	} else if to := lines[l.RedirectTo]; to.Outcome != "trap" {
		t.Errorf("near leads to %+v", to)
	}
	if l := lines["http://a.test/head"]; l.Outcome != "ok" || l.ETag != "" ||
		!strings.HasPrefix(l.ContentType, "image/png; x=xxx") || len(l.ContentType) > 300 {
		t.Errorf("head: %s, tag of %d bytes, type of %d", l.Outcome, len(l.ETag), len(l.ContentType))
	}
	if broken := found(t, rep, problems.BrokenExternal); len(broken) != 0 {
		t.Errorf("broken: %v", broken)
	}
	edges, err := os.ReadFile(string(dir) + "/links.jsonl")
	if err != nil || !strings.Contains(string(edges), `"redirect_to":"too long, 50014 bytes: http://c.test/xxx`) {
		t.Errorf("%v in\n%.2000s", err, edges)
	}
	for _, name := range []string{dir.JSONL(), string(dir) + "/links.jsonl", dir.Report()} {
		if info, err := os.Stat(name); err != nil || info.Size() > 100_000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// As many links of a page are read as a sitemap may have entries, and a warning says where there are more. So it does
// of a robots.txt that is too long.
func TestMoreThanIsRead(t *testing.T) {
	t.Parallel()
	links := func(n, length int) string {
		text := strings.Builder{}
		text.WriteString("<html>")
		for i := range n {
			fmt.Fprintf(&text, "<a href=/%0*d>x</a>", length, i)
		}
		return text.String()
	}
	robots := strings.Repeat("# a long file\n", 40_000) + "Sitemap: http://a.test/map.xml\n"
	for _, tt := range []struct {
		name, page, robots string
		links              int64 // that are read; 0 for some
		warning            string
	}{
		{"many", links(25_000, 5), "", 25_000, ""},
		{"too many", links(50_010, 5), "", 50_000, "http://a.test/ has 50010 links, more than are read of a page"},
		{"too long", links(5_000, 1_900), "", 0, "http://a.test/ has 5000 links, more than are read of a page"},
		{"robots.txt", links(1, 1), robots, 1, "robots.txt of http://a.test has more than 500 KiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newHandSite(t, map[string]any{"a.test/": tt.page, "a.test/robots.txt": tt.robots})
			rep, _ := s.crawl(newDataDir(t), func(o *config.Settings) { o.MaxDepth = 0 }, "http://a.test/")
			if n := rep.SkippedLinks[scope.TooDeep.String()]; tt.links > 0 && n != tt.links {
				t.Errorf("%d links were read, want %d", n, tt.links)
			}
			said := strings.Join(rep.Warnings, "\n")
			if tt.warning == "" && said != "" || !strings.Contains(said, tt.warning) {
				t.Errorf("warnings %q, want %q", rep.Warnings, tt.warning)
			}
		})
	}
}
