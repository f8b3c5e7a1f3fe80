package report

import (
	"bytes"
	"slices"
	"testing"

	"github.com/mapwright/mapwright/frontier"
)

func TestLinkage(t *testing.T) {
	l := NewLinkage()
	var e []frontier.Evidence
	e = l.Link("https://x.test/early", 1, e) // before any sitemap: not remembered, the URL's own source tells
	e = l.List("https://x.test/a", 1, e)
	e = l.List("https://x.test/b", 1, e)
	e = l.Link("https://x.test/a", 1, e)
	e = l.Link("https://x.test/a", 1, e)
	e = l.Link("https://x.test/c", 1, e)
	e = l.List("https://x.test/a", 1, e) // again, by another sitemap
	if len(e) != 3 {
		t.Errorf("%d pieces of evidence, want 3: two URLs are listed, and one is linked", len(e))
	}

	check := func(l *Linkage) {
		t.Helper()
		for url, want := range map[string][2]bool{
			"https://x.test/a": {true, true}, "https://x.test/b": {true, false}, "https://x.test/c": {false, false},
		} {
			if listed, linked := l.find(url); listed != want[0] || linked != want[1] {
				t.Errorf("%s: listed %v, linked %v, want %v", url, listed, linked, want)
			}
		}
	}
	check(l)

	var stored bytes.Buffer
	if err := l.Save(&stored); err != nil {
		t.Fatal(err)
	}
	again := NewLinkage()
	if err := again.Load(bytes.NewReader(stored.Bytes())); err != nil {
		t.Fatal(err)
	}
	check(again)
	for _, e := range e { // what a checkpoint holds already comes again
		again.Fold(e)
	}
	check(again)

	// The evidence alone says the same, in any order.
	for range 2 {
		folded := NewLinkage()
		for _, e := range e {
			folded.Fold(e)
		}
		check(folded)
		slices.Reverse(e)
	}
	if err := NewLinkage().Load(bytes.NewReader(stored.Bytes()[:stored.Len()-1])); err == nil {
		t.Error("a cut file is taken for a whole one")
	}
}
