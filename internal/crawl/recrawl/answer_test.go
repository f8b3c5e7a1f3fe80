package recrawl

import (
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
)

// Facts that no record can hold are left out, and said to be. What is said of the page itself stays.
func TestFactsAreBounded(t *testing.T) {
	for _, size := range []int{maxFacts / 2, maxFacts} {
		f := Answer{Outcome: page.OK, Facts: page.Facts{Title: "a title",
			Links: []page.Link{{To: strings.Repeat("x", size)}}}}
		facts, err := page.Decode(f.Record().Facts)
		if err != nil {
			t.Fatal(err)
		}
		kept := size < maxFacts
		if facts.Title != "a title" || (len(facts.Links) == 1) != kept || (facts.Error == "") != kept {
			t.Errorf("%d bytes: %d links, title %q, error %q", size, len(facts.Links), facts.Title, facts.Error)
		}
	}
}
