package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// Different hosts have different names of files, which are the names of sitemaps, and no name is also that of a part or
// an index of another host.
func TestStemsOfHosts(t *testing.T) {
	for host, want := range map[string]string{
		"www.example.com": "sitemap-www.example.com", "localhost:3000": "sitemap-localhost_3000",
		"[::1]": "sitemap-~~--1", "[::1]:80": "sitemap-~~--1_80", "[::1:80]": "sitemap-~~--1-80",
		"my_host.test": "sitemap-my~5fhost.test", "a.test.": "sitemap-a.test.",
		"xn--bcher-kva.test": "sitemap-xn--bcher-kva.test",
	} {
		if got := SitemapStem(sitemap.DefaultName, host, ""); got != want {
			t.Errorf("%s has %s, want %s", host, got, want)
		}
	}
	label := rapid.StringMatching(`[a-z0-9_!~'-]{1,60}`)
	name := rapid.Custom(func(t *rapid.T) string {
		labels := append(rapid.SliceOfN(label, 0, 6).Draw(t, "labels"),
			rapid.StringMatching(`[a-z0-9_~-]{0,20}[a-z_]`).Draw(t, "last"))
		host := strings.Join(labels, ".")
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			host = rapid.StringMatching(`\[[0-9a-f:]{2,20}\]`).Draw(t, "address")
		case 1:
			host += "."
		}
		if rapid.Bool().Draw(t, "port") {
			host += ":" + rapid.StringMatching(`[1-9][0-9]{0,4}`).Draw(t, "port")
		}
		return host
	})
	files := func(host string) []string {
		stem := SitemapStem(sitemap.DefaultName, host, "")
		return []string{stem + ".xml", stem + ".2.xml", fmt.Sprintf("%s.%05d.xml", stem, 1),
			fmt.Sprintf("%s.%05d.xml", stem, 123456)}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		if rapid.Bool().Draw(t, "near") {
			b = a + rapid.StringMatching(`[-._~:0-9a]{1,3}[0-9]{0,5}a?`).Draw(t, "more")
		}
		for _, f := range files(a) {
			if !IsSitemap(f) || !IsSitemap(f+".gz") || len(f+".gz"+TempSuffix) > 255 || filepath.Base(f) != f ||
				isOfAll(sitemap.DefaultName, strings.TrimSuffix(f, ".xml")) {
				t.Errorf("%s has the name %s", a, f)
			}
			if a != b && isHost(b) && slices.Contains(files(b), f) {
				t.Errorf("%s and %s have the name %s", a, b, f)
			}
		}
	})
}

// isHost reports whether there can be such a host. The last label of a name is no number, since that would be an IPv4
// address, and a port is one.
func isHost(host string) bool {
	name, port, hasPort := strings.Cut(host, ":")
	if address, after, ok := strings.Cut(host, "]"); ok {
		name, port, hasPort = strings.Cut(after, ":")
		if name != "" {
			return false
		}
		name = address
	}
	name = strings.TrimSuffix(name, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last != "" && !isNumber(last) && (!hasPort || isNumber(port))
}

// The section of a page is its first directory. No section makes a name that parts or temporary files have.
func TestSections(t *testing.T) {
	for path, want := range map[string]string{
		"/": "root", "/about": "root", "//a": "root", "/blog/": "blog", "/blog/2026/post": "blog", "/root/": "~72oot",
		"/2026/a": "2026", "/00001/a": "~300001", "/v1.2/": "v1~2e2", "/a.00001/": "a~2e00001", "/a.b/": "a.b",
		"/Blog/": "~42log", "/my_docs/": "my_docs", "/caf%C3%A9/": "caf~c3~a9", "/50%/": "50~25", "/a%2Fb/": "a~2fb",
		"/a~b/": "a~7eb", "/./a": ".", "/.12/": "~2e12",
	} {
		if got := Section(path); got != want {
			t.Errorf("%s has the section %q, want %q", path, got, want)
		}
	}
	long := SitemapStem("shop", strings.Repeat("a", 60)+".test:8080", Section("/"+strings.Repeat("b", 180)+"/"))
	if other := SitemapStem("shop", strings.Repeat("a", 60)+".test:8080", Section("/"+strings.Repeat("b", 181)+
		"/")); len(long) > maxStem || long == other {
		t.Errorf("the names of long directories begin with %s and %s", long, other)
	}
	part := rapid.StringMatching(`[a-zA-Z0-9._~-]{1,6}|[0-9]{4,6}|root|[a-z]\.[0-9]{1,5}`)
	host := rapid.SampledFrom([]string{"", "a.test", "a.test:80", "b.test"})
	rapid.Check(t, func(t *rapid.T) {
		hostA := host.Draw(t, "host a")
		hostB := hostA
		if hostA != "" {
			hostB = host.Filter(func(h string) bool { return h != "" }).Draw(t, "host b")
		}
		a, b := part.Draw(t, "a"), part.Draw(t, "b")
		one, other := SitemapStem("shop", hostA, Section("/"+a+"/")), SitemapStem("shop", hostB, Section("/"+b+"/"))
		same := hostA == hostB && a == b
		if isOfAll("shop", one) || !IsSitemap(one+".xml") || !same && isNumbered(one, other) {
			t.Errorf("%s of %s has names like %s, and %s of %s like %s", a, hostA, one, b, hostB, other)
		}
	})
}

// A sitemap is one of an export if its name is one that the export may have given to it.
func TestSitemapName(t *testing.T) {
	dir := t.TempDir()
	for label, names := range map[string]map[string]bool{
		"shop shop-blog shop-a.test__blog": {"shop": true, "shop.2": true, "shop-00001": true, "shop-123456": true,
			"shop-blog": true, "shop-blog.00001": true, "shop-blog.2": true, "shop-a.test__blog.00003": true,
			"shop-0001": false, "shop-old": false, "shop-blog-old": false, "shop-blog.bak": false, "sitemap": false,
			"shop-a.test": false, "shopping": false, "shop-blog-00001": false, "shop.": false},
		"shop": {"shop": true, "shop-00001": true, "shop-blog": false, "sitemap": false},
		"": {"sitemap": true, "sitemap.2": true, "sitemap-00001": true, "sitemap-a.test": true,
			"sitemap-a.test.00001": true, "sitemap-b.test": false, "sitemap-blog": false, "shop": false,
			"a.test": false},
	} {
		for name, want := range names {
			file := filepath.Join(dir, name+".xml")
			f, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			set := sitemap.NewURLSet(f, sitemap.Options{Label: label})
			err = errors.Join(set.Add(&sitemap.Entry{Loc: "https://a.test/blog/"}), set.Close(), f.Close())
			if err != nil {
				t.Fatal(err)
			}
			of, ours := SitemapName(file)
			if ours != want || ours != Ours(dir, name+".xml") {
				t.Errorf("%s with the label %q is ours: %v, want %v", name, label, ours, want)
			}
			if first, _, _ := strings.Cut(label, " "); ours && of != cmp.Or(first, sitemap.DefaultName) {
				t.Errorf("%s with the label %q is of the name %q", name, label, of)
			}
		}
	}
}
