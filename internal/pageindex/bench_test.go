package pageindex

import (
	"bufio"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/export"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/problems"
)

// BenchmarkQuery is the time of each filter and order over a million pages of one crawl; the goal is 300 ms at most.
func BenchmarkQuery(b *testing.B) {
	n := 1_000_000
	if os.Getenv("MAPWRIGHT_BENCH") == "smoke" {
		n = 10_000
	}
	x := millionPages(b, n)
	q := map[string]Query{
		"none":           {},
		"outcome":        {Filter: Filter{Outcomes: []page.Outcome{page.HTTPError}}},
		"class":          {Filter: Filter{Classes: []int{4}}},
		"depth":          {Filter: Filter{Depth: Range{Min: new(int64(3))}}},
		"problem":        {Filter: Filter{Problems: 1 << problems.Orphan}},
		"indexable":      {Filter: Filter{Indexable: new(true)}},
		"contains":       {Filter: Filter{Contains: "page-9999"}},
		"contains-many":  {Filter: Filter{Contains: "e"}},
		"prefix":         {Filter: Filter{Prefix: "https://www.example.com/section-7/"}},
		"last-page":      {Order: ByMillis, Descending: true, Limit: MaxLimit},
		"everything-set": {Filter: Filter{Classes: []int{2}, Indexable: new(true), Contains: "section-1", Depth: Range{Max: new(int64(4))}}, Order: ByBytes},
	}
	for o := range numOrders {
		q["by-"+o.String()] = Query{Order: o}
		q["by-"+o.String()+"-down"] = Query{Order: o, Descending: true}
	}
	names := make([]string, 0, len(q))
	for name := range q {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := x.Query(b.Context(), q[name]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("counts", func(b *testing.B) {
		for b.Loop() {
			if _, err := x.Counts(b.Context(), &Filter{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func millionPages(b *testing.B, n int) *Index {
	b.Helper()
	dir, random := b.TempDir(), rand.New(rand.NewPCG(1, 1))
	f, err := os.Create(filepath.Join(dir, "sitemap.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	builder, err := NewBuilder(dir, RunPattern)
	if err != nil {
		b.Fatal(err)
	}
	defer builder.Close()
	out, table := bufio.NewWriter(f), page.NewTable()
	var line []byte
	var marks []Mark
	for i := range n {
		l := &page.Line{URL: fmt.Sprintf("https://www.example.com/section-%d/a-usual-address-of-a-page/page-%07d.html", i/1000, i), Depth: random.IntN(8), Outcome: "ok", StatusCode: 200, Indexable: i%3 > 0,
			CheckedAt: page.Time{Time: time.UnixMilli(1_700_000_000_000 + random.Int64N(1e9))}}
		if i%50 == 0 {
			l.Outcome, l.StatusCode = "http_error", 404
		}
		l.ContentLength, l.ResponseTime = new(random.Int64N(1e6)), new(page.Millis(random.Int64N(int64(5*time.Second))))
		if i%7 == 0 {
			marks = append(marks, Mark{Line: int64(i), Problems: 1 << problems.Orphan})
		}
		line = append(table.AppendJSON(line[:0], l), '\n')
		if _, err := out.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := builder.Add(l, line); err != nil {
			b.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	var found iter.Seq2[Mark, error] = func(yield func(Mark, error) bool) {
		for _, m := range marks {
			if !yield(m, nil) {
				return
			}
		}
	}
	if err := builder.Finish(Extra{ClickDepths: make([]uint16, n), Problems: found}); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, export.IndexName))
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d bytes a page with its URL", info.Size()/int64(n))
	x, err := Open(b.Context(), dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = x.Close() })
	return x
}
