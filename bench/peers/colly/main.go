package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/gocolly/colly/v2"
	"github.com/gocolly/colly/v2/queue"
)

const (
	// threads is what colly's queue does best with on two cores. Its asynchronous mode is slower, and without bound in
	// memory.
	threads = 16
	// maxQueued is no limit: the queue drops what is over it.
	maxQueued = 1 << 30
	// maxIdle bounds the pool of idle connections as it is bounded for all crawlers of a run.
	maxIdle = 1000
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: colly ADDR START")
		os.Exit(2)
	}
	start := time.Now()
	if err := crawl(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "colly:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]float64{"crawl_seconds": time.Since(start).Seconds()})
}

// crawl visits everything that can be reached from start. A page that fails is missing from the web's statistics, where
// the harness looks.
func crawl(addr, start string) error {
	c := colly.NewCollector()
	c.DisableCookies()
	c.WithTransport(&http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
		MaxIdleConns: maxIdle, MaxIdleConnsPerHost: threads, DisableCompression: true,
	})
	q, err := queue.New(threads, &queue.InMemoryQueueStorage{MaxSize: maxQueued})
	if err != nil {
		return err
	}
	// A map before the queue keeps thirty requests a page out of it. Colly's own HasVisited would parse every link once
	// more.
	seen := &seenURLs{known: map[string]bool{start: true}}
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		if link := tidy(e.Request.AbsoluteURL(e.Attr("href"))); link != "" && seen.add(link) {
			_ = q.AddURL(link)
		}
	})
	if err := q.AddURL(start); err != nil {
		return err
	}
	return q.Run(c)
}

// tidy gives a page that is linked in several spellings one name, as the naive crawler does. Colly keeps fragments and
// needless escapes, and would fetch most pages more than once.
func tidy(link string) string {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "http" {
		return ""
	}
	u.Fragment, u.RawPath = "", ""
	return u.String()
}

type seenURLs struct {
	mu    sync.Mutex
	known map[string]bool // guarded by mu
}

// add says whether a URL is new.
func (s *seenURLs) add(u string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[u] {
		return false
	}
	s.known[u] = true
	return true
}
