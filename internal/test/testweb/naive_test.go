package testweb

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// naive is a crawler as plain as one can be that is still correct: level by level,
// net/http and x/net/html, maps for everything. It has statistics of its own, which the
// server's must agree with.
type naive struct {
	client  *http.Client
	workers int
	gap     time.Duration // between two starts on one host

	mu      sync.Mutex
	results map[string]Result
	titles  map[string]string
	robots  map[string]naiveRobots // by origin
	hosts   map[string]*naiveHost
	trapped map[string]int // URLs taken up, by the first segment of a trap
}

type naiveHost struct {
	requests, inflight, most int
	lost                     int // requests that the client gave up, which the server may still be answering
	last                     time.Time
	free                     time.Time // when the next request may start
	gap                      time.Duration
	status                   map[int]int
}

type naiveRobots struct {
	disallow, allow []string
	delay           time.Duration
	sitemaps        []string
}

func newNaive(s *Server, workers int) *naive {
	return &naive{
		client: &http.Client{
			Transport:     &http.Transport{DialContext: s.Dial, DisableCompression: true, MaxIdleConnsPerHost: 100},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		workers: workers,
		results: make(map[string]Result),
		titles:  make(map[string]string),
		robots:  make(map[string]naiveRobots),
		hosts:   make(map[string]*naiveHost),
		trapped: make(map[string]int),
	}
}

func (n *naive) close() { n.client.CloseIdleConnections() }

func (n *naive) host(name string) *naiveHost {
	h := n.hosts[name]
	if h == nil {
		h = &naiveHost{gap: NoGap, status: make(map[int]int)}
		n.hosts[name] = h
	}
	return h
}

// answer is a response read in full.
type answer struct {
	status int
	header http.Header
	body   []byte
}

var errTooLarge = errors.New("body too large")

// get fetches once, and counts each time that the request went over
// the wire.
func (n *naive) get(u *url.URL) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	sends := 0
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		n.mu.Lock()
		defer n.mu.Unlock()
		h := n.host(u.Hostname())
		h.requests++
		if sends++; sends > 1 {
			h.status[0]++ // net/http sent it again: the first got no answer
		}
	}})
	n.mu.Lock()
	h := n.host(u.Hostname())
	now := time.Now()
	start := now
	if h.free.After(start) {
		start = h.free
	}
	h.free = start.Add(max(n.gap, n.robots[origin(u)].delay))
	n.mu.Unlock()
	time.Sleep(start.Sub(now))

	n.mu.Lock()
	if h.inflight++; h.inflight > h.most {
		h.most = h.inflight
	}
	h.gap = lesser(h.gap, h.last, time.Now())
	h.last = time.Now()
	n.mu.Unlock()
	a, err := n.roundTrip(ctx, u)
	n.mu.Lock()
	h.inflight--
	if err != nil {
		h.lost++
	}
	h.status[a.status]++
	n.mu.Unlock()
	return a, err
}

func (n *naive) roundTrip(ctx context.Context, u *url.URL) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return answer{}, err
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	const limit = 10 << 20
	r, err := decoder(resp)
	if err != nil {
		return a, err
	}
	a.body, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && len(a.body) > limit {
		err = errTooLarge
	}
	return a, err
}

func decoder(resp *http.Response) (io.Reader, error) {
	switch resp.Header.Get("Content-Encoding") {
	case "gzip":
		return gzip.NewReader(resp.Body)
	case "deflate":
		return zlib.NewReader(resp.Body)
	case "br":
		return brotli.NewReader(resp.Body), nil
	case "zstd":
		r, err := zstd.NewReader(resp.Body, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return r.IOReadCloser(), nil
	}
	return resp.Body, nil
}

// try fetches until it is neither refused nor broken, four times at most.
func (n *naive) try(u *url.URL) (a answer, err error) {
	for range 4 {
		a, err = n.get(u)
		refused := a.status == 429 || a.status >= 500 || a.status == 403 && a.header.Get("Retry-After") != ""
		if errors.Is(err, errTooLarge) || err == nil && !refused {
			return a, err
		}
		time.Sleep(retryAfter(a.header))
	}
	return a, err
}

func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if secs, err := strconv.Atoi(v); err == nil {
		return time.Duration(secs) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return time.Until(at)
	}
	return time.Second
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// crawl goes from the start URLs to everything on their hosts.
func (n *naive) crawl(starts []string) {
	seen := make(map[string]bool)
	hosts := make(map[string]bool)
	var level []string
	add := func(list *[]string, u string) {
		if p, err := url.Parse(u); err == nil && hosts[p.Host] && !seen[u] {
			seen[u] = true
			*list = append(*list, u)
		}
	}
	for _, s := range starts {
		u, err := url.Parse(s)
		if err != nil {
			panic(err)
		}
		hosts[u.Host] = true
		add(&level, s)
		if _, ok := n.robots[origin(u)]; ok {
			continue
		}
		r := n.fetchRobots(u)
		n.mu.Lock()
		n.robots[origin(u)] = r
		n.mu.Unlock()
		for _, loc := range n.sitemap(u, r) {
			add(&level, loc)
		}
	}
	for len(level) > 0 {
		var next []string
		links := make([][]string, len(level))
		var wg sync.WaitGroup
		jobs := make(chan int)
		for range n.workers {
			wg.Go(func() {
				for i := range jobs {
					links[i] = n.visit(level[i])
				}
			})
		}
		for i := range level {
			jobs <- i
		}
		close(jobs)
		wg.Wait()
		for _, list := range links {
			for _, u := range list {
				add(&next, u)
			}
		}
		level = next
	}
}

func (n *naive) record(u string, r Result) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.results[u] = r
}

// visit fetches one URL, records what became of it and returns its links.
func (n *naive) visit(raw string) []string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	n.mu.Lock()
	allowed := n.robots[origin(u)].allowed(u.RequestURI())
	trapped := n.trap(u)
	n.mu.Unlock()
	if !allowed {
		n.record(raw, Result{Outcome: OutcomeBlockedByRobots})
		return nil
	}
	if trapped {
		n.record(raw, Result{Outcome: OutcomeTrap})
		return nil
	}
	a, err := n.try(u)
	outcome := OutcomeOK
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		outcome, a.status = OutcomeTimeout, 0
	case errors.Is(err, errTooLarge):
		outcome = OutcomeTooLarge
	case err != nil:
		outcome, a.status = OutcomeReadError, 0
	case a.status == 429:
		outcome = OutcomeThrottled
	case a.status >= 400:
		outcome = OutcomeHTTPError
	case a.status >= 300:
		outcome = OutcomeRedirect
		if strings.Contains(raw, "/loop-") {
			outcome = OutcomeRedirectLoop // to tell it from a chain takes a graph
		}
	}
	n.record(raw, Result{Outcome: outcome, Status: a.status})
	switch outcome {
	case OutcomeRedirect, OutcomeRedirectLoop:
		return []string{canonical(u, a.header.Get("Location"))}
	case OutcomeOK:
		if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			title, links := readPage(u, a)
			n.mu.Lock()
			n.titles[raw] = title
			n.mu.Unlock()
			return links
		}
	}
	return nil
}

// trap stops at long URLs, and after a few in each place that never ends.
func (n *naive) trap(u *url.URL) bool {
	if len(u.String()) > 2048 {
		return true
	}
	first, _, _ := strings.Cut(u.Path[1:], "/")
	switch first {
	case "calendar", "shop", "filter", "deep":
		n.trapped[first]++
		return n.trapped[first] > 30
	}
	return false
}
