package pace

import (
	"math"
	"testing"
	"time"
)

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const date = "Sun, 01 Mar 2026 12:00:00 GMT"
	for _, tc := range []struct {
		name, value, date string
		want              time.Duration
	}{
		{"absent", "", "", 0},
		{"seconds", "120", "", 2 * time.Minute},
		{"spaces", " 7 ", "", 7 * time.Second},
		{"zero", "0", "", 0},
		{"leading zeros", "0005", "", 5 * time.Second},
		{"negative", "-5", "", 0},
		{"plus sign", "+5", "", 0},
		{"fraction", "1.5", "", 2 * time.Second},
		{"no fraction", "3.0", "", 3 * time.Second},
		{"only fraction", ".5", "", 0},
		{"two points", "1.2.3", "", 0},
		{"words", "soon", "", 0},
		{"unit", "5s", "", 0},
		{"year", "31536000", "", 365 * 24 * time.Hour},
		{"too large for a duration", "9300000000", "", math.MaxInt64},
		{"too large for an integer", "99999999999999999999999999", "", math.MaxInt64},
		{"date", "Sun, 01 Mar 2026 12:01:30 GMT", "", 90 * time.Second},
		{"date, RFC 850", "Sunday, 01-Mar-26 12:00:10 GMT", "", 10 * time.Second},
		{"date, asctime", "Sun Mar  1 12:00:10 2026", "", 10 * time.Second},
		{"date now", date, "", 0},
		{"date past", "Sun, 01 Mar 2026 11:00:00 GMT", "", 0},
		{"date far away", "Fri, 31 Dec 9999 23:59:59 GMT", "", math.MaxInt64},
		{"date by the server's late clock", "Sun, 01 Mar 2026 09:00:30 GMT", "Sun, 01 Mar 2026 09:00:00 GMT",
			30 * time.Second},
		{"date by the server's early clock", "Sun, 01 Mar 2026 15:00:30 GMT", "Sun, 01 Mar 2026 15:00:00 GMT",
			30 * time.Second},
		{"broken Date header", "Sun, 01 Mar 2026 12:00:30 GMT", "yesterday", 30 * time.Second},
		{"not GMT", "Sun, 01 Mar 2026 12:00:30 +0100", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := ParseRetryAfter(tc.value, tc.date, now); got != tc.want {
				t.Errorf("ParseRetryAfter(%q, %q) = %v, want %v", tc.value, tc.date, got, tc.want)
			}
		})
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	f.Add("120", "")
	f.Add("1.5", "")
	f.Add("Sun, 01 Mar 2026 12:01:30 GMT", "Sun, 01 Mar 2026 12:00:00 GMT")
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", "Sun Mar  1 12:00:10 0001")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value, date string) {
		if d := ParseRetryAfter(value, date, now); d < 0 {
			t.Errorf("ParseRetryAfter(%q, %q) = %v", value, date, d)
		}
	})
}
