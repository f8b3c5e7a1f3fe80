package crawl

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
)

// With only-hosts no other host is asked, whatever leads there: a link, the redirect of a start URL, a sitemap that
// robots.txt or an index names.
func TestOnlyHosts(t *testing.T) {
	t.Parallel()
	redirect := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://other.test/landing")
		w.WriteHeader(http.StatusFound)
	})
	s := newHandSite(t, map[string]any{
		"www.own.test/":            `<html><a href="http://other.test/1">x</a><a href="http://shop.own.test/2">y</a><a href="http://blog.own.test/3">z</a>`,
		"www.own.test/moved":       redirect,
		"www.own.test/robots.txt":  "Sitemap: http://other.test/s.xml\nSitemap: http://www.own.test/index.xml\n",
		"www.own.test/index.xml":   `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>http://other.test/t.xml</loc></sitemap></sitemapindex>`,
		"shop.own.test/2":          plainPage,
		"other.test/s.xml":         `<urlset/>`,
		"other.test/t.xml":         `<urlset/>`,
		"shop.own.test/robots.txt": "User-agent: *\n",
	})
	rep, lines := s.crawl(newDataDir(t), func(o *config.Settings) {
		o.Scope, o.OnlyHosts = "any", []string{"www.own.test", "shop.own.test"}
	}, "http://www.own.test/", "http://www.own.test/moved")
	wantURLs(t, "links", bySource(lines, "link"), "http://shop.own.test/2")
	for url := range s.requests() {
		if host, _, _ := strings.Cut(url, "/"); host != "www.own.test" && host != "shop.own.test" {
			t.Errorf("%s was asked", url)
		}
	}
	if got := rep.SkippedLinks["out_of_scope"]; got != 3 {
		t.Errorf("%d links are out of scope, want 3: %v", got, rep.SkippedLinks)
	}
	if !strings.Contains(strings.Join(rep.Warnings, "\n"), "--only-hosts") {
		t.Errorf("no warning names --only-hosts: %q", rep.Warnings)
	}
}
