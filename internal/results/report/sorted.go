package report

import (
	"context"
	"fmt"
	"iter"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/state"
)

// entry is what is recorded of a URL.
type entry struct {
	partition uint8
	url       weburl.URL
	value     []byte // of a sorted entry: valid until the next one
}

// fields is the record of an entry, without its partition.
func (e *entry) fields(r *extsort.Record) {
	url := e.url.String()
	r.KeyText(e.url.Host()).Text(&url).Rest(&e.value)
	if r.Reads() {
		e.url, _ = weburl.FromCanonical(url)
	}
}

// sortByURL brings entries into an order that does not depend on the crawl's random seed: by partition, host name, URL
// and value. URLs of one host differ in scheme and port too. The entries come by partition already. A partition that is
// too large for memory is sorted in runs of a temporary file, which are merged. A usual page takes 500 bytes.
func sortByURL(ctx context.Context, entries iter.Seq2[entry, error], space extsort.Space) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		s := extsort.New(space, (*entry).fields)
		defer s.Close()
		sorted := func(e entry, err error) bool {
			if err != nil {
				err = fmt.Errorf("sort pages: %w", err)
			}
			return yield(e, err)
		}
		partition := uint8(0)
		for e, err := range entries {
			if err != nil {
				yield(e, err)
				return
			}
			if s.Len() > 0 && e.partition != partition && !s.Sort(ctx, sorted) {
				return
			}
			partition = e.partition
			if err := s.Add(e); err != nil {
				yield(e, fmt.Errorf("sort pages: %w", err))
				return
			}
		}
		s.Sort(ctx, sorted)
	}
}

// mostSorted is the size of the largest page that is sorted with all that is recorded of it. A page may have 15 MiB:
// each run of a sort would hold as much in memory when the runs are merged, and all of them would be on the disk twice.
// What is larger is read again from the store when its turn comes.
const mostSorted = 64 << 10

// sortPages sorts the pages of a store by partition, host name and URL.
func sortPages(ctx context.Context, s *state.Store, space extsort.Space) iter.Seq2[state.Page, error] {
	hasher := s.Hasher()
	return func(yield func(state.Page, error) bool) {
		for e, err := range sortByURL(ctx, pageEntries(s.RawPages(ctx)), space) {
			var p state.Page
			if err == nil {
				if len(e.value) > 0 {
					p, err = state.RawPage(e.value).Decode()
				} else {
					p, _, err = s.Page(ctx, hasher.Key(e.url))
				}
				if err != nil {
					err = fmt.Errorf("read pages: %w", err)
				}
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

func pageEntries(pages iter.Seq2[state.RawPage, error]) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for p, err := range pages {
			e := entry{partition: p.Key().Host.Partition(), value: p}
			if err == nil {
				if e.url, err = p.URL(); err != nil {
					err = fmt.Errorf("read pages: %w", err)
				} else if len(p) > mostSorted && !e.url.IsZero() {
					e.value = nil
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
