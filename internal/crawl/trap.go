package crawl

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// The traps, as they are named in records.
const (
	TrapLength   = "url_length"
	TrapRepeats  = "repeated_segments"
	TrapSession  = "session_id"
	TrapParams   = "parameters"
	TrapVariants = "parameter_combinations"
	TrapCalendar = "calendar"
)

// Traps recognises URLs of which a site can make endlessly many. All rules but one are pure; the rule about parameter combinations counts
// what it has let through in this run.
type Traps struct {
	s   *config.Settings
	now func() time.Time

	mu       sync.Mutex
	variants map[uint64]int // guarded by mu; by host and path: combinations let through
}

// maxVariantPaths bounds the counting: paths beyond it are not counted, and so never trapped by it.
const maxVariantPaths = 1 << 20

// NewTraps takes its thresholds from the settings.
func NewTraps(s *config.Settings) *Traps {
	return &Traps{s: s, now: time.Now, variants: map[uint64]int{}}
}

// Check names the trap that a newly found URL belongs to, or returns "". Depth is how many links away from a start it was found.
func (t *Traps) Check(u urlnorm.URL, depth int) string {
	switch path, query := u.Path(), u.Query(); {
	case len(u.String()) > t.s.MaxURLLength:
		return TrapLength
	case t.s.TrapRepeats > 0 && repeats(path, t.s.TrapRepeats):
		return TrapRepeats
	case hasSession(path, query):
		return TrapSession
	case t.s.TrapParams > 0 && runawayParams(query, t.s.TrapParams):
		return TrapParams
	case t.farCalendar(path, query, depth):
		return TrapCalendar
	case t.s.TrapVariants > 0 && t.tooManyVariants(u.Host(), path, query):
		return TrapVariants
	}
	return ""
}

// maxPeriod is the longest sequence of segments whose repetition is looked for.
const maxPeriod = 6

// repeats says whether a segment stands n times in a row, a sequence of two or more segments n-1 times, or a segment more than n
// times anywhere, since two words can be strung together for ever without either rule before it. The links that make such paths
// are relative ones on a page that answers under any path.
func repeats(path string, n int) bool {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if len(segments) > n {
		times := make(map[string]int, len(segments))
		for _, s := range segments {
			if times[s]++; times[s] > n && s != "" {
				return true
			}
		}
	}
	for period := 1; period <= maxPeriod; period++ {
		most := n
		if period > 1 {
			most = max(n-1, 2)
		}
		run := period // segments in a row that equal the one a period before them, and the period itself
		for i := period; i < len(segments); i++ {
			if segments[i] != segments[i-period] || segments[i] == "" {
				run = period
				continue
			}
			if run++; run >= period*most {
				return true
			}
		}
	}
	return false
}

// hasSession finds a session identifier, by a name that means nothing else and a value that looks like one.
func hasSession(path, query string) bool {
	if strings.Contains(path, "/(S(") {
		return true
	}
	if _, param, ok := strings.Cut(path, ";"); ok && sessionPair(param) {
		return true
	}
	for query != "" {
		var pair string
		pair, query, _ = cutAny(query, "&;")
		if sessionPair(pair) {
			return true
		}
	}
	return false
}

func sessionPair(pair string) bool {
	name, value, _ := strings.Cut(pair, "=")
	name = strings.ToLower(name)
	switch name {
	case "jsessionid", "phpsessid", "sessionid", "session_id", "sessid", "cftoken", "zenid", "oscsid", "asp.net_sessionid":
		return looksRandom(value, 8)
	case "sid", "session", "s_id":
		return looksRandom(value, 16) && !strings.ContainsAny(value, "-_.")
	}
	return strings.HasPrefix(name, "aspsessionid") && looksRandom(value, 8)
}

// looksRandom wants a token of letters and digits mixed, or of many digits: sid=3 and sid=summer are honest.
func looksRandom(value string, least int) bool {
	if len(value) < least {
		return false
	}
	digits := 0
	for i := range len(value) {
		switch c := value[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_', c == '.', c == '!':
		default:
			return false
		}
	}
	return digits > 0
}

// runawayParams finds queries to which every click adds: too many parameters, or the same pair three times.
func runawayParams(query string, most int) bool {
	if strings.Count(query, "=") <= 2 && strings.Count(query, "&") < most {
		return false
	}
	seen := make(map[string]int, 16)
	total := 0
	for query != "" {
		var pair string
		pair, query, _ = cutAny(query, "&;")
		if pair == "" {
			continue
		}
		total++
		if seen[pair]++; total > most || seen[pair] == 3 {
			return true
		}
	}
	return false
}

func cutAny(text, seps string) (before, after string, found bool) {
	if i := strings.IndexAny(text, seps); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, "", false
}

// tooManyVariants counts the combinations of three or more parameters of one path. Fewer parameters are paging and simple filters, which
// grow no faster than the site.
func (t *Traps) tooManyVariants(host, path, query string) bool {
	if strings.Count(query, "&") < 2 {
		return false
	}
	h := xxhash.New()
	_, _ = h.WriteString(host) // a Digest never fails
	_, _ = h.WriteString(path)
	key := h.Sum64()
	t.mu.Lock()
	defer t.mu.Unlock()
	n, known := t.variants[key]
	if n >= t.s.TrapVariants {
		return true
	}
	if known || len(t.variants) < maxVariantPaths {
		t.variants[key] = n + 1
	}
	return false
}

// chainDepth is how deep a page must lie before its past date can make it a trap: an archive links to its years from near the
// start, an endless calendar only from one page to the page before.
const chainDepth = 24

func (t *Traps) farCalendar(path, query string, depth int) bool {
	year, ok := calendarYear(path, query)
	if !ok {
		return false
	}
	now := t.now().Year()
	ahead := t.s.TrapYearsAhead > 0 && year > now+t.s.TrapYearsAhead
	back := t.s.TrapYearsBack > 0 && year < now-t.s.TrapYearsBack && depth > chainDepth
	return ahead || back
}

// calendarYear finds the year of a URL that is a page of a calendar: a path with year and month as segments or as one, or
// parameters that say so by name.
func calendarYear(path, query string) (int, bool) {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		// Eight digits in a path are an article number more often than a day.
		if y, ok := yearMonth(s); ok && strings.Contains(s, "-") {
			return y, true
		}
		if y, ok := year(s); ok && i+1 < len(segments) && isMonth(segments[i+1]) {
			return y, true
		}
	}
	found, hasMonth, y := false, false, 0
	for query != "" {
		var pair string
		pair, query, _ = cutAny(query, "&;")
		name, value, _ := strings.Cut(pair, "=")
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

// yearMonth reads 2026-11, 2026-11-30 and 20261130.
func yearMonth(text string) (int, bool) {
	digits := strings.ReplaceAll(text, "-", "")
	switch {
	case len(digits) != 6 && len(digits) != 8:
		return 0, false
	case len(text) != len(digits) && (len(text) < 7 || text[4] != '-'):
		return 0, false
	case len(text) == len(digits) && len(text) == 6:
		return 0, false // 123456 is far more often a number
	}
	if len(digits) == 8 {
		if d, err := strconv.Atoi(digits[6:]); err != nil || d < 1 || d > 31 {
			return 0, false
		}
	}
	y, ok := year(digits[:4])
	return y, ok && isMonth(digits[4:6])
}

func year(text string) (int, bool) {
	if len(text) != 4 {
		return 0, false
	}
	y, err := strconv.Atoi(text)
	return y, err == nil && y >= 1000
}

func isMonth(text string) bool {
	m, err := strconv.Atoi(text)
	return err == nil && len(text) <= 2 && m >= 1 && m <= 12
}
