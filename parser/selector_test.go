package parser

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// randomSelector is a selector of any shape.
func randomSelector(r *rand.Rand, depth int) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	compound := func() string {
		s := pick("*", "p", "b", "div", "i", "")
		for s == "" || r.IntN(3) == 0 {
			switch r.IntN(12) {
			case 0, 1:
				s += pick(".c0", ".c1", ".c2", `.c\31 `, `.\63 0`)
			case 2:
				s += pick("#x", "[id]", `[class="c1"]`, `[class~='c0']`, "[class^=c]", `[class$="]"]`,
					`[title="a > b, (c"]`, `[class!=c1]`, `[class*="#="]`)
			case 3:
				s += pick(":nth-child(2n+1)", ":first-child", ":last-child", ":nth-last-child( 2 )", ":only-child",
					":nth-of-type(2)",
					":nth-last-of-type(-2n+3)", ":nth-child(even)", ":nth-child(-n + 2)", ":nth-child(3n-1)",
					":nth-child(0n+2)", ":first-of-type", ":last-of-type", ":only-of-type", ":nth-last-child(1)")
			case 4:
				s += pick(":contains(x)", `:contains("x y")`, `:containsOwn('y')`, ":contains(X)", ":contains('')",
					`:contains("y\"")`, ":empty", ":root", ":lang(en)", ":Lang(de)", ":hover", ":input")
			case 5, 6:
				if depth > 0 {
					s += pick(":not(", ":has(", ":haschild(", ":HAS( ") + randomSelector(r, depth-1) + pick(")", " )")
				}
			}
		}
		return s
	}
	s := compound()
	for r.IntN(2) == 0 {
		s += pick(" ", " > ", ">", "+", " ~ ", "~", "  ", "\t", " /* c > d */ ") + compound()
	}
	if r.IntN(5) == 0 {
		s += pick(",", " , ") + compound()
	}
	return s
}

// randomTree is a page of nested elements with texts and comments between them.
func randomTree(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("<!-- c --><html lang=en>")
	for range r.IntN(60) {
		switch name := []string{"p", "b", "div", "i"}[r.IntN(4)]; r.IntN(6) {
		case 0, 1, 2:
			fmt.Fprintf(&b, "<%s class='c%d%s' %s>", name, r.IntN(3), []string{"", " c0", "]"}[r.IntN(3)],
				[]string{"", "id=x", "title='a > b, (c'", "lang=de-AT"}[r.IntN(4)])
		case 3, 4:
			fmt.Fprintf(&b, "</%s>", name)
		default:
			b.WriteString([]string{"x", "xy", " x y ", "<!-- x -->"}[r.IntN(4)])
		}
	}
	return b.String()
}

// TestSelectorsMatchAsCascadiaDoes compares what selectors find in random pages with what cascadia finds by itself.
func TestSelectorsMatchAsCascadiaDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	matched, apart := 0, 0
	for range 4000 {
		text := randomSelector(r, 2)
		want, err := cascadia.ParseGroup(text)
		got, _, gotErr := parseSelector(text)
		if (err != nil) != (gotErr != nil) {
			t.Fatalf("%q: %v, cascadia says %v", text, gotErr, err)
		}
		if err != nil {
			continue
		}
		if len(got[0]) > 1 || len(got[0][0].tests) > 1 {
			apart++
		}
		root, err := html.Parse(strings.NewReader(randomTree(r)))
		if err != nil {
			t.Fatal(err)
		}
		w := treeWalk{tree: newTree(root), ctx: t.Context(), deadline: time.Now().Add(time.Hour)}
		found := w.match(got)
		for i, n := range w.nodes {
			if n.Type != html.ElementNode {
				continue
			}
			if found[i] != want.Match(n) {
				t.Fatalf("%q: <%s> matches: %v", text, n.Data, found[i])
			}
			if found[i] {
				matched++
			}
		}
	}
	if matched < 1000 || apart < 1000 {
		t.Errorf("%d elements were matched and %d selectors taken apart: the test shows little", matched, apart)
	}
}

// TestSelectorsAreLinear makes sure that the work of a selector grows with the page and not with a power of it: by the
// visits that it makes. With cascadia alone some of these take longer than the age of the universe.
func TestSelectorsAreLinear(t *testing.T) {
	const depth, width = 400, 2000
	pages := strings.Repeat("<div lang=de>", depth) + strings.Repeat("<i>x</i>", width)
	root, err := html.Parse(strings.NewReader(pages))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"p " + strings.Repeat("div ", 12) + "i",
		"p ~ " + strings.Repeat("i ~ ", 12) + "i",
		strings.Repeat("div:has(", 8) + "p" + strings.Repeat(")", 8),
		strings.Repeat("*:not(:has(", 4) + "p ~ p" + strings.Repeat("))", 4),
		strings.Repeat(":contains(x)", 40), strings.Repeat(":contains(y)", 40),
		strings.Repeat(":nth-last-child(2n+1)", 40), strings.Repeat(":nth-of-type(3)", 40),
		strings.Repeat(":only-of-type", 40), strings.Repeat(":lang(en)", 40),
	} {
		s, tests, err := parseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		w := treeWalk{tree: newTree(root), ctx: t.Context(), deadline: time.Now().Add(time.Hour)}
		w.match(s)
		if most := 2 * (tests + 1) * len(w.nodes); w.steps > most || w.late {
			t.Errorf("%s: %d visits of %d nodes, late %v", text, w.steps, len(w.nodes), w.late)
		}
	}
}

// TestSelectorBounds makes sure that no extractor is accepted whose work the size of a page does not bound, however it
// is written.
func TestSelectorBounds(t *testing.T) {
	for name, text := range map[string]string{
		"regular expression":     `x=p:matches((?:a?){1000}b)`,
		"upper case":             `x=p:MATCHESown(a)`,
		"nested":                 `x=div > p:not(b:has(i:Matches(a\)b)))`,
		"escaped":                `x=p:m\61tches(a)`,
		"escaped with a letter":  `x=p:matche\s(a)`,
		"in a list":              `x=b, i:matchesOwn(a)`,
		"attribute":              `x=a[href#=(a+)+b]`,
		"attribute with space":   `x=a[ href  #= "a"]`,
		"nested attribute":       `x=p:has(a[href#=x])`,
		"behind a comment":       `x=p/* :not( */:matches(a)`,
		"disabled":               `x=input:disabled`,
		"nested too deep":        "x=" + strings.Repeat(":not(", 9) + "p" + strings.Repeat(")", 9),
		"too long":               "x=" + strings.Repeat("p,", 500) + "p",
		"too long a name":        strings.Repeat("x", 1000) + "=p",
		"an end that is no text": `x=p:contains("a)`,
	} {
		if _, err := ParseExtractor(text); err == nil {
			t.Errorf("%s: %.60s is accepted", name, text)
		}
	}
	for _, text := range []string{`x=a[title="#="]`, `x=p:contains(":matches(a)")`, `x=.matches`, `x=#matches`,
		`x=a[href*='#=']`, `x=*|*.c`, `x=*|* b`} {
		if _, err := ParseExtractor(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	var many, large []Extractor
	for i := range maxExtractors + 1 {
		x, err := ParseExtractor(fmt.Sprintf("x%d=p", i))
		if err != nil {
			t.Fatal(err)
		}
		many = append(many, x)
	}
	for i := range 6 {
		x, err := ParseExtractor(fmt.Sprintf("x%d=%sp", i, strings.Repeat("p:root>", 50)))
		if err != nil {
			t.Fatal(err)
		}
		large = append(large, x)
	}
	for want, extract := range map[string][]Extractor{"101 extractors": many, "606 simple selectors": large} {
		if _, err := New(Options{Extract: extract}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestExtractedBytes makes sure that nested elements, each of which has the text of all that are inside, do not make
// much of a small page.
func TestExtractedBytes(t *testing.T) {
	var extract []Extractor
	for i := range maxExtractors {
		x, err := ParseExtractor(fmt.Sprintf("x%d=div", i))
		if err != nil {
			t.Fatal(err)
		}
		extract = append(extract, x)
	}
	pg := read(t, Options{Extract: extract}, strings.Repeat("<div>", 400)+strings.Repeat("<i>xxxxxxx</i>", 1000))
	total := 0
	for _, x := range pg.Extracted {
		for _, v := range x.Values {
			total += len(v)
		}
	}
	if total > maxExtracted || total < maxExtracted-2*maxExtraction {
		t.Errorf("%d bytes, want up to %d", total, maxExtracted)
	}

	empty, err := html.Parse(strings.NewReader(strings.Repeat("<div>", 400) + strings.Repeat("<i></i>", 20_000)))
	if err != nil {
		t.Fatal(err)
	}
	w := treeWalk{tree: newTree(empty), ctx: t.Context(), deadline: time.Now().Add(time.Hour), names: newNames(false)}
	w.values(extract[0])
	if most := 2*len(w.nodes) + maxExtractions*maxTextNodes; w.steps > most {
		t.Errorf("%d visits for elements without text, want at most %d", w.steps, most)
	}
}
