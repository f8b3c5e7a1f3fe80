package crawl

import (
	"bytes"
	"testing"
)

func TestLinkage(t *testing.T) {
	l := newLinkage()
	l.link("https://x.test/early") // before any sitemap: not remembered, the URL's own source tells
	l.list("https://x.test/a")
	l.list("https://x.test/b")
	l.link("https://x.test/a")
	l.link("https://x.test/c")
	l.list("https://x.test/a") // again, by another sitemap

	check := func(l *linkage) {
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
	if err := l.save(&stored); err != nil {
		t.Fatal(err)
	}
	again := newLinkage()
	if err := again.load(bytes.NewReader(stored.Bytes())); err != nil {
		t.Fatal(err)
	}
	check(again)
	if err := newLinkage().load(bytes.NewReader(stored.Bytes()[:stored.Len()-1])); err == nil {
		t.Error("a cut file is taken for a whole one")
	}
}
