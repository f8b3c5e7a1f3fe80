package problems

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/words"
)

// finding says that a URL has a problem, or adds a part to that. Findings of one code and URL become one item.
type finding struct {
	Code Code
	URL  string
	// noLine in a further part, and outsideLine if the URL is not in sitemap.jsonl. Such a URL may have several first
	// parts; in a further part the line is that of the page which links to it.
	Line    int64
	Seq     uint8 // 0, and 1 in a further part
	Value   string
	Related []string
	Texts   []string // of links, one for each of Related
}

const (
	noLine      = -1
	outsideLine = -2
)

func (f *finding) fields(r *extsort.Record) {
	r.Byte((*uint8)(&f.Code)).Text(&f.URL).Byte(&f.Seq).Texts(&f.Related).Int64(&f.Line).Text(&f.Value).Texts(&f.Texts)
}

// Entry is a line of problems.jsonl. An item with more related URLs than MaxRelated has several lines, one after the
// other.
type Entry struct {
	Code string `json:"code"`
	Item
	Part int `json:"part,omitempty"` // 2 in the second line of an item, and so on
}

const (
	// MaxItems is how many items a Problem has.
	MaxItems = 100
	// MaxRelated is how many related URLs an item, or a line of problems.jsonl, has.
	MaxRelated = 100
	// maxItemBytes bounds the texts of a Problem's items, in bytes: 10,000 related URLs of 200 bytes with their texts.
	// The items behind have one related URL each.
	maxItemBytes = 2 << 20
)

// Mark says which problems a page has.
type Mark struct {
	Line     int64 // its number in sitemap.jsonl, from 0
	Problems Set
}

type mark struct {
	Line int64
	Code Code
}

func (m *mark) fields(r *extsort.Record) { r.Int64(&m.Line).Byte((*uint8)(&m.Code)) }

// Result are the problems of a site.
type Result struct {
	Problems []Problem // one for each entry of the table, in its order
	marks    *extsort.Sorter[mark]
	same     map[Code]*alike
}

// Finish calls each with every item, in the order of codes and URLs, and returns the result.
func (f *Finder) Finish(ctx context.Context, each func(*Entry) error) (*Result, error) {
	if f.err != nil {
		return nil, f.err
	}
	unbounded := f.o.Sorts
	unbounded.Bound = nil // marks are small, and it is too late to give up
	r := &Result{marks: extsort.New(unbounded, (*mark).fields), same: f.same}
	problems := make([]Problem, numCodes)
	w := items{r: r, problems: problems, each: each}
	for _, d := range Table() {
		w.names[d.Code] = d.Name
	}
	for found, err := range f.found.Sorted(ctx) {
		if err == nil {
			err = w.take(&found)
		}
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("write problems: %w", err)
		}
	}
	if err := w.end(); err != nil {
		r.Close()
		return nil, fmt.Errorf("write problems: %w", err)
	}
	for _, d := range Table() {
		p := problems[d.Code]
		p.Code, p.Severity, p.Explain, p.Fix = d.Name, d.Severity, d.Explain, d.Fix
		p.Result, p.Why = f.judge(d.Code, p.Count)
		p.Cut = p.Count - int64(len(p.Items))
		if p.Items == nil {
			p.Items = []Item{}
		}
		r.Problems = append(r.Problems, p)
	}
	return r, nil
}

// judge returns the result of a check, and a remark on it.
func (f *Finder) judge(c Code, count int64) (result, why string) {
	if why := f.o.NotChecked[c]; why != "" {
		return NotChecked, why
	}
	switch {
	case count > 0:
		result, why = Found, f.o.Notes[c]
	case (c == SitemapNotOK || c == SitemapNotIndexable) && f.listed == 0:
		return NotChecked, "no sitemap that was read lists a URL of this crawl"
	case c == NotInSitemap && f.sitemaps == 0:
		return NotChecked, "there is no host of which all sitemaps were read"
	case c == SoftNotFound && f.probed == 0:
		return NotChecked, "no origin has answered a request for a page that does not exist"
	case c == Orphan && f.unjudged > 0:
		result = NotChecked
	default:
		result = None
	}
	if c == Orphan && f.unjudged > 0 {
		why = fmt.Sprintf("whether others link to it is not known of %s, because links were not recorded (--links)",
			words.Count(f.unjudged, "page"))
	}
	return result, why
}

// items makes items of findings.
type items struct {
	r        *Result
	problems []Problem // by code
	names    [numCodes]string
	each     func(*Entry) error
	now      finding
	open     bool
	part     int
	related  int64 // in the lines that are written
	bytes    [numCodes]int
	skip     bool // the findings have no first part: another URL has the same hash
}

// take takes the next finding.
func (w *items) take(f *finding) error {
	if w.open && f.Code == w.now.Code && f.URL == w.now.URL {
		if f.Line >= 0 && w.now.Line == outsideLine {
			if err := w.r.marks.Add(mark{f.Line, f.Code}); err != nil {
				return err
			}
		}
		for len(f.Related) > 0 {
			room := min(MaxRelated-len(w.now.Related), len(f.Related))
			w.now.Related = append(w.now.Related, f.Related[:room]...)
			f.Related = f.Related[room:]
			if len(f.Texts) > 0 {
				w.now.Texts = append(w.now.Texts, f.Texts[:room]...)
				f.Texts = f.Texts[room:]
			}
			if len(f.Related) == 0 {
				break
			}
			if err := w.write(); err != nil {
				return err
			}
			w.now.Related, w.now.Texts = nil, nil
		}
		return nil
	}
	if err := w.end(); err != nil {
		return err
	}
	w.now, w.open, w.part, w.related, w.skip = *f, true, 0, 0, f.Line == noLine
	w.now.Related, w.now.Texts = slices.Clip(f.Related), slices.Clip(f.Texts)
	return nil
}

// end ends the present item.
func (w *items) end() error {
	if !w.open {
		return nil
	}
	w.open = false
	if err := w.write(); err != nil || w.skip {
		return err
	}
	if p := &w.problems[w.now.Code]; p.Count <= MaxItems {
		item := &p.Items[p.Count-1]
		item.RelatedCut = w.related - int64(len(item.Related))
	}
	return nil
}

// write writes a line of the present item.
func (w *items) write() error {
	if w.skip {
		return nil
	}
	w.part++
	w.related += int64(len(w.now.Related))
	item := Item{URL: w.now.URL, Value: w.now.Value, Related: w.now.Related, Texts: w.now.Texts}
	if w.part == 1 {
		p := &w.problems[w.now.Code]
		p.Count++
		if len(p.Items) < MaxItems {
			p.Items = append(p.Items, w.bound(item))
		}
		if w.now.Line >= 0 {
			if err := w.r.marks.Add(mark{w.now.Line, w.now.Code}); err != nil {
				return err
			}
		}
	}
	if w.each == nil {
		return nil
	}
	e := Entry{Code: w.names[w.now.Code], Item: item}
	if w.part > 1 {
		e.Part = w.part
	}
	return w.each(&e)
}

// bound returns an item of a Problem without those related URLs that are too much for it.
func (w *items) bound(i Item) Item {
	size := &w.bytes[w.now.Code]
	*size += len(i.URL) + len(i.Value)
	for at := range i.Related {
		n := len(i.Related[at])
		if at < len(i.Texts) {
			n += len(i.Texts[at])
		}
		if at > 0 && *size+n > maxItemBytes {
			i.Related, i.Texts = slices.Clone(i.Related[:at]), slices.Clone(i.Texts[:min(at, len(i.Texts))])
			break
		}
		*size += n
	}
	return i
}

// Close removes temporary files.
func (r *Result) Close() { r.marks.Close() }

// Marks are the problems of the pages that have any, in the order of sitemap.jsonl. It may be called once.
func (r *Result) Marks(ctx context.Context) iter.Seq2[Mark, error] {
	return func(yield func(Mark, error) bool) {
		now := Mark{Line: noLine}
		for m, err := range r.marks.Sorted(ctx) {
			if err != nil {
				yield(Mark{}, fmt.Errorf("sort problems: %w", err))
				return
			}
			if m.Line != now.Line {
				if now.Problems != 0 && !yield(now, nil) {
					return
				}
				now = Mark{Line: m.Line}
			}
			now.Problems.Add(m.Code)
		}
		if now.Problems != 0 {
			yield(now, nil)
		}
	}
}
