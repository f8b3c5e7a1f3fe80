package pageindex

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// plainLine is what a reader of sitemap.jsonl without this program sees of a page.
type plainLine struct {
	URL        string   `json:"url"`
	Outcome    string   `json:"outcome"`
	Status     int      `json:"status_code"`
	Depth      int64    `json:"depth"`
	Length     *int64   `json:"content_length"`
	Millis     *float64 `json:"response_time_ms"`
	Indexable  bool     `json:"indexable"`
	Unlinked   bool     `json:"unlinked"`
	Change     string   `json:"change"`
	Generation int      `json:"generation"`
}

// filterCase is a filter and the same condition for a line of sitemap.jsonl. The condition is nil if it is about
// something that sitemap.jsonl does not have.
type filterCase struct {
	name   string
	filter Filter
	holds  func(*plainLine) bool
}

// filterCases are one or two cases for every field of a Filter. A page must have the URL, and some must begin with the
// prefix.
func filterCases(url, prefix string) []filterCase {
	changed := page.Changes()[0]
	return []filterCase{
		{"outcome", Filter{Outcomes: []page.Outcome{page.HTTPError}},
			func(l *plainLine) bool { return l.Outcome == "http_error" }},
		{"status", Filter{Statuses: []int{200, 404}}, func(l *plainLine) bool {
			return l.Status == 200 ||
				l.Status == 404
		}},
		{"class", Filter{Classes: []int{4}}, func(l *plainLine) bool { return l.Status >= 400 && l.Status < 500 }},
		{"depth", Filter{Depth: Range{Min: new(int64(3))}}, func(l *plainLine) bool { return l.Depth >= 3 }},
		{"click-depth", Filter{ClickDepth: Range{Max: new(int64(3))}}, nil},
		{"bytes", Filter{Bytes: Range{Min: new(int64(10))}},
			func(l *plainLine) bool { return l.Length != nil && *l.Length >= 10 }},
		{"millis", Filter{Millis: Range{Min: new(int64(20)), Max: new(int64(1000))}},
			func(l *plainLine) bool { return l.Millis != nil && *l.Millis >= 20 && *l.Millis < 1001 }},
		{"indexable", Filter{Indexable: new(true)}, func(l *plainLine) bool { return l.Indexable }},
		{"unlinked", Filter{Unlinked: new(true)}, func(l *plainLine) bool { return l.Unlinked }},
		{"problem", Filter{Problems: 1 << problems.Orphan}, nil},
		{"any-problem", Filter{AnyProblem: new(true)}, nil},
		{"change", Filter{Changes: []page.Change{changed}},
			func(l *plainLine) bool { return l.Change == changed.String() }},
		{"generation", Filter{Generation: new(1)}, func(l *plainLine) bool { return l.Generation == 1 }},
		{"url", Filter{URL: url}, func(l *plainLine) bool { return l.URL == url }},
		{"prefix", Filter{Prefix: prefix}, func(l *plainLine) bool { return strings.HasPrefix(l.URL, prefix) }},
		{"contains-few", Filter{Contains: "99"}, func(l *plainLine) bool { return strings.Contains(l.URL, "99") }},
		{"contains-many", Filter{Contains: "e"},
			func(l *plainLine) bool { return strings.Contains(strings.ToLower(l.URL), "e") }},
		{"several", Filter{Classes: []int{2}, Indexable: new(true), Contains: "s", Depth: Range{Max: new(int64(4))}},
			func(l *plainLine) bool {
				return l.Status/100 == 2 && l.Indexable && strings.Contains(strings.ToLower(l.URL), "s") && l.Depth <= 4
			}},
	}
}

// compareCounts compares the totals of filters with those of a plain scan of sitemap.jsonl.
func compareCounts(t testing.TB, x *Index, path string, cases []filterCase) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, lines := make([]int64, len(cases)), make([]int64, len(cases))
	passes := make([]func(*page.Line) bool, len(cases))
	for i, c := range cases {
		if c.holds == nil {
			continue
		}
		if passes[i], err = c.filter.Lines(); err != nil {
			t.Fatal(err)
		}
	}
	in := bufio.NewScanner(f)
	for in.Scan() {
		l := &plainLine{}
		if err := json.Unmarshal(in.Bytes(), l); err != nil {
			t.Fatal(err)
		}
		known := &page.Line{}
		if err := json.Unmarshal(in.Bytes(), known); err != nil {
			t.Fatal(err)
		}
		for i, c := range cases {
			if c.holds == nil {
				continue
			}
			if c.holds(l) {
				want[i]++
			}
			if passes[i](known) {
				lines[i]++
			}
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if c.holds == nil {
			continue
		}
		res, err := x.Query(t.Context(), Query{Filter: c.filter})
		if err != nil {
			t.Fatal(err)
		}
		if res.Total != want[i] || want[i] == 0 {
			t.Errorf("%s: %d pages pass, a scan of sitemap.jsonl counts %d", c.name, res.Total, want[i])
		}
		if lines[i] != want[i] {
			t.Errorf("%s: %d lines pass, a scan of sitemap.jsonl counts %d", c.name, lines[i], want[i])
		}
	}
}

func TestCountsEqualAPlainScan(t *testing.T) {
	s := newSite(t, rand.New(rand.NewPCG(9, 9)), 4000)
	s.write(t)
	compareCounts(t, s.open(t), filepath.Join(s.dir, "sitemap.jsonl"),
		filterCases("http://b.test/", "https://a.test/Shop/"))
}
