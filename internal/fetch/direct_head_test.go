package fetch

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

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
		"page":                {},
		"text":                {req: Request{Mode: Text}},
		"stream":              {req: Request{Mode: Stream}},
		"headers of both":     {opts: Options{Header: http.Header{"x-key": {"a", "b"}, "Cookie": {"c=d"}, "Accept": {"a/b"}}}, req: Request{Header: http.Header{"If-None-Match": {`"e"`}, "X-KEY": {"c"}}}},
		"another host":        {opts: Options{Header: http.Header{"Host": {"other.example:81"}}}},
		"host of the request": {opts: Options{Header: http.Header{"Host": {"other.example"}}}, req: Request{Header: http.Header{"Host": {"third.example"}}}},
		"host not in ASCII":   {opts: Options{Header: http.Header{"Host": {"bücher.example"}}}},
		"host with a zone":    {opts: Options{Header: http.Header{"Host": {"[fe80::1%25en0]:8080"}}}},
		"host that is none":   {opts: Options{Header: http.Header{"Host": {"a b/c"}}}},
		"host empty":          {opts: Options{Header: http.Header{"Host": {""}}}},
		"agent":               {opts: Options{UserAgent: "  A/1 "}},
		"agents":              {opts: Options{Header: http.Header{"User-Agent": {"A/1", "B/2"}}}},
		"no agent":            {opts: Options{Header: http.Header{"User-Agent": {""}}}},
		"agent of no value":   {req: Request{Header: http.Header{"User-Agent": {}}}},
		"spaces":              {opts: Options{Header: http.Header{"X": {" a\tb "}, "Y": {""}, "Z": {}}}},
		"what is not ours":    {opts: Options{Header: http.Header{"Content-Length": {"5"}, "Transfer-Encoding": {"chunked"}, "Trailer": {"X"}, "Connection": {"close"}, "Accept-Encoding": {"x"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.opts.Resolve = []Resolve{mustResolve(t, "*:*:127.0.0.1:"+port)}
			c := newClient(t, tt.opts)
			for _, text := range []string{url + "/a//b|c;d?e=[f]&g=%zz", "http://name.example", "http://bücher.example:81//x?", "http://[2001:db8::1]/", "http://[2001:db8::1]:8080/?"} {
				tt.req.URL = mustURL(t, text)
				if _, err := do(t, c, tt.req); err != nil {
					t.Fatal(err)
				}
				ours := <-got
				k := c.newCall(t.Context(), &tt.req)
				res, err := c.transport.RoundTrip(c.httpRequest(k, &tt.req))
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
		if _, err := do(t, c, Request{URL: mustURL(t, "http://127.0.0.1:1/"), Header: h, Wire: wire}); KindOf(err) != ConnectError || wire.started.Load() != 0 {
			t.Errorf("%v: %v", h, err)
		}
	}
	if dials := c.Stats().Dials; dials != 0 {
		t.Errorf("%d dials", dials)
	}
}

func BenchmarkAppendRequest(b *testing.B) {
	h := newHead(baseHeaders(Options{UserAgent: DefaultUserAgent("1")})[Page])
	u, err := urlnorm.Parse("https://www.example.com/some/path/to/page?x=y")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		if buf, err = h.appendRequest(buf[:0], u); err != nil {
			b.Fatal(err)
		}
	}
}
