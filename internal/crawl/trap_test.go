package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
)

func newTestTraps() *Traps {
	t := NewTraps(config.Defaults(config.Polite))
	t.now = func() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) }
	return t
}

func TestTraps(t *testing.T) {
	traps := newTestTraps()
	for _, c := range []struct {
		path  string
		depth int
		want  string
	}{
		{"/" + strings.Repeat("x", 2048), 1, TrapLength},
		{"/a/a/a/a/", 1, TrapRepeats},
		{"/x/a/b/a/b/a/b", 1, TrapRepeats},
		{"/shop/en/list/en/list/en/list/1", 1, TrapRepeats},
		{"/a/b/a/a/b/b/a/b/a", 1, TrapRepeats},
		{"/p;jsessionid=0123456789ABCDEF", 1, TrapSession},
		{"/p?PHPSESSID=k3j4h5k3j4h5k3j4", 1, TrapSession},
		{"/p?a=1&sid=0a1b2c3d4e5f60718293a4b5c6d7e8f9", 1, TrapSession},
		{"/(S(abc123))/x", 1, TrapSession},
		{"/p?a=1&a=1&a=1", 1, TrapParams},
		{"/p?" + strings.Repeat("a=1&b=2&", 15), 1, TrapParams},
		{"/calendar/2032/01", 1, TrapCalendar},
		{"/calendar/2032-01-05", 1, TrapCalendar},
		{"/events?year=2040&month=3", 1, TrapCalendar},
		{"/events?date=2040-03-01", 1, TrapCalendar},
		{"/calendar/1980/01", 500, TrapCalendar},

		{"/", 0, ""},
		{"/2031/12/31/news", 1, ""},
		{"/archive/1851/09", 3, ""},
		{"/a/b/a/b", 1, ""},
		{"/2024/01/01/", 1, ""},
		{"/1/1/1", 1, ""},
		{"/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z", 26, ""},
		{"/p?sid=3", 1, ""},
		{"/p?session=summer-school-of-2024", 1, ""},
		{"/p?color=red&color=blue&color=green&size=m", 1, ""},
		{"/list?page=5000", 1, ""},
		{"/product/20991231", 1, ""},
		{"/events?date=20991231", 1, TrapCalendar},
		{"/product/209912", 1, ""},
		{"/p?year=2090", 1, ""},
		{"/rfc/2616/section", 1, ""},
	} {
		if got := traps.Check(mustURL(t, "https://x.test"+c.path), c.depth); got != c.want {
			t.Errorf("%.60s at depth %d: %q, want %q", c.path, c.depth, got, c.want)
		}
	}
}

func TestParameterCombinationsRunAway(t *testing.T) {
	traps := newTestTraps()
	trapped := 0
	for i := range 6000 {
		if traps.Check(mustURL(t, fmt.Sprintf("https://x.test/s?a=%d&b=%d&c=%d", i%20, i/20%20, i/400)), 1) != "" {
			trapped++
		}
	}
	if trapped != 1000 {
		t.Errorf("%d of 6000 combinations are a trap, want those after the 5000th", trapped)
	}
	for i := range 6000 {
		if got := traps.Check(mustURL(t, fmt.Sprintf("https://x.test/list?page=%d", i)), 1); got != "" {
			t.Fatalf("page %d is called %q", i, got)
		}
	}
	if got := traps.Check(mustURL(t, "https://x.test/other?a=1&b=2&c=3"), 1); got != "" {
		t.Errorf("another path is called %q", got)
	}
}
