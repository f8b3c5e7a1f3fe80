package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Messages that docs/tuning.md quotes are those of the program: each piece of one, without its numbers and values, is
// in a text of the source.
func TestQuotedMessages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "tuning.md"))
	if err != nil {
		t.Fatal(err)
	}
	messages := regexp.MustCompile("(?m)^\\| `([^`]* [^`]* [^`]*)`").FindAllStringSubmatch(string(text), -1)
	if len(messages) < 4 {
		t.Fatalf("only %d messages found: the search is broken", len(messages))
	}
	source := programTexts(t)
	values := regexp.MustCompile(`[0-9.]+m?s\b|[0-9]+|…|[:;()]`)
	for _, m := range messages {
		for _, piece := range values.Split(m[1], -1) {
			piece = strings.TrimSpace(piece)
			_, counted, _ := strings.Cut(piece, " ") // behind a number, the first word may have got its plural from a function
			if !strings.Contains(source, piece) && (counted == "" || !strings.Contains(source, counted)) {
				t.Errorf("docs/tuning.md quotes %q: the program has no text with %q", m[1], piece)
			}
		}
	}
}

// programTexts are the texts of the program: the string literals of its Go files, one to a line, and the files that are
// built into it. Tests, their support and benchmarks are no part of it.
func programTexts(t *testing.T) string {
	t.Helper()
	var texts strings.Builder
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if slices.Contains([]string{".git", "bench", "bin", "deploy", "docs", "examples", "scripts", "test", "testdata"},
				name) {
				return filepath.SkipDir
			}
			return nil
		case slices.Contains([]string{".html", ".js", ".lua", ".sql", ".tmpl", ".yaml"}, filepath.Ext(name)):
			text, err := os.ReadFile(path)
			texts.Write(text)
			return err
		case filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				s, _ := strconv.Unquote(lit.Value)
				texts.WriteString(s + "\n")
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts.String()
}
