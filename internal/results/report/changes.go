package report

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/state"
)

// Export writes the pages of a store, and the changes of its last generation.
func Export(ctx context.Context, s *state.Store, types []string, o export.Options) (*export.Result, error) {
	generation, err := page.Generation(s.Facts())
	if err != nil {
		return nil, err
	}
	if generation > 0 {
		o.Changes = func(ctx context.Context) iter.Seq2[*recrawl.Line, error] {
			return Changes(ctx, s, o.Room, generation, page.NoChange)
		}
	}
	checks, err := readChecks(ctx, s)
	if err != nil {
		return nil, err
	}
	o.Checked = checks.of
	return export.Write(ctx, Pages(s, types, o.Room), o)
}

// Changes reads what a generation and later ones found changed, in the order of pages, and of one URL the oldest first.
// Only those of one kind are read unless it is NoChange.
func Changes(ctx context.Context, s *state.Store, room *datadir.Room, since uint32,
	kind page.Change) iter.Seq2[*recrawl.Line, error] {
	return func(yield func(*recrawl.Line, error) bool) {
		for e, err := range sortByURL(ctx, changedPages(ctx, s, since, kind), sortSpace(s, room).Part(4)) {
			var l *recrawl.Line
			if err == nil {
				generation, change := binary.BigEndian.Uint32(e.value), page.Change(e.value[4])
				l, err = recrawl.NewLine(e.url.String(), generation, change, e.value[5:])
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// changedPages are the changes, in the order of keys. Their values are the generation, four bytes, the change, one
// byte, and the differences.
func changedPages(ctx context.Context, s *state.Store, since uint32, kind page.Change) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for c, err := range s.Changes(ctx, since) {
			if err == nil && kind != page.NoChange && page.Change(c.Change) != kind {
				continue
			}
			e := entry{partition: c.Key.Host.Partition()}
			if err == nil {
				e.url, err = urlOf(ctx, s, c)
			}
			e.value = append(append(binary.BigEndian.AppendUint32(nil, c.Generation), c.Change), c.Differences...)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// urlOf finds the URL of a change.
func urlOf(ctx context.Context, s *state.Store, c state.Change) (u weburl.URL, err error) {
	p, known, err := s.Page(ctx, c.Key)
	if err == nil && (!known || p.Link.URL.IsZero()) {
		err = &state.CorruptError{What: "the state directory",
			Reason: fmt.Sprintf("a change of generation %d is of a URL that is not recorded", c.Generation)}
	}
	return p.Link.URL, err
}

// changeCounts are the figures of a recrawl.
type changeCounts struct {
	generation uint32
	kinds      map[string]int64
	fields     map[string]int64
	unlinked   int64
}

// see counts a page.
func (c *changeCounts) see(l *page.Line) {
	if c.generation == 0 {
		return
	}
	if c.kinds == nil {
		c.kinds = map[string]int64{}
	}
	switch {
	case l.Generation != int(c.generation):
		c.kinds["not_checked"]++
	case l.Stale > 0:
		c.kinds["stale"]++
	case l.Change != "":
		c.kinds[l.Change]++
	}
	if l.Unlinked {
		c.unlinked++
	}
}

// tally passes the lines on, and counts changed URLs by field.
func (c *changeCounts) tally(lines iter.Seq2[*recrawl.Line, error]) iter.Seq2[*recrawl.Line, error] {
	c.fields = map[string]int64{}
	return func(yield func(*recrawl.Line, error) bool) {
		for l, err := range lines {
			if err == nil && l.Change == page.Changed.String() {
				for name := range l.Fields {
					c.fields[name]++
				}
			}
			if !yield(l, err) {
				return
			}
		}
	}
}
