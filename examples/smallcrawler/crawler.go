package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/parser"
	"github.com/mapwright/mapwright/state"
)

const (
	agent     = "smallcrawler"
	timeout   = 20 * time.Second
	maxBody   = 10 << 20       // of a page, in bytes
	maxRobots = 500 << 10      // of robots.txt, in bytes
	robotsTTL = 24 * time.Hour // how long an answer to robots.txt is used
	maxHops   = 10             // redirects in a row that are followed
)

// outcome is what became of a URL. The store keeps it as a number and counts by it.
type outcome uint8

const (
	ok outcome = iota
	redirect
	httpError
	failed // no answer
	blocked
)

func (o outcome) String() string {
	return [...]string{"ok", "redirect", "http_error", "failed", "blocked_by_robots"}[o]
}

// crawler crawls one host.
type crawler struct {
	store    *state.Store
	frontier *frontier.Frontier
	client   *http.Client
	parser   *parser.Parser
	host     string // URLs of other hosts are not followed

	mu       sync.Mutex // guards progress
	progress io.Writer
}

// newClient returns a client that sends exactly one request for each call: it follows no redirects, since each target
// needs a lease of its own, and keeps no connections, since net/http sends a request a second time if a kept connection
// turns out to be closed.
func newClient(proxy string) (*http.Client, error) {
	t := &http.Transport{DisableKeepAlives: true}
	if proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil {
			return nil, err
		}
		t.Proxy = http.ProxyURL(u)
	}
	return &http.Client{
		Transport: t, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// crawl runs the workers until nothing is left to fetch. The first error ends all of them.
func (c *crawler) crawl(ctx context.Context, workers int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			if err := c.work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// work serves leases until the frontier has no more.
func (c *crawler) work(ctx context.Context) error {
	var page parser.Page // used again for each page, with its buffers
	for {
		l, err := c.frontier.Next(ctx)
		if errors.Is(err, frontier.ErrDrained) {
			return nil
		}
		if err != nil {
			return err
		}
		if l.Kind() == frontier.KindRobots {
			err = c.serveRobots(ctx, l)
		} else {
			err = c.servePage(ctx, l, &page)
		}
		if err != nil {
			return err
		}
	}
}

// serveRobots answers a lease for an origin's robots.txt, from the store if an earlier run fetched it. Until there is
// an answer the frontier leases no page of the origin.
func (c *crawler) serveRobots(ctx context.Context, l *frontier.Lease) error {
	defer l.Abandon()
	origin := frontier.OriginFact{Host: c.store.Hasher().HostID(l.URL().Host()), Origin: l.URL().Origin()}
	kept, _, err := c.store.Origin(ctx, origin.Host, origin.Origin)
	if err != nil {
		return err
	}
	if time.Now().Before(kept.Expires) {
		_, err := l.Done(frontier.Result{RobotsUntil: kept.Expires})
		return err
	}
	resp, body, result := c.get(ctx, l, maxRobots)
	switch {
	case resp == nil || resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		_, err := l.Done(result) // without RobotsUntil: another robots lease follows, at the pace of a host that fails
		return err
	case resp.StatusCode >= 400:
		origin.State = frontier.OriginNone
	case resp.StatusCode >= 300:
		origin.State = frontier.OriginFailed
	default:
		origin.State, origin.Body = frontier.OriginAnswered, body
	}
	origin.Status, origin.Fetched = uint16(resp.StatusCode), time.Now()
	origin.Expires = origin.Fetched.Add(robotsTTL)
	if _, err := c.store.Commit(frontier.Record{Origins: []frontier.OriginFact{origin}}); err != nil {
		return err
	}
	result.RobotsUntil = origin.Expires
	_, err = l.Done(result)
	return err
}

// servePage fetches a page, unless robots.txt forbids it, and records what became of it together with the links that
// are new.
func (c *crawler) servePage(ctx context.Context, l *frontier.Lease, page *parser.Page) error {
	defer l.Abandon()
	link := l.Link()
	origin, _, err := c.store.Origin(ctx, link.Key.Host, link.URL.Origin())
	if err != nil {
		return err
	}
	if !isAllowed(origin, link.URL) {
		return c.done(ctx, l, frontier.Result{Finish: &frontier.Finish{Outcome: uint8(blocked), CheckedAt: time.Now()},
			Final: true})
	}

	resp, body, result := c.get(ctx, l, maxBody)
	if resp == nil {
		return c.done(ctx, l, result)
	}
	f := result.Finish
	switch target := resp.Header.Get("Location"); {
	case resp.StatusCode >= 300 && resp.StatusCode < 400 && target != "":
		f.Outcome = uint8(redirect)
		if u, err := link.URL.Resolve(target); err == nil {
			f.RedirectTo = u.String()
			if u.Host() == c.host && link.Hops < maxHops {
				result.Links = []frontier.Link{{
					URL: u, Depth: link.Depth, Priority: link.Priority, Hops: link.Hops + 1, Parent: link.URL,
					Discovered: f.CheckedAt,
				}}
			}
		}
	case resp.StatusCode >= 300:
		f.Outcome = uint8(httpError)
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"):
		if err := c.parser.Parse(page, parser.Input{URL: link.URL, Body: body, Header: resp.Header}); err != nil {
			return err
		}
		f.Facts = []byte(page.Title)
		for _, found := range page.Links {
			if found.URL.IsZero() || found.URL.Host() != c.host || found.NoFollow || page.NoFollow {
				continue
			}
			result.Links = append(result.Links, frontier.Link{URL: found.URL, Depth: link.Depth + 1, Parent: link.URL,
				Discovered: f.CheckedAt})
		}
	}
	return c.done(ctx, l, result)
}

// get makes the request of a lease and reads at most limit bytes of the answer. The response is nil if there is none;
// the result says what that means for the host and for the URL.
func (c *crawler) get(ctx context.Context, l *frontier.Lease, limit int64) (*http.Response, []byte, frontier.Result) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.URL().String(), nil)
	if err != nil {
		return nil, nil, frontier.Result{Finish: &frontier.Finish{Outcome: uint8(failed), CheckedAt: time.Now()},
			Final: true}
	}
	req.Header.Set("User-Agent", agent)
	if l.Start() != nil {
		return nil, nil, frontier.Result{} // nothing was sent: the URL is leased again
	}
	begin := time.Now()
	resp, err := c.client.Do(req)
	latency := time.Since(begin)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(resp.Body, limit))
		resp.Body.Close()
	}
	switch {
	case ctx.Err() != nil:
		return nil, nil, frontier.Result{} // the crawl was stopped: the next run fetches the URL again
	case err != nil:
		return nil, nil, frontier.Result{Class: pace.ClassNetwork,
			Finish: &frontier.Finish{Outcome: uint8(failed), CheckedAt: time.Now()}}
	}
	return resp, body, frontier.Result{
		Class: pace.ClassOf(resp.StatusCode), Latency: latency,
		RetryAfter: pace.ParseRetryAfter(resp.Header.Get("Retry-After"), resp.Header.Get("Date"), time.Now()),
		Finish:     &frontier.Finish{Status: uint16(resp.StatusCode), Bytes: uint64(len(body)), CheckedAt: time.Now()},
	}
}

// done ends the lease of a page. When the URL is finished and that is durable, it prints a progress line.
func (c *crawler) done(ctx context.Context, l *frontier.Lease, r frontier.Result) error {
	d, err := l.Done(r)
	if err != nil || d != frontier.Finished {
		return err
	}
	if err := c.store.Flush(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = fmt.Fprintf(c.progress, "%s %s\n", outcome(r.Finish.Outcome), l.URL())
	return err
}
