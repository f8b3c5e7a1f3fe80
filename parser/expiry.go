package parser

import (
	"strings"
	"time"
)

const unavailableAfter = "unavailable_after"

// expiryDate is the date of an unavailable_after directive, if d is one.
func expiryDate(d []byte) (date []byte, ok bool) {
	if len(d) <= len(unavailableAfter) || !equalFold(d[:len(unavailableAfter)], unavailableAfter) {
		return nil, false
	}
	date = trimSpace(d[len(unavailableAfter):])
	if len(date) == 0 || date[0] != ':' {
		return nil, false
	}
	return trimSpace(date[1:]), true
}

// isWeekday reports whether a date consists of the name of a weekday, short or long. The rest of the date then follows
// after a comma.
func isWeekday(date []byte) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := strings.ToLower(day.String()); equalFold(date, name) || equalFold(date, name[:3]) {
			return true
		}
	}
	return false
}

// The forms of a date and of a time in unavailable_after: RFC 822, RFC 850 and ISO 8601.
var (
	expiryDates = []string{"2 Jan 2006", "2 Jan 06", "2-Jan-2006", "2-Jan-06", "2006-01-02"}
	expiryTimes = []string{"", " 15:04:05", " 15:04", "T15:04:05", "T15:04"}
)

// parseExpiry reads the date of unavailable_after. A date without a time means the end of that day.
func parseExpiry(text string) (time.Time, bool) {
	if len(text) > 64 {
		return time.Time{}, false
	}
	if day, rest, ok := strings.Cut(text, ","); ok {
		if !isWeekday([]byte(strings.TrimSpace(day))) {
			return time.Time{}, false
		}
		text = rest
	} else if day, rest, ok := strings.Cut(text, " "); ok && isWeekday([]byte(day)) {
		text = rest
	}
	text, offset := cutZone(strings.Join(strings.Fields(text), " "))
	for _, date := range expiryDates {
		for _, clock := range expiryTimes {
			t, err := time.Parse(date+clock, text)
			if err != nil {
				continue
			}
			if clock == "" {
				t = t.Add(24 * time.Hour)
			}
			return t.Add(-offset), true
		}
	}
	return time.Time{}, false
}

// cutZone takes the time zone off the end of a date: Z, a name that RFC 822 has, or an offset such as +02:00. Other
// names count as UTC.
func cutZone(text string) (rest string, offset time.Duration) {
	if day, ok := strings.CutSuffix(strings.ToUpper(text), "Z"); ok && strings.ContainsAny(day, ":") {
		return text[:len(day)], 0
	}
	// An offset stands after the time of day: the hyphens before it are those of the date.
	if colon := strings.IndexByte(text, ':'); colon >= 0 {
		if i := strings.LastIndexAny(text, "+-"); i > colon {
			digits := strings.ReplaceAll(text[i+1:], ":", "")
			if len(digits) == 2 {
				digits += "00"
			}
			if t, err := time.Parse("1504", digits); err == nil {
				offset = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
				if text[i] == '-' {
					offset = -offset
				}
				return strings.TrimSpace(text[:i]), offset
			}
		}
	}
	i := strings.LastIndexByte(text, ' ')
	if i < 0 {
		return text, 0
	}
	name := strings.ToUpper(text[i+1:])
	for _, c := range name {
		if c < 'A' || c > 'Z' {
			return text, 0
		}
	}
	hours := map[string]int{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
		"CET": 1, "CEST": 2, "BST": 1}
	return text[:i], time.Duration(hours[name]) * time.Hour
}
