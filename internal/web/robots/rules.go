package robots

import (
	"cmp"
	"strings"
	"time"
)

// Rules are what one robots.txt says to one crawler, compiled for matching. They
// are immutable.
type Rules struct {
	bytes int // of all lines, and of normal forms of their patterns that differ from them

	group string
	delay time.Duration
	paced bool // a Crawl-delay was given; it may be zero

	// plain are the rules without wildcards, sorted by pattern, each pattern once. The longest one that a path begins
	// with is the last one that does not sort after the path, or one that this leads to by link.
	plain []rule

	// wild are the rules with a * or a $, the most specific first. pairs are the pairs of bytes that each of them needs
	// in a path.
	wild  []rule
	pairs []pairSet
}

type rule struct {
	text    string // the line as written
	pattern string // in normal form
	line    uint32
	// link is for a plain rule the index of the longest plain rule whose pattern
	// its own begins with, or -1; for a wild one the length of what stands before
	// the first wildcard.
	link  int32
	allow bool
}

// maxWork is how many bytes of paths and patterns one match may read while trying rules with wildcards. It is enough
// for some thousand rules and a long path, and takes a few milliseconds.
const maxWork = 4 << 20

// quickWork is the same for a match that must be quick. It is enough for some hundred rules and takes some ten
// microseconds.
const quickWork = 64 << 10

// TooCostly is the Match.Rule of a path that is refused because it would take too long to find its rule: too many rules
// of the file almost match it. Such files are made to slow crawlers down.
const TooCostly = "(rules too costly to match)"

// A Match is a decision and the rule that made it.
type Match struct {
	Allowed bool
	// Rule is the line as written, without comment and surrounding white space. It
	// is empty when no rule matched, which allows, and may be TooCostly.
	Rule string
	// Line is the number of that line, counted from 1, or 0.
	Line int
}

// Group returns the product token of the group that applies, as written; "*" if
// it is the one for every crawler, and "" if no group applies.
func (r *Rules) Group() string { return r.group }

// CrawlDelay returns the Crawl-delay of the group, and whether it has one.
func (r *Rules) CrawlDelay() (time.Duration, bool) { return r.delay, r.paced }

// Len returns how many rules there are to match.
func (r *Rules) Len() int { return len(r.plain) + len(r.wild) }

// Size returns about how many bytes of memory r holds, for caches that bound
// themselves by size.
func (r *Rules) Size() int {
	const fixed, perRule, perPairs = 160, 48, 16
	return fixed + r.bytes + perRule*(cap(r.plain)+cap(r.wild)) + perPairs*cap(r.pairs)
}

// Match decides whether a path, with its query if it has one, may be fetched. It does not allocate when the path is in
// normal form. Canonical URLs are, except the rare one with a character like | or *.
func (r *Rules) Match(pathQuery string) Match { return r.match(pathQuery, maxWork) }

// MatchQuickly is Match if that takes some ten microseconds at most. Otherwise quick is false.
func (r *Rules) MatchQuickly(pathQuery string) (m Match, quick bool) {
	m = r.match(pathQuery, quickWork)
	return m, m.Rule != TooCostly
}

// match is Match within the given work.
func (r *Rules) match(pathQuery string, work int) Match {
	if pathQuery == "" {
		pathQuery = "/"
	}
	if r.Len() == 0 || pathQuery == "/robots.txt" {
		return Match{Allowed: true}
	}
	normal, queryEscapes := isNormal(pathQuery, false)
	if !normal {
		pathQuery = string(appendNormal(make([]byte, 0, len(pathQuery)+16), pathQuery, false))
		queryEscapes = true // perhaps
	}
	best := r.find(pathQuery, &work)
	if queryEscapes {
		if other := r.find(queryForm(pathQuery), &work); other != nil && (best == nil || compare(other, best) < 0) {
			best = other
		}
	}
	switch {
	case work < 0:
		return Match{Rule: TooCostly}
	case best == nil:
		return Match{Allowed: true}
	}
	return Match{Allowed: best.allow, Rule: best.text, Line: int(best.line)}
}

// find returns the most specific rule that matches a path in normal form. It
// gives up when work, which it counts down, falls below zero.
func (r *Rules) find(path string, work *int) *rule {
	best := r.findPlain(path)
	if len(r.wild) == 0 {
		return best
	}
	var has pairSet
	has.add(path)
	for i := range r.wild {
		w := &r.wild[i]
		if best != nil && compare(best, w) <= 0 {
			break
		}
		if !has.holds(&r.pairs[i]) {
			continue
		}
		if *work -= len(path) + len(w.pattern); *work < 0 {
			return nil
		}
		if matchWild(w.pattern, int(w.link), path) {
			return w
		}
	}
	return best
}

func (r *Rules) findPlain(path string) *rule {
	lo, hi := 0, len(r.plain)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if r.plain[mid].pattern <= path {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return nil
	}
	last := &r.plain[lo-1]
	common := commonPrefix(last.pattern, path)
	for len(last.pattern) > common {
		if last.link < 0 {
			return nil
		}
		last = &r.plain[last.link]
	}
	return last
}

// compare orders rules by how much they weigh: the longer first, and Allow first if they are equally long.
func compare(a, b *rule) int {
	switch {
	case len(a.pattern) != len(b.pattern):
		return cmp.Compare(len(b.pattern), len(a.pattern))
	case a.allow == b.allow:
		return 0
	case a.allow:
		return -1
	}
	return 1
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// matchWild matches a pattern of which the first lit bytes hold no wildcard. Each
// piece between two stars is taken where it first occurs: any later place would
// only leave less of the path for the pieces after it.
func matchWild(pattern string, lit int, path string) bool {
	if !strings.HasPrefix(path, pattern[:lit]) {
		return false
	}
	pattern, path = pattern[lit:], path[lit:]
	pattern, end := strings.CutSuffix(pattern, "$")
	if pattern == "" {
		return !end || path == ""
	}
	pattern = pattern[1:] // the first star
	for {
		i := strings.IndexByte(pattern, '*')
		if i < 0 {
			break
		}
		at := strings.Index(path, pattern[:i])
		if at < 0 {
			return false
		}
		pattern, path = pattern[i+1:], path[at+i:]
	}
	if end {
		return strings.HasSuffix(path, pattern)
	}
	return strings.Contains(path, pattern)
}
