package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

func newTestTraps() *Traps {
	t := NewTraps(config.Defaults(config.Polite))
	t.calendars.now = func() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) }
	return t
}

func TestTraps(t *testing.T) {
	for _, c := range []struct {
		path string
		want string
	}{
		{"/" + strings.Repeat("x", 2048), TrapLength},
		{"/a/a/a/a/", TrapRepeats},
		{"/x/a/b/a/b/a/b", TrapRepeats},
		{"/page/2/page/2/page/2", TrapRepeats},
		{"/shop/en/list/en/list/en/list/1", TrapRepeats},
		{"/a/b/a/a/b/b/a/b/a", TrapRepeats},
		{"/0/0/0/0/0/0/0/0/0", TrapRepeats},
		{"/p;jsessionid=0123456789ABCDEF", TrapSession},
		{"/p?PHPSESSID=k3j4h5k3j4h5k3j4", TrapSession},
		{"/p?a=1&sid=0a1b2c3d4e5f60718293a4b5c6d7e8f9", TrapSession},
		{"/(S(abc123))/x", TrapSession},
		{"/p?a=1&a=1&a=1", TrapParams},
		{"/p?" + strings.Repeat("a=1&b=2&", 15), TrapParams},

		{"/", ""},
		{"/a/b/a/b", ""},
		{"/1/1/1", ""},
		{"/files/0/0/0/0/17", ""},
		{"/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z", ""},
		{"/p?sid=3", ""},
		{"/p?sid=1234567890123456", ""},
		{"/p?session=summer-school-of-2024", ""},
		{"/p?color=red&color=blue&color=green&size=m", ""},
		{"/list?page=5000", ""},
	} {
		if got := newTestTraps().Check(mustURL(t, "https://x.test"+c.path), mustURL(t, "https://x.test/")); got != c.want {
			t.Errorf("%.60s: %q, want %q", c.path, got, c.want)
		}
	}
}

func TestDateOf(t *testing.T) {
	for path, want := range map[string]int{
		"/calendar/2032/01": 2032, "/calendar/2032/1/": 2032, "/2032/01/31": 2032, "/calendar/2032-01": 2032, "/2032-01-05.html": 2032, "/week/2032-W07": 2032,
		"/events?year=2040&month=3": 2040, "/events?date=2040-03-01": 2040, "/events?date=20991231": 2099, "/c?month=2030-02": 2030,
		"/": 0, "/2031/12/31/news": 0, "/2031": 0, "/product/20991231": 0, "/product/209912": 0, "/p?year=2090": 0, "/rfc/2616/section": 0, "/a/0123/04": 0,
		"/2032/13": 0, "/2032/01/32": 0, "/2032-13": 0, "/2032-1": 0, "/10/11": 0, "/2032-01-": 0, "/1/2/3": 0, "/events?date=summer&year=2032": 0,
	} {
		d, ok := dateOf(mustURL(t, "https://x.test"+path))
		if ok != (want > 0) || d.year != want {
			t.Errorf("%s: year %d, want %d", path, d.year, want)
		}
	}
	a, _ := dateOf(mustURL(t, "https://x.test/events/2032/01"))
	b, _ := dateOf(mustURL(t, "https://x.test/events/2033-02-03"))
	c, _ := dateOf(mustURL(t, "https://x.test/rooms/2032/01"))
	if a.family != b.family || a.family == c.family {
		t.Error("the months and days of one calendar belong together, and those of two do not")
	}
}

// A date far away is a trap only where the calendar itself leads to it.
func TestDistantDates(t *testing.T) {
	traps := newTestTraps()
	traps.Saw(mustURL(t, "https://x.test/calendar/2031/09"), nil)
	traps.Saw(mustURL(t, "https://x.test/thread/4821/3"), nil)
	for _, c := range []struct{ path, parent, want string }{
		{"/calendar/2032/01", "/calendar/2031/12", TrapCalendar},
		{"/calendar/1985/12", "/calendar/1986/01", TrapCalendar},
		{"/calendar/2031/12", "/calendar/2031/11", ""},
		{"/calendar/1986/01", "/calendar/1986/02", ""},
		{"/calendar/2032/01", "/", ""},
		{"/calendar/2032/01", "/other/2031/12", ""},
		{"/calendar/2032/01/grand-opening", "/calendar/2031/12", ""},
		{"/eclipses/2035-09-02", "/eclipses/", ""},
		{"/thread/4821/11", "/thread/4821/10", ""},
	} {
		if got := traps.Check(mustURL(t, "https://x.test"+c.path), mustURL(t, "https://x.test"+c.parent)); got != c.want {
			t.Errorf("%s on %s: %q, want %q", c.path, c.parent, got, c.want)
		}
	}
}

func links(t *testing.T, paths ...string) []frontier.Link {
	var out []frontier.Link
	for _, p := range paths {
		out = append(out, frontier.Link{URL: mustURL(t, "https://x.test"+p)})
	}
	return out
}

// A calendar that leads to nothing but itself is a trap when it also reaches into the future.
func TestBarrenCalendars(t *testing.T) {
	day := func(n int) urlnorm.URL {
		return mustURL(t, "https://x.test/c/"+time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, n).Format("2006/01/02"))
	}
	read := func(traps *Traps, from, to int, found func(n int) []frontier.Link) {
		for n := from; n < to; n++ {
			traps.Saw(day(n), append(found(n), links(t, "/", "/about", "/c/2026/05/31", "/c/2026/06")...))
		}
	}
	nothing := func(int) []frontier.Link { return nil }
	const far = "https://x.test/c/2024/01/01"

	traps := newTestTraps()
	read(traps, 365, 365+600, nothing)
	if got := traps.Check(mustURL(t, far), urlnorm.URL{}); got != TrapCalendar {
		t.Errorf("a year of empty days ahead: %q", got)
	}
	if got := traps.Check(mustURL(t, "https://x.test/c/2027/01/01"), urlnorm.URL{}); got != "" {
		t.Errorf("a day near by is called %q", got)
	}
	if got := traps.Check(mustURL(t, "https://x.test/d/2024/01/01"), urlnorm.URL{}); got != "" {
		t.Errorf("another calendar is called %q", got)
	}
	read(traps, 2000, 2001, func(int) []frontier.Link { return links(t, "/concert") })
	if got := traps.Check(mustURL(t, far), urlnorm.URL{}); got != "" {
		t.Errorf("after an event: %q", got)
	}

	traps = newTestTraps()
	read(traps, -5000, 0, nothing)
	if got := traps.Check(mustURL(t, far), urlnorm.URL{}); got != "" {
		t.Errorf("daily pages up to today: %q", got)
	}

	traps = newTestTraps()
	read(traps, 0, 3000, func(n int) []frontier.Link {
		if n%200 > 0 {
			return nil
		}
		return links(t, fmt.Sprintf("/event/%d", n))
	})
	if got := traps.Check(mustURL(t, far), urlnorm.URL{}); got != "" {
		t.Errorf("with an event now and then: %q", got)
	}
}

func TestParameterCombinationsRunAway(t *testing.T) {
	s := config.Defaults(config.Polite)
	s.TrapVariants = 5000
	traps := NewTraps(s)
	trapped := 0
	for i := range 6000 {
		if traps.Check(mustURL(t, fmt.Sprintf("https://x.test/s?a=%d&b=%d&c=%d", i%20, i/20%20, i/400)), urlnorm.URL{}) != "" {
			trapped++
		}
	}
	if trapped != 1000 {
		t.Errorf("%d of 6000 combinations are a trap, want those after the 5000th", trapped)
	}
	for i := range 6000 {
		for _, honest := range []string{"/list?page=%d", "/list?page=%d&sort=up", "/forum?f=3&view=flat&t=%d"} {
			if got := traps.Check(mustURL(t, fmt.Sprintf("https://x.test"+honest, i)), urlnorm.URL{}); got != "" {
				t.Fatalf("page %d of %s is called %q", i, honest, got)
			}
		}
	}
	if got := traps.Check(mustURL(t, "https://x.test/other?a=1&b=2&c=3"), urlnorm.URL{}); got != "" {
		t.Errorf("another path is called %q", got)
	}
}

// One query in every order: after some, the others are a trap, and no combination is lost by it.
func TestReorderedParameters(t *testing.T) {
	traps := newTestTraps()
	check := func(a, b, c int) string {
		return traps.Check(mustURL(t, fmt.Sprintf("https://x.test/s?p%d=%d&p%d=%d&z=1", a, c, b, c)), urlnorm.URL{})
	}
	trapped := 0
	for c := range 20 {
		for a := range 5 {
			for b := range 5 {
				switch got := check(a, b, c); {
				case got != "" && a < b:
					t.Fatalf("p%d=%d&p%d=%d is called %q", a, c, b, c, got)
				case got != "":
					trapped++
				}
			}
		}
	}
	if want := 20*10 - config.Defaults(config.Polite).TrapReorders; trapped != want {
		t.Errorf("%d re-orderings are traps, want %d", trapped, want)
	}
	if check(0, 1, 0) != "" {
		t.Error("a URL that was let through is a trap when it is found again")
	}
}

// Only so many traps of one path go on record.
func TestTrapsAreListedUpToABound(t *testing.T) {
	s := config.Defaults(config.Polite)
	s.TrapVariants = 100
	traps := NewTraps(s)
	at := func(i int) urlnorm.URL {
		return mustURL(t, fmt.Sprintf("https://x.test/s?a=%d&b=%d&c=%d&d=%d", i%6, i/6%6, i/36%6, i/216))
	}
	listed, i := 0, 0
	for ; listed < maxTrapsListed; i++ {
		if traps.Crowded(at(i)) {
			t.Fatalf("crowded after %d", listed)
		}
		if traps.Check(at(i), urlnorm.URL{}) != "" {
			listed++
		}
	}
	if !traps.Crowded(at(i)) || traps.Crowded(at(1)) || traps.Crowded(mustURL(t, "https://x.test/s?a=1&b=1")) {
		t.Error("what is one too many, and only that, is to be left out of the records")
	}
}
