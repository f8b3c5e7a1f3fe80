// Package problems says what is wrong with a site: which problems there are, what each means and what to do about it,
// and which pages of a crawl have them.
//
// The table of codes is the only list of problems. Reports, documents and pages for people are made from it.
package problems

import "math/bits"

// Problem is one check and what it found.
type Problem struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Result   string `json:"result"`
	Why      string `json:"why,omitempty"` // why it was not checked
	Count    int64  `json:"count"`         // distinct URLs that have the problem
	Explain  string `json:"explain"`       // what it is and why it matters
	Fix      string `json:"fix"`           // what to do
	Items    []Item `json:"items"`         // the first, in the order of URLs
	Cut      int64  `json:"cut,omitempty"` // how many are not among Items
}

// Item is one URL that has a problem.
type Item struct {
	URL string `json:"url"`
	// what is wrong, in the form that the code's entry in docs/problems.md names
	Value   string   `json:"value,omitempty"`
	Related []string `json:"related,omitempty"` // other URLs that the problem is about
	Texts   []string `json:"texts,omitempty"`   // of links: the text of the link on each of Related
	// RelatedCut is how many related URLs are not in Related; problems.jsonl has all.
	RelatedCut int64 `json:"related_cut,omitempty"`
}

// Severities, the worst first.
const (
	Error   = "error"
	Warning = "warning"
	Notice  = "notice"
)

// Severities are all of them, the worst first.
func Severities() []string { return []string{Error, Warning, Notice} }

// Results of a check.
const (
	Found      = "found"
	None       = "none"
	NotChecked = "not_checked" // Problem.Why says why
)

// Totals are how many problems there are by severity. A URL counts once for each problem that it has.
type Totals struct {
	Errors   int64 `json:"errors"`
	Warnings int64 `json:"warnings"`
	Notices  int64 `json:"notices"`
}

// TotalsOf adds up the counts of problems.
func TotalsOf(list []Problem) (t Totals) {
	for i := range list {
		switch p := &list[i]; p.Severity {
		case Error:
			t.Errors += p.Count
		case Warning:
			t.Warnings += p.Count
		case Notice:
			t.Notices += p.Count
		}
	}
	return t
}

// Worst are the problems that were found, the worst first, and those of one severity in the order of the table.
func Worst(list []Problem) []Problem {
	var worst []Problem
	for _, severity := range Severities() {
		for i := range list {
			if p := &list[i]; p.Severity == severity && p.Count > 0 {
				worst = append(worst, *p)
			}
		}
	}
	return worst
}

// Set are problems of one page: the bit of a code's number is set if the page has the problem.
type Set uint64

// Add puts a code into the set.
func (s *Set) Add(c Code) { *s |= 1 << c }

// Has reports whether a code is in the set.
func (s Set) Has(c Code) bool { return s>>c&1 != 0 }

// Codes are the codes of the set, in the order of the table.
func (s Set) Codes() []Code {
	list := make([]Code, 0, bits.OnesCount64(uint64(s)))
	for _, d := range Table() {
		if s.Has(d.Code) {
			list = append(list, d.Code)
		}
	}
	return list
}
