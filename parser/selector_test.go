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
				s += pick("#x", "[id]", `[class="c1"]`, `[class~='c0']`, "[class^=c]", `[class$="]"]`, `[class#=(c[01])]`, `[title="a > b, (c"]`)
			case 3:
				s += pick(":nth-child(2n+1)", ":first-child", ":last-child", ":nth-last-child( 2 )", ":only-child", ":nth-of-type(2)")
			case 4:
				s += pick(":contains(x)", `:contains("x y")`, `:containsOwn('y')`, ":matches(x+[y)])", `:matchesOwn(^x(y|z)?$)`, ":empty", ":root", ":lang(en)")
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
			fmt.Fprintf(&b, "<%s class='c%d%s' %s>", name, r.IntN(3), []string{"", " c0", "]"}[r.IntN(3)], []string{"", "id=x", "title='a > b, (c'"}[r.IntN(3)])
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
		got, gotErr := parseSelector(text)
		if (err != nil) != (gotErr != nil) {
			t.Fatalf("%q: %v, cascadia says %v", text, gotErr, err)
		}
		if err != nil {
			continue
		}
		if len(got[0]) > 1 || len(got[0][0].relations) > 0 {
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

// TestSelectorsAreLinear makes sure that the work of a selector grows with the page and not with a power of it: by the visits that
// it makes. With cascadia alone each of these takes longer than the age of the universe.
func TestSelectorsAreLinear(t *testing.T) {
	const depth, width = 400, 2000
	pages := strings.Repeat("<div>", depth) + strings.Repeat("<i></i>", width)
	root, err := html.Parse(strings.NewReader(pages))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"p " + strings.Repeat("div ", 12) + "i",
		"p ~ " + strings.Repeat("i ~ ", 12) + "i",
		strings.Repeat("div:has(", 12) + "p" + strings.Repeat(")", 12),
		strings.Repeat("*:not(:has(", 8) + "p ~ p" + strings.Repeat("))", 8),
	} {
		s, err := parseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		w := treeWalk{tree: newTree(root), ctx: t.Context(), deadline: time.Now().Add(time.Hour)}
		w.match(s)
		if most := 20 * len(w.nodes); w.steps > most {
			t.Errorf("%s: %d visits of %d nodes", text, w.steps, len(w.nodes))
		}
	}
}
