package serve

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/words"
)

// pageList is one part of a list of pages. The items are lines of sitemap.jsonl, with what the index knows beyond them.
type pageList struct {
	Items      []json.RawMessage `json:"items"`
	Total      *int64            `json:"total,omitempty"` // pages that pass the filters; not known of a running crawl
	NextCursor string            `json:"next_cursor,omitempty"`

	clicks   bool // click depths are known
	recorded bool // the crawl has written no files: the pages are in no order, and those that match are not counted
}

// errNotYet means that a crawl without files cannot answer a query.
var errNotYet = errors.New("pages of a crawl that has written no files yet cannot be sorted, or selected by problems")

// pagesOf lists pages of a crawl: those of its file by the index or, if it has none yet, those that are recorded, in
// the order of their keys. For the dashboard, depths are click depths if these are known.
func (c *call) pagesOf(crawl *service.Crawl, wanted pageindex.Query) (*pageList, error) {
	ctx := c.ctx
	list := &pageList{Items: []json.RawMessage{}}
	wanted.Bytes = service.PartBytes
	err := c.indexes.Use(ctx, string(c.Service.Crawls.DataDir(crawl.ID)), func(x *pageindex.Index) error {
		list.clicks = x.KnowsClickDepths()
		if c.page && list.clicks {
			wanted.Filter.Depth, wanted.Filter.ClickDepth = pageindex.Range{}, wanted.Filter.Depth
		} else if c.page && wanted.Order == pageindex.ByClickDepth {
			wanted.Order = pageindex.ByDepth
		}
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
	if !missing(err) {
		return list, err
	}
	list.recorded = true
	if wanted.Filter.Problems != 0 || wanted.Filter.AnyProblem != nil ||
		!c.page && (wanted.Order != pageindex.ByURL || wanted.Descending) {
		return list, errNotYet
	}
	search := report.Search{Most: wanted.Limit, Bytes: service.PartBytes}
	if search.Passes, err = wanted.Filter.Lines(); err != nil {
		return nil, err
	}
	if wanted.Cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(wanted.Cursor)
		var ok bool
		if search.After, ok = weburl.ParseKey(raw); err != nil || !ok {
			return nil, pageindex.ErrCursor
		}
	}
	lines, last, more, err := c.Service.Crawls.RecordedPages(ctx, crawl.ID, search)
	if more {
		list.NextCursor = base64.RawURLEncoding.EncodeToString(last.Append(nil))
	}
	table := page.NewTable()
	for _, l := range lines {
		list.Items = append(list.Items, table.AppendJSON(nil, l))
	}
	return list, err
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

// pageQuery reads the filters, the order and the cursor of a request.
func pageQuery(q *query) pageindex.Query {
	out := pageindex.Query{Limit: q.number("limit", 1, mostItems, someItems), Cursor: q.text("cursor")}
	out.Filter = readFilter(q.text, func(name, detail string) { q.fault(name, "invalid", detail) })
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

// listPages lists pages of a crawl.
func (c *call) listPages() error {
	q := c.query()
	wanted := pageQuery(q)
	if err := q.done(); err != nil {
		return err
	}
	crawl, err := c.find()
	if err != nil {
		return err
	}
	list, err := c.pagesOf(crawl, wanted)
	fault := service.FieldError{Code: "invalid"}
	switch {
	case errors.Is(err, errNotYet):
		fault.Field, fault.Code = "sort", "not_yet"
	case errors.Is(err, pageindex.ErrCursor), errors.Is(err, pageindex.ErrOldCursor):
		fault.Field = "cursor"
	case errors.Is(err, pageindex.ErrUnknown) && (wanted.Filter.Problems != 0 || wanted.Filter.AnyProblem != nil):
		fault.Field, fault.Code = "problem", "not_known"
	case errors.Is(err, pageindex.ErrUnknown):
		fault.Field, fault.Code = "sort", "not_known"
	default:
		return c.reply(list, err)
	}
	fault.Detail = err.Error()
	refusal := &service.Error{Code: service.ErrInvalid, Detail: "the query has faults",
		Fields: []service.FieldError{fault}}
	if fault.Code == "not_yet" {
		refusal.State = crawl.State
	}
	return refusal
}

// readFilter reads the filters of a list of pages by their names in a query. An empty text is no filter. Outcome,
// problem and change take several values with commas between them. Fault is called for each one that is wrong.
func readFilter(get func(name string) string, fault func(name, detail string)) (f pageindex.Filter) {
	f.Contains, f.Prefix = get("q"), get("prefix")
	each := func(name string, add func(text string) bool) {
		for text := range strings.SplitSeq(get(name), ",") {
			if text != "" && !add(text) {
				fault(name, "there is no "+name+" "+words.Shorten(text, 100))
			}
		}
	}
	each("outcome", func(text string) bool {
		outcome, ok := page.ParseOutcome(text)
		f.Outcomes = append(f.Outcomes, outcome)
		return ok
	})
	each("change", func(text string) bool {
		i := slices.IndexFunc(page.Changes(), func(c page.Change) bool { return c.String() == text })
		if i >= 0 {
			f.Changes = append(f.Changes, page.Changes()[i])
		}
		return i >= 0
	})
	each("problem", func(text string) bool {
		if text == "any" {
			f.AnyProblem = new(true)
			return true
		}
		code, ok := problems.Parse(text)
		f.Problems.Add(code)
		return ok
	})
	if status := get("status"); status != "" {
		class, isClass := strings.CutSuffix(status, "xx")
		n, err := strconv.Atoi(class)
		switch {
		case status == "none":
			f.Classes = []int{0}
		case err == nil && isClass && n >= 1 && n <= 5:
			f.Classes = []int{n}
		case err == nil && !isClass && n >= 100 && n <= 999:
			f.Statuses = []int{n}
		default:
			fault("status", "must be a status code such as 404, a class such as 4xx, or none")
		}
	}
	if depth := get("depth"); depth != "" {
		n, err := strconv.ParseUint(depth, 10, 16)
		if err != nil {
			fault("depth", "must be a whole number such as 2")
		}
		f.Depth = pageindex.Range{Min: new(int64(n)), Max: new(int64(n))}
	}
	switch text := get("indexable"); text {
	case "":
	case "true", "false":
		f.Indexable = new(text == "true")
	default:
		fault("indexable", "must be true or false")
	}
	return f
}

// pagesView is what the list shows.
type pagesView struct {
	crawlFrame
	Query    map[string]string // of pageFilters, and sort, dir and cursor
	Filtered bool
	Fault    string        // why there is no list
	Running  *monitor.Live // of a crawl that has written no files yet
	Depths   string        // what the depth is
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

// pageFilters are the names of the filters of a list of pages in a query.
func pageFilters() []string {
	return []string{"q", "outcome", "status", "depth", "indexable", "problem", "change"}
}

const shownPages = 50

// showPages shows the list of the pages of a crawl.
func (c *call) showPages(crawl *service.Crawl) error {
	v := &pagesView{crawlFrame: c.crawlFrame(crawl, "pages", "Pages"), Query: c.values(append(pageFilters(), "sort",
		"dir", "cursor")...), Statuses: []string{"2xx", "3xx", "4xx", "5xx", "none"}, Problems: problems.Table()}
	v.Filtered = slices.ContainsFunc(pageFilters(), func(name string) bool { return v.Query[name] != "" })
	v.Clear = v.Path + "/pages"
	for _, o := range page.Outcomes() {
		v.Outcomes = append(v.Outcomes, o.String())
	}
	for _, change := range page.Changes() {
		v.Changes = append(v.Changes, change.String())
	}
	wanted := pageindex.Query{Limit: shownPages, Cursor: v.Query["cursor"], Descending: v.Query["dir"] == "desc"}
	wanted.Filter = readFilter(func(name string) string { return v.Query[name] },
		func(name, detail string) { v.Fault += ui.Capital(name) + ": " + detail + ". " })
	if v.Fault = strings.TrimSpace(v.Fault); v.Fault != "" {
		return c.render(http.StatusUnprocessableEntity, "pages", v)
	}
	ok := true
	if sort := v.Query["sort"]; sort != "" {
		wanted.Order, ok = pageindex.ParseOrder(sort)
	}
	if !ok || v.Query["dir"] != "" && !wanted.Descending {
		return refuse(service.ErrInvalid, "Pages cannot be sorted like that.")
	}
	list, err := c.pagesOf(crawl, wanted)
	switch {
	case errors.Is(err, errNotYet):
		v.Fault = "Problems are known when the crawl has ended: many of them need all of its pages. Clear this " +
			"filter to see the pages that are recorded so far."
	case errors.Is(err, pageindex.ErrUnknown):
		v.Fault = ui.Capital(err.Error()) + "."
	case errors.Is(err, pageindex.ErrOldCursor), errors.Is(err, pageindex.ErrCursor):
		// The crawl wrote its pages again, or the order is another one: begin with the first.
		return c.to(address("/crawls/"+url.PathEscape(crawl.ID)+"/pages", v.Query, "cursor", ""))
	case err != nil:
		return err
	}
	if err := v.add(list); err != nil {
		return err
	}
	if list.recorded {
		if v.Running = c.Service.Crawls.Live(crawl.ID); v.Running == nil {
			v.Running = &monitor.Live{Found: crawl.Found, Done: crawl.Done}
		}
	}
	v.Columns = v.sortColumns()
	return c.render(http.StatusOK, "pages", v)
}

// add adds the pages of the list.
func (v *pagesView) add(list *pageList) error {
	if v.Depths = "links"; list.clicks {
		v.Depths = "clicks"
	}
	if list.Total != nil {
		v.Total = *list.Total
	}
	for _, item := range list.Items {
		var l pageLine
		if err := json.Unmarshal(item, &l); err != nil {
			return err
		}
		v.Rows = append(v.Rows, pageRowOf(&l, list.clicks))
	}
	if list.NextCursor != "" {
		v.Next = address(v.Clear, v.Query, "cursor", list.NextCursor)
	} else if list.recorded && len(v.Rows) == 0 && !v.Filtered && v.Query["cursor"] == "" {
		v.Fault = "The crawl has not recorded any page yet."
	}
	if v.Query["cursor"] != "" {
		v.First = address(v.Clear, v.Query, "cursor", "")
	}
	return nil
}

func pageRowOf(l *pageLine, clicks bool) pageRow {
	row := pageRow{URL: l.URL, Title: l.Title, Outcome: outcomeBadge(l.Outcome), Status: statusText(l.StatusCode),
		Depth: strconv.Itoa(l.Depth), Indexable: indexableText(l.Outcome, l.Indexable), Bytes: "–", Time: "–",
		Change: l.Change}
	if clicks && l.ClickDepth != nil {
		row.Depth = strconv.Itoa(*l.ClickDepth)
	} else if clicks {
		row.Depth = "–"
	}
	if l.ContentLength != nil {
		row.Bytes = ui.Size(*l.ContentLength)
	}
	if l.ResponseTime != nil {
		row.Time = ui.Millis(*l.ResponseTime)
	}
	for _, d := range l.definitions() {
		row.Problems = append(row.Problems, d.Title)
	}
	return row
}

// PagePath is the address of the page about a URL.
func (f *crawlFrame) PagePath(u string) string { return f.Path + "/page?url=" + url.QueryEscape(u) }

// sortColumns are the heads of columns with the addresses that sort by them.
func (v *pagesView) sortColumns() (all []sortColumn) {
	for _, head := range []struct{ name, class, sort string }{{"URL", "url", "url"}, {"Outcome", "", ""},
		{"Status", "num", "status"}, {"Depth", "num", "click_depth"},
		{"Indexable", "", ""}, {"Size", "num", "content_length"},
		{"Time", "num", "response_time"}, {"Problems", "", ""}} {
		col := sortColumn{Name: head.name, Class: head.class}
		if head.sort != "" && v.Running == nil {
			dir := ""
			if cmp.Or(v.Query["sort"], "url") == head.sort {
				if col.Sort = "descending"; v.Query["dir"] != "desc" {
					col.Sort, dir = "ascending", "desc"
				}
			}
			col.Path = address(v.Clear, v.Query, "cursor", "", "sort", head.sort, "dir", dir)
		}
		all = append(all, col)
	}
	return all
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
