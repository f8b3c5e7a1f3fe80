package problems

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
)

// The items of a problem are bounded in bytes too. problems.jsonl has all of them.
func TestItemsAreBounded(t *testing.T) {
	var pages []*page.Line
	for i := range 80 {
		l := pageOf(fmt.Sprintf("https://a.test/%s/%03d", strings.Repeat("x", 2000), i), 200)
		for j := range 50 {
			l.Links = append(l.Links, page.Link{To: fmt.Sprint("https://a.test/gone/", j), Text: "a text"})
		}
		pages = append(pages, l)
	}
	for j := range 50 {
		l := pageOf(fmt.Sprint("https://a.test/gone/", j), 0)
		l.Outcome, l.StatusCode, l.Indexable = page.HTTPError.String(), 404, false
		pages = append(pages, l)
	}
	_, r, lines := found(t, Options{Links: true}, pages...)
	written := 0
	for _, e := range lines {
		if e.Code == BrokenLink.String() {
			written += len(e.Related)
		}
	}
	p := r.Problems[BrokenLink]
	size := 0
	for i, item := range p.Items {
		n := len(item.Related)
		if n < 1 || n != len(item.Texts) || int64(n)+item.RelatedCut != 80 {
			t.Errorf("item %d has %d related URLs, %d texts, %d are cut", i, n, len(item.Texts), item.RelatedCut)
		}
		for _, url := range item.Related {
			size += len(url)
		}
	}
	if len(p.Items) != 50 || written != 50*80 || size < maxItemBytes/2 || size > maxItemBytes+50*2100 {
		t.Errorf("%d items with %d bytes, %d related URLs in the lines", len(p.Items), size, written)
	}
}
