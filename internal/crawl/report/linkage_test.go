package report

import (
	"bytes"
	"slices"
	"testing"

	"github.com/mapwright/mapwright/frontier"
)

func TestLinkage(t *testing.T) {
	l := NewLinkage(0)
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
	again := NewLinkage(0)
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
		folded := NewLinkage(0)
		for _, e := range e {
			folded.Fold(e)
		}
		check(folded)
		slices.Reverse(e)
	}
	if err := NewLinkage(0).Load(bytes.NewReader(stored.Bytes()[:stored.Len()-1])); err == nil {
		t.Error("a cut file is taken for a whole one")
	}
}

// A checkpoint may hold what a page or sitemap told whose record was lost in a kill. When that is read again, it is evidence again, so that the evidence alone gives the same result.
func TestLinkageOfALostRecord(t *testing.T) {
	const url = "https://x.test/a"
	before := NewLinkage(0)
	before.List(url, 1, nil)
	before.Link(url, 1, nil) // neither is recorded
	var checkpoint bytes.Buffer
	if err := before.Save(&checkpoint); err != nil {
		t.Fatal(err)
	}
	resumed := NewLinkage(0)
	if err := resumed.Load(&checkpoint); err != nil {
		t.Fatal(err)
	}
	var log []frontier.Evidence
	for range 2 { // the second time it is on record
		log = resumed.Link(url, 1, resumed.List(url, 1, log))
	}
	if len(log) != 2 {
		t.Errorf("%d pieces of evidence, want 2", len(log))
	}
	folded := NewLinkage(0)
	for _, e := range log {
		folded.Fold(e)
	}
	if listed, linked := folded.find(url); !listed || !linked {
		t.Errorf("by the evidence alone it is listed %v, linked %v", listed, linked)
	}
}

// A linkage that is full says so, also when it is made again from a checkpoint, or from evidence of which that of other URLs is lost.
func TestFullLinkage(t *testing.T) {
	l := NewLinkage(2)
	var e []frontier.Evidence
	for i, url := range []string{"https://x.test/a", "https://x.test/b", "https://x.test/c", "https://x.test/d", "https://x.test/c"} {
		if l.Full() != (i >= 2) {
			t.Errorf("with %d URLs it is full: %v", i, l.Full())
		}
		before := l.Changes()
		if e = l.List(url, 1, e); l.Changes() == before {
			t.Errorf("%s changes nothing", url)
		}
	}
	if len(e) != 3 || e[2].Kind != evidenceLinkageFull {
		t.Errorf("the evidence is %v, want two URLs, and once that it is full", e)
	}
	if listed, _ := l.find("https://x.test/c"); listed || len(l.Link("https://x.test/c", 1, nil)) > 0 {
		t.Error("it holds more than it may")
	}
	var checkpoint bytes.Buffer
	if err := l.Save(&checkpoint); err != nil {
		t.Fatal(err)
	}
	again := NewLinkage(2)
	if err := again.Load(&checkpoint); err != nil {
		t.Fatal(err)
	}
	folded := NewLinkage(2)
	folded.Fold(e[2])
	if !again.Full() || !folded.Full() || !folded.Active() {
		t.Error("it is not known that it was full")
	}
}
