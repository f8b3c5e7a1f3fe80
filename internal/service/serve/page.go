package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
)

// pageFacts are what a crawl knows of one URL.
type pageFacts struct {
	line      []byte // of sitemap.jsonl, with what the index knows beyond it; nil if the crawl has no record of the URL
	redirects []hop  // where it leads, one after the other
	in, out   *links // nil if the crawl kept no links
}

// pageOf reads what a crawl knows of a URL. The search for links ends after linksTime.
func (c *call) pageOf(crawl *service.Crawl, url string, linksTime time.Duration) (p pageFacts, err error) {
	ctx, dir := c.ctx, c.Service.Crawls.DataDir(crawl.ID)
	find := c.indexFinder(dir)
	p.line, err = find(url)
	if missing(err) {
		find = recordedFinder(ctx, c.Service.Crawls, crawl.ID)
		p.line, err = find(url)
	}
	if err != nil || p.line == nil {
		return p, err
	}
	if p.redirects, err = redirectsOf(url, p.line, find); err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, linksTime)
	defer cancel()
	if p.in, p.out, err = linksOf(ctx, dir, url); missing(err) {
		p.in, p.out, err = nil, nil, nil
	}
	return p, err
}

// indexFinder finds lines of sitemap.jsonl. The error is fs.ErrNotExist if there is none yet.
func (c *call) indexFinder(dir datadir.Dir) finder {
	ctx := c.ctx
	return func(url string) (line []byte, err error) {
		err = c.indexes.Use(ctx, string(dir), func(x *pageindex.Index) error {
			hit, found, err := x.Find(ctx, url)
			if err == nil && found {
				line, err = indexedLine(x, &hit)
			}
			return err
		})
		return line, err
	}
}

// getPage answers with one page, where its redirects lead, and its links if the crawl kept links.
func (c *call) getPage() error {
	q := c.query()
	u, err := weburl.Parse(q.text("url"))
	if err != nil {
		q.fault("url", "invalid", "must be an http or https URL")
	}
	if err := q.done(); err != nil {
		return err
	}
	crawl, err := c.find()
	if err != nil {
		return err
	}
	p, err := c.pageOf(crawl, u.String(), 20*time.Second)
	if err != nil {
		return err
	}
	if p.line == nil {
		return &service.Error{Code: service.ErrNotFound, Detail: "the crawl did not find this URL", State: crawl.State}
	}
	extra := struct {
		Redirects []string `json:"redirects,omitempty"`
		In        *links   `json:"links_in,omitempty"`
		Out       *links   `json:"links_out,omitempty"`
	}{In: p.in, Out: p.out}
	for _, hop := range p.redirects {
		extra.Redirects = append(extra.Redirects, hop.URL)
	}
	more, err := json.Marshal(extra)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, json.RawMessage(join(p.line, more)))
}

// pageView is what the page about one URL shows.
type pageView struct {
	crawlFrame
	URL       string
	Line      pageLine
	Outcome   ui.Cell
	Problems  []problems.Definition
	Facts     *ui.Table // every recorded fact
	Redirects []hop
	In, Out   *linkTable // nil if links were not recorded
}

// pageLine is what pages show of a line of sitemap.jsonl, with what the index knows beyond it.
type pageLine struct {
	URL             string           `json:"url"`
	Title           string           `json:"title"`
	Outcome         string           `json:"outcome"`
	StatusCode      int              `json:"status_code"`
	RedirectTo      string           `json:"redirect_to"`
	Error           string           `json:"error"`
	Depth           int              `json:"depth"`
	Indexable       bool             `json:"indexable"`
	IndexableReason string           `json:"indexable_reason"`
	ContentLength   *int64           `json:"content_length"`
	ResponseTime    *float64         `json:"response_time_ms"`
	Change          string           `json:"change"`
	Robots          *page.LineRobots `json:"robots"`
	ClickDepth      *int             `json:"click_depth"`
	Problems        []string         `json:"problems"`
}

// definitions are the problems of the page.
func (l *pageLine) definitions() (all []problems.Definition) {
	for _, name := range l.Problems {
		if code, ok := problems.Parse(name); ok {
			if d, ok := code.Definition(); ok {
				all = append(all, d)
			}
		}
	}
	return all
}

// linkTable shows the first links of a page, or to it.
type linkTable struct {
	*crawlFrame
	*links
	Title string
}

func (c *call) showPage(crawl *service.Crawl) error {
	u, err := weburl.Parse(c.r.URL.Query().Get("url"))
	if err != nil {
		return refuse(service.ErrInvalid, "This is not an http or https URL.")
	}
	p, err := c.pageOf(crawl, u.String(), 5*time.Second)
	if err != nil {
		return err
	}
	if p.line == nil {
		return refuse(service.ErrNotFound, "The crawl has no record of this URL.")
	}
	v := &pageView{crawlFrame: c.crawlFrame(crawl, "pages", "Page"), URL: u.String()}
	v.Title = v.URL + " · " + v.Label
	if err := v.add(p); err != nil {
		return err
	}
	return c.render(http.StatusOK, "page", v)
}

// add adds what the crawl knows.
func (v *pageView) add(p pageFacts) (err error) {
	if err := json.Unmarshal(p.line, &v.Line); err != nil {
		return err
	}
	v.Outcome, v.Problems = outcomeBadge(v.Line.Outcome), v.Line.definitions()
	if v.Facts, err = v.facts(p.line); err != nil {
		return err
	}
	v.Redirects = p.redirects
	if p.in != nil {
		v.In = &linkTable{&v.crawlFrame, p.in, "Links to this page"}
		v.Out = &linkTable{&v.crawlFrame, p.out, "Links of this page"}
	}
	return nil
}

// facts is the table of all fields of a line, in their order. Problems are shown above it.
func (v *pageView) facts(line []byte) (*ui.Table, error) {
	t := &ui.Table{Caption: "Every recorded fact", Columns: []ui.Column{{Name: "Field"}, {Name: "Value"}},
		More: "sitemap.jsonl has all"}
	d := json.NewDecoder(bytes.NewReader(line))
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
		if field == "problems" {
			continue
		}
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
	return t, nil
}

const (
	mostHops  = 10  // of a chain of redirects
	mostLinks = 100 // that are kept of a list
)

// A finder finds the line of sitemap.jsonl of a URL, or nil.
type finder func(url string) ([]byte, error)

// recordedFinder finds pages in the store of a crawl that has written no files.
func recordedFinder(ctx context.Context, crawls *service.Crawls, id string) finder {
	table := page.NewTable()
	return func(url string) ([]byte, error) {
		u, ok := weburl.FromCanonical(url)
		if !ok {
			return nil, nil // where a redirect leads need not be a URL
		}
		line, err := crawls.RecordedPage(ctx, id, u)
		if err != nil || line == nil {
			return nil, err
		}
		return table.AppendJSON(nil, line), nil
	}
}

// hop is where a redirect leads, and what became of it; the text is empty if the crawl has no record of the URL.
type hop struct{ URL, Text string }

// redirectsOf are the URLs that the redirects of a page lead to, one after the other. A loop ends with the URL that
// closes it.
func redirectsOf(url string, line []byte, find finder) (hops []hop, err error) {
	seen := map[string]bool{url: true}
	for line != nil {
		var at pageLine
		if err := json.Unmarshal(line, &at); err != nil {
			return nil, err
		}
		if n := len(hops); n > 0 {
			last := &hops[n-1]
			last.Text = strings.ReplaceAll(at.Outcome, "_", " ") + " " + statusText(at.StatusCode)
			if n == mostHops || seen[last.URL] {
				break
			}
			seen[last.URL] = true
		}
		if at.RedirectTo == "" {
			break
		}
		hops = append(hops, hop{URL: at.RedirectTo})
		if line, err = find(at.RedirectTo); err != nil {
			return nil, err
		}
	}
	return hops, nil
}

// link is a link of or to a page.
type link struct {
	URL  string `json:"url"`
	Text string `json:"text,omitempty"`
	Rel  string `json:"rel,omitempty"`
}

// links counts links, and keeps the first of them.
type links struct {
	Total int64  `json:"total"`
	Items []link `json:"items"`
	Cut   bool   `json:"cut,omitempty"` // the search took too long: there may be more
}

func (l *links) add(one link) {
	if l.Total++; len(l.Items) < mostLinks {
		l.Items = append(l.Items, one)
	}
}

// linksOf are the links to and of a page. The error is fs.ErrNotExist if the crawl kept none. If ctx has a deadline,
// they are those that were found until then: links.jsonl of a large site has many gigabytes.
func linksOf(ctx context.Context, dir datadir.Dir, url string) (in, out *links, err error) {
	in, out = &links{Items: []link{}}, &links{Items: []link{}}
	err = pageindex.EachLine(ctx, dir.Links(), pageindex.Quoted(url), func(text []byte) bool {
		var l struct {
			From string `json:"from"`
			To   string `json:"to"`
			Text string `json:"text"`
			Rel  string `json:"rel"`
		}
		if json.Unmarshal(text, &l) != nil {
			return true
		}
		if l.To == url {
			in.add(link{l.From, l.Text, l.Rel})
		}
		if l.From == url {
			out.add(link{l.To, l.Text, l.Rel})
		}
		return true
	})
	if errors.Is(err, context.DeadlineExceeded) {
		in.Cut, out.Cut, err = true, true, nil
	}
	return in, out, err
}
