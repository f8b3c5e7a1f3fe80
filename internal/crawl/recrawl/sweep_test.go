package recrawl

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// A link comes out of the sorter as it was.
func TestVisitsAreSortedWhole(t *testing.T) {
	u := weburl.MustCanonical("http://x.test/a?b")
	p := state.Page{
		Link:   frontier.Link{Key: weburl.NewHasher(1).Key(u), URL: u, Source: 3, Hops: 2, Depth: 4},
		Finish: &frontier.Finish{Visit: 7, Outcome: 1, Status: 404, Counted: true, Bytes: 1 << 40},
	}
	sorter, s := newSorter(t.TempDir()), &Sweeper{o: SweepOptions{Levels: true}}
	if err := sorter.Add(dueVisit{Link: s.next(&p), CheckedAt: now}); err != nil {
		t.Fatal(err)
	}
	for v, err := range sorter.Sorted(t.Context()) {
		if want := s.next(&p); err != nil || !reflect.DeepEqual(v.Link, want) {
			t.Errorf("%+v (%v), want %+v", v.Link, err, want)
		}
	}
}

// Visits are in order of what sitemaps say, of how often pages changed, and of their last check.
func TestOrder(t *testing.T) {
	v := func(text string, newer bool, changes, number uint32, age time.Duration) namedVisit {
		return namedVisit{text, dueVisit{Link: frontier.Link{URL: weburl.MustCanonical("http://x.test/" + text),
			Visit: number}, Newer: newer, Changes: changes, CheckedAt: now.Add(-age)}}
	}
	all := []namedVisit{
		v("listed-often", true, 2, 3, time.Hour), v("listed-old", true, 0, 3, 3*time.Hour),
		v("listed", true, 0, 3, time.Hour),
		v("always", false, 4, 5, time.Hour), v("half-old", false, 2, 5, 2*time.Hour), v("half", false, 4, 9, time.Hour),
		v("seldom", false, 1, 9, 9*time.Hour),
		v("never-old", false, 0, 2, 3*time.Hour), v("never", false, 0, 9, time.Hour),
	}
	var want, got []string
	var list []dueVisit
	for _, x := range all {
		want = append(want, x.name)
	}
	for _, i := range []int{4, 8, 0, 6, 2, 7, 1, 5, 3} {
		list = append(list, all[i].dueVisit)
	}
	sorter := newSorter(t.TempDir())
	for _, v := range list {
		if err := sorter.Add(v); err != nil {
			t.Fatal(err)
		}
	}
	for x, err := range sorter.Sorted(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, x.Link.URL.Path()[1:])
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

type namedVisit struct {
	name string
	dueVisit
}

func TestWhichPagesAreDue(t *testing.T) {
	start := weburl.MustCanonical("http://x.test/")
	settings := config.Defaults(config.Polite)
	settings.Exclude = []string{"/private/"}
	within, err := scope.New(settings, []weburl.URL{start})
	if err != nil {
		t.Fatal(err)
	}
	hasher := weburl.NewHasher(1)
	s := &Sweeper{o: SweepOptions{Scope: within}, generation: 3, starts: map[weburl.Key]bool{hasher.Key(start): true}}
	s.terms = Terms{CheckedBefore: now.Add(-time.Hour), Include: []string{"/shop/", "/private/"},
		Exclude: []string{"/shop/old/"}}
	if s.matcher, err = s.terms.matcher(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url  string
		edit func(*state.Page)
		due  bool
	}{
		"a page": {"http://x.test/shop/a", nil, true},
		"one that failed": {"http://x.test/shop/a",
			func(p *state.Page) { p.Finish.Outcome = uint8(page.Timeout) }, true},
		"one that is gone": {"http://x.test/shop/a",
			func(p *state.Page) { p.Finish.Outcome, p.Finish.Status = uint8(page.HTTPError), 404 }, true},
		"one that robots.txt forbade": {"http://x.test/shop/a",
			func(p *state.Page) { p.Finish.Outcome = uint8(page.BlockedByRobots) }, true},
		"a trap": {"http://x.test/shop/a",
			func(p *state.Page) { p.Finish.Outcome = uint8(page.Trap) }, false},
		"one that crashed": {"http://x.test/shop/a",
			func(p *state.Page) { p.Finish.Outcome = uint8(page.Crashed) }, false},
		"one that is pending": {"http://x.test/shop/a", func(p *state.Page) { p.Finish = nil }, false},
		"visited in this generation": {"http://x.test/shop/a", func(p *state.Page) { p.Finish.Generation = 3 },
			false},
		"checked at the cut-off": {"http://x.test/shop/a",
			func(p *state.Page) { p.Finish.CheckedAt = now.Add(-time.Hour) }, false},
		"one that is not included":      {"http://x.test/about", nil, false},
		"one that is excluded":          {"http://x.test/shop/old/a", nil, false},
		"one that the settings exclude": {"http://x.test/private/a", nil, false},
		"one out of scope":              {"http://y.test/shop/a", nil, false},
		"a start page":                  {"http://x.test/", nil, false},
		"one that is queued":            {"http://x.test/shop/queued", nil, false},
	} {
		u := weburl.MustCanonical(c.url)
		p := &state.Page{Link: frontier.Link{URL: u, Key: hasher.Key(u), Source: page.SourceLink},
			Finish: &frontier.Finish{Outcome: uint8(page.OK), Status: 200, Generation: 2,
				CheckedAt: now.Add(-2 * time.Hour)}}
		if c.edit != nil {
			c.edit(p)
		}
		queued := map[weburl.Key]uint32{hasher.Key(weburl.MustCanonical("http://x.test/shop/queued")): 2}
		if got := s.isDue(p, queued); got != c.due {
			t.Errorf("%s: due %v", name, got)
		}
	}
}

// What begins a generation is read again as it was given.
func TestTermsAreStored(t *testing.T) {
	want := Terms{CheckedBefore: now, Include: []string{"/a"}, Exclude: []string{"/b", "/c"}}
	list, err := Begin(7, want)
	if err != nil {
		t.Fatal(err)
	}
	facts := map[string][]byte{}
	for _, f := range list {
		facts[f.Name] = f.Value
	}
	got, err := readTerms(facts)
	if err != nil || !got.CheckedBefore.Equal(now) || !slices.Equal(got.Include, want.Include) ||
		!slices.Equal(got.Exclude, want.Exclude) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	if generationOf(facts) != 7 || IsSwept(facts, &scope.History{}) {
		t.Errorf("generation %d, swept %v", generationOf(facts), IsSwept(facts, &scope.History{}))
	}
	facts[factSwept] = digits(6)
	if IsSwept(facts, &scope.History{}) {
		t.Error("what was queued in generation 6 counts in generation 7")
	}
	facts[factSwept] = digits(7)
	if !IsSwept(facts, &scope.History{}) || !IsSwept(nil, &scope.History{}) {
		t.Error("all is queued, or there is nothing to queue, and IsSwept does not say so")
	}
}
