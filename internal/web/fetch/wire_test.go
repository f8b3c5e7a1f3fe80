package fetch

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// TestNotStarted checks that a request that never reached the wire says so by
// silence.
func TestNotStarted(t *testing.T) {
	wire := &countingWire{}
	_, err := do(t, newClient(t, Options{}), Request{URL: mustURL(t, "http://127.0.0.9/"), Wire: wire})
	if err == nil || wire.started.Load() != 0 {
		t.Errorf("%v, started %d times", err, wire.started.Load())
	}
}

// TestRequestLine checks that paths and queries go out byte for byte, and with
// them the headers.
func TestRequestLine(t *testing.T) {
	got := make(chan string, 1)
	host := make(chan *http.Request, 1)
	url := listen(t, func(_ int, c net.Conn) {
		req := bufio.NewReader(c)
		line, _ := req.ReadString('\n')
		got <- line
		r, _ := http.ReadRequest(bufio.NewReader(io.MultiReader(stringReader("GET / HTTP/1.1\r\n"), req)))
		host <- r
		_, _ = io.WriteString(c, "HTTP/1.1 204 None\r\nConnection: close\r\n\r\n")
	})
	c := newClient(t, Options{
		UserAgent: "Test/1 (+https://test.example)",
		Header:    http.Header{"x-key": {"a", "b"}, "Accept": {"text/html"}, "Accept-Encoding": {"none"}},
	})
	for _, uri := range []string{"/", "/?", "/a%2Fb", "/a|b^c", "/%E3%83%84?q=a+b%20c&d=[e]", "//double//slash",
		"//x?y", "/;a=b,c:d@e!$&'()*", "/?a?b"} {
		u := mustURL(t, url+uri)
		uri = u.RequestURI()
		if _, err := do(t, c, Request{URL: u, Header: http.Header{"If-None-Match": {`"e"`}}}); err != nil {
			t.Fatal(err)
		}
		if line := <-got; line != "GET "+uri+" HTTP/1.1\r\n" {
			t.Errorf("%q went out as %q", uri, line)
		}
		r := <-host
		if r == nil || "http://"+r.Host != url {
			t.Fatalf("request %+v", r)
		}
		h := r.Header
		if h.Get("User-Agent") != "Test/1 (+https://test.example)" || fmt.Sprint(h["X-Key"]) != "[a b]" ||
			h.Get("Accept") != "text/html" ||
			h.Get("Accept-Encoding") != acceptEncoding || h.Get("If-None-Match") != `"e"` || h.Get("Cookie") != "" {
			t.Errorf("headers %v", h)
		}
	}
}

type stringReader string

func (s stringReader) Read(p []byte) (int, error) { return copy(p, s), io.EOF }

// TestCookies checks that none is kept.
func TestCookies(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.Cookies()) > 0 {
			t.Error("a cookie came back")
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
	})
	c := newClient(t, Options{})
	for range 2 {
		if _, err := get(t, c, s.URL); err != nil {
			t.Fatal(err)
		}
	}
}

func newHTTP2Server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestHTTP2(t *testing.T) {
	s := newHTTP2Server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == "/large" {
			w.Header().Set("Content-Type", "image/png")
			for range 1000 {
				if _, err := w.Write(make([]byte, 10000)); err != nil {
					return
				}
			}
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, r.Proto+" "+r.RequestURI)
	})
	for _, tt := range []struct {
		off   bool
		proto string
	}{{false, "HTTP/2.0"}, {true, "HTTP/1.1"}} {
		c := newClient(t, Options{NoHTTP2: tt.off, RootCAs: poolOf(s)})
		wire := &countingWire{}
		for i := range 3 {
			res, err := do(t, c, Request{URL: mustURL(t, s.URL+"/a|b?c"), Wire: wire})
			if err != nil {
				t.Fatal(err)
			}
			if res.Proto != tt.proto || string(res.Body) != tt.proto+" /a|b?c" || res.Reused != (i > 0) {
				t.Errorf("%s: %s %q, used again %v", tt.proto, res.Proto, res.Body, res.Reused)
			}
			if i == 0 && (res.Timings.TLS == 0 || res.Timings.Connect == 0) || i > 0 && res.Timings.TLS != 0 ||
				res.Timings.Wait == 0 {
				t.Errorf("%s request %d: timings %+v", tt.proto, i, res.Timings)
			}
		}
		if wire.started.Load() != 3 || c.Stats().Dials != 1 {
			t.Errorf("%s: started %d, dials %d; want 3 and 1", tt.proto, wire.started.Load(), c.Stats().Dials)
		}
		// On HTTP/2 an unread body costs the stream and not the connection.
		for range 2 {
			if _, err := get(t, c, s.URL+"/large"); err != nil {
				t.Fatal(err)
			}
		}
		if dials := c.Stats().Dials; !tt.off && dials != 1 {
			t.Errorf("%s: %d dials", tt.proto, dials)
		}
	}
}

// TestBounded fetches from thousands of hosts and counts how many connections stay
// open.
func TestBounded(t *testing.T) {
	const hosts, idle, workers = 3000, 64, 16
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>")
	})
	r, err := ParseResolve("*:80:127.0.0.1:" + portOf(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Options{Resolve: []Resolve{r}, MaxIdle: idle, MaxInflight: workers})
	var next, mostOurs atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > hosts {
					return
				}
				res, err := c.Do(t.Context(), Request{URL: mustURL(t, fmt.Sprintf("http://h%d.example/", n))})
				res.Close()
				if err != nil {
					t.Error(err)
					return
				}
				conns := c.Stats().Conns
				for m := mostOurs.Load(); conns > m && !mostOurs.CompareAndSwap(m, conns); m = mostOurs.Load() {
				}
			}
		})
	}
	wg.Wait()
	// Each worker may have a connection in use, and one more that net/http is about
	// to close.
	if limit := int64(idle + 2*workers); mostOurs.Load() > limit || c.Stats().Conns > limit {
		t.Errorf("at most %d connections, %d now; want no more than %d", mostOurs.Load(), c.Stats().Conns, limit)
	}
	if dials := c.Stats().Dials; dials != hosts {
		t.Errorf("%d dials, want %d", dials, hosts)
	}
}

// TestSameOnTheWire holds what we write against what net/http's Transport writes
// for the same request, byte for byte.
func TestSameOnTheWire(t *testing.T) {
	got := make(chan string, 1)
	url := listen(t, func(_ int, c net.Conn) {
		buf := make([]byte, 64<<10)
		n, _ := c.Read(buf)
		got <- string(buf[:n])
		_, _ = io.WriteString(c, "HTTP/1.1 204 None\r\nConnection: close\r\n\r\n")
	})
	port := portOf(url)
	for name, tt := range map[string]struct {
		opts Options
		req  Request
	}{
		"page":   {},
		"text":   {req: Request{Mode: Text}},
		"stream": {req: Request{Mode: Stream}},
		"headers of both": {opts: Options{Header: http.Header{"x-key": {"a", "b"}, "Cookie": {"c=d"},
			"Accept": {"a/b"}}}, req: Request{Header: http.Header{"If-None-Match": {`"e"`}, "X-KEY": {"c"}}}},
		"another host": {opts: Options{Header: http.Header{"Host": {"other.example:81"}}}},
		"host of the request": {opts: Options{Header: http.Header{"Host": {"other.example"}}},
			req: Request{Header: http.Header{"Host": {"third.example"}}}},
		"host not in ASCII": {opts: Options{Header: http.Header{"Host": {"bücher.example"}}}},
		"host with a zone":  {opts: Options{Header: http.Header{"Host": {"[fe80::1%25en0]:8080"}}}},
		"host that is none": {opts: Options{Header: http.Header{"Host": {"a b/c"}}}},
		"host empty":        {opts: Options{Header: http.Header{"Host": {""}}}},
		"agent":             {opts: Options{UserAgent: "  A/1 "}},
		"agents":            {opts: Options{Header: http.Header{"User-Agent": {"A/1", "B/2"}}}},
		"no agent":          {opts: Options{Header: http.Header{"User-Agent": {""}}}},
		"agent of no value": {req: Request{Header: http.Header{"User-Agent": {}}}},
		"spaces":            {opts: Options{Header: http.Header{"X": {" a\tb "}, "Y": {""}, "Z": {}}}},
		"what is not ours": {opts: Options{Header: http.Header{"Content-Length": {"5"},
			"Transfer-Encoding": {"chunked"}, "Trailer": {"X"}, "Connection": {"close"}, "Accept-Encoding": {"x"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.opts.Resolve = []Resolve{mustResolve(t, "*:*:127.0.0.1:"+port)}
			c := newClient(t, tt.opts)
			for _, text := range []string{url + "/a//b|c;d?e=[f]&g=%zz", "http://name.example",
				"http://bücher.example:81//x?", "http://[2001:db8::1]/", "http://[2001:db8::1]:8080/?"} {
				tt.req.URL = mustURL(t, text)
				if _, err := do(t, c, tt.req); err != nil {
					t.Fatal(err)
				}
				ours := <-got
				k := c.newCall(t.Context(), &tt.req)
				res, err := c.route.transport.RoundTrip(c.httpRequest(k, &tt.req))
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				k.end()
				if theirs := <-got; ours != theirs {
					t.Errorf("%s: wrote\n%q, net/http\n%q", text, ours, theirs)
				}
			}
		})
	}
}

func mustResolve(t testing.TB, s string) Resolve {
	t.Helper()
	r, err := ParseResolve(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBadHeaders are refused before anything is connected to.
func TestBadHeaders(t *testing.T) {
	c := newClient(t, Options{})
	for _, h := range []http.Header{{"a b": {"c"}}, {"X": {"a\r\nb: c"}}, {"": {"x"}}} {
		wire := &countingWire{}
		if _, err := do(t, c, Request{URL: mustURL(t, "http://127.0.0.1:1/"), Header: h,
			Wire: wire}); KindOf(err) != ConnectError || wire.started.Load() != 0 {
			t.Errorf("%v: %v", h, err)
		}
	}
	if dials := c.Stats().Dials; dials != 0 {
		t.Errorf("%d dials", dials)
	}
}
