package pageindex

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// site is a crawl with made-up pages in a directory.
type site struct {
	dir    string
	pages  []*page.Line
	depths []uint16
	marks  []problems.Mark
	sets   []problems.Set // by page
	extra  Extra          // for the index
}

// newSite makes pages in the order of an export: hosts in any order, the URLs of one sorted.
func newSite(t testing.TB, random *rand.Rand, n int) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	hosts := []string{"b.test", "a.test", "c.test", "A-b.test"}
	for i, host := range hosts {
		var urls []string
		for k := range n / len(hosts) {
			urls = append(urls, fmt.Sprintf("https://%s/%s/p%d", host,
				[]string{"blog", "Shop", "%C3%BCber", "x"}[random.IntN(4)], k))
		}
		if i == 0 && n > 0 {
			urls = append(urls, "http://b.test/", "https://b.test:8443/?q=Shop")
		}
		slices.Sort(urls)
		for _, url := range urls {
			s.pages = append(s.pages, randomLine(random, url))
		}
	}
	if len(s.pages) > 0 {
		s.pages[0].Source = "start"
	}
	s.depths = make([]uint16, len(s.pages))
	s.sets = make([]problems.Set, len(s.pages))
	for i, l := range s.pages {
		for range random.IntN(4) {
			l.Links = append(l.Links, page.Link{To: s.pages[random.IntN(len(s.pages))].URL.String(), Text: "a \"link\""})
		}
		if s.depths[i] = NoDepth; random.IntN(4) > 0 {
			s.depths[i] = uint16(random.IntN(9))
		}
		if random.IntN(3) == 0 {
			m := problems.Mark{Line: int64(i)}
			for range 1 + random.IntN(3) {
				m.Problems.Add(problems.Table()[random.IntN(len(problems.Table()))].Code)
			}
			s.marks = append(s.marks, m)
			s.sets[i] = m.Problems
		}
	}
	s.extra = Extra{ClickDepths: s.depths, Problems: s.problems()}
	return s
}

func randomLine(random *rand.Rand, url string) *page.Line {
	outcomes := page.Outcomes()
	l := &page.Line{SchemaVersion: page.SchemaVersion, URL: weburl.MustCanonical(url), Depth: random.IntN(6), Source: "link",
		Outcome: outcomes[random.IntN(len(outcomes))].String(), Indexable: random.IntN(2) == 0,
		Generation: random.IntN(3), Unlinked: random.IntN(5) == 0}
	l.Title = strings.Repeat("t", random.IntN(50))
	if random.IntN(4) > 0 {
		l.StatusCode = []int{200, 200, 301, 404, 410, 500, 503, 999}[random.IntN(8)]
		l.ResponseTime = new(page.Millis(time.Duration(random.IntN(40)) * time.Millisecond))
		l.CheckedAt = page.Time{Time: time.UnixMilli(1_700_000_000_000 + random.Int64N(50)).UTC()}
	}
	if random.IntN(3) > 0 {
		l.ContentLength = new(random.Int64N(30))
	}
	if l.Generation > 0 {
		l.Change = page.Changes()[random.IntN(len(page.Changes()))].String()
		l.Stale = random.IntN(2)
	}
	if l.Outcome == "redirect" {
		l.RedirectTo = "https://a.test/x/p0"
	}
	return l
}

// write writes sitemap.jsonl, links.jsonl and the index.
func (s *site) write(t testing.TB) {
	t.Helper()
	b := NewBuilder(s.dir)
	defer b.Close()
	source := func(yield func(*page.Line, error) bool) {
		for _, l := range s.pages {
			if !yield(l, nil) {
				return
			}
		}
	}
	o := export.Options{Dir: s.dir, Links: true, Only: []string{"jsonl", "links"}, Each: b.Add}
	if _, err := export.Write(t.Context(), func(context.Context) iter.Seq2[*page.Line, error] { return source },
		o); err != nil {
		t.Fatal(err)
	}
	if err := b.Finish(s.extra); err != nil {
		t.Fatal(err)
	}
}

func (s *site) problems() iter.Seq2[problems.Mark, error] {
	return func(yield func(problems.Mark, error) bool) {
		for _, m := range s.marks {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (s *site) open(t testing.TB) *Index {
	t.Helper()
	x, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// passes is a filter applied to a page without the index.
func (s *site) passes(f *Filter, i int) bool {
	l := s.pages[i]
	set := s.sets[i]
	outcome, _ := page.ParseOutcome(l.Outcome)
	ms, size, clicks := int64(-1), int64(-1), int64(-1)
	if l.ResponseTime != nil {
		ms = time.Duration(*l.ResponseTime).Milliseconds()
	}
	if l.ContentLength != nil {
		size = *l.ContentLength
	}
	if s.depths[i] != NoDepth {
		clicks = int64(s.depths[i])
	}
	within := func(r Range, v int64) bool {
		if r.Min == nil && r.Max == nil {
			return true
		}
		return v >= 0 && (r.Min == nil || *r.Min <= v) && (r.Max == nil || v <= *r.Max)
	}
	return (len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, outcome)) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, l.StatusCode)) &&
		(len(f.Classes) == 0 || slices.Contains(f.Classes, l.StatusCode/100)) &&
		within(f.Depth, int64(l.Depth)) && within(f.ClickDepth, clicks) && within(f.Bytes, size) &&
		within(f.Millis, ms) &&
		(f.Indexable == nil || *f.Indexable == l.Indexable) && (f.Unlinked == nil || *f.Unlinked == l.Unlinked) &&
		(f.Problems == 0 || f.Problems&set != 0) && (f.AnyProblem == nil || *f.AnyProblem == (set != 0)) &&
		(len(f.Changes) == 0 || slices.ContainsFunc(f.Changes,
			func(c page.Change) bool { return c.String() == l.Change })) &&
		(f.Generation == nil || *f.Generation == l.Generation) &&
		(f.URL == "" || f.URL == l.URL.String()) && strings.HasPrefix(l.URL.String(), f.Prefix) &&
		strings.Contains(strings.ToLower(l.URL.String()), strings.ReplaceAll(strings.ToLower(f.Contains), "ü", "%c3%bc"))
}

// value is what a page is sorted by, and whether it is known.
func (s *site) value(o Order, i int) (int64, bool) {
	l := s.pages[i]
	switch o {
	case ByStatus:
		return int64(l.StatusCode), l.StatusCode != 0
	case ByDepth:
		return int64(l.Depth), true
	case ByClickDepth:
		return int64(s.depths[i]), s.depths[i] != NoDepth
	case ByBytes:
		if l.ContentLength != nil {
			return *l.ContentLength, true
		}
	case ByMillis:
		if l.ResponseTime != nil {
			return time.Duration(*l.ResponseTime).Milliseconds(), true
		}
	case ByChecked:
		return l.CheckedAt.UnixMilli(), !l.CheckedAt.IsZero()
	}
	return 0, false
}

// answer is the URLs that a query must find, in order.
func (s *site) answer(q *Query) []string {
	var ids []int
	for i := range s.pages {
		if s.passes(&q.Filter, i) {
			ids = append(ids, i)
		}
	}
	slices.SortFunc(ids, func(a, b int) int {
		byURL := cmp.Or(strings.Compare(s.pages[a].URL.Host(), s.pages[b].URL.Host()),
			strings.Compare(s.pages[a].URL.String(), s.pages[b].URL.String()))
		if q.Order == ByURL {
			if q.Descending {
				return -byURL
			}
			return byURL
		}
		x, knownX := s.value(q.Order, a)
		y, knownY := s.value(q.Order, b)
		switch {
		case knownX != knownY && knownX:
			return -1
		case knownX != knownY:
			return 1
		case !knownX:
			return byURL
		case q.Descending:
			x, y = y, x
		}
		return cmp.Or(cmp.Compare(x, y), byURL)
	})
	var urls []string
	for _, i := range ids {
		urls = append(urls, s.pages[i].URL.String())
	}
	return urls
}

func randomFilter(random *rand.Rand, s *site) Filter {
	var f Filter
	maybe := func() bool { return random.IntN(6) == 0 }
	between := func(most int64) Range {
		r := Range{}
		if random.IntN(2) == 0 {
			r.Min = new(random.Int64N(most))
		}
		if random.IntN(2) == 0 {
			r.Max = new(random.Int64N(most))
		}
		return r
	}
	if maybe() {
		f.Outcomes = []page.Outcome{page.OK, page.Outcomes()[random.IntN(len(page.Outcomes()))]}
	}
	if maybe() {
		f.Statuses = []int{0, 404, 200}[:1+random.IntN(3)]
	}
	if maybe() {
		f.Classes = []int{2, 5, 0, 9}[:1+random.IntN(4)]
	}
	if maybe() {
		f.Depth, f.Bytes, f.Millis = between(6), between(30), between(40)
	}
	if maybe() {
		f.ClickDepth = between(8)
	}
	if maybe() {
		f.Indexable = new(random.IntN(2) == 0)
	}
	if maybe() {
		f.Unlinked = new(random.IntN(2) == 0)
	}
	if maybe() {
		f.Problems.Add(problems.Orphan)
	}
	if maybe() {
		f.AnyProblem = new(random.IntN(2) == 0)
	}
	if maybe() {
		f.Changes = []page.Change{page.NoChange, page.Gone, page.New}[random.IntN(3):]
	}
	if maybe() {
		f.Generation = new(random.IntN(3))
	}
	switch random.IntN(8) {
	case 0:
		f.Contains = []string{"shop", "SHOP", "über", "p1", "q=", "nowhere"}[random.IntN(6)]
	case 1:
		f.Prefix = []string{"https://a.test/", "https://b.test/S", "http://b.test/",
			"https://none.test/"}[random.IntN(4)]
	case 2:
		f.URL = s.pages[random.IntN(len(s.pages))].URL.String()
	}
	return f
}

// Filters, orders, pages of an answer and counts are those of a simple scan over the pages.
func TestAgainstSimpleScan(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{4, 300, chunkRows + 700} {
		s := newSite(t, random, n)
		s.write(t)
		x := s.open(t)
		if x.Len() != int64(len(s.pages)) || !x.KnowsClickDepths() || !x.KnowsProblems() {
			t.Fatalf("the index has %d pages of %d", x.Len(), len(s.pages))
		}
		rounds := 300
		if n > 1000 {
			rounds = 40
		}
		for range rounds {
			q := Query{Filter: randomFilter(random, s), Order: Order(random.IntN(int(numOrders))),
				Descending: random.IntN(2) == 0, Limit: 1 + random.IntN(min(2*n, MaxLimit)),
				Bytes: random.IntN(2) * random.IntN(500*n)}
			s.check(t, x, q)
		}
	}
}

func (s *site) check(t *testing.T, x *Index, q Query) {
	t.Helper()
	want := s.answer(&q)
	got := []string{}
	for range len(s.pages) + 2 {
		res, err := x.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if res.Total != int64(len(want)) || len(res.Hits) > q.Limit {
			t.Fatalf("%+v: %d hits of %d in all, want %d", q, len(res.Hits), res.Total, len(want))
		}
		size := 0
		for i := range res.Hits {
			h := &res.Hits[i]
			got, size = append(got, h.URL), size+int(h.length)
			line, err := x.Line(h)
			if err != nil {
				t.Fatal(err)
			}
			var l struct{ URL string }
			if err := json.Unmarshal(line, &l); err != nil || l.URL != h.URL {
				t.Fatalf("the line of %s is %s (%v)", h.URL, line, err)
			}
		}
		if q.Bytes > 0 && size > q.Bytes && len(res.Hits) > 1 {
			t.Fatalf("%+v: %d bytes in %d lines", q, size, len(res.Hits))
		}
		if q.Cursor = res.Next; q.Cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) && len(want)+len(got) > 0 {
		t.Fatalf("%+v:\n%q\nwant\n%q", q, got, want)
	}
	counts, err := x.Counts(t.Context(), &q.Filter)
	if err != nil || counts.Total != int64(len(want)) {
		t.Fatalf("%d are counted, want %d (%v)", counts.Total, len(want), err)
	}
	outcomes, found := map[page.Outcome]int64{}, map[problems.Code]int64{}
	for i, l := range s.pages {
		if !s.passes(&q.Filter, i) {
			continue
		}
		o, _ := page.ParseOutcome(l.Outcome)
		outcomes[o]++
		for _, c := range s.sets[i].Codes() {
			found[c]++
		}
	}
	if fmt.Sprint(outcomes) != fmt.Sprint(counts.Outcomes) || fmt.Sprint(found) != fmt.Sprint(counts.Problems) {
		t.Fatalf("counts are %+v, want %v and %v", counts, outcomes, found)
	}
}

// What is missing, damaged or of another sitemap.jsonl is not used; what only has another time is.
func TestOpen(t *testing.T) {
	s := newSite(t, rand.New(rand.NewPCG(9, 10)), 40)
	s.write(t)
	path, lines := filepath.Join(s.dir, datadir.IndexName), filepath.Join(s.dir, "sitemap.jsonl")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(){
		"missing":         func() { _ = os.Remove(path) },
		"empty":           func() { put(nil) },
		"cut off":         func() { put(good[:len(good)-1]) },
		"another version": func() { put(append([]byte("MWPAGES\x02"), good[8:]...)) },
		"a bit in a row":  func() { put(flip(good, headerSize+5*rowSize+3)) },
		"a bit in a URL":  func() { put(flip(good, len(good)-2)) },
		"a bit in front":  func() { put(flip(good, 20)) },
	} {
		spoil()
		if _, err := Open(s.dir); !isMissing(err) {
			t.Errorf("%s: %v", name, err)
		}
	}

	put(good)
	old := s.open(t)
	before, err := old.Query(t.Context(), Query{Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(lines, time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	x := s.open(t)
	if _, err := x.Query(t.Context(), Query{Limit: 3, Cursor: before.Next}); err != nil {
		t.Errorf("a cursor of the same pages: %v", err)
	}

	// The same length, another content.
	text, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(text, []byte(`"depth":`+fmt.Sprint(s.pages[0].Depth)), []byte(`"depth":9`), 1)
	if err := os.WriteFile(lines+".tmp", other, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(lines+".tmp", lines); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.dir); !errors.Is(err, errStale) {
		t.Errorf("an index of other lines: %v", err)
	}
	s.pages[0].Depth = 9
	s.write(t)
	x = s.open(t)
	if res, err := x.Query(t.Context(), Query{Filter: Filter{Depth: Range{Min: new(int64(9))}}}); err != nil ||
		res.Total != 1 {
		t.Errorf("a stale index was used: %v, %v", res, err)
	}
	if _, err := x.Query(t.Context(), Query{Limit: 3, Cursor: before.Next}); !errors.Is(err, ErrOldCursor) {
		t.Errorf("a cursor of other pages: %v", err)
	}
	// Who has the old one open still reads the old lines.
	if line, err := old.Line(&before.Hits[0]); err != nil || !bytes.Contains(line, []byte(before.Hits[0].URL)) {
		t.Errorf("a line of the old file: %s, %v", line, err)
	}

	if err := os.Remove(lines); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without sitemap.jsonl: %v", err)
	}
}

func flip(text []byte, at int) []byte {
	out := slices.Clone(text)
	out[at] ^= 4
	return out
}

func TestBadQueries(t *testing.T) {
	s := newSite(t, rand.New(rand.NewPCG(11, 12)), 40)
	s.extra = Extra{}
	s.write(t)
	x := s.open(t)
	for name, q := range map[string]Query{
		"cursor":         {Cursor: "x"},
		"cursor of none": {Cursor: "AAAA"},
		"order":          {Order: numOrders},
		"class":          {Filter: Filter{Classes: []int{10}}},
		"problems":       {Filter: Filter{Problems: 1}},
		"click depth":    {Filter: Filter{ClickDepth: Range{Min: new(int64(1))}}},
	} {
		if _, err := x.Query(t.Context(), q); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	res, err := x.Query(t.Context(), Query{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Query(t.Context(), Query{Cursor: res.Next, Order: ByStatus}); !errors.Is(err, ErrCursor) {
		t.Errorf("a cursor of another order: %v", err)
	}
	if _, found, err := x.Find(t.Context(), "https://none.test/"); found || err != nil {
		t.Errorf("a URL that is not there is found (%v)", err)
	}
	if h, found, err := x.Find(t.Context(), s.pages[7].URL.String()); !found || err != nil || h.URL != s.pages[7].URL.String() {
		t.Errorf("the URL %s is not found (%v)", s.pages[7].URL, err)
	}
	for o := range numOrders {
		if got, ok := ParseOrder(o.String()); !ok || got != o {
			t.Errorf("order %s is read as %s", o, got)
		}
	}
	if _, ok := ParseOrder("title"); ok {
		t.Error("an order that does not exist is read")
	}
}

func TestFold(t *testing.T) {
	text := make([]byte, 256+5)
	for i := range text {
		text[i] = byte(i)
	}
	want := slices.Clone(text)
	for i, c := range want {
		if c >= 'A' && c <= 'Z' {
			want[i] = c - 'A' + 'a'
		}
	}
	for skip := range 9 {
		got := slices.Clone(text)
		fold(got[skip:])
		if !bytes.Equal(got[skip:], want[skip:]) {
			t.Fatalf("from %d on: %q", skip, got)
		}
	}
}
