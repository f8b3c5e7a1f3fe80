package traps

import "strings"

// maxPeriod is the longest sequence of segments whose repetition is looked for.
const maxPeriod = 6

// repeats says whether a path repeats its segments: one segment n times in a row, a sequence of two or more n-1 times
// in a row, or one segment more than n times anywhere. The last rule is for two words that follow each other in any
// order, which the first two rules need not find. The links that make such paths are relative ones on a page that
// answers under any path. A segment of digits alone may stand twice as often: file stores spread their files over
// directories like 0/0/0/0.
func repeats(path string, n int) bool {
	path = strings.Trim(path, "/")
	if strings.Count(path, "/") < n-1 && strings.Count(path, "/") < 2*max(n-1, 2)-1 {
		return false
	}
	segments := strings.Split(path, "/")
	if len(segments) > n {
		times := make(map[string]int, len(segments))
		for _, s := range segments {
			if times[s]++; times[s] > allowed(s, n) && s != "" {
				return true
			}
		}
	}
	for period := 1; period <= maxPeriod; period++ {
		run := period // segments in a row that equal the one a period before them, and the period itself
		for i := period; i < len(segments); i++ {
			if segments[i] != segments[i-period] || segments[i] == "" {
				run = period
				continue
			}
			most := max(n-1, 2)
			if period == 1 {
				most = allowed(segments[i], n)
			}
			if run++; run >= period*most && (period == 1 || !same(segments[i-period+1:i+1])) {
				return true
			}
		}
	}
	return false
}

// same says whether all segments are equal. Then the rule about single segments judges them.
func same(segments []string) bool {
	for _, s := range segments {
		if s != segments[0] {
			return false
		}
	}
	return true
}

// allowed returns how often a segment may stand: n times, or twice that if it has only digits.
func allowed(segment string, n int) int {
	if strings.Trim(segment, "0123456789") == "" {
		return 2 * n
	}
	return n
}
