package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/results"
)

// pagesView is what the list shows.
type pagesView struct {
	crawlFrame
	Query    pagesQuery
	Filtered bool
	Fault    string // why there is no list
	// of a crawl that has written no files yet: its pages are in no order, and those that match filters are not counted
	Running  *monitor.Live
	Depths   string // what the depth is
	Total    int64
	Rows     []pageRow
	Columns  []sortColumn
	Next     string // addresses
	First    string
	Clear    string
	Outcomes []string
	Statuses []string
	Changes  []string
	Problems []problems.Definition
}

// pageRow is a page in the list.
type pageRow struct {
	URL, Title  string
	Outcome     ui.Cell
	Status      string
	Depth       string
	Indexable   string
	Bytes, Time string
	Problems    []string
	Change      string
}

// sortColumn is the head of a column.
type sortColumn struct {
	Name, Class string
	Path        string // address of the list sorted by it; empty if it cannot be
	Sort        string // aria-sort, if the list is sorted by it
}

// pagesQuery are filters, order and place of the list, as the URL has them.
type pagesQuery struct {
	Text, Outcome, Status, Depth, Indexable, Problem, Change string
	Sort, Dir, Cursor                                        string
}

func pagesQueryOf(v url.Values) pagesQuery {
	return pagesQuery{Text: strings.TrimSpace(v.Get("q")), Outcome: v.Get("outcome"), Status: v.Get("status"),
		Depth:     strings.TrimSpace(v.Get("depth")),
		Indexable: v.Get("indexable"), Problem: v.Get("problem"),
		Change: v.Get("change"), Sort: v.Get("sort"), Dir: v.Get("dir"), Cursor: v.Get("cursor")}
}

// filtered says whether there are filters.
func (p pagesQuery) filtered() bool {
	p.Sort, p.Dir, p.Cursor = "", "", ""
	return p != pagesQuery{}
}

// values are the query by its names in a URL.
func (p pagesQuery) values() map[string]string {
	return map[string]string{
		"q": p.Text, "outcome": p.Outcome, "status": p.Status, "depth": p.Depth, "indexable": p.Indexable,
		"problem": p.Problem, "change": p.Change,
		"sort": p.Sort, "dir": p.Dir, "cursor": p.Cursor,
	}
}

const shownPages = 50

// showPages lists the pages of a crawl.
func showPages(q *request, c *service.Crawl) error {
	v := &pagesView{crawlFrame: q.crawlFrame(c, "pages", "Pages"), Query: pagesQueryOf(q.r.URL.Query()),
		Statuses: []string{"2xx", "3xx", "4xx", "5xx", "none"}, Problems: problems.Table()}
	v.Filtered = v.Query.filtered()
	v.Clear = v.Path + "/pages"
	for _, o := range page.Outcomes() {
		v.Outcomes = append(v.Outcomes, o.String())
	}
	for _, change := range page.Changes() {
		v.Changes = append(v.Changes, change.String())
	}
	filter, fault := v.Query.filter()
	if fault != "" {
		v.Fault = fault
		return q.render(http.StatusUnprocessableEntity, "pages", v)
	}
	ctx := q.r.Context()
	err := q.server.indexes.Use(ctx, string(q.server.o.Runs.DataDir(c.ID)),
		func(x *pageindex.Index) error { return v.fromIndex(ctx, x, filter) })
	if missing(err) {
		if v.Running = q.server.o.Runs.Live(c.ID); v.Running == nil {
			v.Running = &monitor.Live{Found: c.Found, Done: c.Done}
		}
		err = v.fromRecorded(ctx, q.server.o.Service.Crawls.Recorded(c.ID), filter)
	}
	switch {
	case errors.Is(err, pageindex.ErrUnknown):
		v.Fault = ui.Capital(err.Error()) + "."
	case errors.Is(err, pageindex.ErrOldCursor), errors.Is(err, pageindex.ErrCursor):
		// The crawl wrote its pages again, or the order is another one: begin with the first.
		return q.to("/crawls/" + url.PathEscape(c.ID) + "/pages?" + encode(v.Query.at("").values()))
	case err != nil:
		return err
	}
	if v.Query.Cursor != "" {
		v.First = v.address(v.Query.at(""))
	}
	return q.render(http.StatusOK, "pages", v)
}

// at is the same list at another place.
func (p pagesQuery) at(cursor string) pagesQuery {
	p.Cursor = cursor
	return p
}

// address is that of a list of pages.
func (v *pagesView) address(p pagesQuery) string { return v.Path + "/pages?" + encode(p.values()) }

// filter reads the filters, or says what is wrong with them.
func (p *pagesQuery) filter() (f pageindex.Filter, fault string) {
	f = results.Filter(func(name string) string { return p.values()[name] },
		func(name, detail string) { fault += ui.Capital(name) + ": " + detail + ". " })
	return f, strings.TrimSpace(fault)
}

// fromIndex fills the list with pages of a crawl that has written its files.
func (v *pagesView) fromIndex(ctx context.Context, x *pageindex.Index, f pageindex.Filter) error {
	v.Depths = "clicks"
	if x.KnowsClickDepths() {
		f.Depth, f.ClickDepth = pageindex.Range{}, f.Depth
	} else {
		v.Depths = "links" // without recorded links nothing but the depth of discovery is known
	}
	order, ok := pageindex.ParseOrder(v.Query.Sort)
	if v.Query.Sort == "" {
		order, ok = pageindex.ByURL, true
	}
	if order == pageindex.ByClickDepth && !x.KnowsClickDepths() {
		order = pageindex.ByDepth
	}
	if !ok || v.Query.Dir != "" && v.Query.Dir != "desc" {
		return &service.Error{Code: service.ErrInvalid, Detail: "Pages cannot be sorted like that."}
	}
	res, err := x.Query(ctx, pageindex.Query{Filter: f, Order: order, Descending: v.Query.Dir == "desc",
		Limit: shownPages, Cursor: v.Query.Cursor})
	if err != nil {
		return err
	}
	v.Total = res.Total
	v.Columns = v.sortColumns()
	for i := range res.Hits {
		h := &res.Hits[i]
		row := pageRow{URL: h.URL, Outcome: outcomeBadge(h.Outcome.String()), Status: statusText(int(h.Status)),
			Depth:     strconv.Itoa(int(h.Depth)),
			Indexable: indexableText(h.Outcome.String(), h.Indexable), Bytes: "–", Time: "–", Change: h.Change.String()}
		if x.KnowsClickDepths() {
			if row.Depth = "–"; h.ClickDepth >= 0 {
				row.Depth = strconv.Itoa(int(h.ClickDepth))
			}
		}
		if h.Bytes >= 0 {
			row.Bytes = ui.Size(h.Bytes)
		}
		if h.Millis >= 0 {
			row.Time = ui.Millis(float64(h.Millis))
		}
		for _, code := range h.Problems.Codes() {
			if d, ok := code.Definition(); ok {
				row.Problems = append(row.Problems, d.Title)
			}
		}
		text, err := x.Line(h)
		if err != nil {
			return err
		}
		row.Title = titleOf(text)
		v.Rows = append(v.Rows, row)
	}
	if res.Next != "" {
		v.Next = v.address(v.Query.at(res.Next))
	}
	return nil
}

func titleOf(line []byte) string {
	var l struct {
		Title string `json:"title"`
	}
	if json.Unmarshal(line, &l) != nil {
		return ""
	}
	return l.Title
}

// PagePath is the address of the page about a URL.
func (f *crawlFrame) PagePath(u string) string { return f.Path + "/page?url=" + url.QueryEscape(u) }

// sortColumns are the heads of columns with the addresses that sort by them.
func (v *pagesView) sortColumns() (all []sortColumn) {
	for _, c := range []struct{ name, class, sort string }{{"URL", "url", "url"}, {"Outcome", "", ""},
		{"Status", "num", "status"}, {"Depth", "num", "click_depth"},
		{"Indexable", "", ""}, {"Size", "num", "content_length"},
		{"Time", "num", "response_time"}, {"Problems", "", ""}} {
		col := sortColumn{Name: c.name, Class: c.class}
		if c.sort != "" && v.Running == nil {
			to := v.Query.at("")
			to.Sort, to.Dir = c.sort, ""
			if v.Query.Sort == c.sort || v.Query.Sort == "" && c.sort == "url" {
				if col.Sort = "ascending"; v.Query.Dir == "desc" {
					col.Sort = "descending"
				} else {
					to.Dir = "desc"
				}
			}
			col.Path = v.address(to)
		}
		all = append(all, col)
	}
	return all
}

// fromRecorded fills the list with pages of a crawl that has not written its files, in the order of its store.
func (v *pagesView) fromRecorded(ctx context.Context, recorded *service.Recorded, f pageindex.Filter) error {
	v.Depths = "links"
	v.Columns = v.sortColumns()
	if f.Problems != 0 || f.AnyProblem != nil {
		v.Fault = "Problems are known when the crawl has ended: many of them need all of its pages. Clear this " +
			"filter to see the pages that are recorded so far."
		return nil
	}
	passes, err := f.Lines()
	if err != nil {
		return err
	}
	lines, next, err := results.RecordedPages(ctx, recorded, v.Query.Cursor,
		report.Search{Most: shownPages, Passes: passes})
	if err != nil {
		return err
	}
	for _, l := range lines {
		v.Rows = append(v.Rows, runningRow(l))
	}
	switch {
	case next != "":
		v.Next = v.address(v.Query.at(next))
	case len(v.Rows) == 0 && !v.Filtered && v.Query.Cursor == "":
		v.Fault = "The crawl has not recorded any page yet."
	}
	return nil
}

func runningRow(l *page.Line) pageRow {
	row := pageRow{URL: l.URL, Title: l.Title, Outcome: outcomeBadge(l.Outcome), Status: statusText(l.StatusCode),
		Depth:     strconv.Itoa(l.Depth),
		Indexable: indexableText(l.Outcome, l.Indexable), Bytes: "–", Time: "–", Change: l.Change}
	if l.ContentLength != nil {
		row.Bytes = ui.Size(*l.ContentLength)
	}
	if l.ResponseTime != nil {
		row.Time = ui.Millis(float64(*l.ResponseTime) / 1e6)
	}
	return row
}

// indexableText says whether a page is indexable, if it was looked at.
func indexableText(outcome string, is bool) string {
	switch {
	case is:
		return "yes"
	case outcome == page.Pending.String():
		return "–"
	}
	return "no"
}

func statusText(status int) string {
	if status == 0 {
		return "–"
	}
	return strconv.Itoa(status)
}

// outcomeBadge shows an outcome.
func outcomeBadge(name string) ui.Cell {
	tones := map[string]string{"ok": "good", "redirect": "info", "pending": "", "blocked_by_robots": "", "trap": ""}
	tone, plain := tones[name]
	if !plain {
		tone = "bad"
	}
	return ui.Badge(strings.ReplaceAll(name, "_", " "), tone, 0)
}
