package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Every command of the documents stands in a block of a kind that a test runs. Commands that build the program from its
// sources are the exception: they are those of the tests themselves.
func TestCommandsStandInBlocksThatAreRun(t *testing.T) {
	all, err := Read(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	run := []string{"sh", "sh server", "sh service", "sh cluster", "sh frontier", "sh urlfrontier", "console"}
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

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inCode   = regexp.MustCompile("`([^`\n]+)`")
	filePath = regexp.MustCompile(`^(?:\.ci|\.github|bench|cmd|deploy|docs|examples|frontier|internal|parser|` +
		`scripts|state|wal)/[A-Za-z0-9_./-]+$`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// Every file that a document links to exists, and so does the heading there. A path of a file of the project that
// stands as code exists too. Targets of make that are named exist.
func TestPathsExist(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	makefile := string(read(t, filepath.Join(root, "Makefile")))
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "deploy/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	links, paths, targets := 0, 0, 0
	for _, page := range pages {
		text := string(read(t, page))
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			links++
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which is not there", filepath.Base(page), found[1])
			} else if anchor != "" && !slices.Contains(anchors(string(read(t, file))), anchor) {
				t.Errorf("%s links to %s, which has no such heading", filepath.Base(page), found[1])
			}
		}
		if filepath.Base(page) == "CHANGELOG.md" {
			continue // it also names what was
		}
		for _, found := range inCode.FindAllStringSubmatch(text, -1) {
			name, isMake := strings.CutPrefix(found[1], "make ")
			name, _, _ = strings.Cut(name, " ")
			switch {
			case isMake:
				targets++
				if !strings.Contains(makefile, "\n"+name+": ") {
					t.Errorf("%s names make %s, which is no target", filepath.Base(page), name)
				}
			case filePath.MatchString(found[1]):
				paths++
				if _, err := os.Stat(filepath.Join(root, found[1])); err != nil {
					t.Errorf("%s names the file %s, which is not there", filepath.Base(page), found[1])
				}
			}
		}
	}
	if links < 50 || paths < 50 || targets < 5 {
		t.Errorf("only %d links, %d paths and %d targets: the search is broken", links, paths, targets)
	}
}

// anchors are the names by which the headings of a page are linked to.
func anchors(text string) (names []string) {
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, found[1])
		names = append(names, name)
	}
	return names
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
