package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

// A seen is what a caller sees of one request.
type seen struct {
	failed  bool // no answer
	status  int
	proto   string
	header  http.Header
	length  int64
	close   bool
	body    string
	partial bool // the body ended with an error
	trailer http.Header
	kept    bool // the next request uses the same connection
}

// see makes a request, and another one to learn whether the connection was kept.
func see(t *testing.T, rt http.RoundTripper, to string) (s seen) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["User-Agent"] = []string{"A/1"}
	res, err := rt.RoundTrip(req)
	if err != nil {
		return seen{failed: true}
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	s = seen{
		status: res.StatusCode, proto: res.Proto, header: res.Header, length: res.ContentLength, close: res.Close,
		body: string(body), partial: err != nil, trailer: res.Trailer,
	}
	next, err := get(t, rt, to, nil)
	s.kept = next.reused
	if err != nil || next.body != "good" {
		t.Errorf("the next answer is %+v, %v", next, err)
	}
	return s
}

// TestSameAsNetHTTP gives the same bytes to this package and to net/http's Transport. What a caller sees must be the
// same, except where the table has a decision of DESIGN.md.
func TestSameAsNetHTTP(t *testing.T) {
	const length3 = "Content-Length: 3\r\n\r\nabc"
	informational := strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n", maxInformational+1)
	for _, tt := range []struct {
		name, answer string
		close        bool   // the server closes after the answer
		decision     string // why the two differ; "" means that they must not
		want         seen   // ours, if they differ; only the fields that the decision is about
	}{
		{name: "length", answer: okHead + length3},
		{name: "no body", answer: okHead + "Content-Length: 0\r\n\r\n"},
		{name: "folded header", answer: okHead + "X-Long: one\r\n two\r\n\tthree\r\n" + length3},
		{name: "fold at the start", answer: "HTTP/1.1 200 OK\r\n folded\r\n" + length3, close: true},
		{name: "same name twice", answer: okHead + "Set-Cookie: a=b\r\nset-cookie: c=d\r\n" + length3},
		{name: "blank before the colon", answer: okHead + "X : y\r\n" + length3},
		{name: "no colon", answer: okHead + "Hello\r\n" + length3, close: true},
		{name: "line feeds only", answer: "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: 3\n\nabc"},
		{name: "bytes over 127 in a value", answer: okHead + "X: \xe9\r\n" + length3},
		{name: "NUL in a value", answer: okHead + "X: \x00\r\n" + length3, close: true},
		{name: "empty name", answer: okHead + ": x\r\n" + length3, close: true},
		{name: "status without a reason", answer: "HTTP/1.1 200\r\n" + length3},
		{name: "status of two digits", answer: "HTTP/1.1 20 OK\r\n" + length3, close: true},
		{name: "status 999", answer: "HTTP/1.1 999 What\r\n" + length3},
		{name: "version 1.2", answer: "HTTP/1.2 200 OK\r\n" + length3},
		{name: "version 0.9", answer: "<p>hello", close: true},
		{name: "version 1.0", answer: "HTTP/1.0 200 OK\r\n" + length3, close: true},
		{name: "version 1.0 kept alive", answer: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + length3},
		{name: "chunks", answer: okHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"},
		{name: "chunk extensions", answer: okHead +
			"Transfer-Encoding: chunked\r\n\r\n3;name=\"va lue\";x\r\nabc\r\n0;last\r\n\r\n"},
		{name: "chunk size with zeros", answer: okHead +
			"Transfer-Encoding: chunked\r\n\r\n0003\r\nabc\r\n000\r\n\r\n"},
		{name: "chunk size that is no number", answer: okHead +
			"Transfer-Encoding: chunked\r\n\r\n3x\r\nabc\r\n0\r\n\r\n"},
		{name: "chunk longer than its size", answer: okHead +
			"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n"},
		{name: "chunk cut", answer: okHead + "Transfer-Encoding: chunked\r\n\r\n9\r\nabc", close: true},
		{name: "no last chunk", answer: okHead + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", close: true},
		{name: "trailers", answer: okHead +
			"Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n"},
		{name: "trailer that must not be one", answer: okHead +
			"Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", close: true},
		{name: "two transfer encodings", answer: okHead + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
			close: true},
		{name: "chunks and a length", answer: okHead +
			"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		{name: "the same length twice", answer: okHead + "Content-Length: 3\r\n" + length3},
		{name: "lengths that differ", answer: okHead + "Content-Length: 4\r\n" + length3, close: true},
		{name: "lengths in a list", answer: okHead + "Content-Length: 3, 3\r\n\r\nabc", close: true},
		{name: "signed length", answer: okHead + "Content-Length: +3\r\n\r\nabc", close: true},
		{name: "length over the body", answer: okHead + "Content-Length: 9\r\n\r\nabc", close: true},
		{name: "close-delimited", answer: okHead + "\r\nabc", close: true},
		{name: "close-delimited, empty", answer: okHead + "\r\n", close: true},
		{name: "connection: close", answer: okHead + "Connection: close\r\n" + length3, close: true},
		{name: "connection: close, and the server waits", answer: okHead + "Connection: close\r\n" + length3},
		{name: "pragma", answer: okHead + "Pragma: no-cache\r\n" + length3},
		{name: "100", answer: "HTTP/1.1 100 Continue\r\n\r\n" + okHead + length3},
		{name: "103, three times", answer: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n", 3) +
			okHead + length3},
		{name: "204 with a length", answer: "HTTP/1.1 204 None\r\nContent-Length: 0\r\n\r\n"},
		{name: "304 with a length", answer: "HTTP/1.1 304 Same\r\nContent-Length: 100\r\n\r\n"},
		{name: "408 as an answer", answer: "HTTP/1.1 408 Late\r\nConnection: close\r\n" + length3, close: true},
		{name: "headers over the limit", answer: okHead + "X: " + strings.Repeat("x", 300<<10) + "\r\n" + length3,
			close: true},
		{name: "many 1xx", answer: informational + okHead + length3, close: true, decision: "limit of 1xx",
			want: seen{failed: true}},
		{name: "101", answer: "HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", close: true,
			decision: "no upgrade", want: seen{status: 101}},
		{name: "bytes after the answer", answer: okHead + length3 + goodEnd, decision: "bytes after an answer",
			want: seen{status: 200, body: "abc"}},
		{name: "bytes after the last chunk", answer: okHead +
			"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + goodEnd, decision: "bytes after an answer",
			want: seen{status: 200, body: "abc"}},
		{name: "bytes after no body", answer: "HTTP/1.1 204 None\r\n\r\n" + goodEnd, decision: "bytes after an answer",
			want: seen{status: 204}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serve := func(n int, c net.Conn) {
				for served := 0; readRequest(c); served++ {
					if n > 1 || served > 0 {
						_, _ = io.WriteString(c, goodEnd)
						continue
					}
					_, _ = io.WriteString(c, tt.answer)
					if tt.close {
						_ = c.(*net.TCPConn).CloseWrite()
						_, _ = io.Copy(io.Discard, c) // a reset could overtake the answer
						return
					}
				}
			}
			at, again := listen(t, serve), listen(t, serve) // they end after the clients
			ours := see(t, newClient(t, PoolOptions{}, Options{}), at)
			if tt.decision != "" {
				got := seen{failed: ours.failed, status: ours.status, body: ours.body, partial: ours.partial,
					kept: ours.kept}
				if !reflect.DeepEqual(got, tt.want) {
					t.Errorf("%s: got %+v, want %+v", tt.decision, got, tt.want)
				}
				return
			}
			theirs := &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: 256 << 10}
			t.Cleanup(theirs.CloseIdleConnections)
			if want := see(t, theirs, again); !reflect.DeepEqual(ours, want) {
				t.Errorf("got %+v, net/http %+v", ours, want)
			}
		})
	}
}

// TestEarlyAnswer: the server answers a new connection before it has read the request. The decision is to accept that:
// the answer is read after the request was written. On a kept connection such bytes are refused, see TestIdleIsHeard.
func TestEarlyAnswer(t *testing.T) {
	to := listen(t, func(_ int, c net.Conn) {
		_, _ = io.WriteString(c, goodEnd)
		_, _ = io.Copy(io.Discard, c)
	})
	c := newClient(t, PoolOptions{}, Options{})
	if a, err := get(t, c, to, nil); err != nil || a.body != "good" || a.reused {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestNothingIsSentTwice: net/http sends a GET again when a kept connection ends before the answer. The decision is not
// to.
func TestNothingIsSentTwice(t *testing.T) {
	for name, drop := range map[string]func(net.Conn){"end": func(net.Conn) {}, "reset": reset} {
		t.Run(name, func(t *testing.T) {
			requests := make(chan int, 10)
			to := listen(t, func(n int, c net.Conn) {
				for served := 0; readRequest(c); served++ {
					requests <- n
					if n == 1 && served == 1 {
						drop(c)
						return
					}
					_, _ = io.WriteString(c, goodEnd)
				}
			})
			c := newClient(t, PoolOptions{}, Options{})
			for i, dropped := range []bool{false, true, false, false} {
				if _, err := get(t, c, to, nil); errors.Is(err, ErrDropped) != dropped || (err != nil) != dropped {
					t.Errorf("request %d: %v, want it dropped: %v", i, err, dropped)
				}
				if n := len(requests); n != i+1 {
					t.Errorf("the server has had %d requests after %d", n, i+1)
				}
			}
		})
	}
}

// TestSameRequest compares the bytes of a request with those of net/http's Transport.
func TestSameRequest(t *testing.T) {
	got := make(chan string, 1)
	at := listen(t, func(_ int, c net.Conn) {
		text, _ := requestText(c)
		got <- text
		_, _ = io.WriteString(c, "HTTP/1.1 204 None\r\nConnection: close\r\n\r\n")
	})
	addr := strings.TrimPrefix(at, "http://")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	ours := newClient(t, PoolOptions{}, Options{})
	ours.dialer = dial
	theirs := &http.Transport{DisableCompression: true, DialContext: dial}
	t.Cleanup(theirs.CloseIdleConnections)
	agent := func(more http.Header) http.Header {
		h := http.Header{"User-Agent": {"A/1"}}
		for name, values := range more {
			h[name] = values
		}
		return h
	}
	for name, req := range map[string]http.Request{
		"plain":             {Header: agent(nil)},
		"headers":           {Header: agent(http.Header{"X-Key": {"a", "b"}, "Cookie": {"c=d"}, "Accept": {"a/b"}})},
		"another host":      {Host: "other.example:81", Header: agent(nil)},
		"host not in ASCII": {Host: "bücher.example", Header: agent(nil)},
		"host with a zone":  {Host: "[fe80::1%25en0]:8080", Header: agent(nil)},
		"host that is none": {Host: "a b/c", Header: agent(nil)},
		"agents":            {Header: http.Header{"User-Agent": {"A/1", "B/2"}}},
		"empty agent":       {Header: http.Header{"User-Agent": {""}}},
		"spaces":            {Header: agent(http.Header{"X": {" a\tb "}, "Y": {""}, "Z": {}})},
		"closing":           {Close: true, Header: agent(nil)},
		"how a body is sent": {Header: agent(http.Header{
			"Content-Length": {"5"}, "Transfer-Encoding": {"chunked"}, "Trailer": {"X"}, "Connection": {"close"},
			"Host": {"x"},
		})},
	} {
		for _, text := range []string{"http://name.example", "http://name.example:81/a//b;d?e=[f]&g=%zz",
			"http://[2001:db8::1]:8080/?", "http://name.example//x?", "http://name.example/%2F"} {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			req.Method, req.URL = http.MethodGet, u
			var texts []string
			for _, rt := range []http.RoundTripper{ours, theirs} {
				res, err := rt.RoundTrip(req.Clone(t.Context()))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				res.Body.Close()
				texts = append(texts, <-got)
			}
			if texts[0] != texts[1] {
				t.Errorf("%s, %s: wrote\n%q, net/http\n%q", name, text, texts[0], texts[1])
			}
		}
	}
}

// TestRefusedRequests are refused before anything is connected to.
func TestRefusedRequests(t *testing.T) {
	c := newClient(t, PoolOptions{}, Options{})
	good := &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/"}
	for name, req := range map[string]*http.Request{
		"post":            {Method: http.MethodPost, URL: good},
		"head":            {Method: http.MethodHead, URL: good},
		"body":            {URL: good, Body: io.NopCloser(strings.NewReader("x"))},
		"length":          {URL: good, ContentLength: 1},
		"trailer":         {URL: good, Trailer: http.Header{"X": nil}},
		"no URL":          {},
		"no host":         {URL: &url.URL{Scheme: "http", Path: "/"}},
		"another scheme":  {URL: &url.URL{Scheme: "ftp", Host: "a.example"}},
		"header name":     {URL: good, Header: http.Header{"a b": {"c"}}},
		"header value":    {URL: good, Header: http.Header{"X": {"a\r\nb: c"}}},
		"line in a query": {URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/", RawQuery: "a\r\nb"}},
	} {
		if _, err := c.RoundTrip(req); err == nil || c.dials.Load() != 0 {
			t.Errorf("%s: %v, %d dials", name, err, c.dials.Load())
		}
	}
}

// TestCancelByContext ends the context of a request wherever it can wait. The error is its cause, nothing stays open,
// and a context that ends after the body does not touch the connection.
func TestCancelByContext(t *testing.T) {
	for name, answer := range map[string]string{
		"waiting": "", "in the headers": okHead, "after 1xx": "HTTP/1.1 100 Go\r\n\r\n",
		"in the body": okHead + "Content-Length: 9\r\n\r\nabc", "between chunks": okHead +
			"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			to := listen(t, func(_ int, c net.Conn) {
				readRequest(c)
				_, _ = io.WriteString(c, answer)
				cancel(errEnough)
				_, _ = io.Copy(io.Discard, c)
			})
			c := newClient(t, PoolOptions{}, Options{})
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.RoundTrip(req)
			if err == nil {
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			if err != errEnough || c.open.Load() != 0 {
				t.Errorf("%v, %d connections open", err, c.open.Load())
			}
		})
	}
	t.Run("after the body", func(t *testing.T) {
		to := listen(t, func(_ int, c net.Conn) {
			for readRequest(c) {
				_, _ = io.WriteString(c, goodEnd)
			}
		})
		c := newClient(t, PoolOptions{}, Options{})
		for i := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			reused := false
			trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
			req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, to, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(res.Body); err != nil || reused != (i > 0) {
				t.Fatalf("request %d: reused %v, %v", i, reused, err)
			}
			cancel()
			res.Body.Close()
		}
	})
}
