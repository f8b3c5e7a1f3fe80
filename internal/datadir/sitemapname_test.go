package datadir

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
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
		if got := SitemapStem(host); got != want {
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
		stem := SitemapStem(host)
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
				isOfAll(strings.TrimSuffix(f, ".xml")) {
				t.Errorf("%s has the name %s", a, f)
			}
			if a != b && !endsInNumber(b) && slices.Contains(files(b), f) {
				t.Errorf("%s and %s have the name %s", a, b, f)
			}
		}
	})
}

// endsInNumber reports whether the last label of a host name is a number. There is no such name: it would be an IPv4
// address.
func endsInNumber(host string) bool {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	return isNumber(last) || last == ""
}
