package crawl

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/traps"
	"github.com/mapwright/mapwright/internal/test/long"
)

// calendarForms are calendars without an end: what a page is called, and how far its neighbours are. The URI of a page
// is read back by its position, which is a time in UTC.
func calendarForms() map[string]calendarSite {
	days := func(n int) func(time.Time, int) time.Time {
		return func(t time.Time, by int) time.Time { return t.AddDate(0, 0, n*by) }
	}
	months := func(t time.Time, by int) time.Time { return t.AddDate(0, by, 0) }
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	return map[string]calendarSite{
		"month name": {start, months, func(t time.Time) string {
			return "/events/" +
				strings.ToLower(t.Format("January-2006"))
		}, month},
		"year month": {start, months, func(t time.Time) string { return t.Format("/events/2006/01") }, month},
		"parameters": {start, months, func(t time.Time) string { return t.Format("/events?y=2006&amp;m=1") }, month},
		"week": {start, days(7), func(t time.Time) string {
			y, w := t.ISOWeek()
			return fmt.Sprintf("/events/%d/week-%d", y, w)
		}, week},
		"timestamp": {start, days(7), func(t time.Time) string { return fmt.Sprintf("/events?from=%d", t.Unix()) },
			week},
		"day": {start, days(1), func(t time.Time) string { return t.Format("/events/2006-01-02") },
			func(t time.Time) string { return t.Format("Monday, 2 January 2006") }},
		"sentence": {start, days(1), func(t time.Time) string { return t.Format("/events/2006-01-02") },
			func(t time.Time) string {
				return t.Format("<p>2 Jan 2006: there are no events in our town on this day, but you can add one when " +
					"you are logged in to the area for members.</p>")
			}},
		"German": {start, days(1), func(t time.Time) string { return t.Format("/termine/tag-2006-01-02") },
			func(t time.Time) string {
				return fmt.Sprintf("<h1>%s, %s</h1>Keine Termine vom %s bis zum %s",
					strings.Fields("So Mo Di Mi Do Fr Sa")[t.Weekday()], t.Format("02.01.2006"), t.Format("2.1.2006"),
					t.AddDate(0, 0, 1).Format("02.01.06"))
			}},
		"French": {start, days(1), func(t time.Time) string { return t.Format("/agenda?jour=2006-01-02") },
			func(t time.Time) string {
				months := strings.Fields("janvier février mars avril mai juin juillet août septembre octobre novembre " +
					"décembre")
				return fmt.Sprintf("<h1>Le %d %s %d</h1>Ouvert de 9h30 à 17h", t.Day(), months[t.Month()-1], t.Year())
			}},
		"Japanese": {start, days(1), func(t time.Time) string { return t.Format("/cal/20060102") },
			func(t time.Time) string {
				return t.Format("<h1>2006年1月2日</h1>予定はありません (2006.01.02)")
			}},
		"in one text": {start, months, func(t time.Time) string { return t.Format("/month/2006-01") },
			func(t time.Time) string {
				text := t.Format("2006-01: ")
				for d := t; d.Month() == t.Month(); d = d.AddDate(0, 0, 1) {
					text += fmt.Sprintf("%d ", d.Day())
				}
				return text
			}},
		"hour": {start, func(t time.Time, by int) time.Time { return t.Add(time.Duration(by) * time.Hour) },
			func(t time.Time) string { return t.Format("/at/20060102T15") },
			func(t time.Time) string { return t.Format("15:04 on 2 Jan") }},
	}
}

type calendarSite struct {
	start time.Time
	step  func(t time.Time, by int) time.Time
	uri   func(time.Time) string
	text  func(time.Time) string
}

func month(t time.Time) string {
	text := t.Format("<h1>January 2006</h1>")
	for d := t; d.Month() == t.Month(); d = d.AddDate(0, 0, 1) {
		text += fmt.Sprintf("<td>%d</td>", d.Day())
	}
	return text
}

func week(t time.Time) string {
	_, n := t.ISOWeek()
	text := fmt.Sprintf("<h1>Week %d</h1>", n)
	for range 7 {
		text += t.Format("<td>Mon 2 Jan</td>")
		t = t.AddDate(0, 0, 1)
	}
	return text
}

// handler serves the calendar behind a start page. A page is found by walking from the start.
func (c calendarSite) handler(requests *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			writePage(w, r, func(*http.Request) string { return "<h1>Welcome</h1>" },
				[]string{"/about", c.uri(c.start)})
			return
		}
		if r.URL.Path == "/about" {
			writePage(w, r, nil, []string{"/"})
			return
		}
		requests.Add(1)
		want := strings.ReplaceAll(r.URL.RequestURI(), "&", "&amp;")
		for n := range 20_000 {
			for _, at := range []time.Time{c.step(c.start, n), c.step(c.start, -n)} {
				if c.uri(at) == want {
					links := []string{"/", "/about", c.uri(c.step(at, -1)), c.uri(c.step(at, 1))}
					writePage(w, r, func(*http.Request) string { return c.text(at) }, links)
					return
				}
			}
		}
		http.NotFound(w, r)
	})
}

// A calendar ends, whatever its form.
func TestCalendarsEnd(t *testing.T) {
	long.Test(t)
	for name, site := range calendarForms() {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			_, lines := crawlAll(t, small(), serveSite(t, site.handler(&requests))+"/")
			named := 0
			for _, l := range lines {
				switch {
				case l.trap() == traps.Sequence:
					named++
				case l.Outcome != "ok":
					t.Errorf("%s: %s %s", l.URL, l.Outcome, l.Error)
				}
			}
			n := requests.Load()
			t.Logf("%d requests, %d traps", n, named)
			most := int64(200)
			if name == "week" || name == "timestamp" {
				most = 400 // a week can begin and end in two months, and texts that are new begin the row anew
			}
			if named == 0 || n > most {
				t.Errorf("%d requests, want at most %d; %d URLs are called %s", n, most, named, traps.Sequence)
			}
		})
	}
}
