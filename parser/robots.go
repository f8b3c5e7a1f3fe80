package parser

import (
	"bytes"
	"time"
)

// robots are the robots directives that apply to the page.
type robots struct {
	text              []byte // distinct directives, separated by ", "
	noIndex, noFollow bool
	expires           time.Time // the earliest date of unavailable_after; zero if there is none
	seen              int       // directives that were looked at for text
}

// add takes a list of directives, separated by commas.
func (r *robots) add(list []byte) {
	for len(list) > 0 {
		var part []byte
		part, list = cutDirective(list)
		r.directive(part)
	}
}

// cutDirective takes the first directive off a list that is separated by commas. The date of unavailable_after may have
// a comma behind its weekday.
func cutDirective(list []byte) (directive, rest []byte) {
	directive, rest, found := bytes.Cut(list, []byte(","))
	name := directive
	if agent, after, ok := bytes.Cut(directive, []byte(":")); ok && isAgent(trimSpace(agent)) {
		name = after
	}
	if date, ok := expiryDate(trimSpace(name)); ok && found && isWeekday(date) {
		more, after, _ := bytes.Cut(rest, []byte(","))
		directive, rest = list[:len(directive)+1+len(more)], after
	}
	return trimSpace(directive), rest
}

// directive takes one directive.
func (r *robots) directive(d []byte) {
	if len(d) == 0 {
		return
	}
	if date, ok := expiryDate(d); ok {
		if t, ok := parseExpiry(string(date)); ok && (r.expires.IsZero() || t.Before(r.expires)) {
			r.expires = t
		}
	}
	// Some pages separate directives by semicolons or blanks. Those that forbid something count there too.
	for i := 0; i < len(d); {
		start := i
		for i < len(d) && d[i] != ';' && !isSpace(d[i]) {
			i++
		}
		switch word := d[start:i]; {
		case equalFold(word, "noindex"):
			r.noIndex = true
		case equalFold(word, "nofollow"):
			r.noFollow = true
		case equalFold(word, "none"):
			r.noIndex, r.noFollow = true, true
		}
		i++
	}
	r.seen++
	if r.seen > maxDirectives || len(r.text)+len(", ")+len(d) > maxRobots || hasControl(d) {
		return
	}
	start := len(r.text)
	if start > 0 {
		r.text = append(r.text, ", "...)
	}
	at := len(r.text)
	for _, c := range d {
		r.text = append(r.text, lower(c))
	}
	if containsPart(r.text[:start], r.text[at:]) {
		r.text = r.text[:start]
	}
}

// containsPart reports whether a list separated by ", " has the part.
func containsPart(list, part []byte) bool {
	for found := true; found; {
		var p []byte
		p, list, found = bytes.Cut(list, []byte(", "))
		if bytes.Equal(p, part) {
			return true
		}
	}
	return false
}

// addHeader takes the value of an X-Robots-Tag field for the product token. If the name of a crawler and a colon stand
// before a directive, that directive and those after it are for that crawler.
func (r *robots) addHeader(value []byte, token string) {
	ours := true
	for len(value) > 0 {
		var part []byte
		part, value = cutDirective(value)
		if name, rest, ok := bytes.Cut(part, []byte(":")); ok && isAgent(trimSpace(name)) {
			name = trimSpace(name)
			ours = equalFold(name, token) || equalFold(name, "robots") || equalFold(name, "*")
			part = trimSpace(rest)
		}
		if ours {
			r.directive(part)
		}
	}
}

// isAgent reports whether what stands before a colon is the name of a crawler: not
// the name of a directive that has a value, nor a part of a date.
func isAgent(name []byte) bool {
	for _, directive := range []string{unavailableAfter, "max-snippet", "max-image-preview", "max-video-preview"} {
		if equalFold(name, directive) {
			return false
		}
	}
	for _, c := range name {
		if isSpace(c) {
			return false
		}
	}
	return len(name) > 0
}
