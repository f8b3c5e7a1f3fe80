package api

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/results"
)

// linksTime bounds the search for links.
const linksTime = 20 * time.Second

// page answers with one page, where its redirects lead, and its links if the crawl kept links.
func (a resultRoutes) page(c *call) error {
	q := c.query()
	text := q.text("url")
	u, err := weburl.Parse(text)
	if err != nil {
		q.fault("url", "invalid", "must be an http or https URL")
	}
	if err := q.done(); err != nil {
		return err
	}
	crawl, dir, err := a.dir(c)
	if err != nil {
		return err
	}
	find := a.indexFinder(c.r.Context(), dir)
	line, err := find(u.String())
	if errors.Is(err, fs.ErrNotExist) {
		find = results.Recorded(c.r.Context(), a.crawls().Recorded(crawl.ID))
		line, err = find(u.String())
	}
	if err != nil {
		return err
	}
	if line == nil {
		return &service.Error{Code: service.ErrNotFound, Detail: "the crawl did not find this URL", State: crawl.State}
	}
	var extra struct {
		Redirects []string       `json:"redirects,omitempty"`
		In        *results.Links `json:"links_in,omitempty"`
		Out       *results.Links `json:"links_out,omitempty"`
	}
	hops, err := results.Redirects(u.String(), line, find)
	if err != nil {
		return err
	}
	for _, hop := range hops {
		extra.Redirects = append(extra.Redirects, hop.URL)
	}
	searching, cancel := context.WithTimeout(c.r.Context(), linksTime)
	defer cancel()
	in, out, err := results.LinksOf(searching, dir, u.String())
	if err == nil {
		extra.In, extra.Out = in, out
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	more, err := json.Marshal(extra)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, json.RawMessage(join(line, more)))
}

// indexFinder finds lines of sitemap.jsonl. The error is fs.ErrNotExist if there is none yet.
func (a resultRoutes) indexFinder(ctx context.Context, dir datadir.Dir) results.Finder {
	return func(url string) (line []byte, err error) {
		err = a.server.indexes.Use(ctx, string(dir), func(x *pageindex.Index) error {
			hit, found, err := x.Find(ctx, url)
			if err == nil && found {
				line, err = indexedLine(x, &hit)
			}
			return err
		})
		return line, err
	}
}
