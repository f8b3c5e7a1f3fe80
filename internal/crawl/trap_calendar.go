package crawl

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// calendars knows the calendars of a crawl: families of pages that are named by a date and nothing else, such as /events/2026/11 or
// /plan?date=2026-11-30. A calendar without an end is told by two things. It has pages further away than any real one would, found on other
// pages of itself. And its pages lead to nothing but more of it, though some of them lie far ahead, where a chain of daily
// pages with something on them (a comic, a newspaper's issues) has none.
type calendars struct {
	ahead, back int // years; 0 is off
	barren      int // pages; 0 is off
	now         func() time.Time

	crowds atomic.Int32 // calendars of which enough traps are on record
	mu     sync.Mutex
	known  map[uint64]*calendar // guarded by mu; by family
}

// calendar is what is known of one.
type calendar struct {
	outside []uint64 // what the page read last links to, but for pages of calendars; sorted
	barren  int      // pages in a row that linked to nothing which the page before did not
	future  bool     // such a page was further ahead than a year
	padded  bool     // its months are written with two digits
	listed  int      // traps on record
}

const (
	maxCalendars = 1 << 14
	maxOutside   = 256 // links of a page that are compared
	// nearYears is how far from now the pages of a calendar that was found out are still let through: those that people look at.
	nearYears = 1
)

// trapped says whether a newly found URL is a page of a calendar without an end.
func (c *calendars) trapped(u, parent urlnorm.URL) bool {
	d, ok := dateOf(u)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cal := c.known[d.family]
	if cal == nil || !c.judgeLocked(cal, &d) && !c.distantLocked(cal, &d, parent) {
		return false
	}
	if cal.listed++; cal.listed == maxTrapsListed {
		c.crowds.Add(1)
	}
	return true
}

// judgeLocked says whether a date is beyond what is let through of a calendar that leads nowhere.
func (c *calendars) judgeLocked(cal *calendar, d *date) bool {
	years := d.year - c.now().Year()
	return c.barren > 0 && cal.barren >= c.barren && cal.future && (years > nearYears || years < -nearYears)
}

// distantLocked says whether a date is further away than calendars go, and was found on another page of its calendar. A page that is linked
// to from elsewhere is there because somebody wanted it.
func (c *calendars) distantLocked(cal *calendar, d *date, parent urlnorm.URL) bool {
	years := d.year - c.now().Year()
	if (c.ahead == 0 || years <= c.ahead) && (c.back == 0 || -years <= c.back) || !cal.padded {
		return false
	}
	if parent.IsZero() {
		return false
	}
	from, ok := dateOf(parent)
	return ok && from.family == d.family
}

// saw takes a page that was read and the links that were followed on it.
func (c *calendars) saw(u urlnorm.URL, links []frontier.Link) {
	d, ok := dateOf(u)
	if !ok {
		return
	}
	outside := make([]uint64, 0, 64)
	for i := range links {
		if l := links[i].URL; len(outside) < maxOutside {
			if _, calendar := dateOf(l); !calendar {
				outside = append(outside, xxhash.Sum64String(l.String()))
			}
		}
	}
	slices.Sort(outside)
	c.mu.Lock()
	defer c.mu.Unlock()
	cal := c.known[d.family]
	if cal == nil {
		makeRoom(c.known, maxCalendars)
		cal = &calendar{outside: outside}
		c.known[d.family] = cal
	}
	cal.padded = cal.padded || d.padded
	cal.barren++
	for _, link := range outside {
		if _, known := slices.BinarySearch(cal.outside, link); !known {
			cal.barren, cal.future = 0, false
			break
		}
	}
	if cal.barren > 0 && d.year > c.now().Year()+nearYears {
		cal.future = true
	}
	cal.outside = outside
}

// crowded says whether a URL is beyond what is let through of a calendar of which enough traps are on record.
func (c *calendars) crowded(u urlnorm.URL) bool {
	if c.crowds.Load() == 0 {
		return false
	}
	d, ok := dateOf(u)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cal := c.known[d.family]
	return cal != nil && cal.listed >= maxTrapsListed && c.judgeLocked(cal, &d)
}

// date is what names a page of a calendar.
type date struct {
	family uint64 // of the calendar: host, and path before the date
	year   int
	padded bool // the month is written with two digits for certain
}

// dateOf finds the date of a URL that is a page of a calendar: a path that ends with year and month, as segments or as one, or
// parameters that say so by name. What has more after its date (/2026/11/why-we-moved) is an article.
func dateOf(u urlnorm.URL) (date, bool) {
	path := strings.TrimSuffix(u.Path(), "/")
	if end, y, padded := pathDate(path); end >= 0 {
		return date{hashOf(u.Host(), path[:end]), y, padded}, true
	}
	if y, ok := queryDate(u.Query()); ok {
		return date{hashOf(u.Host(), path), y, true}, true
	}
	return date{}, false
}

// pathDate reads the date at the end of a path, and says where it begins; -1 if there is none.
func pathDate(path string) (at, y int, padded bool) {
	at = strings.LastIndexByte(path, '/') + 1
	if dot := strings.LastIndexByte(path[at:], '.'); dot > 0 {
		path = path[:at+dot]
	}
	last := path[at:]
	// Eight digits in a path are an article number more often than a day.
	if y, ok := yearMonth(last); ok && strings.Contains(last, "-") {
		return at, y, true
	}
	if !number(last, 31) {
		return -1, 0, false
	}
	month := last
	for range 2 { // year and month, or year, month and day
		if at < 1 {
			break
		}
		before := strings.LastIndexByte(path[:at-1], '/') + 1
		segment := path[before : at-1]
		if y, ok := year(segment); ok && number(month, 12) {
			return before, y, month[0] == '0'
		}
		at, month = before, segment
	}
	return -1, 0, false
}

// queryDate reads a date from parameters that are called so.
func queryDate(query string) (int, bool) {
	found, hasMonth, y := false, false, 0
	for query != "" {
		var pair string
		pair, query, _ = cutAny(query, "&;")
		name, value, _ := strings.Cut(pair, "=")
		if value == "" || value[0] < '0' || value[0] > '9' {
			continue
		}
		switch strings.ToLower(name) {
		case "year", "yr", "y", "cal_year", "calyear":
			if n, ok := year(value); ok {
				y, found = n, true
			}
		case "month", "mon", "m", "cal_month", "calmonth", "week", "day":
			if n, ok := yearMonth(value); ok {
				return n, true
			}
			hasMonth = true
		case "date", "d", "cal", "calendar", "ym", "start", "from":
			if n, ok := yearMonth(value); ok {
				return n, true
			}
		}
	}
	return y, found && hasMonth
}

// yearMonth reads 2026-11, 2026-11-30, 2026-W48 and 20261130.
func yearMonth(text string) (int, bool) {
	y, ok := 0, false
	if len(text) >= 7 {
		y, ok = year(text[:4])
	}
	switch rest := text[min(4, len(text)):]; {
	case !ok:
		return 0, false
	case len(text) == 8 && rest[0] == '-' && rest[1]|0x20 == 'w':
		return y, number(rest[2:], 53)
	case len(text) == 8: // 123456 is far more often a number than a month; 20261130 is a day
		return y, number(rest[:2], 12) && number(rest[2:], 31)
	case len(text) == 7:
		return y, rest[0] == '-' && number(rest[1:], 12)
	case len(text) == 10:
		return y, rest[0] == '-' && rest[3] == '-' && number(rest[1:3], 12) && number(rest[4:], 31)
	}
	return 0, false
}

func year(text string) (int, bool) {
	if len(text) != 4 || text[0] == '0' {
		return 0, false
	}
	y := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		y = 10*y + int(text[i]-'0')
	}
	return y, true
}

// number says whether a text is a number of one or two digits, from 1 to most.
func number(text string, most int) bool {
	if len(text) < 1 || len(text) > 2 {
		return false
	}
	n := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
		n = 10*n + int(text[i]-'0')
	}
	return n >= 1 && n <= most
}
