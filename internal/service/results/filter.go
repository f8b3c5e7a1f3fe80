package results

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/words"
)

// Filter reads the filters of a list of pages by their names in a query; an empty text is none. Outcome, problem and
// change take several values with commas between them. Fault is called for each one that is wrong.
func Filter(get func(name string) string, fault func(name, detail string)) (f pageindex.Filter) {
	f.Contains, f.Prefix = get("q"), get("prefix")
	each := func(name string, add func(text string) bool) {
		for text := range strings.SplitSeq(get(name), ",") {
			if text != "" && !add(text) {
				fault(name, "there is no "+name+" "+words.Shorten(text, 100))
			}
		}
	}
	each("outcome", func(text string) bool {
		outcome, ok := page.ParseOutcome(text)
		f.Outcomes = append(f.Outcomes, outcome)
		return ok
	})
	each("change", func(text string) bool {
		i := slices.IndexFunc(page.Changes(), func(c page.Change) bool { return c.String() == text })
		if i >= 0 {
			f.Changes = append(f.Changes, page.Changes()[i])
		}
		return i >= 0
	})
	each("problem", func(text string) bool {
		if text == "any" {
			f.AnyProblem = new(true)
			return true
		}
		code, ok := problems.Parse(text)
		f.Problems.Add(code)
		return ok
	})
	if status := get("status"); status != "" {
		class, isClass := strings.CutSuffix(status, "xx")
		n, err := strconv.Atoi(class)
		switch {
		case status == "none":
			f.Classes = []int{0}
		case err == nil && isClass && n >= 1 && n <= 5:
			f.Classes = []int{n}
		case err == nil && !isClass && n >= 100 && n <= 999:
			f.Statuses = []int{n}
		default:
			fault("status", "must be a status code such as 404, a class such as 4xx, or none")
		}
	}
	if depth := get("depth"); depth != "" {
		n, err := strconv.ParseUint(depth, 10, 16)
		if err != nil {
			fault("depth", "must be a whole number such as 2")
		}
		f.Depth = pageindex.Range{Min: new(int64(n)), Max: new(int64(n))}
	}
	switch text := get("indexable"); text {
	case "":
	case "true", "false":
		f.Indexable = new(text == "true")
	default:
		fault("indexable", "must be true or false")
	}
	return f
}
