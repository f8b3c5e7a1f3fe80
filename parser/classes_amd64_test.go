package parser

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Pages have the same hashes with the machine's own means and without, wherever text and numbers lie in memory.
func TestTextWithoutOwnMeans(t *testing.T) {
	if !blockwise {
		t.Skip("this machine has no means of its own")
	}
	defer func() { blockwise = true }()
	r := rand.New(rand.NewPCG(5, 6))
	p := newParser(t, Options{SimHash: true})
	u := canonical(t, "https://x.test/p/77777?n=88888.5&m=12")
	for range 3000 {
		var b strings.Builder
		for range r.IntN(60) {
			switch r.IntN(9) {
			case 0:
				b.WriteString(strings.Repeat("word ", r.IntN(30)))
			case 1:
				b.WriteString([]string{"<b>", "&amp;", "é", "\n ", "0.5", "1.2.2026", "77777", "88888.5",
					"3,5"}[r.IntN(9)])
			case 2:
				fmt.Fprintf(&b, "%d", r.Uint64()>>r.IntN(64))
			case 3:
				fmt.Fprintf(&b, "%d.%d", r.IntN(200), r.IntN(1000))
			default:
				b.WriteString([]string{"a", "it's", "12", " ", ", ", "7", ".", "'"}[r.IntN(8)])
			}
		}
		body := []byte(b.String())
		var own, other Page
		blockwise = true
		parse(t, p, &own, Input{URL: u, Body: body})
		blockwise = false
		parse(t, p, &other, Input{URL: u, Body: body})
		if got, want := dump(&own), dump(&other); got != want {
			t.Fatalf("%q becomes\n%s\nwithout own means\n%s", body, got, want)
		}
	}
}
