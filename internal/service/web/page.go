package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/results"
)

// pageView is what the page about one URL shows.
type pageView struct {
	crawlFrame
	URL      string
	Line     pageLine
	Outcome  ui.Cell
	Problems []problems.Definition

	ClickDepth int32      // -1 if it is not known
	Facts      *ui.Table  // every recorded fact
	Redirects  []hop      // where it leads, one after the other
	In, Out    *linkTable // nil if links were not recorded
}

// pageLine is what the head of the page shows of a line of sitemap.jsonl. The table has all.
type pageLine struct {
	Title           string           `json:"title"`
	Outcome         string           `json:"outcome"`
	StatusCode      int              `json:"status_code"`
	Error           string           `json:"error"`
	Indexable       bool             `json:"indexable"`
	IndexableReason string           `json:"indexable_reason"`
	Robots          *page.LineRobots `json:"robots"`
}

// linkTable is links of or to a page, of which the first are shown.
type linkTable struct {
	*crawlFrame
	*results.Links
	Title string
}

// hop is where a redirect leads, and what became of it.
type hop struct{ URL, Text string }

func showPage(q *request, c *service.Crawl) error {
	u, err := weburl.Parse(q.r.URL.Query().Get("url"))
	if err != nil {
		return &service.Error{Code: service.ErrInvalid, Detail: "This is not an http or https URL."}
	}
	v := &pageView{crawlFrame: q.crawlFrame(c, "pages", "Page"), URL: u.String(), ClickDepth: -1}
	v.Title = v.URL + " · " + v.Label
	dir := q.server.o.Runs.DataDir(c.ID)
	err = q.server.indexes.Use(q.r.Context(), string(dir),
		func(x *pageindex.Index) error { return v.read(indexFinder(q.r.Context(), x, v)) })
	if missing(err) {
		err = v.read(results.Recorded(q.r.Context(), q.server.o.Service.Crawls.Recorded(c.ID)))
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), linksTime)
	defer cancel()
	in, out, err := results.LinksOf(ctx, dir, v.URL)
	if err == nil {
		v.In, v.Out = &linkTable{&v.crawlFrame, in, "Links to this page"},
			&linkTable{&v.crawlFrame, out, "Links of this page"}
	} else if !missing(err) {
		return err
	}
	return q.render(http.StatusOK, "page", v)
}

// indexFinder finds lines of a crawl that has written its files.
func indexFinder(ctx context.Context, x *pageindex.Index, v *pageView) results.Finder {
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

// read fills in the facts of the page and its redirects.
func (v *pageView) read(find results.Finder) error {
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
	hops, err := results.Redirects(v.URL, text, find)
	if err != nil {
		return err
	}
	for _, h := range hops {
		row := hop{URL: h.URL}
		if h.Line != nil {
			var at pageLine
			if err := json.Unmarshal(h.Line, &at); err != nil {
				return err
			}
			row.Text = strings.ReplaceAll(at.Outcome, "_", " ") + " " + statusText(at.StatusCode)
		}
		v.Redirects = append(v.Redirects, row)
	}
	return nil
}

// facts is the table of all fields of a line, in their order.
func (v *pageView) facts(text []byte) (*ui.Table, error) {
	t := &ui.Table{Caption: "Every recorded fact", Columns: []ui.Column{{Name: "Field"}, {Name: "Value"}},
		More: "sitemap.jsonl has all"}
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
			cell = ui.Inside(value, v.PagePath(value))
		}
		t.Add(ui.Word(field), cell)
	}
	if v.ClickDepth >= 0 {
		t.Add(ui.Word("click_depth"), ui.Text(strconv.Itoa(int(v.ClickDepth))))
	}
	return t, nil
}

// linksTime bounds the search for links.
const linksTime = 5 * time.Second
