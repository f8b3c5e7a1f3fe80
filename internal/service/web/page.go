package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/pageindex"
	"github.com/mapwright/mapwright/internal/problems"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/ui"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// pageView is what the page about one URL shows.
type pageView struct {
	crawlFrame
	URL      string
	Line     pageLine
	Outcome  ui.Cell
	Problems []problems.Definition

	ClickDepth int32     // -1 if it is not known
	Facts      *ui.Table // every recorded fact
	Redirects  []linkRow // where it leads, one after the other
	Links      bool      // links were recorded
	LinksCut   bool      // and not all of them were looked at
	In, Out    *linkTable
}

// pageLine is what the head of the page shows of a line of sitemap.jsonl. The table has all.
type pageLine struct {
	Title           string           `json:"title"`
	Outcome         string           `json:"outcome"`
	StatusCode      int              `json:"status_code"`
	Error           string           `json:"error"`
	RedirectTo      string           `json:"redirect_to"`
	Indexable       bool             `json:"indexable"`
	IndexableReason string           `json:"indexable_reason"`
	Robots          *page.LineRobots `json:"robots"`
}

// linkTable is links of or to a page, of which the first are shown.
type linkTable struct {
	Title string
	Total int64
	Rows  []linkRow
}

// linkRow is a link.
type linkRow struct{ URL, Path, Text, Rel string }

const (
	maxHops  = 10
	maxLinks = 100
)

// finder finds the line of a URL, or nil.
type finder func(url string) ([]byte, error)

func (pagesScreen) one(q *request) error {
	c, err := q.crawl()
	if err != nil {
		return err
	}
	u, err := urlnorm.Parse(q.r.URL.Query().Get("url"))
	if err != nil {
		return &service.Error{Code: service.ErrInvalid, Detail: "This is not an http or https URL."}
	}
	v := &pageView{crawlFrame: q.crawlFrame(c, "pages", "Page"), URL: u.String(), ClickDepth: -1}
	v.Title = v.URL + " · " + v.Label
	dir := q.server.o.Runs.DataDir(c.ID)
	err = q.server.indexes.Use(q.r.Context(), string(dir), func(x *pageindex.Index) error { return v.read(indexFinder(q.r.Context(), x, v)) })
	if missing(err) {
		err = v.read(recordedFinder(q.r.Context(), q.server.o.Runs.Recorded(c.ID)))
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), linksTime)
	defer cancel()
	if err := v.readLinks(ctx, dir); err != nil {
		return err
	}
	return q.render(http.StatusOK, "page", v)
}

// indexFinder finds lines of a crawl that has written its files.
func indexFinder(ctx context.Context, x *pageindex.Index, v *pageView) finder {
	return func(url string) ([]byte, error) {
		h, found, err := x.Find(ctx, url)
		if err != nil || !found {
			return nil, err
		}
		if url == v.URL {
			v.ClickDepth = h.ClickDepth
			for _, code := range h.Problems.Codes() {
				if d, ok := code.Definition(); ok {
					v.Problems = append(v.Problems, d)
				}
			}
		}
		return x.Line(&h)
	}
}

// recordedFinder finds pages in the store of a crawl that has written no files.
func recordedFinder(ctx context.Context, recorded service.PageReader) finder {
	table := page.NewTable()
	return func(url string) ([]byte, error) {
		line, err := recorded.Page(ctx, urlnorm.MustCanonical(url))
		if err != nil || line == nil {
			return nil, err
		}
		return table.AppendJSON(nil, line), nil
	}
}

// read fills in the facts of the page and its redirects.
func (v *pageView) read(find finder) error {
	text, err := find(v.URL)
	if err != nil {
		return err
	}
	if text == nil {
		return &service.Error{Code: service.ErrNotFound, Detail: "The crawl has no record of this URL."}
	}
	if err := json.Unmarshal(text, &v.Line); err != nil {
		return err
	}
	v.Outcome = outcomeBadge(v.Line.Outcome)
	if v.Facts, err = v.facts(text); err != nil {
		return err
	}
	seen := map[string]bool{v.URL: true}
	for at := v.Line; at.RedirectTo != "" && len(v.Redirects) < maxHops; {
		to := at.RedirectTo
		row := linkRow{URL: to, Path: v.pagePath(to)}
		at = pageLine{}
		if text, err := find(to); err != nil {
			return err
		} else if text != nil {
			if err := json.Unmarshal(text, &at); err != nil {
				return err
			}
			row.Text = strings.ReplaceAll(at.Outcome, "_", " ") + " " + statusText(at.StatusCode)
		}
		v.Redirects = append(v.Redirects, row)
		if seen[to] {
			break
		}
		seen[to] = true
	}
	return nil
}

// facts is the table of all fields of a line, in their order.
func (v *pageView) facts(text []byte) (*ui.Table, error) {
	t := &ui.Table{Caption: "Every recorded fact", Columns: []ui.Column{{Name: "Field"}, {Name: "Value"}}, More: "sitemap.jsonl has all"}
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil { // the brace
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		field, _ := name.(string) // nothing else is a key
		var value string
		if json.Unmarshal(raw, &value) != nil {
			value = string(raw)
		}
		cell := ui.Whole(value)
		if ui.IsLink(value) {
			cell = ui.Inside(value, v.pagePath(value))
		}
		t.Add(ui.Word(field), cell)
	}
	if v.ClickDepth >= 0 {
		t.Add(ui.Word("click_depth"), ui.Text(strconv.Itoa(int(v.ClickDepth))))
	}
	return t, nil
}

// linksTime bounds the search for links: links.jsonl of a large site has many gigabytes.
const linksTime = 5 * time.Second

// readLinks reads the links to and of the page from links.jsonl, if the crawl has recorded links. If ctx has a deadline, what was found until then is shown.
func (v *pageView) readLinks(ctx context.Context, dir datadir.Dir) error {
	v.In, v.Out = &linkTable{Title: "Links to this page"}, &linkTable{Title: "Links of this page"}
	err := pageindex.EachLine(ctx, dir.Links(), pageindex.Quoted(v.URL), func(text []byte) bool {
		var l struct {
			From string `json:"from"`
			To   string `json:"to"`
			Text string `json:"text"`
			Rel  string `json:"rel"`
		}
		if json.Unmarshal(text, &l) != nil {
			return true
		}
		if l.To == v.URL {
			v.In.add(linkRow{l.From, v.pagePath(l.From), l.Text, l.Rel})
		}
		if l.From == v.URL {
			v.Out.add(linkRow{l.To, v.pagePath(l.To), l.Text, l.Rel})
		}
		return true
	})
	switch {
	case missing(err):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		v.LinksCut, err = true, nil
	}
	v.Links = true
	return err
}

func (t *linkTable) add(row linkRow) {
	if t.Total++; len(t.Rows) < maxLinks {
		t.Rows = append(t.Rows, row)
	}
}
