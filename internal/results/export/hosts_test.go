package export

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
)

// pagesOf are indexable pages in the order of an export: by host name, then by URL.
func pagesOf(urls ...string) Source {
	var list []*page.Line
	for _, u := range urls {
		list = append(list, indexable(u))
	}
	return these(list...)
}

// locsOf are the addresses in a sitemap or an index, compressed or not.
func locsOf(t *testing.T, dir, name string) []string {
	t.Helper()
	var list []string
	for _, e := range entries(t, filepath.Join(dir, name)) {
		list = append(list, e.Loc)
	}
	return list
}

// Pages of several hosts have one set for each host, and one index over the files of all sets.
func TestOneSetPerHost(t *testing.T) {
	for _, suffix := range []string{".xml", ".xml.gz"} {
		dir := t.TempDir()
		o := Options{Dir: dir, BaseURL: "https://maps.test/of", MaxURLs: 2, Gzip: suffix == ".xml.gz"}
		urls := []string{
			"http://127.0.0.1/", "http://127.0.0.1:8080/", "https://[2001:db8::1]/", "https://[2001:db8::1]:444/",
			"http://large.test/1", "http://large.test/2", "http://large.test:81/", "https://large.test/3",
			"https://large.test/4", "https://large.test/5",
			"https://large.test-00001/", "https://xn--bcher-kva.test/", "https://a_b.test/",
		}
		src := pagesOf(urls...)
		dated := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		res := write(t, func(ctx context.Context) iter.Seq2[*page.Line, error] {
			return func(yield func(*page.Line, error) bool) {
				for l, err := range src(ctx) {
					if l.URL.String() == "https://large.test/4" {
						l.LastModified.Time = dated
					}
					if !yield(l, err) {
						return
					}
				}
			}
		}, o)
		sets := map[string][]string{
			"sitemap-127.0.0.1": urls[:1], "sitemap-127.0.0.1_8080": urls[1:2], "sitemap-~~2001-db8--1": urls[2:3],
			"sitemap-~~2001-db8--1_444": urls[3:4],
			"sitemap-large.test.00001":  urls[4:6], "sitemap-large.test_81": urls[6:7],
			"sitemap-large.test.00002": urls[7:9], "sitemap-large.test.00003": urls[9:10],
			"sitemap-large.test-00001": urls[10:11], "sitemap-xn--bcher-kva.test": urls[11:12],
			"sitemap-a~5fb.test": urls[12:],
		}
		want := []string{"sitemap.jsonl", "sitemap" + suffix, "sitemap-large.test" + suffix}
		var all, large []string
		for _, name := range []string{"sitemap-127.0.0.1", "sitemap-127.0.0.1_8080", "sitemap-~~2001-db8--1",
			"sitemap-~~2001-db8--1_444", "sitemap-large.test.00001", "sitemap-large.test_81",
			"sitemap-large.test.00002", "sitemap-large.test.00003", "sitemap-large.test-00001",
			"sitemap-xn--bcher-kva.test", "sitemap-a~5fb.test"} {
			want, all = append(want, name+suffix), append(all, "https://maps.test/of/"+name+suffix)
			if strings.HasPrefix(name, "sitemap-large.test.") {
				large = append(large, "https://maps.test/of/"+name+suffix)
			}
			if got := locsOf(t, dir, name+suffix); !slices.Equal(got, sets[name]) {
				t.Errorf("%s has %q, want %q", name, got, sets[name])
			}
		}
		wantFiles(t, dir, res, want...)
		if got := locsOf(t, dir, "sitemap"+suffix); !slices.Equal(got, all) {
			t.Errorf("the index has %q, want %q", got, all)
		}
		if got := entries(t, filepath.Join(dir, "sitemap-large.test"+suffix)); len(got) != 3 ||
			got[0].Loc != large[0] || got[1].Loc != large[1] || got[2].Loc != large[2] ||
			!got[0].LastMod.IsZero() || !got[1].LastMod.Equal(dated) {
			t.Errorf("the index of one host has %+v, want %q", got, large)
		}
		if want := (Sitemaps{Hosts: 9, Parts: 11}); res.Sitemaps != want {
			t.Errorf("counted %+v, want %+v", res.Sitemaps, want)
		}

		// A later export has other files: those of this one go, and nothing else does.
		if err := os.WriteFile(filepath.Join(dir, "sitemap-mine.xml"), []byte("<urlset/>"), 0o600); err != nil {
			t.Fatal(err)
		}
		copied, err := os.ReadFile(filepath.Join(dir, "sitemap-large.test.00001"+suffix))
		if err != nil {
			t.Fatal(err)
		}
		mine := []string{"sitemap-mine.xml"}
		for _, name := range []string{"sitemap-old" + suffix, "sitemap-large.test.bak" + suffix, "sitemap-large" +
			suffix} {
			if err := os.WriteFile(filepath.Join(dir, name), copied, 0o600); err != nil {
				t.Fatal(err)
			}
			mine = append(mine, name)
		}
		if err := os.WriteFile(filepath.Join(dir, "sitemap-left.test.xml"+datadir.TempSuffix), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		res = write(t, pagesOf("https://b.test/", "https://large.test/1"), o)
		want = []string{"sitemap.jsonl", "sitemap" + suffix, "sitemap-b.test" + suffix, "sitemap-large.test" + suffix}
		if there := slices.Sorted(maps.Keys(filesIn(t, dir))); !slices.Equal(res.Files, want) ||
			!slices.Equal(there, slices.Sorted(slices.Values(append(want, mine...)))) {
			t.Errorf("wrote %q, the directory holds %q", res.Files, there)
		}
		if len(res.Removed) != 11 {
			t.Errorf("removed %q", res.Removed)
		}
		// One host alone has the names that a crawl of one host has.
		res = write(t, pagesOf("http://large.test/1", "https://large.test/1", "https://large.test/2"), o)
		if want := []string{"sitemap.jsonl", "sitemap" + suffix, "sitemap-00001" + suffix, "sitemap-00002" +
			suffix}; !slices.Equal(res.Files, want) || res.Sitemaps != (Sitemaps{}) {
			t.Errorf("wrote %q, want %q", res.Files, want)
		}
		write(t, pagesOf(), o)
		if there := slices.Sorted(maps.Keys(filesIn(t, dir))); !slices.Equal(there,
			slices.Sorted(slices.Values(append(mine, "sitemap.jsonl")))) {
			t.Errorf("without pages the directory holds %q", there)
		}
	}
}

// filesIn are the files of a directory and what they hold.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range list {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

// A file of another program at any of the names is not replaced, and then nothing is.
func TestHostSitemapOfAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	write(t, pagesOf("https://a.test/", "https://b.test/"), Options{Dir: dir})
	for _, name := range []string{"sitemap-c.test.xml", "sitemap-d.test.xml", "sitemap-d.test.00002.xml",
		"sitemap.2.xml"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := filesIn(t, dir)
		_, err := Write(t.Context(), pagesOf("https://a.test/new", "https://c.test/", "https://d.test/1",
			"https://d.test/2", "https://d.test/3"), Options{Dir: dir, MaxURLs: 2, MaxIndex: 2})
		if !errors.Is(err, datadir.ErrNotOurs) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if after := filesIn(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s: %q became %q", name, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// There is no index of indexes: more files than one index may name have several. Each file is named once.
func TestManyHosts(t *testing.T) {
	const hosts = 2500
	var urls []string
	for i := range hosts {
		urls = append(urls, fmt.Sprintf("https://h%05d.test/", i))
	}
	dir := t.TempDir()
	res, err := Write(t.Context(), pagesOf(urls...), Options{Dir: dir, BaseURL: "https://maps.test/",
		Only: []string{"xml"}, MaxIndex: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Files) != maxListed || !slices.Equal(res.Files[:4],
		[]string{"sitemap.xml", "sitemap.2.xml", "sitemap.3.xml", "sitemap-h00000.test.xml"}) || res.Hosts != hosts ||
		res.Parts != hosts {
		t.Errorf("lists %d files, the first %q, and counts %+v", len(res.Files), res.Files[:4], res.Sitemaps)
	}
	var named []string
	for _, name := range res.Files[:3] {
		list := locs(t, filepath.Join(dir, name))
		if len(list) == 0 || len(list) > 1000 {
			t.Errorf("%s has %d entries", name, len(list))
		}
		named = append(named, list...)
	}
	if len(named) != hosts || named[hosts-1] != "https://maps.test/sitemap-h02499.test.xml" {
		t.Errorf("%d files are named, the last is %s", len(named), named[len(named)-1])
	}
	for i, name := range named {
		if got := locs(t, filepath.Join(dir, strings.TrimPrefix(name, "https://maps.test/"))); !slices.Equal(got,
			urls[i:i+1]) {
			t.Fatalf("%s has %q", name, got)
		}
	}
	if there := filesIn(t, dir); len(there) != hosts+3 {
		t.Errorf("%d files, want %d", len(there), hosts+3)
	}
	if res, err = Write(t.Context(), pagesOf(urls[:2]...), Options{Dir: dir, Only: []string{"xml"}}); err != nil ||
		len(filesIn(t, dir)) != 3 || len(res.Removed) != maxListed {
		t.Errorf("%v; %d files are left, %d removed", err, len(filesIn(t, dir)), len(res.Removed))
	}
}
