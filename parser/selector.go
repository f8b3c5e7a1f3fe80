package parser

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/andybalholm/cascadia"
)

// A selector is a CSS selector, taken apart into simple ones, such as .price or :nth-child(2). treeWalk.match visits
// each node once for each of them. Cascadia would search the tree again for every element at combinators, at :not, :has
// and :haschild, and at those simple selectors that look at other elements: the time would grow with a power of the
// size of the page.
type selector []complexSelector // matches what one of them matches

// A complexSelector is a row of compound selectors, joined by combinators.
type complexSelector []compoundSelector

// A compoundSelector is what stands between combinators. All of its tests must hold.
type compoundSelector struct {
	combinator byte // how it is joined to the one before: ' ', '>', '+' or '~'. The first has none
	tests      []test
}

// Bounds of the extractors of a parser. For each of maxTests every node of a page is visited once or twice.
const (
	maxExtractors = 100
	maxExtractor  = 1000 // bytes of one
	maxTests      = 500  // simple selectors of all together
	maxNesting    = 8    // of :not, :has and :haschild
)

// parseSelector reads a selector, and says how many simple ones it has. Cascadia decides whether it is valid.
func parseSelector(text string) (sel selector, tests int, err error) {
	p := selectorParser{s: text}
	sel = p.group()
	if p.err == nil && p.i < len(text) {
		p.err = errSelectorForm
	}
	if _, err := cascadia.ParseGroup(text); err != nil && (p.err == nil || errors.Is(p.err, errSelectorForm)) {
		return nil, 0, err
	}
	return sel, p.tests, p.err
}

// Errors of selectors.
var (
	errSelectorForm = errors.New("it cannot be read")
	errRegexp       = errors.New("regular expressions (:matches, :matchesOwn and #=) are not allowed, because the " +
		"time that they take is not bounded by the size of a page; " +
		":contains and [attr*=value] look for a text")
)

// A selectorParser takes a selector apart.
type selectorParser struct {
	s     string
	i     int
	depth int // of relations
	tests int
	err   error // the first fault
}

func (p *selectorParser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

const selectorSpace = " \t\r\n\f"

// at reports whether the next byte is one of set.
func (p *selectorParser) at(set string) bool {
	return p.i < len(p.s) && strings.IndexByte(set, p.s[p.i]) >= 0
}

// space passes over white space and comments, and reports whether there was any.
func (p *selectorParser) space() bool {
	start := p.i
	for {
		switch end := -1; {
		case p.at(selectorSpace):
			p.i++
		case strings.HasPrefix(p.s[p.i:], "/*"):
			if end = strings.Index(p.s[p.i+2:], "*/"); end < 0 {
				return p.i > start
			}
			p.i += 2 + end + 2
		default:
			return p.i > start
		}
	}
}

// group reads selectors up to the end or to a closing parenthesis.
func (p *selectorParser) group() selector {
	sel := selector{p.complex()}
	for p.err == nil && p.at(",") {
		p.i++
		sel = append(sel, p.complex())
	}
	return sel
}

func (p *selectorParser) complex() complexSelector {
	p.space()
	sel := complexSelector{p.compound(0)}
	for p.err == nil {
		combinator := byte(0)
		if p.space() {
			combinator = ' '
		}
		if p.at("+>~") {
			combinator = p.s[p.i]
			p.i++
			p.space()
		} else if p.i == len(p.s) || p.at(",)") {
			break
		}
		if combinator == 0 {
			p.fail(errSelectorForm)
			break
		}
		sel = append(sel, p.compound(combinator))
	}
	return sel
}

// compound reads simple selectors up to a combinator.
func (p *selectorParser) compound(combinator byte) compoundSelector {
	c := compoundSelector{combinator: combinator}
	universal := false
	for p.err == nil && p.i < len(p.s) && !p.at(selectorSpace+"+>~,)") && !strings.HasPrefix(p.s[p.i:], "/*") {
		p.tests++
		start := p.i
		switch p.s[p.i] {
		case '[':
			p.attribute()
		case ':':
			if t := p.pseudo(); t != nil {
				c.tests = append(c.tests, t)
				continue
			}
		default:
			p.i++
			for p.i < len(p.s) && !p.at(selectorSpace+"+>~,)[:.#") && !strings.HasPrefix(p.s[p.i:], "/*") {
				p.char()
			}
		}
		if text := p.s[start:p.i]; text == "*" || text == "*|*" {
			universal = true
		} else if sel := p.simple(text); sel != nil {
			c.tests = append(c.tests, matching(sel))
		}
	}
	switch {
	case len(c.tests) > 0:
	case universal:
		c.tests = []test{isElement}
	default:
		p.fail(errSelectorForm)
	}
	return c
}

// simple parses a simple selector with cascadia. It returns nil after an error.
func (p *selectorParser) simple(text string) cascadia.Sel {
	if p.err != nil {
		return nil
	}
	sel, err := cascadia.Parse(text)
	if err != nil {
		p.fail(err)
		return nil
	}
	return sel
}

// char passes over a character or an escape of one.
func (p *selectorParser) char() {
	const hex = "0123456789abcdefABCDEF"
	if p.s[p.i] != '\\' {
		p.i++
		return
	}
	p.i++
	digits := 0
	for digits < 6 && p.at(hex) {
		p.i++
		digits++
	}
	if p.i < len(p.s) && (digits == 0 || p.at(selectorSpace)) {
		p.i++
	}
}

// pseudo passes over a pseudo-class. It returns its test if the pseudo-class is about other elements too, and nil if
// cascadia can match it.
func (p *selectorParser) pseudo() test {
	start := p.i
	p.i++
	for p.i < len(p.s) && !p.at(selectorSpace+"+>~,)(:[.#*\\") {
		p.i++
	}
	name := strings.ToLower(p.s[start+1 : p.i])
	if p.at(`\`) {
		p.fail(fmt.Errorf("the name of a pseudo-class has an escape, behind %q", p.s[start:p.i]))
		return nil
	}
	if p.at("(") {
		p.i++
		switch name {
		case "not", "has", "haschild":
			return p.relation(name)
		case "matches", "matchesown":
			p.fail(errRegexp)
			return nil
		}
		for p.i < len(p.s) && !p.at(")") {
			p.text()
		}
		p.close(')')
	}
	switch name {
	case "enabled", "disabled":
		p.fail(fmt.Errorf(":%s is not allowed; use [disabled]", name))
	case "only-child":
		return both(nth(0, 1, false, false), nth(0, 1, true, false))
	case "only-of-type":
		return both(nth(0, 1, false, true), nth(0, 1, true, true))
	case "contains", "lang", "nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type", "first-child",
		"last-child", "first-of-type", "last-of-type":
		if sel := p.simple(p.s[start:p.i]); sel != nil {
			return wideTest(name, sel)
		}
	}
	return nil
}

// wideTest is the test of a pseudo-class that is about other elements too. Cascadia has parsed its argument, and
// sel.String shows it in one form.
func wideTest(name string, sel cascadia.Sel) test {
	_, argument, _ := strings.Cut(sel.String(), "(")
	argument = strings.TrimSuffix(argument, ")")
	switch name {
	case "contains":
		return contains(strings.TrimSuffix(strings.TrimPrefix(argument, `"`), `"`))
	case "lang":
		return inherited(sel)
	}
	a, b := 0, 1 // cascadia shows :nth-child(1) as :first-child
	if before, after, ok := strings.Cut(argument, "n"); ok {
		a, _ = strconv.Atoi(before)
		b, _ = strconv.Atoi(after)
	}
	return nth(a, b, strings.Contains(name, "last"), strings.Contains(name, "of-type"))
}

// relation reads the argument of :not, :has or :haschild.
func (p *selectorParser) relation(name string) test {
	if p.depth++; p.depth > maxNesting {
		p.fail(fmt.Errorf(":not, :has and :haschild are nested more than %d times", maxNesting))
		return nil
	}
	of := p.group()
	p.depth--
	p.close(')')
	return relation(name, of)
}

// attribute passes over an attribute in brackets.
func (p *selectorParser) attribute() {
	p.i++
	for p.i < len(p.s) && !p.at("]") {
		if strings.HasPrefix(p.s[p.i:], "#=") {
			p.fail(errRegexp)
			return
		}
		p.text()
	}
	p.close(']')
}

// text passes over a string in quotes, or a character.
func (p *selectorParser) text() {
	if !p.at(`"'`) {
		p.char()
		return
	}
	quote := p.s[p.i]
	for p.i++; p.i < len(p.s) && p.s[p.i] != quote; {
		p.char()
	}
	p.close(quote)
}

// close passes over the byte that ends something.
func (p *selectorParser) close(end byte) {
	if p.i < len(p.s) && p.s[p.i] == end {
		p.i++
	} else {
		p.fail(errSelectorForm)
	}
}
