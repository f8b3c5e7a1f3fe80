package traps

import (
	"fmt"
	"testing"

	"github.com/mapwright/mapwright/frontier"
)

// BenchmarkPage is what an ordinary page costs: it is judged, read with a new text, and has one new link.
func BenchmarkPage(b *testing.B) {
	traps := New(true, 1)
	page, found := link(b, "/shop/list/page-17.html?cat=3&page=4"), make([]*frontier.Link, 1024)
	for i := range found {
		found[i] = link(b, fmt.Sprintf("/shop/list/page-%d.html?cat=3&page=5", i))
	}
	var evidence []frontier.Evidence
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		traps.Begin()
		traps.JudgeQueued(page, false)
		_, evidence = traps.Read(page, uint64(i)*0x9e3779b97f4a7c15, uint64(i), evidence[:0])
		evidence = traps.Answered(page, evidence)
		_, evidence = traps.Admit(found[i%len(found)], false, evidence)
		traps.End()
	}
}
