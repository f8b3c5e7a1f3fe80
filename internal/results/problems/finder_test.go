package problems

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/parser"
)

// pageOf is an indexable page with n words.
func pageOf(url string, words int) *page.Line {
	l := &page.Line{URL: weburl.MustCanonical(url), Outcome: page.OK.String(), StatusCode: 200, Source: page.SourceName(page.SourceLink),
		Linked: true, Indexable: true}
	l.ContentType, l.WordCount, l.TextHash = "text/html", new(words), new(page.Hash(hashOf(url)))
	l.Title, l.Description, l.H1 = "Title of "+url, "Description of "+url, "Heading"
	return l
}

// found runs a Finder over pages, and returns the URLs of each problem and all lines.
func found(t *testing.T, o Options, pages ...*page.Line) (map[string][]string, *Result, []Entry) {
	t.Helper()
	o.Sorts.Dir, o.Sorts.Pattern = t.TempDir(), "problems-*"
	o.Sorts.Bytes = cmp.Or(o.Sorts.Bytes, 8<<20) * sorts
	f := New(o)
	defer f.Close()
	for _, l := range pages {
		if err := f.See(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.Targets() > 0 {
		for _, l := range pages {
			if err := f.SeeLinks(l); err != nil {
				t.Fatal(err)
			}
		}
	}
	var lines []Entry
	urls := map[string][]string{}
	r, err := f.Finish(t.Context(), func(e *Entry) error {
		if lines = append(lines, *e); e.Part == 0 {
			urls[e.Code] = append(urls[e.Code], e.URL)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	for _, p := range r.Problems {
		if p.Count != int64(len(urls[p.Code])) || (p.Result == Found) != (p.Count > 0) ||
			p.Cut != p.Count-int64(len(p.Items)) {
			t.Errorf("%s: %s, %d items and %d cut, but %d lines", p.Code, p.Result, len(p.Items), p.Cut,
				len(urls[p.Code]))
		}
	}
	return urls, r, lines
}

// Near duplicates equal those of comparing each page with each, also if sorts and comparisons are divided often.
func TestNearDuplicates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var pages []*page.Line
	var base uint64
	for i := range 6000 {
		if i%40 == 0 {
			base = rng.Uint64()
		}
		sim := base
		if i < 3000 {
			sim = 0x5a5a // most of its bits are those of many others
		}
		for range rng.IntN(8) {
			sim ^= 1 << rng.IntN(64)
		}
		l := pageOf(fmt.Sprintf("https://example.com/%05d", i), 100+i%2*-1)
		l.SimHash = new(page.Hash(sim))
		if i%7 == 0 && i > 0 { // the same text
			l.SimHash, l.TextHash = pages[i-1].SimHash, pages[i-1].TextHash
		}
		pages = append(pages, l)
	}
	var want []string
	for _, a := range pages {
		near := slices.ContainsFunc(pages, func(b *page.Line) bool {
			return *b.WordCount >= NearWords && *a.TextHash != *b.TextHash &&
				parser.Distance(uint64(*a.SimHash), uint64(*b.SimHash)) <= NearDistance
		})
		if near && *a.WordCount >= NearWords {
			want = append(want, a.URL.String())
		}
	}
	if len(want) < 500 || len(want) > 2900 {
		t.Fatalf("%d of %d pages are near others: this tests little", len(want), len(pages))
	}
	for _, limit := range []int{0, 20_000} {
		got, _, lines := found(t, Options{Sorts: extsort.Space{Bytes: limit}, NearDuplicates: true}, pages...)
		if !slices.Equal(got["duplicate_near"], want) {
			t.Errorf("limit %d: %d pages are near others, want %d", limit, len(got["duplicate_near"]), len(want))
		}
		for _, e := range lines {
			if e.Code == "duplicate_near" && (len(e.Related) == 0 || slices.Contains(e.Related, e.URL)) {
				t.Fatalf("limit %d: %s is related to %v", limit, e.URL, e.Related)
			}
		}
	}
}

// Everything that is found is the same if each sort needs a file.
func TestSortsInFiles(t *testing.T) {
	var pages []*page.Line
	for i := range 400 {
		l := pageOf(fmt.Sprintf("https://example.com/%03d", i), 50+i)
		l.Title = fmt.Sprint("Title ", i%350)
		l.Links = []page.Link{{To: "https://example.com/gone", Text: fmt.Sprint("text ", i)},
			{To: "https://example.com/gone"}, {To: fmt.Sprintf("https://example.com/%03d", i/2)}}
		l.Hreflang = []page.Alternate{{Lang: "de", URL: fmt.Sprintf("https://example.com/%03d", (i+200)%400)},
			{Lang: "fr", URL: "https://example.com/000"}}
		l.Canonical = l.URL.String()
		pages = append(pages, l)
	}
	gone := &page.Line{URL: weburl.MustCanonical("https://example.com/gone"), Outcome: page.HTTPError.String(), StatusCode: 404,
		Source: "link"}
	copied := pageOf("https://example.com/copy", 500)
	copied.Canonical, copied.Indexable, copied.IndexableReason = gone.URL.String(), false, page.NotCanon
	pages = append(pages, copied, gone)
	got, r, lines := found(t, Options{Links: true}, pages...)
	small, _, sameLines := found(t, Options{Links: true, Sorts: extsort.Space{Bytes: 3000}}, pages...)
	if !maps.EqualFunc(got, small, slices.Equal) || fmt.Sprint(lines) != fmt.Sprint(sameLines) {
		t.Error("sorts in files find something else")
	}
	for code, want := range map[string]int{"broken_link": 1, "canonical_bad": 1, "title_duplicate": 100, "orphan": 200,
		"hreflang_no_return": 398, "thin": 50} {
		if len(got[code]) != want {
			t.Errorf("%s: %d URLs, want %d", code, len(got[code]), want)
		}
	}
	linking, parts := 0, 0
	for _, e := range lines {
		if e.Code == "broken_link" {
			linking += len(e.Related)
			parts++
			if len(e.Related) != len(e.Texts) || e.Texts[0] == "" {
				t.Errorf("%d pages link, with %d texts", len(e.Related), len(e.Texts))
			}
		}
	}
	if first := r.Problems[BrokenLink].Items[0]; linking != 400 || parts != 4 || len(first.Related) != 100 ||
		first.RelatedCut != 300 || first.Value != "404" {
		t.Errorf("%d pages link to it, in %d lines; the report has %d and %d more, value %q", linking, parts,
			len(first.Related), first.RelatedCut, first.Value)
	}
	marks := 0
	for m, err := range r.Marks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range m.Problems.Codes() {
			marks++
			if !slices.Contains(got[c.String()], pages[m.Line].URL.String()) {
				t.Errorf("page %d is marked with %s", m.Line, c)
			}
		}
	}
	all := 0
	for _, urls := range got {
		all += len(urls)
	}
	if marks != all {
		t.Errorf("%d marks for %d problems", marks, all)
	}
}

// What single pages tell, at the limits of the definitions.
func TestSinglePages(t *testing.T) {
	line := func(path string, change func(*page.Line)) *page.Line {
		l := pageOf("https://example.com/"+path, 200)
		change(l)
		return l
	}
	millis := func(n int) *page.Millis { return new(page.Millis(time.Duration(n) * time.Millisecond)) }
	failed := func(o page.Outcome, status int) func(*page.Line) {
		return func(l *page.Line) {
			l.Outcome, l.StatusCode, l.Indexable, l.IndexableReason, l.WordCount = o.String(), status, false,
				page.NotStatus, nil
		}
	}
	probe := new(page.Hash(7))
	got, r, _ := found(t, Options{Host: func(weburl.URL) (Host,
		error) {
		return Host{SitemapsRead: true, Probed: true, Probe: probe}, nil
	}},
		line("slow", func(l *page.Line) { l.ResponseTime = millis(3001) }),
		line("quick", func(l *page.Line) { l.ResponseTime = millis(3000) }),
		line("large", func(l *page.Line) { l.ContentLength = new(int64(2<<20 + 1)) }),
		line("fits", func(l *page.Line) { l.ContentLength = new(int64(2 << 20)) }),
		line("too-large", func(l *page.Line) { failed(page.TooLarge, 200)(l) }),
		line("thin", func(l *page.Line) { l.WordCount = new(99) }),
		line("words", func(l *page.Line) { l.WordCount = new(100) }),
		line("title60", func(l *page.Line) { l.Title = strings.Repeat("é", 60) }),
		line("title61", func(l *page.Line) { l.Title = strings.Repeat("é", 61) }),
		line("spaces", func(l *page.Line) { l.Title = "  " + strings.Repeat("a \n ", 30) }),
		line("soft", func(l *page.Line) { l.TextHash = probe }),
		line("500", failed(page.HTTPError, 500)), line("timeout", failed(page.Timeout, 0)),
		line("cut", failed(page.ReadError, 200)),
		line("404", failed(page.HTTPError, 404)), line("403", failed(page.HTTPError, 403)),
		line("tls", failed(page.TLSError, 0)),
		line("listed", func(l *page.Line) { failed(page.HTTPError, 404)(l); l.InSitemap, l.Linked = true, false }),
		line("throttled", func(l *page.Line) { failed(page.Throttled, 429)(l); l.InSitemap = true }),
		line("blocked", func(l *page.Line) {
			failed(page.BlockedByRobots, 0)(l)
			l.InSitemap, l.IndexableReason = true, page.NotRobots
		}),
		line("pending", func(l *page.Line) { failed(page.Pending, 0)(l); l.InSitemap = true }),
		line("pdf", func(l *page.Line) {
			l.ContentType, l.Title, l.H1 = "application/pdf", "", ""
			l.WordCount = nil
			l.Indexable = false
		}),
	)
	delete(got, "not_in_sitemap") // all that are indexable
	for i := range got {
		for k, url := range got[i] {
			got[i][k] = strings.TrimPrefix(url, "https://example.com/")
		}
	}
	want := map[string][]string{
		"slow": {"slow"}, "large": {"large", "too-large"}, "thin": {"thin"}, "title_long": {"title61"},
		"soft_404": {"soft"}, "server_error": {"500", "cut", "timeout"},
		"broken_link": {"404", "tls"}, "sitemap_not_ok": {"listed"}, "sitemap_not_indexable": {"blocked"},
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("found %q\nwant  %q", got, want)
	}
	if p := r.Problems[Slow]; p.Items[0].Value != "3001" || p.Severity != Notice {
		t.Errorf("slow: %+v", p)
	}
}

// A check that was not possible says why.
func TestNotChecked(t *testing.T) {
	lonely := pageOf("https://example.com/lonely", 200)
	lonely.Linked, lonely.Source = false, page.SourceName(page.SourceCT)
	_, r, _ := found(t, Options{NotChecked: map[Code]string{Slow: "because"},
		Notes: map[Code]string{TitleMissing: "a note"}}, lonely)
	for code, want := range map[Code]string{Slow: "because", Orphan: "1 page,", NotInSitemap: "no host",
		SitemapNotOK: "no sitemap", SoftNotFound: "no origin"} {
		if p := r.Problems[code]; p.Result != NotChecked || !strings.Contains(p.Why, want) {
			t.Errorf("%s: %s (%s)", p.Code, p.Result, p.Why)
		}
	}
	if p := r.Problems[TitleMissing]; p.Result != None || p.Why != "" {
		t.Errorf("%s: %s (%s)", p.Code, p.Result, p.Why)
	}
}

// Texts that have the same hash are compared, in memory and in temporary files: each group has one text, and nothing is
// a group that one page has alone.
func TestGroupsOfTexts(t *testing.T) {
	for _, limit := range []int{1, 1000, 1 << 20} {
		d := newDuplicates(&Options{Sorts: extsort.Space{Dir: t.TempDir(), Pattern: "sort-*", Bytes: limit}})
		var want []string
		for line := range int64(100) {
			text := fmt.Sprintf("text %d", line/3) // three pages have each, but the last
			hash := uint64(line / 6)               // two texts have each hash, but the last two
			own := texts{Line: line, URL: fmt.Sprintf("http://x.test/%02d", 99-line),
				Texts: [numKinds]string{kindDescription: text, kindTitle: "unlike " + text}}
			for _, err := range []error{d.texts.Add(own), d.hashes.Add(hashed{kindDescription, hash, line}),
				d.hashes.Add(hashed{kindTitle, uint64(line) << 32, line})} {
				if err != nil {
					t.Fatal(err)
				}
			}
			want = append(want, fmt.Sprintf("%02d %s %s %d", hash, text, own.URL, line))
		}
		slices.SortFunc(want, strings.Compare)
		var got []string
		for m, err := range d.join(t.Context()) {
			if err != nil || m.Code != DescriptionDuplicate {
				t.Fatal(m, err)
			}
			got = append(got, fmt.Sprintf("%02d %s %s %d", m.Hash, m.Text, m.URL, m.Line))
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got\n%s\nwant\n%s", limit, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		d.close()
	}
}

func TestCollapse(t *testing.T) {
	for _, text := range []string{"", " ", "a", "a b", "a  b", " a", "a ", "a\tb", "a\u00a0b", "a\u2003 b", "ä ö",
		"a\nb", "a b c d", "\x7f a"} {
		if got, want := collapse(text), strings.Join(strings.Fields(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Simhashes that differ in few bits only, as those of pages of one template, are compared a few times.
func TestNearDuplicatesOfOneTemplate(t *testing.T) {
	const values = 1 << 11
	for _, shift := range []int{0, 20, 53} {
		n := newNearness(&Options{Sorts: extsort.Space{Dir: t.TempDir(), Pattern: "near-*", Bytes: 8 << 20}})
		d := newDivision(n, ^uint64(0))
		for i := range uint64(values) {
			if err := d.add(likeness{Sim: 0x5a5a5a5a5a5a5a5a ^ i<<shift, Text: i, Line: int64(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.search(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := n.pairs.Len(); got < values || got > 20*values {
			t.Errorf("bits from %d: %d pairs of %d values", shift, got, values)
		}
		d.close()
		n.close()
	}
}
