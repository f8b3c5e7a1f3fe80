package testweb

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// talk sends raw bytes over TCP and returns all that comes back.
func talk(t *testing.T, s *Server, request string) (string, error) {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, request); err != nil {
		return "", err
	}
	b, err := io.ReadAll(nc)
	return string(b), err
}

func TestHTTP(t *testing.T) {
	s := start(t, Config{Hosts: 2, PageSize: 3000, Sitemaps: &Sitemaps{}})
	const host = "Host: h1.test\r\n"
	const end = host + "Connection: close\r\n\r\n"
	for _, tt := range []struct {
		name, request string
		want          []string // in this order
		not           string
	}{
		{"get", "GET / HTTP/1.1\r\n" + end, []string{"HTTP/1.1 200 OK\r\n", "Content-Length: 3000\r\n",
			"Connection: close\r\n", "</html>\n"}, ""},
		{"head", "HEAD / HTTP/1.1\r\n" + end, []string{"HTTP/1.1 200 OK\r\n", "Content-Length: 3000\r\n", "\r\n\r\n"},
			"<html"},
		{"head of a stream", "HEAD /sitemap.xml HTTP/1.1\r\n" + end, []string{"200 OK", "\r\n\r\n"}, "<url"},
		{"post", "POST / HTTP/1.1\r\nContent-Length: 4\r\n" + host + "\r\nbodyGET / HTTP/1.1\r\n" + end,
			[]string{"405 Method", "200 OK"}, ""},
		{"pipelined", "GET / HTTP/1.1\r\n" + host + "\r\nGET /d1/p1.html HTTP/1.1\r\n" + end,
			[]string{"200 OK", "no. 0", "200 OK", "no. 1"}, ""},
		{"old", "GET / HTTP/1.0\r\n" + host + "\r\n", []string{"200 OK", "Connection: close", "</html>\n"}, ""},
		{"old stream", "GET /sitemap.xml HTTP/1.0\r\n" + host + "\r\n",
			[]string{"200 OK", "Connection: close", "\r\n\r\n<?xml", "</urlset>\n"}, "chunked"},
		{"any case", "GET / HTTP/1.1\r\nhOsT:H1.TEST:80\r\nCONNECTION:Close\r\n\r\n", []string{"200 OK"}, ""},
		{"proxy form", "GET http://h1.test/d2/p2.html HTTP/1.1\r\nConnection: close\r\n\r\n",
			[]string{"200 OK", "no. 2"}, ""},
		{"unknown host", "GET / HTTP/1.1\r\nHost: h2.test\r\nConnection: close\r\n\r\n", []string{"421 Misdirected"},
			""},
		{"no such page", "GET /nowhere HTTP/1.1\r\n" + end, []string{"404 Not Found"}, ""},
		{"garbage", "what is this\r\n\r\n", []string{"400 Bad"}, ""},
		{"version", "GET / HTTP/3.0\r\n" + end, []string{"400 Bad"}, ""},
		{"tls", "\x16\x03\x01\x02\x00", nil, "HTTP"},
		{"endless head", "GET / HTTP/1.1\r\n" + strings.Repeat("X: yyyyyyyyyyyyyy\r\n", 5000), nil, "HTTP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := talk(t, s, tt.request)
			if err != nil && tt.want != nil {
				t.Fatal(err)
			}
			rest := got
			for _, w := range tt.want {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Fatalf("want %q, in this order %q, in %q", w, tt.want, got)
				}
				rest = after
			}
			if tt.not != "" && strings.Contains(got, tt.not) {
				t.Errorf("do not want %q in %q", tt.not, got)
			}
		})
	}
	if b := s.Stats(); b.UnknownHosts != 1 || b.MostInFlight > 2 || s.inflight.Load() != 0 {
		t.Errorf("statistics %+v, in flight %d", b, s.inflight.Load())
	}
}

// TestBrokenOverTCP looks at what broken answers are on a real connection.
func TestBrokenOverTCP(t *testing.T) {
	s := start(t, Config{Faults: OnAll(Reset{}, Truncate{}, StaleConns{Every: 1})})
	const end = " HTTP/1.1\r\nHost: h0.test\r\n\r\n"
	if got, err := talk(t, s, "GET /reset/0"+end); got != "" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset: %q, %v", got, err)
	}
	if got, err := talk(t, s, "GET /truncate/0"+end); !strings.Contains(got, "Content-Length: 2000\r\n") ||
		err != nil || len(got) > 1500 {
		t.Errorf("truncated: %d bytes, %v", len(got), err)
	}
	if got, err := talk(t, s, "GET /"+end+"GET /"+end); strings.Count(got, "HTTP/1.1 ") != 1 || err != nil {
		t.Errorf("stale: %q, %v", got, err)
	}
	if b := s.HostStats(0); b.Duplicates.Count != 0 || b.Status[0] != 2 {
		t.Errorf("duplicates %v, statuses %v", b.Duplicates, b.Status)
	}
}

func TestTLS(t *testing.T) {
	s := start(t, Config{Hosts: 2, TLS: true})
	if got := s.StartURLs()[1]; got != "https://h1.test/" {
		t.Errorf("start URL %s", got)
	}
	if got := s.Resolve(); got != "*:443:"+s.Addr() {
		t.Errorf("resolve %s", got)
	}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, s.Addr())
	}
	n := newNaive(s, 2)
	defer n.close()
	n.client.Transport = &http.Transport{
		DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: s.Authority().Pool()}, DisableCompression: true,
	}
	n.crawl(s.StartURLs())
	want, err := s.Expected(Crawl{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Compare(want, nil, n.results); err != nil {
		t.Error(err)
	}
	got, err := talk(t, s, "GET /d1/p1.html HTTP/1.1\r\nHost: h1.test\r\nConnection: close\r\n\r\n")
	if err != nil || !strings.Contains(got, "\r\nLocation: https://h1.test/d1/p1.html\r\n") {
		t.Errorf("plain request: %q, %v", got, err)
	}
	nc, err := tls.Dial("tcp", s.Addr(), &tls.Config{ServerName: "h0.test"})
	if err == nil {
		nc.Close()
		t.Error("a client that was not given the authority trusts it")
	}
}

// TestWholeWebOverTCP crawls side by side over real connections.
func TestWholeWebOverTCP(t *testing.T) {
	s := start(t, Config{
		Hosts: 5, Pages: 20, Links: 12, CrossHost: 0.3, PageSize: 70_000, ExplicitPort: true,
		Sitemaps: &Sitemaps{Orphans: 5, PerFile: 10, Gzip: true}, Log: true,
	})
	n := newNaive(s, 8)
	defer n.close()
	n.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, s.Addr())
	}
	n.crawl(s.StartURLs())
	want, err := s.Expected(Crawl{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Compare(want, nil, n.results); err != nil {
		t.Error(err)
	}
	if len(n.results) != 5*25 {
		t.Errorf("%d URLs, want %d", len(n.results), 5*25)
	}
	checkStats(t, s, n)
	b := s.HostStats(0)
	if b.Sitemaps != 1+3 || b.Robots != 1 || b.Pages != 25 {
		t.Errorf("%d sitemaps, %d robots, %d pages", b.Sitemaps, b.Robots, b.Pages)
	}
	if log := s.Log(); len(log) != int(s.Stats().Requests) || log[0].Agent == "" ||
		!strings.HasPrefix(log[0].URL, "http://h0.test:") {
		t.Errorf("%d requests in the log, the first %+v", len(log), log[0])
	}
}

func TestClose(t *testing.T) {
	s, err := Start(Config{Faults: OnAll(Hang{})})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	r := bufio.NewReader(nc)
	io.WriteString(nc, "HEAD / HTTP/1.1\r\nHost: h0.test\r\n\r\nGET /hang/0 HTTP/1.1\r\nHost: h0.test\r\n\r\n")
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Dial(t.Context(), "tcp", "h0.test:80"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial a closed server: %v", err)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: h0.test\r\nConnection: keep-alive\r\n\r\n"))
	f.Add([]byte("POST http://h0.test/x?y HTTP/1.0\r\nContent-Length: 12\r\n\r\n"))
	f.Add([]byte("GET //[::1]:80 HTTP/1.1\r\n:\r\nHost:\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r request
		if r.parse(append(b, "\r\n\r\n"...)) && (len(r.uri) == 0 || r.uri[0] != '/' || r.bodyLeft < 0) {
			t.Errorf("parsed %q to %+v", b, r)
		}
	})
}
