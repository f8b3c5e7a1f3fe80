package pageindex

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/clickdepth"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// Names of temporary files of Build: the index, and what is sorted.
const (
	buildPattern = datadir.IndexName + ".build-*" + datadir.TempSuffix
	sortPattern  = datadir.IndexName + ".sort-*" + datadir.TempSuffix
)

// sortBytes is about how much memory each sort of Build may use.
const sortBytes = 32 << 20

// Build makes the index of a directory again from its files: sitemap.jsonl, and what links.jsonl and problems.jsonl
// add, if they are there. It waits for an export that writes to the directory.
func Build(ctx context.Context, dir string) error {
	unlock, err := datadir.Lock(ctx, dir)
	if err != nil {
		return fmt.Errorf("page index: %w", err)
	}
	defer unlock()
	// No other Build is under way.
	b, err := NewBuilder(dir, buildPattern)
	if err == nil {
		err = clean(dir, sortPattern)
	}
	if err != nil {
		return fmt.Errorf("page index: %w", err)
	}
	r := &rebuild{Builder: b, dir: dir}
	return errors.Join(r.run(ctx), r.close())
}

// rebuild is a Build under way.
type rebuild struct {
	*Builder
	dir   string
	graph *clickdepth.Graph // nil without links.jsonl
	links *lineReader       // likewise
	next  edge              // of links, the first that was not taken
	more  bool              // there is one
	pages *extsort.Sorter[place]
	marks *extsort.Sorter[place] // by line: their hashes are 0
}

// edge is a line of links.jsonl.
type edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// place is a page by the hash of its URL, or a problem of such a page.
type place struct {
	Hash     uint64
	Line     int64
	Problems problems.Set
}

// newSorter makes a sorter by hash and then by line.
func newSorter(dir string) *extsort.Sorter[place] {
	return extsort.New(extsort.Options[place]{Dir: dir, Pattern: sortPattern, Limit: sortBytes, Append: appendPlace,
		Read: readPlace})
}

func appendPlace(dst []byte, p *place) []byte {
	return extsort.AppendNumbers(dst, p.Hash, uint64(p.Line), uint64(p.Problems))
}

func readPlace(r *extsort.Reader) place {
	return place{r.Uint64(), int64(r.Uint64()), problems.Set(r.Uint64())}
}

func (r *rebuild) close() error {
	var err error
	for _, s := range []*extsort.Sorter[place]{r.pages, r.marks} {
		if s != nil {
			s.Close()
		}
	}
	if r.graph != nil {
		r.graph.Close()
		err = r.links.Close()
	}
	return errors.Join(err, r.Builder.Close())
}

func (r *rebuild) run(ctx context.Context) error {
	found, err := openLines(filepath.Join(r.dir, "problems.jsonl"))
	if err != nil {
		return fmt.Errorf("page index: %w", err)
	}
	if found != nil {
		defer found.Close()
		r.pages, r.marks = newSorter(r.dir), newSorter(r.dir)
	}
	if r.links, err = openLines(filepath.Join(r.dir, "links.jsonl")); err != nil {
		return fmt.Errorf("page index: %w", err)
	}
	if r.links != nil {
		r.graph = clickdepth.New(r.dir, sortPattern, sortBytes)
		if err := r.nextEdge(); err != nil {
			return err
		}
	}
	if err := r.readPages(ctx); err != nil {
		return err
	}
	var x Extra
	if r.graph != nil {
		if x.ClickDepths, err = r.graph.Depths(ctx); err != nil {
			return err
		}
	}
	if found != nil {
		if x.Problems, err = r.problems(ctx, found); err != nil {
			return err
		}
	}
	return r.Finish(x)
}

// readPages reads sitemap.jsonl.
func (r *rebuild) readPages(ctx context.Context) error {
	lines, err := openLines(filepath.Join(r.dir, "sitemap.jsonl"))
	if err != nil || lines == nil {
		return errors.Join(err, fmt.Errorf("page index: there is no sitemap.jsonl in %s: 'mapwright export' writes it",
			r.dir))
	}
	defer lines.Close()
	for {
		text, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var l *page.Line
		if err == nil {
			l, err = readLine(text)
		}
		if err == nil {
			err = errors.Join(r.Add(l, text), r.see(l), ctx.Err())
		}
		if err != nil {
			return fmt.Errorf("page index: sitemap.jsonl, line %d: %w", lines.number, err)
		}
	}
}

// readLine reads the part of a line that the index needs.
func readLine(text []byte) (*page.Line, error) {
	var l struct {
		URL           string       `json:"url"`
		Depth         int          `json:"depth"`
		Source        string       `json:"source"`
		Outcome       string       `json:"outcome"`
		StatusCode    int          `json:"status_code"`
		RedirectTo    string       `json:"redirect_to"`
		ResponseTime  *page.Millis `json:"response_time_ms"`
		ContentLength *int64       `json:"content_length"`
		Indexable     bool         `json:"indexable"`
		Generation    int          `json:"generation"`
		CheckedAt     page.Time    `json:"checked_at"`
		Change        string       `json:"change"`
		Stale         int          `json:"stale"`
		Unlinked      bool         `json:"unlinked"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, err
	}
	out := &page.Line{URL: l.URL, Depth: l.Depth, Source: l.Source, Outcome: l.Outcome, StatusCode: l.StatusCode,
		Indexable: l.Indexable, Generation: l.Generation, CheckedAt: l.CheckedAt,
		Change: l.Change, Stale: l.Stale, Unlinked: l.Unlinked}
	out.RedirectTo, out.ResponseTime, out.ContentLength = l.RedirectTo, l.ResponseTime, l.ContentLength
	return out, nil
}

// see takes a page for click depths and problems.
func (r *rebuild) see(l *page.Line) error {
	if r.pages != nil {
		if err := r.pages.Add(place{Hash: xxhash.Sum64String(l.URL), Line: int64(r.header.rows) - 1}); err != nil {
			return err
		}
	}
	if r.graph == nil {
		return nil
	}
	// links.jsonl has the links page by page, in the order of sitemap.jsonl.
	for r.more && r.next.From == l.URL {
		l.Links = append(l.Links, page.Link{To: r.next.To})
		if err := r.nextEdge(); err != nil {
			return err
		}
	}
	return r.graph.Add(l)
}

func (r *rebuild) nextEdge() error {
	text, err := r.links.next()
	if errors.Is(err, io.EOF) {
		r.more = false
		return nil
	}
	r.next = edge{}
	if err == nil {
		err = json.Unmarshal(text, &r.next)
	}
	if err != nil {
		return fmt.Errorf("page index: links.jsonl, line %d: %w", r.links.number, err)
	}
	r.more = true
	return nil
}

// problems reads problems.jsonl, and finds the page of each problem.
func (r *rebuild) problems(ctx context.Context, found *lineReader) (iter.Seq2[Mark, error], error) {
	entries := newSorter(r.dir)
	defer entries.Close()
	for {
		text, err := found.next()
		if errors.Is(err, io.EOF) {
			break
		}
		var e struct {
			Code string `json:"code"`
			URL  string `json:"url"`
		}
		if err == nil {
			err = json.Unmarshal(text, &e)
		}
		if code, known := problems.Parse(e.Code); err == nil && known {
			p := place{Hash: xxhash.Sum64String(e.URL)}
			p.Problems.Add(code)
			err = entries.Add(p)
		}
		if err != nil {
			return nil, fmt.Errorf("page index: problems.jsonl, line %d: %w", found.number, err)
		}
	}
	next, stop := iter.Pull2(func(yield func(place, error) bool) { r.pages.Sort(ctx, yield) })
	defer stop()
	at, err, more := next()
	entries.Sort(ctx, func(p place, failed error) bool {
		err = errors.Join(err, failed)
		for err == nil && more && at.Hash < p.Hash {
			at, err, more = next()
		}
		if err == nil && more && at.Hash == p.Hash {
			err = r.marks.Add(place{Line: at.Line, Problems: p.Problems})
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return r.joined(ctx), nil
}

// joined are the problems by page.
func (r *rebuild) joined(ctx context.Context) iter.Seq2[Mark, error] {
	return func(yield func(Mark, error) bool) {
		now := Mark{Line: -1}
		whole := r.marks.Sort(ctx, func(p place, err error) bool {
			if err != nil {
				yield(Mark{}, err)
				return false
			}
			if p.Line != now.Line {
				if now.Line >= 0 && !yield(now, nil) {
					return false
				}
				now = Mark{Line: p.Line}
			}
			now.Problems |= p.Problems
			return true
		})
		if whole && now.Line >= 0 {
			yield(now, nil)
		}
	}
}

// lineReader reads the lines of a file, of any length.
type lineReader struct {
	*os.File
	in     *bufio.Reader
	long   []byte // a line that is longer than the buffer
	number int    // of the last line
}

// openLines opens a file; nil if there is none.
func openLines(path string) (*lineReader, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &lineReader{File: f, in: bufio.NewReaderSize(f, 256<<10)}, nil
}

// next is the next line with its line feed, valid until the next call.
func (r *lineReader) next() ([]byte, error) {
	r.number++
	line, err := r.in.ReadSlice('\n')
	if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
		return line, r.end(line, err)
	}
	r.long = append(r.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = r.in.ReadSlice('\n')
		r.long = append(r.long, line...)
	}
	return r.long, r.end(r.long, err)
}

// end says that a file which does not end with a line feed is cut off.
func (r *lineReader) end(line []byte, err error) error {
	if errors.Is(err, io.EOF) && len(line) > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}
