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

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// addressFormat is the form of the URLs: section and page.
const addressFormat = "https://www.example.com/section-%d/a-usual-address-of-a-page/page-%07d.html"

// BenchmarkQuery is the time of each filter and each order over a million pages of one crawl. p99-ms is to be at most
// 300; it wants many queries, such as -benchtime 200x. What filters count is compared with a plain scan of
// sitemap.jsonl.
func BenchmarkQuery(b *testing.B) {
	n := 1_000_000
	if os.Getenv("MAPWRIGHT_BENCH") == "smoke" {
		n = 10_000
	}
	x, dir := millionPages(b, n)
	cases := filterCases(fmt.Sprintf(addressFormat, 7, 7777), "https://www.example.com/section-7/")
	compareCounts(b, x, filepath.Join(dir, "sitemap.jsonl"), cases)
	run := func(name string, q Query) {
		b.Run(name, func(b *testing.B) {
			timed(b, func() error {
				_, err := x.Query(b.Context(), q)
				return err
			})
		})
	}
	for _, c := range cases {
		run("filter="+c.name, Query{Filter: c.filter, Order: ByBytes})
	}
	for o := range numOrders {
		run("order="+o.String(), Query{Order: o})
		run("order="+o.String()+"-down", Query{Order: o, Descending: true})
	}
	run("most", Query{Order: ByMillis, Descending: true, Limit: MaxLimit})
	b.Run("counts", func(b *testing.B) {
		timed(b, func() error {
			_, err := x.Counts(b.Context(), &Filter{})
			return err
		})
	})
}

// timed measures each call, and reports the 99th percentile.
func timed(b *testing.B, call func() error) {
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[(len(took)*99+99)/100-1].Microseconds())/1000, "p99-ms")
}

// millionPages makes n pages and opens their index.
func millionPages(b *testing.B, n int) (x *Index, dir string) {
	b.Helper()
	dir = b.TempDir()
	random := rand.New(rand.NewPCG(1, 1))
	f, err := os.Create(filepath.Join(dir, "sitemap.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	builder := NewBuilder(dir)
	defer builder.Close()
	out, table := bufio.NewWriter(f), page.NewTable()
	var line []byte
	var marks []problems.Mark
	for i := range n {
		l := &page.Line{URL: weburl.MustCanonical(fmt.Sprintf(addressFormat, i/1000, i)), Depth: random.IntN(8), Outcome: "ok",
			StatusCode: 200, Indexable: i%3 > 0,
			CheckedAt: page.Time{Time: time.UnixMilli(1_700_000_000_000 + random.Int64N(1e9))}}
		if i%5 == 0 {
			l.Generation, l.Change, l.Unlinked = 1, page.Changes()[i%len(page.Changes())].String(), i%10 == 0
		}
		if i%50 == 0 {
			l.Outcome, l.StatusCode = "http_error", 404
		}
		l.ContentLength, l.ResponseTime = new(random.Int64N(1e6)), new(page.Millis(random.Int64N(int64(5*time.Second))))
		if i%7 == 0 {
			marks = append(marks, problems.Mark{Line: int64(i), Problems: 1 << problems.Orphan})
		}
		line = append(table.AppendJSON(line[:0], l), '\n')
		if _, err := out.Write(line); err != nil {
			b.Fatal(err)
		}
		builder.Add(l, line)
	}
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	var found iter.Seq2[problems.Mark, error] = func(yield func(problems.Mark, error) bool) {
		for _, m := range marks {
			if !yield(m, nil) {
				return
			}
		}
	}
	if err := builder.Finish(Extra{ClickDepths: make([]uint16, n), Problems: found}); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, datadir.IndexName))
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d bytes a page with its URL", info.Size()/int64(n))
	if x, err = Open(dir); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = x.Close() })
	return x, dir
}
