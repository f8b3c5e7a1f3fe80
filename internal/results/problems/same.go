package problems

import (
	"cmp"
	"slices"
	"strings"
)

// Same are pages that share something.
type Same struct {
	What  string   `json:"what"`
	Count int64    `json:"count"`
	URLs  []string `json:"urls"` // the first few
}

// maxSame is how many texts are kept for each code.
const maxSame = 1000

// alike holds the texts that the most pages have.
type alike struct {
	total int64
	list  []Same
}

func (a *alike) add(s Same) {
	a.total++
	if a.list = append(a.list, s); len(a.list) >= 2*maxSame {
		a.cut()
	}
}

// cut sorts the list, the most common first, and drops what is too much.
func (a *alike) cut() {
	slices.SortFunc(a.list, func(x, y Same) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), strings.Compare(x.What, y.What), slices.Compare(x.URLs, y.URLs))
	})
	a.list = a.list[:min(len(a.list), maxSame)]
}

// Same are the texts of a duplicate that most pages have, the most common first, and how many texts there are in all.
func (r *Result) Same(c Code) (list []Same, total int64) {
	a := r.same[c]
	if a == nil {
		return nil, 0
	}
	a.cut()
	return a.list, a.total
}
