package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
)

func line(url string, ms int64, found, crawled time.Time) *page.Line {
	l := &page.Line{URL: weburl.MustCanonical(url), Outcome: "ok", Indexable: ms%2 == 0, DiscoveredAt: page.Time{Time: found},
		CheckedAt: page.Time{Time: crawled}}
	if ms >= 0 {
		l.ResponseTime = new(page.Millis(time.Duration(ms) * time.Millisecond))
		l.ContentLength = new(10 * ms)
	}
	return l
}

func TestSplit(t *testing.T) {
	for url, want := range map[string][2]string{
		"https://a.test/":            {"https://a.test/", ""},
		"https://a.test/about":       {"https://a.test/", ""},
		"https://a.test/blog/":       {"https://a.test/", "https://a.test/blog/"},
		"https://a.test/blog/x/y":    {"https://a.test/", "https://a.test/blog/"},
		"https://a.test/?next=/a/b/": {"https://a.test/", ""},
		"https://a.test/s?q=/a/":     {"https://a.test/", ""},
		"http://a.test:8080/b/c":     {"http://a.test:8080/", "http://a.test:8080/b/"},
		"http://[::1]/b/c?x":         {"http://[::1]/", "http://[::1]/b/"},
	} {
		if root, directory := split(weburl.MustCanonical(url)); root != want[0] || directory != want[1] {
			t.Errorf("%s is split into %q and %q, want %q", url, root, directory, want)
		}
	}
}

// The figures equal those of a simple computation that holds all pages in memory.
func TestFiguresAgainstSimpleComputation(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
	for round := range 20 {
		var pages []*page.Line
		span := time.Duration(1+random.IntN(1000)) * time.Duration([]time.Duration{time.Millisecond, time.Second,
			time.Hour}[round%3])
		for i := range 2000 {
			origin := []string{"http://a.test", "https://a.test", "https://a.test:8443"}[random.IntN(3)]
			path := []string{"/", "/p%d", "/a/p%d", "/a-b/p%d", "/a/b/p%d", "/z?x=/y/%d",
				fmt.Sprintf("/s%d/", random.IntN(150)) + "p%d"}[random.IntN(7)]
			if strings.Contains(path, "%d") {
				path = fmt.Sprintf(path, i)
			}
			found := start.Add(time.Duration(random.Int64N(int64(span))))
			pages = append(pages, line(origin+path, random.Int64N(5000)-1000, found,
				found.Add(time.Duration(random.Int64N(int64(span))))))
		}
		slices.SortFunc(pages, func(a, b *page.Line) int { return strings.Compare(a.URL.String(), b.URL.String()) })
		c := newFigures(0)
		for _, l := range pages {
			c.see(l)
		}
		got := c.all()
		compareSectionsWithPages(t, got.Sections, pages)
		compareTimes(t, got.ResponseTimes, pages)
		compareTimeline(t, got.Timeline, pages)
	}
}

func compareSectionsWithPages(t *testing.T, got *List[Section], pages []*page.Line) {
	t.Helper()
	want, times := map[string]*Section{}, map[string][]int64{}
	for _, l := range pages {
		root, name := split(l.URL)
		name = cmp.Or(name, root)
		if want[name] == nil {
			want[name] = &Section{Section: name}
		}
		s := want[name]
		s.URLs++
		if l.Indexable {
			s.Indexable++
		}
		if l.ResponseTime != nil {
			ms := time.Duration(*l.ResponseTime).Milliseconds()
			s.Bytes += 10 * ms
			times[name] = append(times[name], ms)
		}
	}
	var all []Section
	for name, s := range want {
		if ms := times[name]; len(ms) > 0 {
			s.P50, s.P95 = new(rank(ms, 50)), new(rank(ms, 95))
		}
		all = append(all, *s)
	}
	slices.SortFunc(all, compareSections)
	if got.Total != int64(len(all)) || got.Cut != int64(max(0, len(all)-maxSections)) {
		t.Errorf("there are %d sections, and %d are cut; want %d", got.Total, got.Cut, len(all))
	}
	if a, b := asJSON(t, got.Items), asJSON(t, all[:min(len(all), maxSections)]); a != b {
		t.Errorf("the sections are\n%s\nwant\n%s", a, b)
	}
}

func compareTimes(t *testing.T, got *ResponseTimes, pages []*page.Line) {
	t.Helper()
	var all []int64
	for _, l := range pages {
		if l.ResponseTime != nil {
			all = append(all, time.Duration(*l.ResponseTime).Milliseconds())
		}
	}
	if got.Count != int64(len(all)) || got.P50 != rank(all, 50) || got.P95 != rank(all, 95) ||
		got.Max != slices.Max(all) {
		t.Errorf("response times are %+v, want %d with the quantiles %d and %d", got, len(all), rank(all, 50),
			rank(all, 95))
	}
	sum := int64(0)
	for _, b := range got.Buckets {
		sum += b.URLs
	}
	if sum != got.Count {
		t.Errorf("the buckets have %d times of %d", sum, got.Count)
	}
}

func compareTimeline(t *testing.T, got *Timeline, pages []*page.Line) {
	t.Helper()
	step := time.Duration(got.Seconds * float64(time.Second)).Milliseconds()
	want := map[int64]*Moment{}
	at := func(when time.Time) *Moment {
		key := when.UnixMilli() / step * step
		if want[key] == nil {
			want[key] = &Moment{At: page.Time{Time: time.UnixMilli(key)}}
		}
		return want[key]
	}
	for _, l := range pages {
		at(l.DiscoveredAt.Time).Found++
		at(l.CheckedAt.Time).Crawled++
	}
	if len(got.Moments) != len(want) || len(want) > maxBuckets {
		t.Fatalf("%d spaces of time, want %d", len(got.Moments), len(want))
	}
	for _, m := range got.Moments {
		if w := want[m.At.UnixMilli()]; w == nil || *w != m {
			t.Errorf("%v has %d and %d, want %v", m.At, m.Found, m.Crawled, w)
		}
	}
}

// rank is the quantile by the nearest rank.
func rank(all []int64, percent int) int64 {
	slices.Sort(all)
	return all[(len(all)*percent+99)/100-1]
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// In a recrawl only what happened in it is on the timeline.
func TestTimelineOfARecrawl(t *testing.T) {
	first, second := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)
	c := newFigures(1)
	old, unchecked, fresh := line("https://a.test/a", 1, first, second), line("https://a.test/b", 1, first, first),
		line("https://a.test/c", 1, second, second.Add(time.Minute))
	old.Generation, old.Change, fresh.Generation, fresh.Change = 1, "unchanged", 1, "new"
	for _, l := range []*page.Line{old, unchecked, fresh} {
		c.see(l)
	}
	got := c.all().Timeline
	if len(got.Moments) != 2 || got.Moments[0].Found != 1 || got.Moments[0].Crawled != 1 ||
		got.Moments[1].Crawled != 1 {
		t.Errorf("the timeline is %+v", got)
	}
}

func TestFiguresOfNothing(t *testing.T) {
	if got := asJSON(t, newFigures(0).all()); got != "{}" {
		t.Errorf("the figures of no page are %s", got)
	}
}

// Durations beyond the histogram's places count as the longest, and the largest is still exact.
func TestVeryLongTime(t *testing.T) {
	c := newFigures(0)
	c.see(line("https://a.test/", 1<<40, time.Time{}, time.Time{}))
	if got := c.all().ResponseTimes; got.Max != 1<<40 || got.P95 != longest ||
		got.Buckets[len(got.Buckets)-1].URLs != 1 {
		t.Errorf("response times are %+v", got)
	}
}
