package http1

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// TestAnswers gives one answer and asks again: the second answer must be the second
// one, over the same connection exactly if the first left it in order.
func TestAnswers(t *testing.T) {
	informational := func(n int) string {
		return strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n",
			n)
	}
	tests := []struct {
		name   string
		answer string
		opts   Options
		header http.Header // of the request
		status int         // 0 is an error
		body   string
		kept   bool
	}{
		{name: "length", answer: okHead + "Content-Length: 3\r\n\r\nabc", status: 200, body: "abc", kept: true},
		{name: "empty", answer: okHead + "Content-Length: 0\r\n\r\n", status: 200, kept: true},
		{name: "chunked", answer: okHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
			status: 200, body: "abc", kept: true},
		{name: "chunked with trailers", answer: okHead +
			"Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n",
			status: 200, body: "abc", kept: true},
		{name: "chunked and a length", answer: okHead +
			"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", status: 200, body: "abc",
			kept: true},
		{name: "no content", answer: "HTTP/1.1 204 None\r\n\r\n", status: 204, kept: true},
		{name: "not modified, with the length of what it is not sending",
			answer: "HTTP/1.1 304 Same\r\nContent-Length: 100\r\n\r\n", status: 304, kept: true},
		{name: "continue", answer: "HTTP/1.1 100 Continue\r\n\r\n" + okHead + "Content-Length: 3\r\n\r\nabc",
			status: 200, body: "abc", kept: true},
		{name: "early hints", answer: informational(2) + okHead + "Content-Length: 3\r\n\r\nabc", status: 200,
			body: "abc", kept: true},
		{name: "as many informational answers as may be", answer: informational(maxInformational) +
			"HTTP/1.1 204 None\r\n\r\n", status: 204, kept: true},
		{name: "too many informational answers", answer: informational(maxInformational+1) +
			"HTTP/1.1 204 None\r\n\r\n"},
		{name: "headers of informational answers over the limit", answer: informational(5) +
			"HTTP/1.1 204 None\r\n\r\n", opts: Options{MaxHeader: 200}},
		{name: "headers just within the limit", answer: "HTTP/1.1 204 None\r\n\r\n", opts: Options{MaxHeader: 21},
			status: 204, kept: true},
		{name: "headers just over the limit", answer: "HTTP/1.1 204 None\r\n\r\n", opts: Options{MaxHeader: 20}},
		{name: "headers without end", answer: okHead + "X: " + strings.Repeat("x", 1<<20),
			opts: Options{MaxHeader: 64 << 10}},
		{name: "as many lines as may be", answer: okHead + numbered(maxLines-4) + "Content-Length: 0\r\n\r\n",
			status: 200, kept: true},
		{name: "too many lines", answer: okHead + numbered(maxLines-3) + "Content-Length: 0\r\n\r\n"},
		{name: "too many lines of one header", answer: okHead + strings.Repeat("a:\n", maxLines) +
			"Content-Length: 0\r\n\r\n"},
		{name: "too many lines that are folded", answer: okHead + "X: a" + strings.Repeat("\r\n a", maxLines) +
			"\r\nContent-Length: 0\r\n\r\n"},
		{name: "too many lines of informational answers", answer: strings.Repeat("HTTP/1.1 103 Early Hints\r\n"+
			numbered(maxLines/3)+"\r\n", 3) + okHead + "Content-Length: 0\r\n\r\n"},
		{name: "a body of many lines", answer: informational(2) + okHead + "Content-Length: 3000\r\n\r\n" +
			strings.Repeat("\n", 3000), status: 200, body: strings.Repeat("\n", 3000), kept: true},
		{name: "body over the limit of headers", answer: okHead + "Content-Length: 3000\r\n\r\n" +
			strings.Repeat("x", 3000), opts: Options{MaxHeader: 100}, status: 200, body: strings.Repeat("x", 3000),
			kept: true},
		{name: "switching protocols", answer: "HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
			status: 101},
		{name: "connection close", answer: okHead + "Connection: close\r\nContent-Length: 3\r\n\r\nabc", status: 200,
			body: "abc"},
		{name: "close among others", answer: okHead + "Connection: x, Close\r\nContent-Length: 3\r\n\r\nabc",
			status: 200, body: "abc"},
		{name: "we said close", answer: okHead + "Content-Length: 3\r\n\r\nabc",
			header: http.Header{"Connection": {"close"}}, status: 200, body: "abc"},
		{name: "HTTP/1.0", answer: "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nabc",
			status: 200, body: "abc"},
		{name: "HTTP/1.0 kept alive",
			answer: "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nConnection: keep-alive\r\nContent-Length: " +
				"3\r\n\r\nabc", status: 200, body: "abc", kept: true},
		{name: "until the end", answer: okHead + "\r\nabc", status: 200, body: "abc"},
		{name: "garbage after the body", answer: okHead + "Content-Length: 3\r\n\r\nabc" + "garbage", status: 200,
			body: "abc"},
		{name: "another answer after the body", answer: okHead + "Content-Length: 3\r\n\r\nabc" + okHead +
			"Content-Length: 4\r\n\r\nevil", status: 200, body: "abc"},
		{name: "another answer after the last chunk", answer: okHead +
			"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + okHead + "Content-Length: 4\r\n\r\nevil",
			status: 200, body: "abc"},
		{name: "another answer after no body", answer: "HTTP/1.1 204 None\r\n\r\n" + okHead +
			"Content-Length: 4\r\n\r\nevil", status: 204},
		{name: "empty line after the body", answer: okHead + "Content-Length: 3\r\n\r\nabc\r\n", status: 200,
			body: "abc"},
		{name: "two lengths", answer: okHead + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
		{name: "bad length", answer: okHead + "Content-Length: -1\r\n\r\n"},
		{name: "unknown transfer encoding", answer: okHead + "Transfer-Encoding: gzip\r\n\r\n"},
		{name: "no status", answer: "HTTP/1.1\r\n\r\n"},
		{name: "no version", answer: "200 OK\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The first answer of the first connection is the one to try.
			url := listen(t, func(n int, c net.Conn) {
				for served := 0; readRequest(c); served++ {
					if n == 1 && served == 0 {
						_, _ = io.WriteString(c, tt.answer)
						if strings.HasPrefix(tt.name, "until the end") {
							return
						}
						continue
					}
					_, _ = io.WriteString(c, goodEnd)
				}
			})
			c := newClient(t, PoolOptions{}, tt.opts)
			a, err := get(t, c, url, tt.header)
			switch {
			case tt.status == 0 && (err == nil || errors.Is(err, ErrDropped)):
				t.Fatalf("%+v, %v; want an error", a, err)
			case tt.status != 0 && (err != nil || a.status != tt.status || a.body != tt.body):
				t.Fatalf("%+v, %v; want %d %q", a, err, tt.status, tt.body)
			}
			if open := c.open.Load(); (open == 1) != tt.kept {
				t.Errorf("%d connections kept, want it kept: %v", open, tt.kept)
			}
			if tt.opts.MaxHeader > 0 {
				return // the second answer does not fit either
			}
			second, err := get(t, c, url, nil)
			if err != nil || second.body != "good" || second.reused != tt.kept {
				t.Errorf("second answer %+v, %v; want it good, reused %v", second, err, tt.kept)
			}
		})
	}
}

// TestIdleIsHeard lets a server say something on a connection that was kept: it is
// not asked over that one, and what it sent is not taken for an answer.
func TestIdleIsHeard(t *testing.T) {
	for name, speak := range map[string]func(net.Conn){
		"unsolicited answer": func(c net.Conn) { _, _ = io.WriteString(c, okHead+"Content-Length: 4\r\n\r\nevil") },
		"one byte":           func(c net.Conn) { _, _ = io.WriteString(c, "x") },
		"end":                func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() },
		"reset":              func(c net.Conn) { reset(c); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			now, spoken := make(chan struct{}), make(chan struct{})
			url := listen(t, func(n int, c net.Conn) {
				for readRequest(c) {
					_, _ = io.WriteString(c, goodEnd)
					if n == 1 {
						<-now
						speak(c)
						close(spoken)
						// Nothing more reaches it.
						if readRequest(c) {
							t.Error("asked over the connection")
						}
						return
					}
				}
			})
			c := newClient(t, PoolOptions{}, Options{})
			if _, err := get(t, c, url, nil); err != nil {
				t.Fatal(err)
			}
			close(now)
			<-spoken
			for quiet := newLook(c.last.Load()); quiet != nil && quiet(); { // until it has arrived
				runtime.Gosched()
			}
			a, err := get(t, c, url, nil)
			if err != nil || a.body != "good" || a.reused {
				t.Errorf("%+v, %v; want one sending over a new connection", a, err)
			}
			if open := c.open.Load(); open != 1 {
				t.Errorf("%d connections, want 1", open)
			}
		})
	}
}

// TestBrokenAnswerIsNotAskedAgain: the server has begun to answer over a kept
// connection, so it has had the request.
func TestBrokenAnswerIsNotAskedAgain(t *testing.T) {
	url := listen(t, func(_ int, c net.Conn) {
		for served := 0; readRequest(c); served++ {
			if served == 1 {
				_, _ = io.WriteString(c, "H")
				return
			}
			_, _ = io.WriteString(c, goodEnd)
		}
	})
	c := newClient(t, PoolOptions{}, Options{})
	if _, err := get(t, c, url, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, c, url, nil); err == nil || errors.Is(err, ErrDropped) {
		t.Errorf("%v, want an error of the answer", err)
	}
	if dials, open := c.dials.Load(), c.open.Load(); dials != 1 || open != 0 {
		t.Errorf("%d dials, %d open; want one dial and nothing open", dials, open)
	}
}

// TestNewestFirst checks that the connection used last is used next, so that the
// others may time out.
func TestNewestFirst(t *testing.T) {
	arrived := make(chan int, 2)
	gates := []chan struct{}{nil, make(chan struct{}), make(chan struct{})}
	url := listen(t, func(n int, c net.Conn) {
		for served := 0; readRequest(c); served++ {
			arrived <- n
			if served == 0 {
				<-gates[n]
			}
			_, _ = io.WriteString(c, goodEnd)
		}
	})
	c := newClient(t, PoolOptions{}, Options{})
	done := []chan error{nil, make(chan error), make(chan error)}
	for range 2 {
		ended := make(chan error)
		go func() {
			_, err := get(t, c, url, nil)
			ended <- err
		}()
		done[<-arrived] = ended
	}
	for _, n := range []int{2, 1} {
		close(gates[n])
		if err := <-done[n]; err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := get(t, c, url, nil); err != nil {
			t.Fatal(err)
		}
		if n := <-arrived; n != 1 {
			t.Errorf("asked over connection %d, want the one used last", n)
		}
	}
}

// TestUnreadBodyCloses leaves bodies of all kinds unread.
func TestUnreadBodyCloses(t *testing.T) {
	for name, answer := range map[string]string{
		"length":  "Content-Length: 100000\r\n\r\n",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n186a0\r\n",
		"endless": "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			url := listen(t, func(_ int, c net.Conn) {
				defer close(gone)
				readRequest(c)
				_, _ = io.WriteString(c, okHead+answer+strings.Repeat("x", 1000))
				_, _ = c.Read(make([]byte, 1))
			})
			c := newClient(t, PoolOptions{}, Options{})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			res.Body.Close() // and waits for nothing
			<-gone
			if open := c.open.Load(); open != 0 {
				t.Errorf("%d connections open", open)
			}
			if _, err := res.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
				t.Errorf("read after close: %v", err)
			}
		})
	}
}

// TestHeldBackByTLS sends something after an answer in a record of its own, within
// the same segment: the socket is silent then, and what TLS holds must count.
func TestHeldBackByTLS(t *testing.T) {
	inner := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(inner.Close)
	url := listen(t, func(n int, c net.Conn) {
		w := bufio.NewWriterSize(c, 64<<10)
		conn := tls.Server(&bufferedConn{Conn: c, w: w}, &tls.Config{Certificates: inner.TLS.Certificates})
		if conn.Handshake() != nil || w.Flush() != nil {
			return
		}
		for readRequest(conn) {
			_, _ = io.WriteString(conn, goodEnd)
			if n == 1 {
				_, _ = io.WriteString(conn, okHead+"Content-Length: 4\r\n\r\nevil")
			}
			_ = w.Flush()
		}
	})
	c := newClient(t, PoolOptions{}, Options{})
	c.tls = inner.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	c.tls.ServerName = "example.com"
	for i, reused := range []bool{false, false, true} {
		res, err := get(t, c, "https"+url[len("http"):], nil)
		if err != nil || res.body != "good" || res.reused != reused {
			t.Errorf("request %d: %+v, %v; want it good, reused %v", i, res, err, reused)
		}
	}
}

// A bufferedConn writes when it is flushed, or before it waits.
type bufferedConn struct {
	net.Conn
	w *bufio.Writer
}

func (c *bufferedConn) Write(p []byte) (int, error) { return c.w.Write(p) }

func (c *bufferedConn) Read(p []byte) (int, error) {
	if err := c.w.Flush(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// numbered are so many different headers.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "X-%d: 1\r\n", i)
	}
	return b.String()
}

// An answer with too many lines over a kept connection is an answer: the server has not dropped the connection.
func TestManyLinesOverAKeptConnection(t *testing.T) {
	url := listen(t, func(_ int, c net.Conn) {
		for served := 0; readRequest(c); served++ {
			if served == 0 {
				_, _ = io.WriteString(c, goodEnd)
				continue
			}
			_, _ = io.WriteString(c, okHead+strings.Repeat("a:\n", 2*maxLines)+"Content-Length: 0\r\n\r\n")
		}
	})
	c := newClient(t, PoolOptions{}, Options{})
	if _, err := get(t, c, url, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, c, url, nil); !errors.Is(err, errManyLines) || errors.Is(err, ErrDropped) {
		t.Errorf("%v, want too many lines", err)
	}
}

// Bodies may come in small chunks, but not without end: what stands around them costs more than the body.
func TestSmallChunks(t *testing.T) {
	for _, tt := range []struct {
		chunk, chunks int
		ok            bool
	}{{1, 50_000, true}, {1, 100_000, false}, {2, 300_000, false}, {5, 300_000, true}, {8, 300_000, true},
		{16 << 10, 100, true}, {8 << 20, 4, true}} {
		t.Run(fmt.Sprint(tt.chunk, " x ", tt.chunks), func(t *testing.T) {
			url := listen(t, func(_ int, c net.Conn) {
				readRequest(c)
				w := bufio.NewWriter(c)
				_, _ = w.WriteString(okHead + "Transfer-Encoding: chunked\r\n\r\n")
				for range tt.chunks {
					fmt.Fprintf(w, "%x\r\n%s\r\n", tt.chunk, strings.Repeat("x", tt.chunk))
				}
				_, _ = w.WriteString("0\r\n\r\n")
				_ = w.Flush() // fails if the client has left
			})
			c := newClient(t, PoolOptions{}, Options{})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			n, err := io.ReadFull(res.Body, make([]byte, tt.chunk*tt.chunks))
			if tt.ok && err != nil || !tt.ok && err != errSmallChunks {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
}
