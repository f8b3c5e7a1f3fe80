package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/results"
)

// pageQuery reads the filters, the order and the cursor of a request.
func pageQuery(q *query) pageindex.Query {
	out := pageindex.Query{Limit: q.number("limit", 1, mostItems, someItems), Cursor: q.text("cursor")}
	out.Filter = results.Filter(q.text, func(name, detail string) { q.fault(name, "invalid", detail) })
	if text := q.text("sort"); text != "" {
		name, down := strings.CutPrefix(text, "-")
		order, ok := pageindex.ParseOrder(name)
		if !ok {
			q.fault("sort", "invalid", "must be one of "+strings.Join(pageindex.Orders(),
				", ")+", perhaps with - before it")
		}
		out.Order, out.Descending = order, down
	}
	return out
}

// pageList is one part of a list of pages.
type pageList struct {
	Items      []json.RawMessage `json:"items"`
	Total      *int64            `json:"total,omitempty"` // pages that pass the filters; not known of a running crawl
	NextCursor string            `json:"next_cursor,omitempty"`
}

// pages lists pages of a crawl: those of its file by the index or, if it has none yet, those that are recorded, in the
// order of their keys.
func (a resultRoutes) pages(c *call) error {
	q := c.query()
	wanted := pageQuery(q)
	if err := q.done(); err != nil {
		return err
	}
	crawl, dir, err := a.dir(c)
	if err != nil {
		return err
	}
	list, err := a.indexedPages(c.r.Context(), dir, wanted)
	if errors.Is(err, fs.ErrNotExist) {
		list, err = a.recordedPages(c, crawl, wanted)
	}
	fault := func(field, code string) error {
		return refuse(service.ErrInvalid, "the query has faults",
			service.FieldError{Field: field, Code: code, Detail: err.Error()})
	}
	switch {
	case errors.Is(err, pageindex.ErrCursor), errors.Is(err, pageindex.ErrOldCursor):
		return fault("cursor", "invalid")
	case errors.Is(err, pageindex.ErrUnknown) && (wanted.Filter.Problems != 0 || wanted.Filter.AnyProblem != nil):
		return fault("problem", "not_known")
	case errors.Is(err, pageindex.ErrUnknown):
		return fault("sort", "not_known")
	case err != nil:
		return err
	}
	return c.json(http.StatusOK, list)
}

// indexedPages answers from the files of the last run that ended.
func (a resultRoutes) indexedPages(ctx context.Context, dir datadir.Dir, wanted pageindex.Query) (*pageList, error) {
	list := &pageList{Items: []json.RawMessage{}}
	return list, a.server.indexes.Use(ctx, string(dir), func(x *pageindex.Index) error {
		found, err := x.Query(ctx, wanted)
		if err != nil {
			return err
		}
		list.Total, list.NextCursor = &found.Total, found.Next
		for i := range found.Hits {
			line, err := indexedLine(x, &found.Hits[i])
			if err != nil {
				return err
			}
			list.Items = append(list.Items, line)
		}
		return nil
	})
}

// indexedLine is the line of a page, with what the index knows beyond it.
func indexedLine(x *pageindex.Index, hit *pageindex.Hit) ([]byte, error) {
	line, err := x.Line(hit)
	if err != nil {
		return nil, err
	}
	more := struct {
		ClickDepth *int32   `json:"click_depth,omitempty"`
		Problems   []string `json:"problems,omitempty"`
	}{}
	if hit.ClickDepth >= 0 {
		more.ClickDepth = &hit.ClickDepth
	}
	if x.KnowsProblems() {
		for _, code := range hit.Problems.Codes() {
			more.Problems = append(more.Problems, code.String())
		}
	}
	text, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	return join(line, text), nil
}

// join makes one object of two that have no names in common.
func join(a, b []byte) []byte {
	a = bytes.TrimSuffix(bytes.TrimRight(a, "\n"), []byte("}"))
	if len(b) <= len("{}") {
		return append(a, '}')
	}
	return append(append(a, ','), b[1:]...)
}

// recordedPages answers from the store of a crawl that has written no files, whether it runs or not. A cursor is the
// key of the last page.
func (a resultRoutes) recordedPages(c *call, crawl *service.Crawl, wanted pageindex.Query) (*pageList, error) {
	if wanted.Order != pageindex.ByURL || wanted.Descending || wanted.Filter.Problems != 0 ||
		wanted.Filter.AnyProblem != nil {
		return nil, &service.Error{Code: service.ErrInvalid, State: crawl.State, Detail: "the query has faults",
			Fields: []service.FieldError{
				{Field: "sort", Code: "not_yet",
					Detail: "pages of a crawl that has written no files yet cannot be sorted, or selected by problems"}}}
	}
	passes, err := wanted.Filter.Lines()
	if err != nil {
		return nil, err
	}
	lines, next, err := results.RecordedPages(c.r.Context(), a.crawls().Recorded(crawl.ID), wanted.Cursor,
		report.Search{Most: wanted.Limit, Passes: passes})
	if err != nil {
		return nil, err
	}
	list, table := &pageList{Items: []json.RawMessage{}, NextCursor: next}, page.NewTable()
	for _, l := range lines {
		list.Items = append(list.Items, table.AppendJSON(nil, l))
	}
	return list, nil
}
