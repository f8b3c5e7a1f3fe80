package weburl

import (
	_ "embed"
	"iter"
	"strings"
	"sync"
)

// The public suffix list of this program. It is frozen: the partition of a host
// follows from it, and partitions lie on disk. An upgrade of a dependency
// cannot change it; a new list changes Identity. See suffixes_gen.go for how it
// is made, and the file for its licence (MPL 2.0).
//
//go:embed suffixes.txt
var suffixList string

const suffixComment = "// "

// suffixDate returns the date of the list, which is its first line.
func suffixDate() string {
	line, _, _ := strings.Cut(suffixList, "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, suffixComment))
}

// suffixRules yields the rules of the list.
func suffixRules() iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(suffixList) {
			line = strings.TrimSpace(line) // a checkout may have changed the ends of lines
			if !strings.HasPrefix(line, suffixComment) && !yield(line) {
				return
			}
		}
	}
}

// What the list says about a name, as a set of bits.
const (
	isSuffix    uint8 = 1 << iota // the name is a public suffix
	isException                   // the name is not one, although a wildcard says so
	hasWildcard                   // every name one label longer is a public suffix
	hasLonger                     // there are rules about longer names that end in this one
)

// suffixTable returns what the list says, by name. A name without an entry has
// no rule, and no longer name that ends in it has one. The table is built from
// the text when it is first needed, which takes about 2 ms.
var suffixTable = sync.OnceValue(func() map[string]uint8 {
	table := make(map[string]uint8, strings.Count(suffixList, "\n"))
	for rule := range suffixRules() {
		name, bit := rule, isSuffix
		switch rule[0] {
		case '!':
			name, bit = rule[len("!"):], isException
		case '*':
			name, bit = rule[len("*."):], hasWildcard|hasLonger
		}
		table[name] |= bit
		for {
			_, parent, ok := strings.Cut(name, ".")
			if !ok || table[parent]&hasLonger != 0 {
				break
			}
			table[parent] |= hasLonger
			name = parent
		}
	}
	return table
})

// suffixAt returns where the public suffix of a canonical host name begins: the
// suffix by the longest rule that matches, or the last label if none does.
func suffixAt(host string) int {
	table := suffixTable()
	at := strings.LastIndexByte(host, '.') + 1
	wildcard := false
	for after := len(host); ; { // after is the dot before the labels that were looked at
		dot := strings.LastIndexByte(host[:after], '.')
		if wildcard {
			at = dot + 1
		}
		says := table[host[dot+1:]]
		if says&isException != 0 {
			return after + 1
		}
		if says&isSuffix != 0 {
			at = dot + 1
		}
		if says&hasLonger == 0 || dot < 0 {
			return at
		}
		wildcard = says&hasWildcard != 0
		after = dot
	}
}
