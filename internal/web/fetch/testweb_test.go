package fetch

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// TestSyntheticWeb fetches every URL of a web in which everything is wrong that one
// request can meet, and holds the outcomes against what the web expects of a crawl.
func TestSyntheticWeb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, err := testweb.StartOn(testweb.Config{
			Hosts: 14, Pages: 3, PageSize: 2 << 10, Links: 3,
			Faults: slices.Concat(
				testweb.On("1", &testweb.Hang{}, &testweb.Drip{}),
				testweb.On("2", &testweb.Reset{}, &testweb.Truncate{}),
				testweb.On("3", &testweb.Huge{}, &testweb.GzipBomb{}),
				testweb.On("4", &testweb.StatusPages{}),
				testweb.On("5", &testweb.StaleConns{}),
				testweb.On("6", &testweb.NoKeepAlive{}),
				testweb.On("7", &testweb.RedirectChain{}, &testweb.RedirectLoop{}, &testweb.Moved{}),
				testweb.On("8", &testweb.WrongType{}, &testweb.Files{}),
				testweb.On("9", &testweb.Charsets{}, &testweb.Encodings{}),
				testweb.On("10", &testweb.Malformed{}, &testweb.LinkZoo{}),
				testweb.On("11", &testweb.NoIndex{}, &testweb.Canonical{}),
				testweb.On("12", &testweb.Slow{}),
				testweb.On("13", &testweb.RefuseAll{}),
			),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = web.Close() })
		c := newClient(t, Options{Resolve: []Resolve{{Host: "*",
			Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}}})
		c.dialer.open = fakeDialer(func(ctx context.Context, addr string) (net.Conn,
			error) {
			return web.Dial(ctx, "tcp", addr)
		})
		t.Cleanup(c.closeIdle)

		want, err := web.Expected(testweb.Crawl{IgnoreRobots: true})
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for e := range want {
			wire := &countingWire{}
			res, err := do(t, c, Request{URL: mustURL(t, e.URL), Wire: wire})
			got := outcomeOf(res, err)
			counts[got]++
			if !slices.Contains(e.Outcomes, got) && !(got == "redirect" &&
				slices.Contains(e.Outcomes, "redirect_loop")) {
				t.Errorf("%s: %s (%v), want %v", e.URL, got, err, e.Outcomes)
			}
			if res != nil && e.Status != 0 && res.Status != e.Status {
				t.Errorf("%s: status %d, want %d", e.URL, res.Status, e.Status)
			}
			if e.Title != "" && !strings.Contains(string(res.Body), "<title>"+e.Title+"</title>") {
				t.Errorf("%s: no title %q in %.300q", e.URL, e.Title, res.Body)
			}
			if wire.started.Load() != 1 {
				t.Errorf("%s: started %d times", e.URL, wire.started.Load())
			}
			res.Close()
		}
		for _, outcome := range []string{"ok", "redirect", "http_error", "throttled", "timeout", "read_error",
			"too_large"} {
			if counts[outcome] == 0 {
				t.Errorf("no URL was %s", outcome)
			}
		}
		t.Log(counts)
	})
}

// outcomeOf is what a crawl without retries would record.
func outcomeOf(res *Response, err error) string {
	switch {
	case err != nil:
		return string(KindOf(err))
	case res.Status == 429:
		return "throttled"
	case res.Status >= 400:
		return "http_error"
	case res.Status >= 300:
		return "redirect"
	}
	return "ok"
}

// TestStreamIsUnlimited reads a stream larger than any page may be.
func TestStreamIsUnlimited(t *testing.T) {
	url := listen(t, answer("HTTP/1.1 200 OK\r\n\r\n"+strings.Repeat("x", 1<<20)))
	res, err := do(t, newClient(t, Options{MaxBody: 1000}), Request{URL: mustURL(t, url), Mode: Stream})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, res.Reader); n != 1<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
