package weburl

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSuffixList checks what the lookup takes for granted of the frozen list.
func TestSuffixList(t *testing.T) {
	if _, err := time.Parse(time.DateOnly, suffixDate()); err != nil {
		t.Errorf("date of the list: %v", err)
	}
	seen := map[string]bool{}
	for rule := range suffixRules() {
		name := strings.TrimPrefix(strings.TrimPrefix(rule, "!"), "*.")
		if u, err := Parse("http://" + name + "/"); err != nil || u.Host() != name || strings.ContainsAny(name, "*!") ||
			strings.Contains("."+name+".", "..") {
			t.Errorf("rule %q: the name is not in its canonical form", rule)
		}
		if seen[rule] {
			t.Errorf("rule %q stands there twice", rule)
		}
		seen[rule] = true
	}
	if len(seen) < 10_000 {
		t.Errorf("only %d rules", len(seen))
	}
}

// TestSuffixAt compares with the algorithm that the list's authors publish,
// which looks at each rule on its own: for names of rules, with labels before
// and without their first or last label, and for mixtures of such labels.
func TestSuffixAt(t *testing.T) {
	rules := map[string]bool{}
	var labels, names []string
	for rule := range suffixRules() {
		rules[rule] = true
		name := strings.TrimPrefix(strings.TrimPrefix(rule, "!"), "*.")
		names = append(names, name)
		labels = append(labels, strings.Split(name, ".")...)
	}
	check := func(host string) {
		t.Helper()
		if got, want := host[suffixAt(host):], suffixByRules(rules, host); got != want {
			t.Errorf("the public suffix of %q is %q, want %q", host, got, want)
		}
	}
	for _, name := range names {
		for _, before := range []string{"", "a.", "b.a.", "c.b.a.", "z"} {
			check(before + name)
		}
		if _, parent, ok := strings.Cut(name, "."); ok {
			check(parent)
			check("a." + parent)
			check(name[:strings.LastIndexByte(name, '.')])
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		host := names[r.IntN(len(names))]
		for range r.IntN(4) {
			host = labels[r.IntN(len(labels))] + "." + host
		}
		check(host)
	}
}

// suffixByRules is the algorithm of https://github.com/publicsuffix/list/wiki/Format:
// an exception prevails, else the rule with the most labels, else "*".
func suffixByRules(rules map[string]bool, host string) string {
	labels := strings.Split(host, ".")
	longest := 1
	for n := 1; n <= len(labels); n++ {
		last := labels[len(labels)-n:]
		if rules["!"+strings.Join(last, ".")] {
			return strings.Join(last[1:], ".")
		}
		wild := strings.Join(slices.Concat([]string{"*"}, last[1:]), ".")
		if rules[strings.Join(last, ".")] || n > 1 && rules[wild] {
			longest = n
		}
	}
	return strings.Join(labels[len(labels)-longest:], ".")
}
