// Package results reads what a crawl of the service has found: a page, where its redirects lead, its links, and the
// filters of a list of pages. The HTTP API and the dashboard show the same.
package results

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/service"
)

const (
	mostHops  = 10  // of a chain of redirects
	mostLinks = 100 // that are kept of a list
)

// A Finder finds the line of sitemap.jsonl of a URL, or nil.
type Finder func(url string) ([]byte, error)

// Recorded finds pages in the store of a crawl that has written no files.
func Recorded(ctx context.Context, recorded *service.Recorded) Finder {
	table := page.NewTable()
	return func(url string) ([]byte, error) {
		line, err := recorded.Page(ctx, weburl.MustCanonical(url))
		if err != nil || line == nil {
			return nil, err
		}
		return table.AppendJSON(nil, line), nil
	}
}

// RecordedPages are pages of such a crawl that a search selects, in the order of its store, from a cursor on; next is
// where the next part begins, empty if there is none. The error is pageindex.ErrCursor if the cursor is none.
func RecordedPages(ctx context.Context, recorded *service.Recorded, cursor string,
	search report.Search) (lines []*page.Line, next string, err error) {
	if cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		var ok bool
		if search.After, ok = weburl.ParseKey(raw); err != nil || !ok {
			return nil, "", pageindex.ErrCursor
		}
	}
	lines, last, more, err := recorded.Pages(ctx, search)
	if more {
		next = base64.RawURLEncoding.EncodeToString(last.Append(nil))
	}
	return lines, next, err
}

// Hop is a URL that a redirect leads to. Line is nil if the crawl has no record of it.
type Hop struct {
	URL  string
	Line []byte
}

// Redirects are the URLs that the redirects of a page lead to, one after the other. A loop ends with the URL that
// closes it.
func Redirects(url string, line []byte, find Finder) (hops []Hop, err error) {
	seen := map[string]bool{url: true}
	for len(hops) < mostHops && line != nil {
		var at struct {
			RedirectTo string `json:"redirect_to"`
		}
		if err := json.Unmarshal(line, &at); err != nil || at.RedirectTo == "" {
			return hops, err
		}
		if line, err = find(at.RedirectTo); err != nil {
			return nil, err
		}
		hops = append(hops, Hop{at.RedirectTo, line})
		if seen[at.RedirectTo] {
			break
		}
		seen[at.RedirectTo] = true
	}
	return hops, nil
}

// Link is a link of or to a page.
type Link struct {
	URL  string `json:"url"`
	Text string `json:"text,omitempty"`
	Rel  string `json:"rel,omitempty"`
}

// Links are links, of which the first are kept.
type Links struct {
	Total int64  `json:"total"`
	Items []Link `json:"items"`
	Cut   bool   `json:"cut,omitempty"` // the search took too long: there may be more
}

func (l *Links) add(one Link) {
	if l.Total++; len(l.Items) < mostLinks {
		l.Items = append(l.Items, one)
	}
}

// LinksOf are the links to and of a page. The error is fs.ErrNotExist if the crawl kept none. If ctx has a deadline,
// they are those that were found until then: links.jsonl of a large site has many gigabytes.
func LinksOf(ctx context.Context, dir datadir.Dir, url string) (in, out *Links, err error) {
	in, out = &Links{Items: []Link{}}, &Links{Items: []Link{}}
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
			in.add(Link{l.From, l.Text, l.Rel})
		}
		if l.From == url {
			out.add(Link{l.To, l.Text, l.Rel})
		}
		return true
	})
	if errors.Is(err, context.DeadlineExceeded) {
		in.Cut, out.Cut, err = true, true, nil
	}
	return in, out, err
}
