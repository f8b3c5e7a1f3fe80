package pace

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// ParseRetryAfter reads a Retry-After header in either of its forms, seconds or
// an HTTP date, and says how long to wait. Zero means that the server asked for
// nothing: the header is empty, malformed, zero, negative or a date in the past.
//
// A date is measured against the same answer's Date header where there is one,
// so that a server whose clock is wrong is still understood; date may be empty.
// A number too large for a time.Duration becomes the largest one; bounding it is
// [Pace.Apply]'s business.
func ParseRetryAfter(value, date string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if d, ok := parseDeltaSeconds(value); ok {
		return d
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(strings.TrimSpace(date)); err == nil {
		now = sent
	}
	return max(0, at.Sub(now))
}

// parseDeltaSeconds reads digits with an optional fraction, which the RFC does
// not know and some servers send; a fraction of a second is rounded up.
func parseDeltaSeconds(s string) (time.Duration, bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" || !isDigits(whole) || !isDigits(fraction) {
		return 0, false
	}
	const most = math.MaxInt64 / int64(time.Second)
	var n int64
	for _, c := range []byte(whole) {
		n = n*10 + int64(c-'0')
		if n >= most {
			return math.MaxInt64, true
		}
	}
	if strings.Trim(fraction, "0") != "" {
		n++
	}
	return time.Duration(n) * time.Second, true
}

func isDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
