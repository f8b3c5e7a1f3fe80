package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	source := sourceTexts(t)
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

// sourceTexts are the string literals of the module's Go files, one to a line.
func sourceTexts(t *testing.T) string {
	t.Helper()
	var texts strings.Builder
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
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
