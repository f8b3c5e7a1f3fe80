package robots

import (
	"cmp"
	"slices"
	"strings"
)

// compile builds Rules of the lines that apply to a crawler. It copies the lines, so
// that the rules keep nothing else of the file.
func compile(who agent, lines []line) *Rules {
	size := 0
	for i := range lines {
		size += len(lines[i].text)
	}
	var copied strings.Builder
	copied.Grow(size)
	for i := range lines {
		copied.WriteString(lines[i].text)
	}
	rest := copied.String()
	r := &Rules{group: strings.Clone(who.token), delay: who.delay, paced: who.paced, bytes: size}
	for _, l := range lines {
		l.text, rest = rest[:len(l.text)], rest[len(l.text):]
		l.value = l.text[len(l.text)-len(l.value):]
		r.add(&l)
	}

	// Both sorts are stable, so that the first line wins among equal rules.
	slices.SortStableFunc(r.wild, func(a, b rule) int { return compare(&a, &b) })
	slices.SortStableFunc(r.plain, func(a, b rule) int {
		return cmp.Or(strings.Compare(a.pattern, b.pattern),
			compare(&a, &b))
	})
	r.plain = slices.CompactFunc(r.plain, func(a, b rule) bool { return a.pattern == b.pattern })
	r.wild, r.plain = slices.Clip(r.wild), slices.Clip(r.plain)
	r.linkPlain()
	r.pairs = make([]pairSet, len(r.wild))
	for i, w := range r.wild {
		r.pairs[i] = pairsOf(w.pattern)
	}
	return r
}

// add adds the rules that a line makes.
func (r *Rules) add(l *line) {
	pattern := normalizePattern(l.value)
	r.addPattern(l, pattern)
	if q := queryForm(pattern); q != pattern {
		r.addPattern(l, q)
	}
	// A directory's index page and the directory are one place, so who allows the
	// page allows the directory.
	if i := strings.LastIndexByte(pattern, '/'); l.key == keyAllow && i >= 0 &&
		strings.HasPrefix(pattern[i:], "/index.htm") {
		r.addPattern(l, pattern[:i+1]+"$")
	}
}

func (r *Rules) addPattern(l *line, pattern string) {
	if pattern != l.value {
		r.bytes += len(pattern)
	}
	added := rule{text: l.text, pattern: pattern, line: uint32(l.num), allow: l.key == keyAllow}
	special := strings.IndexByte(pattern, '*')
	if special < 0 && strings.HasSuffix(pattern, "$") {
		special = len(pattern) - 1
	}
	if special < 0 {
		r.plain = append(r.plain, added)
		return
	}
	added.link = int32(special)
	r.wild = append(r.wild, added)
}

// linkPlain links each plain rule to the longest one that its pattern begins
// with: the rule before it, or one that rule leads to.
func (r *Rules) linkPlain() {
	for i := range r.plain {
		p := &r.plain[i]
		p.link = int32(i) - 1
		for p.link >= 0 && !strings.HasPrefix(p.pattern, r.plain[p.link].pattern) {
			p.link = r.plain[p.link].link
		}
	}
}
