package robots

import (
	"slices"
	"strings"
)

// compile builds Rules of the lines that apply to a crawler.
func compile(who agent, lines []line) *Rules {
	size := 0
	for i := range lines {
		size += len(lines[i].text)
	}
	c := compiler{text: make([]byte, 0, size)}
	c.rules.group, c.rules.delay, c.rules.paced = strings.Clone(who.token), who.delay, who.paced
	for i := range lines {
		c.add(&lines[i])
	}
	return c.finish()
}

type compiler struct {
	rules Rules
	text  []byte // becomes Rules.text
}

func (c *compiler) add(l *line) {
	at := uint32(len(c.text))
	c.text = append(c.text, l.text...)
	rl := rule{line: uint32(l.num), allow: l.key == keyAllow, text: span{off: at, len: uint32(len(l.text))}}
	normal := normalizePattern(l.value)
	if normal == l.value {
		rl.pattern = span{off: uint32(len(c.text) - len(l.value)), len: uint32(len(l.value))}
		c.place(rl, normal)
	} else {
		c.addNew(rl, normal)
	}
	if q := queryForm(normal); q != normal {
		c.addNew(rl, q)
	}
	// A directory's index page and the directory are one place, so who allows the
	// page allows the directory.
	if i := strings.LastIndexByte(normal, '/'); rl.allow && i >= 0 && strings.HasPrefix(normal[i:], "/index.htm") {
		c.addNew(rl, normal[:i+1]+"$")
	}
}

func (c *compiler) addNew(rl rule, pattern string) {
	rl.pattern = span{off: uint32(len(c.text)), len: uint32(len(pattern))}
	c.text = append(c.text, pattern...)
	c.place(rl, pattern)
}

func (c *compiler) place(rl rule, pattern string) {
	special := strings.IndexByte(pattern, '*')
	if special < 0 && strings.HasSuffix(pattern, "$") {
		special = len(pattern) - 1
	}
	if special < 0 {
		c.rules.plain = append(c.rules.plain, rl)
		return
	}
	rl.link = int32(special)
	c.rules.wild = append(c.rules.wild, rl)
}

func (c *compiler) finish() *Rules {
	r := &c.rules
	r.text = string(c.text)

	// Both sorts are stable, so that of equal rules the first line answers.
	slices.SortStableFunc(r.wild, func(a, b rule) int { return compare(&a, &b) })
	slices.SortStableFunc(r.plain, func(a, b rule) int {
		if c := strings.Compare(r.str(a.pattern), r.str(b.pattern)); c != 0 {
			return c
		}
		return compare(&a, &b)
	})
	r.plain = slices.CompactFunc(r.plain, func(a, b rule) bool {
		return r.str(a.pattern) == r.str(b.pattern)
	})
	r.wild, r.plain = slices.Clip(r.wild), slices.Clip(r.plain)
	r.linkPlain()
	if len(r.wild) > 0 {
		r.pairs = make([]pairSet, len(r.wild))
		for i, w := range r.wild {
			r.pairs[i] = pairsOf(r.str(w.pattern))
		}
	}
	return r
}

// linkPlain links each plain rule to the longest one that its pattern begins
// with: the rule before it, or one that rule leads to.
func (r *Rules) linkPlain() {
	for i := range r.plain {
		p := &r.plain[i]
		p.link = int32(i) - 1
		for p.link >= 0 && !strings.HasPrefix(r.str(p.pattern), r.str(r.plain[p.link].pattern)) {
			p.link = r.plain[p.link].link
		}
	}
}
