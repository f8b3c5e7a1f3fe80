package api

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/pageindex"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

const (
	mostHops  = 10  // of a chain of redirects
	mostLinks = 100 // that one page shows

	// linksTime bounds the search for links: links.jsonl of a large site has many gigabytes.
	linksTime = 20 * time.Second
)

// pageLink is a link of or to a page.
type pageLink struct {
	URL  string `json:"url"`
	Text string `json:"text,omitempty"`
	Rel  string `json:"rel,omitempty"`
}

// pageLinks are links, of which the first are shown.
type pageLinks struct {
	Total int64      `json:"total"`
	Items []pageLink `json:"items"`
	Cut   bool       `json:"cut,omitempty"` // the search took too long: there may be more
}

func (l *pageLinks) add(one pageLink) {
	if l.Total++; len(l.Items) < mostLinks {
		l.Items = append(l.Items, one)
	}
}

// page answers with one page, where its redirects lead, and its links if the crawl kept links.
func (a resultRoutes) page(c *call) error {
	q := c.query()
	text := q.text("url")
	u, err := urlnorm.Parse(text)
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
		find = a.recordedFinder(c, crawl)
		line, err = find(u.String())
	}
	if err != nil {
		return err
	}
	if line == nil {
		return &service.Error{Code: service.ErrNotFound, Detail: "the crawl did not find this URL", State: crawl.State}
	}
	extra := map[string]any{}
	if hops, err := redirects(line, find); err != nil {
		return err
	} else if len(hops) > 0 {
		extra["redirects"] = hops
	}
	searching, cancel := context.WithTimeout(c.r.Context(), linksTime)
	defer cancel()
	if in, out, err := linksOf(searching, dir, u.String()); err != nil {
		return err
	} else if in != nil {
		extra["links_in"], extra["links_out"] = in, out
	}
	if len(extra) > 0 {
		more, err := json.Marshal(extra)
		if err != nil {
			return err
		}
		line = join(line, more)
	}
	return c.json(http.StatusOK, json.RawMessage(line))
}

// finder finds the line of a URL, or nil.
type finder func(url string) ([]byte, error)

// indexFinder finds lines of sitemap.jsonl. The error is fs.ErrNotExist if there is none yet.
func (a resultRoutes) indexFinder(ctx context.Context, dir datadir.Dir) finder {
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

// recordedFinder finds pages in the store of a crawl.
func (a resultRoutes) recordedFinder(c *call, crawl *service.Crawl) finder {
	table, recorded := page.NewTable(), a.crawls().Recorded(crawl.ID)
	return func(url string) ([]byte, error) {
		line, err := recorded.Page(c.r.Context(), urlnorm.MustCanonical(url))
		if err != nil || line == nil {
			return nil, err
		}
		return table.AppendJSON(nil, line), nil
	}
}

// redirects are the URLs that the redirects of a page lead to, one after the other.
func redirects(line []byte, find finder) (hops []string, err error) {
	seen := map[string]bool{}
	for len(hops) < mostHops && line != nil {
		var at struct {
			RedirectTo string `json:"redirect_to"`
		}
		if err := json.Unmarshal(line, &at); err != nil {
			return nil, err
		}
		if at.RedirectTo == "" || seen[at.RedirectTo] {
			break
		}
		seen[at.RedirectTo] = true
		hops = append(hops, at.RedirectTo)
		if line, err = find(at.RedirectTo); err != nil {
			return nil, err
		}
	}
	return hops, nil
}

// linksOf are the links to and of a page, or nil if the crawl kept none; if ctx has a deadline, those that were found until then.
func linksOf(ctx context.Context, dir datadir.Dir, url string) (in, out *pageLinks, err error) {
	if _, err := os.Stat(dir.Links()); err != nil {
		return nil, nil, nil
	}
	in, out = &pageLinks{Items: []pageLink{}}, &pageLinks{Items: []pageLink{}}
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
			in.add(pageLink{l.From, l.Text, l.Rel})
		}
		if l.From == url {
			out.add(pageLink{l.To, l.Text, l.Rel})
		}
		return true
	})
	if errors.Is(err, context.DeadlineExceeded) {
		in.Cut, out.Cut, err = true, true, nil
	}
	return in, out, err
}
