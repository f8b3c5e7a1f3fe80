package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	okHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	goodEnd = okHead + "Content-Length: 4\r\n\r\ngood"
)

// A client is a Transport whose connections are counted.
type client struct {
	*Transport
	pool  *Pool
	tls   *tls.Config
	pipe  func(net.Conn) // serves every connection in memory; nil is TCP
	dials atomic.Int64
	open  atomic.Int64 // connections
	last  atomic.Pointer[countedConn]
	wg    sync.WaitGroup
}

func newClient(t testing.TB, po PoolOptions, o Options) *client {
	t.Helper()
	c := &client{pool: NewPool(po)}
	o.Dial = c.connect
	c.Transport = New(c.pool, o)
	t.Cleanup(func() { c.pool.Close(); c.wg.Wait() })
	return c
}

func (c *client) connect(ctx context.Context, scheme, addr string) (conn net.Conn, err error) {
	if c.pipe != nil {
		ours, theirs := net.Pipe()
		c.wg.Go(func() { defer theirs.Close(); c.pipe(theirs) })
		conn = ours
	} else if conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr); err != nil {
		return nil, err
	}
	c.dials.Add(1)
	c.open.Add(1)
	counted := &countedConn{Conn: conn, open: &c.open}
	c.last.Store(counted)
	conn = counted
	if scheme == "https" {
		secure := tls.Client(conn, c.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}
	return conn, nil
}

// A countedConn is one of a client's connections.
type countedConn struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
}

func (c *countedConn) NetConn() net.Conn { return c.Conn }

func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// An answer is a response with its body.
type answer struct {
	status int
	body   string
	reused bool
	header http.Header
}

// get makes one request and reads the answer to its end.
func get(t testing.TB, rt http.RoundTripper, url string, header http.Header) (a answer, err error) {
	t.Helper()
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { a.reused = i.Reused }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a.status, a.body, a.header = res.StatusCode, string(body), res.Header
	return a, err
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

// readRequest reads the headers of a request, and reports whether there was one.
func readRequest(c net.Conn) bool {
	_, err := requestText(c)
	return err == nil
}

// requestText reads the headers of a request.
func requestText(c net.Conn) (string, error) {
	var seen []byte
	one := make([]byte, 1)
	for {
		if _, err := c.Read(one); err != nil {
			return string(seen), err
		}
		seen = append(seen, one[0])
		if n := len(seen); n >= 4 && string(seen[n-4:]) == "\r\n\r\n" {
			return string(seen), nil
		}
	}
}

// reset makes the close of a connection a reset.
func reset(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }

var errEnough = errors.New("enough")
