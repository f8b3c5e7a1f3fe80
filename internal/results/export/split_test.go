package export

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/datadir"
)

// putFile writes a file into a directory.
func putFile(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantURLs compares the addresses in sitemaps and indexes, by name without suffix.
func wantURLs(t *testing.T, dir, suffix string, want map[string][]string) {
	t.Helper()
	for name, urls := range want {
		if got := locsOf(t, dir, name+suffix); !slices.Equal(got, urls) {
			t.Errorf("%s has %q, want %q", name+suffix, got, urls)
		}
	}
}

// Each directory has a set of its own, under one index. Pages in no directory come between the others, and have one set
// too.
func TestSplitByPath(t *testing.T) {
	for _, suffix := range []string{".xml", ".xml.gz"} {
		dir := t.TempDir()
		o := Options{Dir: dir, BaseURL: "https://a.test/", Name: "shop", Split: "path", MaxURLs: 2,
			Gzip: suffix == ".xml.gz", Only: []string{"xml"}}
		urls := []string{"https://a.test/", "https://a.test/00001/", "https://a.test/00001/b", "https://a.test/00001/c",
			"https://a.test/a.00001/", "https://a.test/about", "https://a.test/b/", "https://a.test/b?c=/d/",
			"https://a.test/root/x"}
		res := write(t, pagesOf(urls...), o)
		address := func(names ...string) (all []string) {
			for _, name := range names {
				all = append(all, o.BaseURL+name+suffix)
			}
			return all
		}
		wantURLs(t, dir, suffix, map[string][]string{
			"shop": address("shop-root.00001", "shop-~300001.00001", "shop-~300001.00002", "shop-a~2e00001", "shop-b",
				"shop-root.00002", "shop-~72oot"),
			"shop-root":    address("shop-root.00001", "shop-root.00002"),
			"shop-~300001": address("shop-~300001.00001", "shop-~300001.00002"),
			// one part until it is full, whatever comes between
			"shop-root.00001": {urls[0], urls[5]}, "shop-root.00002": {urls[7]},
			"shop-~300001.00001": urls[1:3], "shop-~300001.00002": urls[3:4],
			"shop-a~2e00001": urls[4:5], "shop-b": urls[6:7], "shop-~72oot": urls[8:],
		})
		if want := (Sitemaps{Sections: 5, Parts: 7}); res.Sitemaps != want || res.Files[0] != "shop"+suffix ||
			len(res.Files) != 10 {
			t.Errorf("wrote %q and counted %+v, want %+v", res.Files, res.Sitemaps, want)
		}

		// Several hosts have the host in the names.
		res = write(t, pagesOf("https://a.test/b/", "https://c.test/b/", "https://c.test/d"), o)
		wantFiles(t, dir, res, "shop"+suffix, "shop-a.test__b"+suffix, "shop-c.test__b"+suffix, "shop-c.test__root"+
			suffix)
		// One directory alone has the names of a crawl that is not split.
		wantFiles(t, dir, write(t, pagesOf(urls[1:4]...), o), "shop"+suffix, "shop-00001"+suffix, "shop-00002"+suffix)
		wantFiles(t, dir, write(t, pagesOf(urls[1:3]...), o), "shop"+suffix)
		wantFiles(t, dir, write(t, pagesOf(), o))
	}
}

// A site with a directory for each page has few sets, and each page once.
func TestManyDirectories(t *testing.T) {
	const most = 10
	var urls []string
	for i := range most + 5 {
		urls = append(urls, fmt.Sprintf("https://a.test/d%04d/", i), fmt.Sprintf("https://a.test/d%04d/x", i))
	}
	urls = append(urls, "https://b.test/d1200/", "https://b.test/z")
	dir := t.TempDir()
	res := write(t, pagesOf(urls...), Options{Dir: dir, BaseURL: "https://a.test/", Split: "path", MaxSections: most,
		Only: []string{"xml"}})
	if want := (Sitemaps{Sections: most + 3, Parts: most + 3}); res.Sitemaps != want {
		t.Errorf("counted %+v, want %+v", res.Sitemaps, want)
	}
	wantURLs(t, dir, ".xml", map[string][]string{"sitemap-a.test__d0009": urls[2*9 : 2*10],
		"sitemap-a.test__root":  urls[2*most : 2*most+10],
		"sitemap-b.test__d1200": urls[len(urls)-2 : len(urls)-1], "sitemap-b.test__root": urls[len(urls)-1:]})
}

// An export under another name or split removes the sitemaps of the one before from a data directory, and no others. In
// another directory it removes only those of its own name.
func TestOtherNames(t *testing.T) {
	urls := []string{"https://a.test/b/", "https://a.test/c/", "https://d.test/"}
	kinds := []Options{{}, {Split: "path"}, {Name: "shop"}, {Name: "shop", Split: "path"}, {Name: "shop", Gzip: true},
		{Name: "sitemap-a.test"}, {Name: "shop-b", Split: "path"}}
	export := func(o Options) []string {
		res, err := Write(t.Context(), pagesOf(urls...), o) // other tests hold the files to their schemas
		if err != nil {
			t.Fatal(err)
		}
		return res.Files
	}
	for i, first := range kinds {
		for _, j := range []int{(i + 1) % len(kinds), (i + 2) % len(kinds)} {
			for _, isData := range []bool{true, false} {
				second := kinds[j]
				dir := t.TempDir()
				if isData {
					if err := datadir.Make(dir); err != nil {
						t.Fatal(err)
					}
				}
				first.Dir, second.Dir, first.BaseURL, second.BaseURL = dir, dir, "https://a.test/", "https://a.test/"
				first.Only, second.Only = []string{"xml"}, []string{"xml"}
				written := export(first)
				before := filesIn(t, dir)
				// what users keep, and what a killed export left
				kept := map[string]string{"mine.xml": "<urlset/>", "shop-old.xml": before[written[1]],
					"copy.xml": before[written[0]]}
				for name, text := range kept {
					putFile(t, dir, name, text)
				}
				putFile(t, dir, "killed-00001.xml"+datadir.TempSuffix, "half")
				want := slices.Collect(maps.Keys(kept))
				if isData {
					want = append(want, datadir.RecordName)
				} else if first.Name != second.Name {
					want = append(want, written...)
				}
				want = append(want, export(second)...)
				slices.Sort(want)
				after := filesIn(t, dir)
				if got := slices.Sorted(maps.Keys(after)); !slices.Equal(got, slices.Compact(want)) {
					t.Errorf("%d, then %d, data directory %v: there are %q, want %q", i, j, isData, got, want)
				}
				for name, text := range kept {
					if after[name] != text {
						t.Errorf("%d, then %d: %s was replaced", i, j, name)
					}
				}
			}
		}
	}
}

// A user's file that has the name of a sitemap is not replaced, and the one before stays.
func TestNameOfAnother(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, BaseURL: "https://a.test/"}
	write(t, pagesOf("https://a.test/"), o)
	before := filesIn(t, dir)
	for _, name := range []string{"mine.xml", "mine-00001.xml", "mine-b.xml"} {
		putFile(t, dir, name, "<urlset/>")
		o.Name, o.Split = "mine", "path"
		if _, err := Write(t.Context(), pagesOf("https://a.test/", "https://a.test/b/"), o); err == nil ||
			!strings.Contains(err.Error(), name+" was not written by Mapwright") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if after := filesIn(t, dir); !maps.Equal(after, before) {
			t.Errorf("there are %q now", slices.Sorted(maps.Keys(after)))
		}
	}
}
