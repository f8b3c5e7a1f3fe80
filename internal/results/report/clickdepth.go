package report

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
)

// maxPages is how many pages a graph may have: one bit of a number of 32 is for the kind of a link.
const maxPages = 1 << 31

// clickGraph computes how many clicks each page of a crawl is away from the start pages: breadth-first over the
// recorded links, where a redirect adds nothing. Links are sorted in temporary files, so that memory is a few bytes for
// each page, whatever the number of links. Add every page in the order of sitemap.jsonl, then call Depths once, and
// Close in any case.
type clickGraph struct {
	n      uint32 // pages
	starts []uint32
	pages  *extsort.Sorter[node]
	links  *extsort.Sorter[node]
	sorts  extsort.Space
}

// node is a page, by the hash of its URL, or a link from it to the URL with the hash.
type node struct {
	Hash uint64
	ID   uint32 // place in the order of pages; of a link, the highest bit is set if it is a redirect
}

func (n *node) fields(r *extsort.Record) { r.Uint64(&n.Hash).Uint32(&n.ID) }

// edge leads from a page to a page. The highest bit of To is set if it is a redirect.
type edge struct{ From, To uint32 }

func (e *edge) fields(r *extsort.Record) { r.Uint32(&e.From).Uint32(&e.To) }

const redirectBit = 1 << 31

func newClickGraph(sorts extsort.Space) *clickGraph {
	each := sorts.Part(2)
	return &clickGraph{sorts: each, pages: extsort.New(each, (*node).fields), links: extsort.New(each, (*node).fields)}
}

// Close removes the temporary files.
func (g *clickGraph) Close() {
	g.pages.Close()
	g.links.Close()
}

// Add takes the next page and its links.
func (g *clickGraph) Add(l *page.Line) error {
	if g.n == maxPages-1 {
		return errors.New("click depths: too many pages")
	}
	id := g.n
	g.n++
	if l.Source == page.SourceName(page.SourceStart) {
		g.starts = append(g.starts, id)
	}
	if err := g.pages.Add(node{xxhash.Sum64String(l.URL.String()), id}); err != nil {
		return err
	}
	if l.RedirectTo != "" {
		if err := g.links.Add(node{xxhash.Sum64String(l.RedirectTo), id | redirectBit}); err != nil {
			return err
		}
	}
	for i := range l.Links {
		if err := g.links.Add(node{xxhash.Sum64String(l.Links[i].To), id}); err != nil {
			return err
		}
	}
	return nil
}

// Depths are the clicks from the nearest start page, by page; pageindex.NoDepth if no way leads to it.
func (g *clickGraph) Depths(ctx context.Context) (depths []uint16, err error) {
	a, err := g.adjacency(ctx)
	if err != nil {
		return nil, fmt.Errorf("click depths: %w", err)
	}
	defer func() { err = errors.Join(err, a.close()) }()
	depths = make([]uint16, g.n)
	for i := range depths {
		depths[i] = pageindex.NoDepth
	}
	level := g.starts
	for _, id := range level {
		depths[id] = 0
	}
	for depth := uint16(0); len(level) > 0; depth++ {
		var next []uint32
		for i := 0; i < len(level); i++ { // redirects make it longer
			id := level[i]
			if depths[id] != depth {
				continue // a redirect led there with fewer clicks
			}
			targets, err := a.targets(id)
			if err != nil {
				return nil, fmt.Errorf("click depths: %w", err)
			}
			for _, to := range targets {
				switch page := to &^ redirectBit; {
				case to != page && depths[page] > depth:
					depths[page] = depth
					level = append(level, page)
				case to == page && depths[page] > depth+1 && depth+1 < pageindex.NoDepth:
					depths[page] = depth + 1
					next = append(next, page)
				}
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		level = next
	}
	return depths, nil
}

// adjacency writes the links between pages to files, by the page from which they lead.
func (g *clickGraph) adjacency(ctx context.Context) (a *adjacency, err error) {
	edges := extsort.New(g.sorts, (*edge).fields)
	defer edges.Close()
	if err := g.join(ctx, edges.Add); err != nil {
		return nil, err
	}
	g.Close() // so that their memory is free
	w, err := newAdjacency(g.sorts, g.n, edges.Len())
	if err != nil {
		return nil, err
	}
	edges.Sort(ctx, func(e edge, failed error) bool {
		if err = failed; err == nil {
			err = w.add(e)
		}
		return err == nil
	})
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// join finds the pages that links lead to. Links to URLs that are not pages are left out.
func (g *clickGraph) join(ctx context.Context, yield func(edge) error) error {
	nextPage, stop := iter.Pull2(g.pages.Sorted(ctx))
	defer stop()
	at, err, more := nextPage()
	if err != nil {
		return err
	}
	g.links.Sort(ctx, func(l node, failed error) bool {
		if err = failed; err != nil {
			return false
		}
		for more && at.Hash < l.Hash {
			if at, err, more = nextPage(); err != nil {
				return false
			}
		}
		if !more || at.Hash != l.Hash {
			return true
		}
		err = yield(edge{l.ID &^ redirectBit, at.ID | l.ID&redirectBit})
		return err == nil
	})
	return err
}

// What the files of an adjacency have for each page and for each link.
const (
	endBytes    = 8
	targetBytes = 4
)

// adjacency is the targets of each page in two files: the targets, and where those of each page end.
type adjacency struct {
	n           uint32
	files       extsort.Space
	size        int64 // bytes of both files, once there is room for them
	list, ends  *os.File
	lists, tail *bufio.Writer
	from        uint32 // the page whose targets are being written
	count       uint64 // targets so far
	buf         []byte
	result      []uint32
}

// newAdjacency begins the files for n pages and so many links.
func newAdjacency(files extsort.Space, n uint32, links int) (*adjacency, error) {
	a := &adjacency{n: n, files: files}
	size := endBytes*int64(n) + targetBytes*int64(links)
	if err := files.Reserve(size); err != nil {
		return nil, err
	}
	a.size = size
	for _, f := range []**os.File{&a.list, &a.ends} {
		var err error
		if *f, err = files.TempFile(); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	a.lists, a.tail = bufio.NewWriterSize(a.list, 64<<10), bufio.NewWriterSize(a.ends, 64<<10)
	return a, nil
}

func (a *adjacency) add(e edge) error {
	if err := a.endUpTo(e.From); err != nil {
		return err
	}
	a.count++
	a.buf = binary.LittleEndian.AppendUint32(a.buf[:0], e.To)
	_, err := a.lists.Write(a.buf)
	return err
}

// endUpTo writes where the targets of the pages before from end.
func (a *adjacency) endUpTo(from uint32) error {
	for ; a.from < from; a.from++ {
		a.buf = binary.LittleEndian.AppendUint64(a.buf[:0], a.count)
		if _, err := a.tail.Write(a.buf); err != nil {
			return err
		}
	}
	return nil
}

func (a *adjacency) finish() error {
	return errors.Join(a.endUpTo(a.n), a.lists.Flush(), a.tail.Flush())
}

// targets are where a page's links lead. The result is valid until the next call.
func (a *adjacency) targets(id uint32) ([]uint32, error) {
	var bounds [16]byte
	at, into := int64(id)*8-8, bounds[:]
	if id == 0 {
		at, into = 0, bounds[8:]
	}
	if _, err := a.ends.ReadAt(into, at); err != nil {
		return nil, err
	}
	first, end := binary.LittleEndian.Uint64(bounds[:8]), binary.LittleEndian.Uint64(bounds[8:])
	size := int(end-first) * 4
	if cap(a.buf) < size {
		a.buf = make([]byte, size)
	}
	a.buf = a.buf[:size]
	if _, err := a.list.ReadAt(a.buf, int64(first)*4); err != nil && (!errors.Is(err, io.EOF) || size > 0) {
		return nil, err
	}
	a.result = a.result[:0]
	for i := 0; i < size; i += 4 {
		a.result = append(a.result, binary.LittleEndian.Uint32(a.buf[i:]))
	}
	return a.result, nil
}

func (a *adjacency) close() error {
	errs := []error{a.files.Reserve(-a.size)}
	for _, f := range []*os.File{a.list, a.ends} {
		if f != nil {
			errs = append(errs, f.Close())
			_ = os.Remove(f.Name()) // it may be gone already
		}
	}
	return errors.Join(errs...)
}
