package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"
)

// A scriptConn answers with fixed bytes, once something was written to it.
type scriptConn struct {
	net.Conn // nil
	answer   *bytes.Reader
	wrote    bool
}

func (c *scriptConn) Write(p []byte) (int, error) { c.wrote = true; return len(p), nil }

func (c *scriptConn) Read(p []byte) (int, error) {
	if !c.wrote {
		return 0, errors.New("read before the request")
	}
	return c.answer.Read(p)
}

func (c *scriptConn) Close() error                     { return nil }
func (c *scriptConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// An answerOf is what became of a server's bytes.
type answerOf struct {
	status int // 0 if there was no answer
	body   string
	whole  bool // the body came to its end
	kept   bool // the connection can serve again
}

// readAnswer is what net/http makes of the bytes, and what is in order after them.
func readAnswer(data []byte) (a answerOf) {
	r := bufio.NewReaderSize(bytes.NewReader(data), len(data)+16)
	for range maxInformational + 1 {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return a
		}
		if res.StatusCode >= 100 && res.StatusCode <= 199 && res.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		body, err := io.ReadAll(res.Body)
		a = answerOf{status: res.StatusCode, body: string(body), whole: err == nil}
		_, more := r.Peek(1)
		a.kept = a.whole && !res.Close && res.StatusCode > 199 && more == io.EOF
		return a
	}
	return a
}

// FuzzAnswer feeds bytes as a server's answer and compares what comes of it with
// http.ReadResponse on the same bytes, and whether the connection is kept.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		goodEnd,
		goodEnd + goodEnd,
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nA: b\r\n\r\n" + goodEnd,
		okHead + "Transfer-Encoding: chunked\r\n\r\n3;a\r\nabc\r\n0\r\nT: u\r\n\r\n",
		okHead + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
		"HTTP/1.0 200 OK\r\n\r\nabc",
		"HTTP/1.1 304 X\r\nContent-Length: 9\r\n\r\n",
		"HTTP/1.1 101 X\r\n\r\nabc",
		okHead + "Connection: close\r\nContent-Length: 1\r\n\r\na",
		okHead + "Content-Length: 10\r\n\r\nabc",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > readBuffer {
			return // what is left of it is then for the look at the socket to find
		}
		for _, asItLies := range []bool{false, true} {
			got := fetchAnswer(t, data, asItLies)
			if want := readAnswer(data); got != want {
				t.Errorf("%q: got %+v, want %+v", data, got, want)
			}
		}
	})
}

// fetchAnswer makes a request that is answered with data. AsItLies is to take a body that
// came with its headers without reading it.
func fetchAnswer(t *testing.T, data []byte, asItLies bool) (got answerOf) {
	t.Helper()
	c := newClient(t, PoolOptions{}, Options{})
	c.dialer = func(context.Context, string, string) (net.Conn, error) {
		c.open.Add(1)
		return &countedConn{Conn: &scriptConn{answer: bytes.NewReader(data)}, open: &c.open}, nil
	}
	head, err := NewHead(nil)
	if err != nil {
		t.Fatal(err)
	}
	x := &tracedExchange{ctx: t.Context(), trace: &httptrace.ClientTrace{}}
	x.Hooks = x
	const origin = "http://a.example"
	if res, err := c.Do(&x.Exchange, Request{Origin: origin, URI: "/", Head: head}); err == nil {
		var all []byte
		var m *Memory
		if b, ok := res.Body.(*Body); ok && asItLies {
			all, m = b.Whole()
		}
		if m != nil {
			all = bytes.Clone(all)
			m.Release()
		} else {
			all, err = io.ReadAll(res.Body)
		}
		res.Body.Close()
		got = answerOf{status: res.StatusCode, body: string(all), whole: err == nil}
	}
	kept := c.pool.take(poolKey{c.Transport, origin})
	if got.kept = kept != nil; got.kept {
		kept.abort()
	}
	if open := c.open.Load(); open != 0 {
		t.Errorf("%q: %d connections left open", data, open)
	}
	return got
}
