package testweb

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Result is what a crawl reported of one URL.
type Result struct {
	Outcome string
	Status  int
}

// Compare holds what a crawl reported, by URL, against what it should have. It returns
// nil if they agree: each URL there, with the right outcome and status, and none
// that does not belong but inside traps. Else the error names the first differences of each
// kind and counts the rest.
func Compare(want iter.Seq[Expectation], traps []Trap, got map[string]Result) error {
	var missing, wrong, extra differences
	expected := make(map[string]bool)
	for e := range want {
		expected[e.URL] = true
		g, ok := got[e.URL]
		switch {
		case !ok:
			missing.add("%s (%s)", e.URL, strings.Join(e.Outcomes, " or "))
		case !slices.Contains(e.Outcomes, g.Outcome):
			wrong.add("%s: outcome %s, want %s", e.URL, g.Outcome, strings.Join(e.Outcomes, " or "))
		case e.Status != 0 && g.Status != e.Status && g.Outcome != OutcomeHostBlocked:
			wrong.add("%s: status %d, want %d", e.URL, g.Status, e.Status)
		}
	}
	for u := range got {
		trapped := slices.ContainsFunc(traps, func(t Trap) bool { return strings.HasPrefix(u, t.Prefix) })
		if !expected[u] && !trapped {
			extra.add("%s (%s)", u, got[u].Outcome)
		}
	}
	return errors.Join(missing.err("missing"), wrong.err("wrong"), extra.err("not expected"))
}

// differences keeps all of one kind, so that those named do not depend on the
// order of a map.
type differences []string

func (d *differences) add(format string, args ...any) {
	*d = append(*d, fmt.Sprintf(format, args...))
}

func (d differences) err(kind string) error {
	const named = 10
	if len(d) == 0 {
		return nil
	}
	slices.Sort(d)
	text := strings.Join(d[:min(len(d), named)], "\n\t")
	if len(d) > named {
		text += "\n\t..."
	}
	return fmt.Errorf("%d %s:\n\t%s", len(d), kind, text)
}
