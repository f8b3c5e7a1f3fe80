package parser

import (
	"strings"

	"github.com/andybalholm/cascadia"
)

// A selector is a CSS selector, taken apart where cascadia would search the tree again for every element: at combinators and
// at :not, :has and :haschild. What is left are parts that cascadia matches against one element at a time. Nested searches
// take time that grows with a power of the size of the page; treeWalk.match visits each node once for each part.
type selector []complexSelector // matches what one of them matches

// A complexSelector is a row of compound selectors, joined by combinators.
type complexSelector []compoundSelector

type compoundSelector struct {
	combinator byte         // how it is joined to the one before: ' ', '>', '+' or '~'. The first has none
	local      cascadia.Sel // nil matches every element
	relations  []relation   // all of which must hold too
}

// A relation is :not, :has or :haschild.
type relation struct {
	name string
	of   selector
}

// parseSelector reads a selector. Cascadia judges whether it is one.
func parseSelector(text string) (selector, error) {
	whole, err := cascadia.ParseGroup(text)
	if err != nil {
		return nil, err
	}
	p := selectorParser{s: text}
	if sel := p.group(); p.i == len(text) && !p.failed {
		return sel, nil
	}
	// Cascadia reads more than selectorParser does. It can do all of it then, in its own time.
	var sel selector
	for _, s := range whole {
		sel = append(sel, complexSelector{{local: s}})
	}
	return sel, nil
}

// A selectorParser takes apart a text that cascadia has accepted.
type selectorParser struct {
	s      string
	i      int
	failed bool
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
	for p.at(",") {
		p.i++
		sel = append(sel, p.complex())
	}
	return sel
}

func (p *selectorParser) complex() complexSelector {
	p.space()
	sel := complexSelector{p.compound(0)}
	for !p.failed {
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
			p.failed = true
			break
		}
		sel = append(sel, p.compound(combinator))
	}
	return sel
}

func (p *selectorParser) compound(combinator byte) compoundSelector {
	c := compoundSelector{combinator: combinator}
	local, start := "", p.i
	for p.i < len(p.s) && !p.failed && !p.at(selectorSpace+"+>~,)") && !strings.HasPrefix(p.s[p.i:], "/*") {
		switch p.s[p.i] {
		case '[':
			p.attribute()
		case ':':
			before := p.s[start:p.i]
			if r, ok := p.pseudo(); ok {
				c.relations = append(c.relations, r)
				local += before
				start = p.i
			}
		default:
			p.char()
		}
	}
	if local += p.s[start:p.i]; local == "" {
		p.failed = p.failed || len(c.relations) == 0
		return c
	}
	var err error
	if c.local, err = cascadia.Parse(local); err != nil {
		p.failed = true
	}
	return c
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

// pseudo passes over a pseudo-class. If it is a relation, it is returned.
func (p *selectorParser) pseudo() (relation, bool) {
	p.i++
	start := p.i
	for p.i < len(p.s) && !p.at(selectorSpace+"+>~,)(:[.#*") {
		p.char()
	}
	name := strings.ToLower(p.s[start:p.i])
	if !p.at("(") {
		return relation{}, false
	}
	p.i++
	switch name {
	case "not", "has", "haschild":
		r := relation{name: name, of: p.group()}
		p.close(')')
		return r, true
	case "matches", "matchesown":
		p.regexp()
	default:
		for p.i < len(p.s) && !p.at(")") {
			p.text()
		}
	}
	p.close(')')
	return relation{}, false
}

// attribute passes over an attribute in brackets.
func (p *selectorParser) attribute() {
	p.i++
	for p.i < len(p.s) && !p.at("]") {
		if strings.HasPrefix(p.s[p.i:], "#=") {
			p.i += 2
			p.regexp()
			break
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

// regexp passes over a regular expression, as cascadia does: up to a closing bracket or parenthesis that is not open in it.
func (p *selectorParser) regexp() {
	for open := 0; p.i < len(p.s); p.i++ {
		switch p.s[p.i] {
		case '(', '[':
			open++
		case ')', ']':
			if open--; open < 0 {
				return
			}
		}
	}
}

// close passes over the byte that ends something.
func (p *selectorParser) close(end byte) {
	if p.i < len(p.s) && p.s[p.i] == end {
		p.i++
	} else {
		p.failed = true
	}
}
