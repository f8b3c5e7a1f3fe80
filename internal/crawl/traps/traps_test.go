package traps

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

func link(t testing.TB, path string) *frontier.Link {
	t.Helper()
	u, err := weburl.Parse("https://x.test" + path)
	if err != nil {
		t.Fatal(err)
	}
	parent, _ := weburl.Parse("https://x.test/")
	return &frontier.Link{URL: u, Parent: parent}
}

// check judges a link.
func check(t testing.TB, traps *Traps, path string) string {
	t.Helper()
	v, _ := traps.Admit(link(t, path), false, nil)
	return v.Trap
}

func TestStaticRules(t *testing.T) {
	for _, c := range []struct {
		path string
		want string
	}{
		{"/" + strings.Repeat("x", 2048), Length},
		{"/a/a/a/a/", Repeats},
		{"/x/a/b/a/b/a/b", Repeats},
		{"/page/2/page/2/page/2", Repeats},
		{"/shop/en/list/en/list/en/list/1", Repeats},
		{"/a/b/a/a/b/b/a/b/a", Repeats},
		{"/0/0/0/0/0/0/0/0/0", Repeats},
		{"/p?a=1&a=1&a=1", Params},
		{"/p?" + strings.Repeat("a=1&b=2&", 15), Params},

		{"/", ""},
		{"/a/b/a/b", ""},
		{"/1/1/1", ""},
		{"/files/0/0/0/0/17", ""},
		{"/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z", ""},
		{"/p;jsessionid=0123456789ABCDEF", ""},
		{"/p?PHPSESSID=k3j4h5k3j4h5k3j4", ""},
		{"/calendar/2099/01", ""},
		{"/p?color=red&color=blue&color=green&size=m", ""},
		{"/list?page=5000", ""},
	} {
		if got := check(t, New(true, 1), c.path); got != c.want {
			t.Errorf("%.60s: %q, want %q", c.path, got, c.want)
		}
	}
}

func TestParameterCombinationsRunAway(t *testing.T) {
	traps := New(true, 1)
	traps.variants = 5000
	trapped := 0
	for i := range 6000 {
		if check(t, traps, fmt.Sprintf("/s?a=%d&b=%d&c=%d", i%20, i/20%20, i/400)) != "" {
			trapped++
		}
	}
	if trapped != 1000 {
		t.Errorf("%d of 6000 combinations are a trap, want those after the 5000th", trapped)
	}
	for i := range 6000 {
		for _, path := range []string{"/list?page=%d", "/list?page=%d&sort=up", "/forum?f=3&view=flat&t=%d"} {
			if got := check(t, traps, fmt.Sprintf(path, i)); got != "" {
				t.Fatalf("page %d of %s is called %q", i, path, got)
			}
		}
	}
	if got := check(t, traps, "/other?a=1&b=2&c=3"); got != "" {
		t.Errorf("another path is called %q", got)
	}
}

// One query in every order: after some, the others are a trap, and no combination is lost by it.
func TestReorderedParameters(t *testing.T) {
	traps := New(true, 1)
	judge := func(a, b, c int) string { return check(t, traps, fmt.Sprintf("/s?p%d=%d&p%d=%d&z=1", a, c, b, c)) }
	trapped := 0
	for c := range 20 {
		for a := range 5 {
			for b := range 5 {
				switch got := judge(a, b, c); {
				case got != "" && a < b:
					t.Fatalf("p%d=%d&p%d=%d is called %q", a, c, b, c, got)
				case got != "":
					trapped++
				}
			}
		}
	}
	if want := 20*10 - MaxReorders; trapped != want {
		t.Errorf("%d re-orderings are traps, want %d", trapped, want)
	}
	if judge(0, 1, 0) != "" {
		t.Error("a URL that was admitted is a trap when it is found again")
	}
}

// Only so many traps of one path go on record.
func TestTrapsAreListedUpToABound(t *testing.T) {
	traps := New(true, 1)
	traps.variants = 100
	listed, skipped := 0, 0
	for i := range 1000 {
		v, _ := traps.Admit(link(t, fmt.Sprintf("/s?a=%d&b=%d&c=%d&d=%d", i%6, i/6%6, i/36%6, i/216)), false, nil)
		switch {
		case v.Skip:
			skipped++
		case v.Trap != "":
			listed++
		}
	}
	if listed != MaxListed || skipped == 0 {
		t.Errorf("%d traps are listed and %d skipped, want %d and some", listed, skipped, MaxListed)
	}
}

// read shows a page, and returns the repeats of its links.
func read(t testing.TB, traps *Traps, path string, text uint64) uint8 {
	t.Helper()
	n, _ := traps.Read(link(t, path), text, text, nil)
	return n
}

// ineffective shows pages on several paths, each with many values of a parameter, until further values are a trap.
func ineffective(t testing.TB, traps *Traps) {
	t.Helper()
	for i := range 10 * MinValues {
		page := i % 7
		read(t, traps, fmt.Sprintf("/page-%d?sid=v%d", page, i), uint64(page)+1)
	}
	if traps.ineffective.Load().len() != 1 {
		t.Fatalf("%d parameters have no effect, want 1", traps.ineffective.Load().len())
	}
}

// After a parameter is known to have no effect, each page is still fetched once.
func TestEachPageOfAnIneffectiveParameterIsFetchedOnce(t *testing.T) {
	traps := New(true, 1)
	ineffective(t, traps)
	for _, c := range []struct{ path, want string }{
		{"/new?sid=1", ""}, {"/new?sid=2", Ineffective}, {"/new?sid=1", ""}, {"/new?sid=3&a=1", ""},
		{"/new?sid=4&a=1", Ineffective},
		{"/new?a=1", ""}, {"/other?other=1", ""}, {"/other?other=2", ""},
	} {
		if got := check(t, traps, c.path); got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
	if got := traps.JudgeQueued(link(t, "/new?sid=9"), false); got != Ineffective {
		t.Errorf("a URL of the queue whose page another one stands for is %q", got)
	}
	if got := traps.JudgeQueued(link(t, "/new?sid=9"), true); got != "" {
		t.Errorf("a listed URL is %q", got)
	}
	if got := traps.JudgeQueued(link(t, "/queued?sid=9"), false); got != "" {
		t.Errorf("a URL of the queue whose page was not fetched is %q", got)
	}
	traps.Answered(link(t, "/queued?sid=9"), nil)
	if got := traps.JudgeQueued(link(t, "/queued?sid=10"), false); got != Ineffective {
		t.Errorf("after the page was fetched: %q", got)
	}
	// A page whose URL fails may be fetched by another one, three times.
	for i := range maxFailures {
		path := fmt.Sprintf("/failing?sid=%d", i)
		if got := check(t, traps, path); got != "" {
			t.Errorf("attempt %d: %q", i, got)
		}
		traps.Failed(link(t, path), nil)
	}
	if got := check(t, traps, "/failing?sid=100"); got != Ineffective {
		t.Errorf("after three failures: %q", got)
	}
	// What the URL redirects to stands for the page instead of it.
	check(t, traps, "/moved?sid=1")
	target := link(t, "/moved?sid=2")
	target.Parent, target.Hops = link(t, "/moved?sid=1").URL, 1
	if v, _ := traps.Admit(target, false, nil); v.Trap != "" {
		t.Errorf("the target of a redirect is %q", v.Trap)
	}
	if got := traps.JudgeQueued(target, false); got != "" {
		t.Errorf("when it is leased it is %q", got)
	}
}

// The one with fewer repeats stands for a page: the other may become a trap by them.
func TestFewerRepeatsTakeAClaim(t *testing.T) {
	traps := New(true, 1)
	ineffective(t, traps)
	far := link(t, "/new?sid=1")
	far.Repeats = 5
	traps.Admit(far, false, nil)
	if got := traps.JudgeQueued(link(t, "/new?sid=2"), false); got != "" {
		t.Errorf("a URL with fewer repeats is %q", got)
	}
	traps.Answered(link(t, "/new?sid=2"), nil)
	if got := traps.JudgeQueued(far, false); got != Ineffective {
		t.Errorf("the one with more is %q then", got)
	}
}

func TestParametersWithAnEffect(t *testing.T) {
	for name, show := range map[string]func(traps *Traps, value int){
		"one path": func(traps *Traps, v int) {
			read(t, traps, fmt.Sprintf("/p?id=%d&n=%d", v, v%9),
				uint64(v%9)+1)
		},
		"one text": func(traps *Traps, v int) { read(t, traps, fmt.Sprintf("/p-%d?id=%d", v%9, v), 1) },
		"few values": func(traps *Traps, v int) {
			read(t, traps, fmt.Sprintf("/p-%d?id=%d", v%9, v/9%40),
				uint64(v%9)+1)
		},
		"other texts": func(traps *Traps, v int) { read(t, traps, fmt.Sprintf("/p-%d?id=%d", v%9, v), uint64(v)+1) },
		"numbers": func(traps *Traps, v int) {
			traps.Read(link(t, fmt.Sprintf("/p-%d?id=%d", v%9, v)), uint64(v)+1, uint64(v%9)+1, nil)
		},
		"members, one of whose sections is not empty": func(traps *Traps, v int) {
			section := v % 9
			text := uint64(section) + 1
			if section == 0 {
				text = uint64(v) + 100
			}
			read(t, traps, fmt.Sprintf("/profile?id=%d&tab=%d", v, section), text)
		},
		"one of two parameters": func(traps *Traps, v int) {
			read(t, traps, fmt.Sprintf("/p-%d?sort=%d&page=%d", v%9, v%40, v/9), uint64(v%9*1000+v/9)+1)
		},
		"pages of searches": func(traps *Traps, v int) {
			read(t, traps, fmt.Sprintf("/search?q=%d&page=%d", v/60, v%60), uint64(v/60*10+min(v%60, 3))+1)
		},
		"some differ": func(traps *Traps, v int) {
			text := uint64(v%9) + 1
			if v%9 == 0 {
				text = uint64(v/18) + 100
			}
			read(t, traps, fmt.Sprintf("/p-%d?id=%d", v%9, v), text)
		},
	} {
		traps := New(true, 1)
		for v := range 2000 {
			show(traps, v)
		}
		if traps.ineffective.Load().len() > 0 {
			t.Errorf("%s: the parameter is said to have no effect", name)
		}
	}
}

// Pages that differ in their numbers, such as counters of visits, do not hide that a parameter has no effect. Of a path
// segment with thousands of rests, none of which shows one text for two values, few are looked at. If it turns out to
// have no effect Without the texts, pages are new again, and what has no effect stays so.
func TestForgetTexts(t *testing.T) {
	traps := New(true, 1)
	ineffective(t, traps)
	before := read(t, traps, "/a", 77)
	traps.ForgetTexts()
	if again := read(t, traps, "/b", 77); before != again || again != 0 {
		t.Errorf("a text has %d repeats, after it is forgotten %d", before, again)
	}
	if got := read(t, traps, "/c", 77); got == 0 {
		t.Error("a text is not known after it was read")
	}
	if check(t, traps, "/new?sid=1") != "" || check(t, traps, "/new?sid=2") != Ineffective {
		t.Error("a parameter without effect is forgotten")
	}
}

// later, that is recognised nevertheless.
func TestManyRestsAreSampled(t *testing.T) {
	traps := New(true, 1)
	const pages = 10_000
	var evidence []frontier.Evidence
	for i := range pages {
		_, evidence = traps.Read(link(t, fmt.Sprintf("/dir-%d/article-%d.html", i%100, i)), uint64(i), uint64(i),
			evidence)
	}
	observed := 0
	for i := range evidence {
		if evidence[i].Kind == EvidenceParameter {
			observed++
		}
	}
	if low, high := manyRests+pages/restSample/2, manyRests+pages/restSample*2; observed < low || observed > high {
		t.Errorf("%d of %d rests were looked at, not %d to %d", observed, pages, low, high)
	}
	reads := 0
	for traps.ineffective.Load().len() == 0 && reads < pages {
		article := reads % 500
		read(t, traps, fmt.Sprintf("/session-%d/article-%d.html", reads, article), uint64(article))
		reads++
	}
	if reads > 1500 {
		t.Errorf("a session in the path is recognised after %d pages", reads)
	}
}

func TestCountersDoNotHideParameters(t *testing.T) {
	traps := New(true, 1)
	for v := range 2000 {
		page := v % 40
		text := uint64(page) + 1
		if page%2 == 0 {
			text = uint64(v) + 100
		}
		traps.Read(link(t, fmt.Sprintf("/p-%d?id=%d", page, v)), text, uint64(page)+1, nil)
	}
	if traps.ineffective.Load().len() != 1 {
		t.Errorf("%d parameters have no effect, want 1", traps.ineffective.Load().len())
	}
}

// Links of pages that repeat a text, one found on the other, are traps after a while.
func TestSequences(t *testing.T) {
	traps := New(true, 1)
	repeats, n := uint8(0), 0
	for ; n < 1000; n++ {
		l := link(t, fmt.Sprintf("/p-%d", n))
		l.Parent, l.Repeats = link(t, fmt.Sprintf("/p-%d", n-1)).URL, repeats
		if v, _ := traps.Admit(l, false, nil); v.Trap != "" {
			if v.Trap != Sequence || traps.JudgeQueued(l, false) != Sequence || traps.JudgeQueued(l, true) != "" {
				t.Errorf("page %d is %q", n, v.Trap)
			}
			break
		}
		repeats, _ = traps.Read(l, 7, 7, nil)
	}
	if want := MaxBarren + 2; n > want {
		t.Errorf("%d pages were admitted, want at most %d", n, want)
	}
}

// Components are told apart by their names, and their values can be cut out.
func TestComponents(t *testing.T) {
	h := hasher(1)
	for path, want := range map[string][]string{
		"/":                     nil,
		"/a?b=1&c=2":            {"1", "2", "1&c=2"},
		"/a?b":                  {"b"},
		"/a?b=&c=2":             {"2"},
		"/a/b/c":                {"a", "b"},
		"/a;s=1/b;t=22;u=3?v=4": {"4", "1", "22", "3", "a;s=1"},
		"/a/b/?c=1;d=2":         {"1", "2", "1;d=2", "a", "b"},
		"/a;b/c":                {"b", "a;b"},
		"/1/2/3/4/5/6/7/8/9/10": {"1", "2", "3", "4", "5", "6", "7", "8"},
	} {
		u := link(t, path).URL
		var got []string
		names := map[uint64]bool{}
		for _, c := range h.appendComponents(nil, u) {
			got = append(got, u.String()[c.start:c.end])
			names[c.subject] = true
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || len(names) != len(want) {
			t.Errorf("%s: %q with %d names, want %q", path, got, len(names), want)
		}
	}
}

// A URL that nothing is suspected of is judged without the lock of the crawl, also if another parameter of its host has
// no effect.
func TestOrdinaryURLsTakeNoLock(t *testing.T) {
	for _, suspected := range []bool{false, true} {
		traps := New(true, 1)
		if suspected {
			ineffective(t, traps)
		}
		l := link(t, "/catalogue/shoes/page-17.html?colour=red")
		traps.mu.Lock()
		trap := traps.JudgeQueued(l, false)
		decision, e := traps.Admit(l, false, nil)
		e = traps.Failed(l, traps.Answered(l, e))
		traps.mu.Unlock()
		if trap != "" || decision != (Decision{}) || len(e) > 0 {
			t.Errorf("suspected %v: leased as %q, admitted as %+v, evidence %v", suspected, trap, decision, e)
		}
	}
}
