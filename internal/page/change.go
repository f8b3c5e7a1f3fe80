package page

import "fmt"

// Change says how what a recrawl found of a URL differs from what was known before. The numbers are stored: append,
// never reorder.
type Change uint8

// The changes. NoChange is the zero value: the URL was never checked in a recrawl, or the last check failed and what
// was known is kept.
const (
	NoChange Change = iota
	New             // first visited in a recrawl
	Changed
	Unchanged
	Gone // 404 or 410, and it was there before
	Back // there, and it was 404 or 410 before
	numChanges
)

func changeNames() [numChanges]string {
	return [...]string{NoChange: "", New: "new", Changed: "changed", Unchanged: "unchanged", Gone: "gone", Back: "back"}
}

// String is the change's name in sitemap.jsonl; empty for NoChange.
func (c Change) String() string {
	if c < numChanges {
		return changeNames()[c]
	}
	return fmt.Sprintf("change_%d", uint8(c))
}

// Changes are all but NoChange, in the order of their numbers.
func Changes() []Change {
	var all []Change
	for c := NoChange + 1; c < numChanges; c++ {
		all = append(all, c)
	}
	return all
}
