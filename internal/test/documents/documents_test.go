package documents

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Every command of the documents stands in a block of a kind that a test runs. Commands that build the program from its
// sources are the exception: they are those of the tests themselves.
func TestCommandsStandInBlocksThatAreRun(t *testing.T) {
	all, err := Read(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	run := []string{"sh", "sh server", "sh service", "sh cluster", "console"}
	command := regexp.MustCompile(`(?:^|\s|/)(?:mapwright (?:-|[a-z])|curl )`)
	n := 0
	for name, d := range all {
		for _, b := range d.Blocks {
			if slices.Contains(run, b.Kind) {
				n++
				continue
			}
			for _, line := range b.Lines {
				if command.MatchString(line) && b.Kind == "" && !regexp.MustCompile(`^go run `).MatchString(line) {
					t.Errorf("%s: %q is in a block that no test runs", name, line)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d blocks of commands: the search is broken", n)
	}
}
