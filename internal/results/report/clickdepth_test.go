package report

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
)

func depths(t *testing.T, limit int, pages []*page.Line) []uint16 {
	t.Helper()
	dir := t.TempDir()
	g := newClickGraph(extsort.Space{Dir: dir, Pattern: "sort-*", Bytes: limit})
	defer g.Close()
	for _, l := range pages {
		if err := g.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	got, err := g.Depths(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
	return got
}

func clickURL(i int) string { return fmt.Sprint("https://a.test/", i) }

func TestClickDepths(t *testing.T) {
	start := &page.Line{URL: weburl.MustCanonical(clickURL(0)), Source: "start"}
	start.Links = []page.Link{{To: clickURL(1)}, {To: clickURL(2)}, {To: "https://elsewhere.test/"}, {To: clickURL(0)}}
	redirect := &page.Line{URL: weburl.MustCanonical(clickURL(1)), Source: "link"}
	redirect.RedirectTo = clickURL(3)
	two := &page.Line{URL: weburl.MustCanonical(clickURL(2)), Source: "link"}
	two.Links = []page.Link{{To: clickURL(3)}}
	three := &page.Line{URL: weburl.MustCanonical(clickURL(3)), Source: "redirect"}
	three.Links = []page.Link{{To: clickURL(4), NoFollow: true}}
	four, orphan := &page.Line{URL: weburl.MustCanonical(clickURL(4)), Source: "link"}, &page.Line{URL: weburl.MustCanonical(clickURL(5)), Source: "sitemap"}
	got := depths(t, 1<<20, []*page.Line{four, orphan, start, redirect, two, three})
	if want := []uint16{2, pageindex.NoDepth, 0, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("depths are %v, want %v", got, want)
	}
	if got := depths(t, 1<<20, nil); len(got) != 0 {
		t.Errorf("depths of no pages are %v", got)
	}
}

// A chain of many pages has as many levels.
func TestClickDepthsOfChain(t *testing.T) {
	var pages []*page.Line
	for i := range 3000 {
		l := &page.Line{URL: weburl.MustCanonical(clickURL(i)), Source: "link"}
		l.Links = []page.Link{{To: clickURL(i + 1)}}
		pages = append(pages, l)
	}
	pages[0].Source = "start"
	for i, d := range depths(t, 1<<20, pages) {
		if int(d) != i {
			t.Fatalf("page %d has the depth %d", i, d)
		}
	}
}

// Random graphs, sorted in memory and in files, have the depths that a relaxation of all links over and over finds.
func TestClickDepthsAgainstRelaxation(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 30 {
		n := 1 + random.IntN(200)
		pages := make([]*page.Line, n)
		for i := range pages {
			l := &page.Line{URL: weburl.MustCanonical(clickURL(i)), Source: "link"}
			if random.IntN(50) == 0 {
				l.Source = "start"
			}
			if random.IntN(4) == 0 {
				l.RedirectTo = clickURL(random.IntN(n))
			} else {
				for range random.IntN(4) {
					l.Links = append(l.Links, page.Link{To: clickURL(random.IntN(n + 5))})
				}
			}
			pages[i] = l
		}
		want := relax(pages)
		for _, limit := range []int{1 << 20, 200} {
			if got := depths(t, limit, pages); !slices.Equal(got, want) {
				t.Fatalf("round %d: depths are %v, want %v", round, got, want)
			}
		}
	}
}

func relax(pages []*page.Line) []uint16 {
	at, out := map[string]int{}, make([]uint16, len(pages))
	for i, l := range pages {
		at[l.URL.String()], out[i] = i, pageindex.NoDepth
		if l.Source == "start" {
			out[i] = 0
		}
	}
	for changed := true; changed; {
		changed = false
		try := func(to string, depth uint16) {
			if i, known := at[to]; known && out[i] > depth {
				out[i], changed = depth, true
			}
		}
		for i, l := range pages {
			if out[i] == pageindex.NoDepth {
				continue
			}
			try(l.RedirectTo, out[i])
			for _, link := range l.Links {
				try(link.To, out[i]+1)
			}
		}
	}
	return out
}
