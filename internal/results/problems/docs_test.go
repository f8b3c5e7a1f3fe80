package problems

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the document again")

// What follows the mark in docs/problems.md is the table of problems.
func TestProblemsAreDocumented(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "problems.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- table -->\n"
	before, _, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("docs/problems.md has no line %q", mark)
	}
	var b strings.Builder
	b.WriteString(before + mark + "\n| code | severity | which URLs | value | related |\n|---|---|---|---|---|\n")
	for _, d := range Table() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s | %s |\n", d.Name, d.Name, d.Severity, d.Rule, d.Value, d.Related)
	}
	for _, d := range Table() {
		fmt.Fprintf(&b, "\n### %s\n\n%s. %s %s\n", d.Name, d.Title, d.Explain, d.Fix)
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != string(text) {
		t.Error("docs/problems.md differs from the table of problems: run 'make docs'")
	}
}
