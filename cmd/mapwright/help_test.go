package main

import (
	"regexp"
	"testing"
)

// Hints for flags of other programs name flags that there are, and no flag that Mapwright has itself needs one.
func TestHintsForOtherCrawlers(t *testing.T) {
	root := newRoot(nil, stdio{})
	crawl, _, err := root.Find([]string{"crawl"})
	if err != nil {
		t.Fatal(err)
	}
	for name, hint := range otherCrawlers() {
		if crawl.Flags().Lookup(name) != nil {
			t.Errorf("crawl has --%s, so nobody sees %q", name, hint)
		}
		for _, flag := range regexp.MustCompile(`--([a-z0-9-]+)`).FindAllStringSubmatch(hint, -1) {
			if crawl.Flags().Lookup(flag[1]) == nil && flag[1] != "output" { // of export
				t.Errorf("the hint for --%s names --%s, which crawl does not have", name, flag[1])
			}
		}
	}
}
