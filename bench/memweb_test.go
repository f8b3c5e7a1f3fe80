package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/internal/web/fetch"
)

// memoryWeb is a web in memory, without a network, for crawls of which only the stored state matters. Pages are
// numbered, and page n is on host n modulo hosts. The first ones name thirty new pages each, until as many wait as
// should; from then on each names one, so that the crawl goes on for ever with about as many waiting. Every page names
// some that are known, too.
type memoryWeb struct {
	hosts int
	wide  int // how many pages name thirty
	// reached is called once, in the middle of the crawl, when the pages fetched are as many as at. From then on no
	// page is answered.
	at      int64
	reached func()
	fetched atomic.Int64 // pages asked for
}

const memoryLinks = 30

// newMemoryWeb makes a web in which a crawl, once it knows known URLs, has about pending of them before it.
func newMemoryWeb(hosts, known, pending int, reached func()) *memoryWeb {
	wide := max(1, pending/(memoryLinks-1))
	return &memoryWeb{hosts: hosts, wide: wide, at: int64(max(1, known-wide*(memoryLinks-1))), reached: reached}
}

func (w *memoryWeb) appendURL(b []byte, n int) []byte {
	b = append(b, "http://www.site-"...)
	b = strconv.AppendInt(b, int64(n%w.hosts), 10)
	b = append(b, ".test/catalogue/section-"...)
	b = strconv.AppendInt(b, int64(n/1000), 10)
	b = append(b, "/article-"...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, ".html"...)
}

// Do implements fetch.Fetcher.
func (w *memoryWeb) Do(_ context.Context, r fetch.Request) (*fetch.Response, error) {
	if r.Wire != nil {
		if err := r.Wire.Start(); err != nil {
			return nil, &fetch.Error{Kind: fetch.Canceled, Phase: "connect", Err: err}
		}
	}
	resp := &fetch.Response{
		Status: http.StatusNotFound, Proto: "HTTP/1.1", Header: http.Header{}, ContentType: "text/html",
		ContentLength: -1, Reused: true,
		Timings: fetch.Timings{Wait: 100 * time.Microsecond, Total: 100 * time.Microsecond},
	}
	if r.Mode != fetch.Page {
		return resp, nil
	}
	_, name, ok := strings.Cut(r.URL.Path(), "/article-")
	n, err := strconv.Atoi(strings.TrimSuffix(name, ".html"))
	if !ok || err != nil {
		return nil, fmt.Errorf("%s is not a page of this web", r.URL)
	}
	resp.Status, resp.Body = http.StatusOK, w.page(n)
	resp.DecodedLength, resp.WireBytes = int64(len(resp.Body)), int64(len(resp.Body))
	if n := w.fetched.Add(1); n >= w.at {
		if n == w.at {
			w.reached()
		}
		select {} // the process is killed
	}
	return resp, nil
}

func (w *memoryWeb) page(n int) []byte {
	first, count := 1+memoryLinks*n, memoryLinks
	if n >= w.wide {
		first, count = 1+memoryLinks*w.wide+n-w.wide, 1
	}
	b := make([]byte, 0, 128+100*(count+3))
	b = append(b, "<!doctype html><title>Article "...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, "</title><p>A page in memory, called "...)
	for name := n; ; name /= 26 { // each page has a text of its own, or the web would be a trap
		b = append(b, byte('a'+name%26))
		if name < 26 {
			break
		}
	}
	b = append(b, ".</p>"...)
	link := func(to int) {
		b = append(b, `<a href="`...)
		b = w.appendURL(b, to)
		b = append(b, `">x</a>`...)
	}
	for i := range count {
		link(first + i)
	}
	link(0)
	link(n / 2)
	link(n - n/7)
	return b
}
