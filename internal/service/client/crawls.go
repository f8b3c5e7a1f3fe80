package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/mapwright/mapwright/internal/service"
)

func crawlPath(id string, more ...string) string {
	path := "/v1/crawls/" + url.PathEscape(id)
	for _, m := range more {
		path += "/" + m
	}
	return path
}

// crawl sends a request that is answered with a crawl.
func (c *Client) crawl(ctx context.Context, in call) (*service.Crawl, error) {
	out := &service.Crawl{}
	return out, c.do(ctx, in, out)
}

// Submit submits a crawl. The key names the request: if it is repeated, the answer is the same and no second crawl is
// made. If the key is empty, Submit chooses one.
func (c *Client) Submit(ctx context.Context, s service.Submission, key string) (*service.Crawl, error) {
	header := http.Header{"Idempotency-Key": {cmp.Or(key, rand.Text())}}
	return c.crawl(ctx, call{method: http.MethodPost, path: "/v1/crawls", body: s, header: header, repeat: true})
}

// Crawl reads one crawl.
func (c *Client) Crawl(ctx context.Context, id string) (*service.Crawl, error) {
	return c.crawl(ctx, call{method: http.MethodGet, path: crawlPath(id)})
}

// Crawls reads a part of the list of crawls, the newest first.
func (c *Client) Crawls(ctx context.Context, f service.CrawlFilter) (*service.List[service.Crawl], error) {
	return c.list(ctx, "/v1/crawls", f)
}

// Queue reads crawls that wait, in the order in which they start. It uses only the account, the limit and the cursor of
// the filter.
func (c *Client) Queue(ctx context.Context, f service.CrawlFilter) (*service.List[service.Crawl], error) {
	return c.list(ctx, "/v1/queue", service.CrawlFilter{Account: f.Account, Limit: f.Limit, Cursor: f.Cursor})
}

func (c *Client) list(ctx context.Context, path string, f service.CrawlFilter) (*service.List[service.Crawl], error) {
	q := url.Values{}
	for name, value := range map[string]string{"state": service.Join(f.States, ","), "label": f.Label,
		"schedule": f.Schedule, "q": f.Name, "account": f.Account, "cursor": f.Cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	out := &service.List[service.Crawl]{}
	return out, c.do(ctx, call{method: http.MethodGet, path: path, query: q}, out)
}

// Edit changes a crawl.
func (c *Client) Edit(ctx context.Context, id string, e service.Edit) (*service.Crawl, error) {
	return c.crawl(ctx, call{method: http.MethodPatch, path: crawlPath(id), body: e, repeat: true})
}

// Command asks a crawl to do something. Every command but a recrawl may be repeated.
func (c *Client) Command(ctx context.Context, id string, command service.Command) (*service.Crawl, error) {
	if command == service.CommandDelete {
		return c.crawl(ctx, call{method: http.MethodDelete, path: crawlPath(id), repeat: true})
	}
	return c.crawl(ctx, call{method: http.MethodPost, path: crawlPath(id, string(command)),
		repeat: command != service.CommandRecrawl})
}

// Recrawl visits the URLs of a finished crawl again.
func (c *Client) Recrawl(ctx context.Context, id string, r service.Recrawl) (*service.Crawl, error) {
	return c.crawl(ctx, call{method: http.MethodPost, path: crawlPath(id, "recrawl"), body: r})
}

// Result opens one of the results of a crawl, such as pages.jsonl, sitemap.xml, report, links or changes. The caller
// closes it.
func (c *Client) Result(ctx context.Context, id, name string) (io.ReadCloser, error) {
	res, err := c.send(ctx, call{method: http.MethodGet, path: crawlPath(id, url.PathEscape(name))})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
