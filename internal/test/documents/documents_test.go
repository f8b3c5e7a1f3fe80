package documents

import (
	"io/fs"
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
	run := []string{"sh", "sh server", "sh service", "sh cluster", "sh redis", "sh postgres", "sh python",
		"sh frontier", "sh urlfrontier", "sql", "console"}
	command := regexp.MustCompile(`(?:^|\s|/)(?:mapwright (?:-|[a-z])|curl )`)
	n := 0
	for name, d := range all {
		if fences := len(regexp.MustCompile("(?m)^ *```").FindAllString(d.Text, -1)); fences != 2*len(d.Blocks) {
			t.Errorf("%s has %d fences and %d blocks: some are not understood", name, fences, len(d.Blocks))
		}
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
	module := regexp.MustCompile(`(?m)^module (\S+)`).FindStringSubmatch(string(read(t, filepath.Join(root, "go.mod"))))[1]
	links, paths, targets, installs := 0, 0, 0, 0
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
		for _, found := range regexp.MustCompile(`go install ([^\s@`+"`"+`]+)@`).FindAllStringSubmatch(text, -1) {
			installs++
			dir, ours := strings.CutPrefix(found[1], module+"/")
			if _, err := os.Stat(filepath.Join(root, dir)); (!ours || err != nil) && !strings.Contains(found[1], "…") {
				t.Errorf("%s installs %s, which is no package", filepath.Base(page), found[1])
			}
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
	if links < 50 || paths < 50 || targets < 5 || installs < 2 {
		t.Errorf("only %d links, %d paths, %d targets and %d packages: the search is broken", links, paths, targets, installs)
	}
}

// A test that a document names exists, and so does a variable of make or of a script. (TERM is that of terminals, and
// cmd/mapwright compares those of the program.)
func TestNamesOfTheCheckoutExist(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	all, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	var tests, tools strings.Builder
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "bin"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			tests.Write(read(t, path))
		case strings.HasSuffix(path, ".sh") || e.Name() == "Makefile" || e.Name() == "run":
			tools.Write(read(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	testName := regexp.MustCompile(`^(Test[A-Z]\w*)$`)
	variable := regexp.MustCompile(`^([A-Z][A-Z_]+)=`)
	named := 0
	for page, d := range all {
		places := slices.Clone(d.Spans)
		for _, b := range d.Blocks {
			if b.Kind == "" {
				places = append(places, strings.Fields(strings.Join(b.Lines, " "))...)
			}
		}
		for _, text := range places {
			if found := testName.FindStringSubmatch(text); found != nil {
				named++
				if !strings.Contains(tests.String(), "func "+found[1]+"(") {
					t.Errorf("%s names %s, which is no test", page, found[1])
				}
			}
			if found := variable.FindStringSubmatch(text); found != nil {
				named++
				if !regexp.MustCompile(`\b`+found[1]+`\b`).MatchString(tools.String()) &&
					!strings.HasPrefix(found[1], "MAPWRIGHT_") && found[1] != "TERM" {
					t.Errorf("%s names the variable %s, which no script and no target reads", page, found[1])
				}
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d names: the search is broken", named)
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
