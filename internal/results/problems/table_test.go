package problems

import (
	"slices"
	"strings"
	"testing"
)

func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	table := Table()
	if len(table) != int(numCodes) {
		t.Errorf("the table has %d entries, and there are %d codes", len(table), numCodes)
	}
	if numCodes > 64 {
		t.Error("a Set has 64 bits")
	}
	for _, d := range table {
		if seen[d.Name] {
			t.Errorf("%s is there twice", d.Name)
		}
		seen[d.Name] = true
		if !slices.Contains(Severities(), d.Severity) {
			t.Errorf("%s has the severity %q", d.Name, d.Severity)
		}
		if n := strings.Count(d.Explain, "."); n < 2 || !strings.HasSuffix(d.Explain, ".") ||
			!strings.HasSuffix(d.Fix, ".") || d.Rule == "" || d.Title == "" {
			t.Errorf("%s is not explained in two sentences, or has no fix, rule or title", d.Name)
		}
		if c, ok := Parse(d.Name); !ok || c != d.Code || c.String() != d.Name {
			t.Errorf("%s is not found by its name", d.Name)
		}
	}
}

func TestSet(t *testing.T) {
	var s Set
	s.Add(SoftNotFound)
	s.Add(BrokenLink)
	if got := s.Codes(); !slices.Equal(got, []Code{BrokenLink, SoftNotFound}) || s.Has(Slow) {
		t.Errorf("the set has %v", got)
	}
}
