package fetch

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mapwright/mapwright/frontier/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	okHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	goodEnd = okHead + "Content-Length: 4\r\n\r\ngood"
)

// newClient makes a client that may connect to every port of 127.0.0.1, unless o says
// which hosts it may.
func newClient(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if guarded := c.dialer.guarded; o.AllowHosts == nil {
		c.dialer.guarded = fakeDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "127.0.0.1:") {
				return c.dialer.open.DialContext(ctx, "tcp", addr)
			}
			return guarded.DialContext(ctx, "tcp", addr)
		})
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func mustURL(t testing.TB, s string) weburl.URL {
	t.Helper()
	u, err := weburl.Parse(s)
	if err != nil {
		t.Fatalf("parse %q: %v", s, err)
	}
	return u
}

// get fetches a page and closes it when the test ends.
func get(t testing.TB, c *Client, url string) (*Response, error) {
	t.Helper()
	return do(t, c, Request{URL: mustURL(t, url)})
}

func do(t testing.TB, c *Client, r Request) (*Response, error) {
	t.Helper()
	res, err := c.Do(context.Background(), r)
	t.Cleanup(res.Close)
	return res, err
}

// awaitConns closes idle connections until so many are left at most. Those of net/http are closed by goroutines of its
// own, and one with a stream that ends a moment after its response is not idle before.
func awaitConns(c *Client, most int64) {
	for c.Stats().Conns > most {
		c.closeIdle()
		runtime.Gosched()
	}
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// listen serves each connection with a function, for answers that net/http's
// server would not give.
func listen(t testing.TB, serve func(n int, c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				serve(n, c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return "http://" + l.Addr().String()
}

// answer reads a request and writes the same bytes whatever it was.
func answer(text string) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		readRequest(c)
		_, _ = c.Write([]byte(text))
	}
}

// readRequest reads the headers of a request, and reports whether there was one.
func readRequest(c net.Conn) bool {
	var seen []byte
	one := make([]byte, 1)
	for {
		if _, err := c.Read(one); err != nil {
			return false
		}
		seen = append(seen, one[0])
		if n := len(seen); n >= 4 && string(seen[n-4:]) == "\r\n\r\n" {
			return true
		}
	}
}

// quiet is a log that discards what a server says of its clients.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// A fakeResolver answers from a function.
type fakeResolver func(ctx context.Context, host string) ([]netip.Addr, error)

func (f fakeResolver) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return f(ctx, host)
}

// always resolves every name to the same addresses.
func always(addrs ...string) fakeResolver {
	var out []netip.Addr
	for _, a := range addrs {
		out = append(out, netip.MustParseAddr(a))
	}
	return func(context.Context, string) ([]netip.Addr, error) { return out, nil }
}

// A fakeDialer connects through a function.
type fakeDialer func(ctx context.Context, address string) (net.Conn, error)

func (f fakeDialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	return f(ctx, address)
}

// pipeTo makes every connection of a client an in-memory pipe to a server, so that
// both live in a bubble of testing/synctest.
func pipeTo(t testing.TB, c *Client, serve func(net.Conn)) {
	var wg sync.WaitGroup
	d := fakeDialer(func(context.Context, string) (net.Conn, error) {
		client, server := net.Pipe()
		wg.Go(func() {
			defer server.Close()
			serve(server)
		})
		return client, nil
	})
	c.dialer.guarded, c.dialer.open = d, d
	t.Cleanup(func() { c.closeIdle(); wg.Wait() })
}

// Stats are counts of all Clients that share sockets.
type Stats struct {
	// Conns is how many connections are open now, idle ones included. Each is a file
	// descriptor.
	Conns int64
	// Dials and Refused count connections made and connections that the address
	// guard refused.
	Dials, Refused int64
}

// Stats returns the counts as they are now.
func (c *Client) Stats() Stats {
	d := c.dialer
	return Stats{
		Conns:   d.conns.Load(),
		Dials:   d.dials.Load(),
		Refused: d.refused.Load(),
	}
}
