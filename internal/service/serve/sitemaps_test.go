package serve_test

import (
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/service"
)

// A crawl of two hosts has an index and a sitemap for each host, which are served by their names.
func TestSitemapsOfTwoHosts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.key("default", service.ScopeAdmin)
	c := f.client(key)
	both := f.submission(0, nil)
	both.StartURLs = f.web.StartURLs()[:2]
	id := f.submit(c, both)
	f.until(c, id, 0, service.CrawlFinished)
	at := "/v1/crawls/" + id + "/"
	index, rep := f.want(200, "GET", at+"sitemap.xml", key, ""), f.want(200, "GET", at+"report", key, "")
	for i := range 2 {
		name := "sitemap-" + f.web.HostName(i) + ".xml"
		if !strings.Contains(index, "/"+name+"</loc>") || !strings.Contains(rep, `"`+name+`"`) {
			t.Errorf("%s is not in the index or not in the report:\n%s", name, index)
		}
		text := f.want(200, "GET", at+name, key, "")
		if all, own := strings.Count(text, "<loc>"), strings.Count(text, "<loc>"+f.web.StartURLs()[i]); own == 0 ||
			own != all {
			t.Errorf("%s has %d URLs, %d of them of its host", name, all, own)
		}
	}
	for _, name := range []string{"sitemap-other.test.xml", "sitemap-" + f.web.HostName(0) + ".00001.xml",
		"sitemap.2.xml", "sitemap-..%2Freport.xml", "sitemap-A.xml"} {
		f.want(404, "GET", at+name, key, "")
	}
}

// The sitemap and its parts are served also if they have another name and are split by directory.
func TestNamedSitemaps(t *testing.T) {
	f := newFixture(t, nil)
	key := f.key("default", service.ScopeAdmin)
	c := f.client(key)
	id := f.submit(c, f.submission(0, map[string]any{"sitemap_name": "shop", "sitemap_split": "path", "gzip": true}))
	f.until(c, id, 0, service.CrawlFinished)
	at := "/v1/crawls/" + id + "/"
	rep := f.want(200, "GET", at+"report", key, "")
	top := f.want(200, "GET", at+"sitemap.xml", key, "")
	if byName := f.want(200, "GET", at+"shop.xml.gz", key, ""); top != byName || !strings.Contains(rep, `"shop.xml.gz"`) {
		t.Errorf("sitemap.xml has %d bytes, shop.xml.gz has %d; the report is\n%s", len(top), len(byName), rep)
	}
	for _, name := range []string{"sitemap.xml.gz", "shop.xml", "shop-00009.xml.gz", "shop-..%2Freport.xml", ".xml"} {
		f.want(404, "GET", at+name, key, "")
	}
}
