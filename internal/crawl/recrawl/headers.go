package recrawl

import (
	"net/http"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/page"
)

// nearNow: a Last-Modified header that is this close to the time of the answer is taken for the server's clock, and not
// for a date of the page.
const nearNow = time.Minute

// TakeHeaders takes from the headers of an answer what they say of the last modification, and the rules that a 304 may
// change. At is when the answer came.
func TakeHeaders(f *page.Facts, h http.Header, at time.Time) {
	f.LastModifiedHeader = page.BoundValidator(h.Get("Last-Modified"))
	f.LastModified.Time = lastModified(f.LastModifiedHeader, h, at)
	f.HeaderRules = headerRules(h)
}

// lastModified is the date of a Last-Modified header, or zero if it says nothing of the page: it is within a minute of
// the answer's own time, or later.
func lastModified(header string, h http.Header, at time.Time) time.Time {
	if header == "" {
		return time.Time{}
	}
	date, err := http.ParseTime(header)
	if err != nil {
		return time.Time{}
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		at = sent
	}
	if date.After(at.Add(-nearNow)) {
		return time.Time{}
	}
	return date.UTC()
}

// dateMoved reports whether a 304 names another Last-Modified date than the one that was believed. Then either the date
// or the 304 is false, and only the text of the page can tell which.
func dateMoved(known *page.Facts, h http.Header) bool {
	header := page.BoundValidator(h.Get("Last-Modified"))
	if header == "" || header == known.LastModifiedHeader || known.LastModified.IsZero() {
		return false
	}
	before, err := http.ParseTime(known.LastModifiedHeader)
	return err == nil && before.Equal(known.LastModified.Time)
}

const (
	robotsRule = "x-robots-tag: "
	linkRule   = "link: "
	maxRules   = 1024 // bytes of the rules that are kept
)

// headerRules returns the values of X-Robots-Tag and the canonical links of Link, one per line, each after the name of
// its header.
func headerRules(h http.Header) string {
	var rules []string
	for _, value := range h["X-Robots-Tag"] {
		rules = append(rules, robotsRule+value)
	}
	for _, value := range h["Link"] {
		for link := range links(value) {
			if strings.Contains(strings.ToLower(link), "canonical") {
				rules = append(rules, linkRule+link)
			}
		}
	}
	if len(rules) == 0 {
		return ""
	}
	text := strings.Join(rules, "\n")
	return text[:min(len(text), maxRules)]
}

// links yields the links of a Link header: its parts between those commas that are not in an address or in quotes.
func links(value string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, end := 0, byte(0) // end is what ends the current address or quotes; 0 outside of them
		for i := range len(value) {
			switch c := value[i]; {
			case end != 0:
				if c == end {
					end = 0
				}
			case c == '<':
				end = '>'
			case c == '"':
				end = '"'
			case c == ',':
				if !yield(strings.TrimSpace(value[start:i])) {
					return
				}
				start = i + 1
			}
		}
		yield(strings.TrimSpace(value[start:]))
	}
}

// rulesDiffer reports whether a 304 has other rules than the page had. A 304 need not repeat headers. So one that is not
// there may have been removed, or stayed: only the page can tell.
func rulesDiffer(known string, h http.Header) bool { return headerRules(h) != known }
