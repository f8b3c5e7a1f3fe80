package report

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/state"
)

// sortBytes is about how much memory the pages of one partition may take before they are sorted and written to a temporary file.
const sortBytes = 48 << 20

// sortPages brings the pages of a store into an order that does not depend on the crawl's random seed: by partition, host name, URL.
// The store gives them by partition already. One partition is sorted in memory, or, if it is larger than limit bytes, by merging
// sorted runs of a temporary file in dir.
func sortPages(ctx context.Context, pages iter.Seq2[state.Page, error], dir string, limit int) iter.Seq2[state.Page, error] {
	return func(yield func(state.Page, error) bool) {
		s := extsort.New(extsort.Options[state.Page]{Dir: dir, Pattern: state.TempPattern, Limit: limit, Compare: comparePages, Size: pageSize})
		defer s.Close()
		sorted := func(p state.Page, err error) bool {
			if err != nil {
				err = fmt.Errorf("sort pages: %w", err)
			}
			return yield(p, err)
		}
		partition := uint8(0)
		for p, err := range pages {
			if err != nil {
				yield(p, err)
				return
			}
			if s.Len() > 0 && p.Link.Key.Host.Partition() != partition && !s.Sort(ctx, sorted) {
				return
			}
			partition = p.Link.Key.Host.Partition()
			if err := s.Add(p); err != nil {
				yield(p, fmt.Errorf("sort pages: %w", err))
				return
			}
		}
		s.Sort(ctx, sorted)
	}
}

// pageSize is about the memory that a page takes.
func pageSize(p *state.Page) int {
	size := 400 + len(p.Link.URL.String()) + len(p.Link.Parent.String()) // 400: the structures
	if p.Finish != nil {
		size += len(p.Finish.Facts) + len(p.Finish.RedirectTo) + len(p.Finish.Differences) + len(p.VisitFacts)
	}
	return size
}

// comparePages orders by host name, then by URL, and visits of one URL by their generation. URLs of one host differ in scheme and port too.
func comparePages(a, b state.Page) int {
	x, y := a.Link.URL, b.Link.URL
	order := cmp.Or(strings.Compare(x.Host(), y.Host()), strings.Compare(x.String(), y.String()), a.Link.Key.Compare(b.Link.Key))
	if order == 0 && a.Finish != nil && b.Finish != nil {
		return cmp.Compare(a.Finish.Generation, b.Finish.Generation)
	}
	return order
}
