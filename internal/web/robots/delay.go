package robots

import (
	"strconv"
	"strings"
	"time"
)

// longestDelay is the longest delay that counts, so that sums of delays cannot overflow. A longer one counts as this.
const longestDelay = 365 * 24 * time.Hour

// parseDelay reads the number of seconds at the start of a Crawl-delay value.
// Fractions count, and so do values followed by a unit or a remark, as in "10s".
func parseDelay(s string) (time.Duration, bool) {
	n := 0
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '.') {
		n++
	}
	number := s[:n]
	if strings.Trim(number, ".") == "" {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(number, 64)
	if err != nil && seconds == 0 {
		return 0, false // more than one point
	}
	if seconds >= longestDelay.Seconds() {
		return longestDelay, true
	}
	return time.Duration(seconds * float64(time.Second)), true
}
