package config

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// Bounds of regular expressions for URLs. The time of a match grows with the length of the URL and the size of the
// program, so these bound the time for the links of a page.
const (
	maxPattern  = 1000 // bytes of one expression
	maxPatterns = 1000 // expressions of one list
	maxProgram  = 2000 // steps of all expressions of a crawl: see programSize
)

// CompilePatterns compiles the expressions that URLs must match, and those that they must not match. It refuses
// expressions that together need too much time.
func CompilePatterns(include, exclude []string) (included, excluded []*regexp.Regexp, err error) {
	left := maxProgram
	compile := func(texts []string) (list []*regexp.Regexp, err error) {
		if len(texts) > maxPatterns {
			return nil, fmt.Errorf("there are %d expressions, at most %d are allowed", len(texts), maxPatterns)
		}
		for _, text := range texts {
			size, err := programSize(text)
			if err != nil {
				return nil, err
			}
			if left -= size; left < 0 {
				return nil, errProgram
			}
			re, err := regexp.Compile(text)
			if err != nil {
				return nil, err
			}
			list = append(list, re)
		}
		return list, nil
	}
	if included, err = compile(include); err != nil {
		return nil, nil, err
	}
	excluded, err = compile(exclude)
	return included, excluded, err
}

// PatternSteps is the number of steps of all expressions together. The caller uses it to bound the text that it
// matches. Invalid expressions count as 0.
func PatternSteps(include, exclude []string) (steps int) {
	for _, text := range slices.Concat(include, exclude) {
		if size, err := programSize(text); err == nil {
			steps += size
		}
	}
	return steps
}

var errProgram = fmt.Errorf("have more than %d steps in all, which would take too long for each URL: "+
	"use fewer or shorter ones, without large repetitions; a text without operators counts as one step", maxProgram)

// programSize is approximately the number of steps of an expression's program. A plain expression counts as one.
func programSize(text string) (int, error) {
	if len(text) > maxPattern {
		return 0, fmt.Errorf("%.40q… is not a regular expression of at most %d bytes: it has %d", text, maxPattern,
			len(text))
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("%q is not a regular expression: %w", text, err)
	}
	if isPlain(re) {
		return 1, nil
	}
	return steps(re) + repeated(re), nil
}

// repeated is the number of steps in repetitions. They count twice: at each character of a URL many of these steps may
// be active, but only few steps of other expressions.
func repeated(re *syntax.Regexp) (n int) {
	if re.Op == syntax.OpRepeat {
		return steps(re)
	}
	for _, sub := range re.Sub {
		n += repeated(sub)
	}
	return n
}

// isPlain reports whether an expression is a plain text to search for, or is compared with the beginning of a URL
// character by character.
func isPlain(re *syntax.Regexp) bool {
	if re.Op != syntax.OpConcat {
		return re.Op == syntax.OpEmptyMatch || re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0
	}
	for _, sub := range re.Sub[1:] {
		switch sub.Op {
		case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpEndText:
		default:
			return false
		}
	}
	return re.Sub[0].Op == syntax.OpBeginText
}

// steps is approximately the number of steps of an expression. The parser limits nested repetitions.
func steps(re *syntax.Regexp) int {
	n := max(1, len(re.Rune))
	if re.Op == syntax.OpCharClass {
		n = 1
	}
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return n
}

func checkRegexp(text string) error {
	size, err := programSize(text)
	if err == nil && size > maxProgram {
		err = fmt.Errorf("%q has about %d steps, at most %d are allowed: repetitions multiply", text, size, maxProgram)
	}
	return err
}

// checkRule checks a text of the form EXPRESSION=VALUE.
func checkRule(checkValue func(string) error) func(string) error {
	return func(text string) error {
		expression, value, ok := sitemap.CutRule(text)
		if !ok {
			return fmt.Errorf("%q has not the form EXPRESSION=VALUE", text)
		}
		if err := checkRegexp(expression); err != nil {
			return err
		}
		if err := checkValue(value); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		return nil
	}
}

// expressionsOf are the expressions of rules.
func expressionsOf(rules ...[]string) (out []string) {
	for _, text := range slices.Concat(rules...) {
		expression, _, _ := sitemap.CutRule(text)
		out = append(out, expression)
	}
	return out
}
