package config

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
)

// The steps of an expression are about those of the program that is run.
func TestProgramSize(t *testing.T) {
	for _, text := range []string{"(?:a?){1000}b", `(?:\w?\w?){200}!`, `[a-z]{1,200}x`, `((a{10}){10}){9}`,
		`(?i)straße.*$`, `a|b|cd|(e|f)*`, `^https?://[^/]+/(de|en|fr)/`, `x{3,}`, `(|a)+?`} {
		re, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		size := steps(re)
		if most := 2*len(prog.Inst) + 10; 2*size < len(prog.Inst) || size > most {
			t.Errorf("%s has %d steps, its program %d", text, size, len(prog.Inst))
		}
	}
	for _, text := range []string{"/tag/", `^https://a\.test/shop/`, "^http://a.test/[0-9]$", ""} {
		if size, err := programSize(text); err != nil || size != 1 {
			t.Errorf("%q has %d steps, %v; want 1", text, size, err)
		}
	}
}

// Number, length and size of expressions are bounded, of include and exclude together; texts without operators may be
// many.
func TestPatternsAreBounded(t *testing.T) {
	many := func(n int, text string) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf(text, i))
		}
		return list
	}
	for _, c := range []struct {
		name             string
		include, exclude []string
		fault            string // empty means that they are right
	}{
		{"texts", many(500, "/a%d/"), many(500, "^https://b.test/%d"), ""},
		{"usual expressions", many(50, `/shop/[^/]+/page-%d\?sort=(price|name)`), nil, ""},
		{"too many", nil, many(1001, "/a%d/"), "at most 1000"},
		{"too long", []string{strings.Repeat("a", 1001)}, nil, "at most 1000 bytes"},
		{"too large", nil, []string{`(?:(?:a|b)?c?d?){900}e`}, "at most 2000"},
		{"one repetition", nil, []string{`(?:a?){640}b$`}, "at most 2000"},
		{"identifiers", many(10, `/%d/[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}`), nil, ""},
		{"too large together", many(30, `(?:a?){40}b%d`), many(30, `(?:a?){40}c%d`), "more than 2000 steps"},
		{"in any case", nil, many(500, `(?i)/category-%d/`), "more than 2000 steps"},
	} {
		given := Layer{"include": {Texts: c.include, From: "flag --include"},
			"exclude": {Texts: c.exclude, From: "flag --exclude"}}
		_, err := Load(given)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
}
