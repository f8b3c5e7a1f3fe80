package ui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/words"
)

// finding is a problem that was found.
type finding struct {
	problems.Problem
	Title string
	Badge Cell
	Table *Table
}

// found is what the checks found.
type found struct {
	First        []finding // to fix first
	NothingToFix string    // says why there is none
	Checks       *Table    // every check
	Findings     []finding // in the order of checks
	AllProblems  string    // says where all URLs are
}

// maxFirst is how many problems are named as the first to fix.
const maxFirst = 5

func findProblems(rep *report.Report) (v found) {
	all := rep.Problems
	v.NothingToFix = "None of the checks found a problem."
	if len(all) == 0 {
		v.NothingToFix = "This report has no checks for problems."
	}
	v.Checks = &Table{Caption: "Checks", Columns: []Column{{Name: "Check"}, {Name: "Severity"}, {Name: "Result"},
		{Name: "URLs", Class: "num"}, {Name: "Note"}}}
	for i := range all {
		p := &all[i]
		v.Checks.Add(Text(Heading(p.Code)), badge(p.Severity), result(p.Result), Number(p.Count), Text(p.Why))
		if p.Result == problems.Found {
			v.Findings = append(v.Findings, finding{*p, Heading(p.Code), badge(p.Severity),
				Items(p, words.Count(p.Count, "URL")+" with this problem", "report.json and problems.jsonl have more",
					nil)})
		}
	}
	v.AllProblems = "problems.jsonl has all."
	if !slices.Contains(rep.Files, "problems.jsonl") {
		v.AllProblems = "report.json has more."
	}
	v.First = slices.Clone(v.Findings)
	slices.SortStableFunc(v.First, func(a, b finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(b.Count, a.Count))
	})
	v.First = slices.DeleteFunc(v.First, func(f finding) bool { return f.Severity == problems.Notice })
	v.First = v.First[:min(len(v.First), maxFirst)]
	if len(v.First) == 0 && len(v.Findings) > 0 {
		v.NothingToFix = "Nothing is urgent: the checks found notices only."
	}
	return v
}

// Heading is the title of a problem for people.
func Heading(code string) string {
	if c, ok := problems.Parse(code); ok {
		if d, ok := c.Definition(); ok {
			return d.Title
		}
	}
	return code
}

// rank sorts severities, the worst first.
func rank(severity string) int { return slices.Index(problems.Severities(), severity) }

func badge(severity string) Cell { return SeverityBadge(severity, severity) }

// SeverityBadge is a badge with a text, in the colour of a severity.
func SeverityBadge(severity, text string) Cell {
	tones := map[string]string{problems.Error: "bad", problems.Warning: "warn", problems.Notice: "info"}
	return Badge(text, tones[severity], rank(severity))
}

func result(r string) Cell {
	switch r {
	case problems.Found:
		return Badge("found", "warn", 0)
	case problems.None:
		return Badge("none", "good", 2)
	}
	return Badge("not checked", "", 1)
}

// Items is the table of a problem's first URLs. Inside is the address of the page about a URL on the same server; nil
// if there is none, and URLs lead to the site.
func Items(p *problems.Problem, caption, more string, inside func(url string) string) *Table {
	t := &Table{Caption: caption, Columns: []Column{{Name: "URL", Class: "url"}}, More: more}
	d, outside := problems.Definition{}, false
	if c, ok := problems.Parse(p.Code); ok {
		d, _ = c.Definition()
		outside = c.IsOutside()
	}
	column, cell := valueColumn(d.Value)
	if d.Value != "" {
		t.Columns = append(t.Columns, column)
	}
	if d.Related != "" {
		t.Columns = append(t.Columns, Column{Name: Capital(d.Related), Class: "url"})
	}
	for _, item := range p.Items {
		row := []Cell{Link(item.URL)}
		if inside != nil && !outside {
			row[0] = Inside(item.URL, inside(item.URL))
		}
		if d.Value != "" {
			row = append(row, cell(item.Value))
		}
		if d.Related != "" {
			related := Links(item.Related, item.Texts, item.RelatedCut)
			for i := range related.Anchors {
				if a := &related.Anchors[i]; inside != nil && IsLink(a.URL) {
					a.Path = inside(a.URL)
				}
			}
			row = append(row, related)
		}
		t.Add(row...)
	}
	t.Cut += p.Cut
	return t
}

// valueColumn is the column of a problem's values, which the table of problems describes, and how a value is written in
// it.
func valueColumn(value string) (Column, func(text string) Cell) {
	if value == "" {
		return Column{}, Text
	}
	name, cell := Capital(value), Number
	switch counted, isCount := strings.CutPrefix(value, "number of "); {
	case isCount:
		name = Capital(counted)
	case value == "milliseconds":
		name, cell = "Response time", Time
	case value == "bytes":
		name, cell = "Size", Bytes
	default:
		return Column{Name: name}, Text
	}
	return Column{Name: name, Class: "num"}, func(text string) Cell {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Text(text) // it is not known
		}
		return cell(n)
	}
}

// Verdict says in one sentence how the crawl ended and how healthy the site is, and gives it a tone.
func Verdict(rep *report.Report) (text, tone string) {
	kinds := map[string]int{}
	notChecked := 0
	for i := range rep.Problems {
		switch p := &rep.Problems[i]; p.Result {
		case problems.Found:
			kinds[p.Severity]++
		case problems.NotChecked:
			notChecked++
		}
	}
	how := map[page.Status]string{page.Complete: "The crawl is complete", page.Partial: "The crawl is partial",
		page.Cancelled: "The crawl was cancelled",
		page.Failed:    "The crawl failed"}[rep.Status]
	how = cmp.Or(how, "The crawl is "+string(rep.Status))
	if rep.Status != page.Complete && rep.Reason != "" {
		how += " (" + rep.Reason + ")"
	}
	text = how + ": " + words.Count(rep.URLs, "URL was found", "URLs were found") + ", " +
		humanize.Comma(rep.Indexable) + " of them indexable"
	switch {
	case rep.Status == page.Failed:
		return text + ".", "bad"
	case len(rep.Problems) == 0:
		tone = "good"
	case kinds[problems.Error] > 0:
		text += ", and " + words.Count(int64(kinds[problems.Error]), "kind of error needs", "kinds of errors need") +
			" attention"
		tone = "bad"
	case kinds[problems.Warning] > 0:
		text += ", with no errors and " + words.Count(int64(kinds[problems.Warning]), "kind of warning",
			"kinds of warnings")
		tone = "warn"
	case notChecked > 0:
		text += ", and the checks that could be made found no errors or warnings"
		tone = "good"
	default:
		text += ", and no check found errors or warnings"
		tone = "good"
	}
	if rep.Status != page.Complete && tone == "good" {
		tone = "warn"
	}
	return text + ".", tone
}
