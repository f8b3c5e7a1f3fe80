package fetch

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// newProxy serves a proxy that logs what it is asked for and leads everything to
// one address.
func newProxy(t *testing.T, to string) (*url.URL, chan string) {
	t.Helper()
	log := make(chan string, 10)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		log <- r.Method + " " + r.RequestURI + " " + r.Header.Get("Proxy-Authorization")
		if r.Method != http.MethodConnect {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "by proxy")
			return
		}
		switch {
		case strings.HasPrefix(r.RequestURI, "gone."):
			w.WriteHeader(http.StatusBadGateway)
			return
		case strings.HasPrefix(r.RequestURI, "auth."):
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Connected\r\n\r\n")
		tunnel(t, conn, rw.Reader, to)
	})
	u, err := ParseProxy("user:secret@" + s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return u, log
}

func tunnel(t *testing.T, conn net.Conn, r io.Reader, to string) {
	back, err := net.Dial("tcp", to)
	if err != nil {
		t.Error(err)
		return
	}
	defer back.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(back, r)
		_ = back.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, back)
	conn.Close()
	<-done
}

func TestProxy(t *testing.T) {
	secure := newHTTP2Server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "secure "+r.RequestURI)
	})
	for _, http1 := range []bool{false, true} {
		proxy, log := newProxy(t, secure.Listener.Addr().String())
		testProxy(t, log, newClient(t, Options{
			Proxy: proxy, RootCAs: poolOf(secure), AllowHosts: []string{"192.168.0.9:80"}, Resolver: always(),
			NoHTTP2: http1,
		}))
	}
}

func testProxy(t *testing.T, log chan string, c *Client) {
	const auth = " Basic dXNlcjpzZWNyZXQ="

	for _, tt := range []struct {
		url, log, body string
		kind           Kind
		ours           bool
	}{
		{"http://a.example/x|y?z", "GET http://a.example/x|y?z" + auth, "by proxy", "", false},
		{"http://a.example:81//x", "GET http://a.example:81//x" + auth, "by proxy", "", false},
		{"https://example.com/s|t", "CONNECT example.com:443" + auth, "secure /s|t", "", false},
		{"https://gone.example/", "CONNECT gone.example:443" + auth, "", ConnectError, false},
		{"https://auth.example/", "CONNECT auth.example:443" + auth, "", ConnectError, true},
		{"http://192.168.0.9/", "GET http://192.168.0.9/" + auth, "by proxy", "", false},
		{"http://192.168.0.9:8080/", "", "", RefusedAddress, false},
		{"https://192.168.0.9/", "", "", RefusedAddress, false},
		{"http://127.0.0.1/", "", "", RefusedAddress, false},
		{"https://[::ffff:10.0.0.1]/", "", "", RefusedAddress, false},
		{"http://localhost/", "", "", RefusedAddress, false},
		{"http://a.localhost/", "", "", RefusedAddress, false},
	} {
		res, err := get(t, c, tt.url)
		if KindOf(err) != tt.kind || IsOurs(err) != tt.ours {
			t.Errorf("%s: %v, want %q, ours %v", tt.url, err, tt.kind, tt.ours)
		}
		if err == nil && string(res.Body) != tt.body {
			t.Errorf("%s: %q, want %q", tt.url, res.Body, tt.body)
		}
		if tt.log != "" {
			if got := <-log; got != tt.log {
				t.Errorf("%s: proxy was asked for %q, want %q", tt.url, got, tt.log)
			}
		}
	}
	if len(log) != 0 {
		t.Errorf("proxy was asked for %q", <-log)
	}
}

// TestProxyDown is about a proxy that is not there, which is no failure of the host.
func TestProxyDown(t *testing.T) {
	for _, scheme := range []string{"http", "https", "socks5"} {
		proxy, err := ParseProxy(scheme + "://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		_, err = get(t, newClient(t, Options{Proxy: proxy, AllowHosts: []string{}}), "http://a.example/")
		if KindOf(err) != ConnectError || !IsOurs(err) {
			t.Errorf("%s: %v, want an own failure", scheme, err)
		} else if text := err.Error(); !strings.Contains(text, "the proxy cannot be used: dial tcp 127.0.0.1:1") {
			t.Errorf("%s: %q does not name the proxy", scheme, text)
		}
	}
}

// A 407 of an HTTP proxy is a failure of the proxy, also if it is the answer to a request for an http URL. A 407 of a
// site is a status: without a proxy, and through a proxy that only passes bytes on.
func TestProxyAuthRequired(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusProxyAuthRequired)
		_, _ = io.WriteString(w, "no")
	}
	plain, secure := serve(t, refuse), newHTTP2Server(t, refuse)
	proxy := func(url string) *url.URL {
		u, err := ParseProxy(url)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	tunnels, _ := newProxy(t, secure.Listener.Addr().String())
	socks, _ := newSOCKS(t, plain.Listener.Addr().String())
	form := url.Values{"name": {"value"}}
	for _, tt := range []struct {
		name, url string
		proxy     *url.URL
		request   Request
		ours      bool
	}{
		{"HTTP proxy, page", "http://a.example/", proxy(plain.URL), Request{}, true},
		{"HTTP proxy, text", "http://a.example/robots.txt", proxy(plain.URL), Request{Mode: Text, NewConn: true}, true},
		{"HTTP proxy, stream", "http://a.example/sitemap.xml", proxy(plain.URL), Request{Mode: Stream}, true},
		{"HTTP proxy, head", "http://a.example/", proxy(plain.URL), Request{Mode: Head}, true},
		{"HTTP proxy, form", "http://a.example/", proxy(plain.URL), Request{Form: form}, true},
		{"HTTPS proxy", "http://a.example/", proxy(secure.URL), Request{}, true},
		{"site", plain.URL + "/", nil, Request{}, false},
		{"site, form", plain.URL + "/", nil, Request{Form: form}, false},
		{"site by CONNECT", "https://example.com/", tunnels, Request{}, false},
		{"site by SOCKS", "http://a.example/", socks, Request{}, false},
	} {
		o := Options{Proxy: tt.proxy, RootCAs: poolOf(secure), Resolver: always()}
		if tt.proxy != nil {
			o.AllowHosts = []string{}
		}
		tt.request.URL = mustURL(t, tt.url)
		res, err := do(t, newClient(t, o), tt.request)
		switch {
		case !tt.ours && (err != nil || res.Status != http.StatusProxyAuthRequired):
			t.Errorf("%s: %+v, %v; want status 407", tt.name, res, err)
		case tt.ours && (res != nil || KindOf(err) != ConnectError || !IsOurs(err) || err.Error() !=
			"connect_error (connect: the proxy cannot be used: proxy answered 407 Proxy Authentication Required)"):
			t.Errorf("%s: %+v, %v; want an own failure", tt.name, res, err)
		}
	}
}

// newSOCKS speaks as much of SOCKS 5 as a client without a password needs, and leads everything to one address.
func newSOCKS(t *testing.T, to string) (*url.URL, chan string) {
	t.Helper()
	asked := make(chan string, 1)
	proxyURL := listen(t, func(_ int, c net.Conn) {
		r := bufio.NewReader(c)
		head := make([]byte, 2)
		_, _ = io.ReadFull(r, head)
		_, _ = io.CopyN(io.Discard, r, int64(head[1]))
		_, _ = c.Write([]byte{5, 0})
		head = make([]byte, 5)
		_, _ = io.ReadFull(r, head)
		name := make([]byte, int(head[4])+2)
		_, _ = io.ReadFull(r, name)
		asked <- string(name[:head[4]])
		_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		tunnel(t, c, r, to)
	})
	proxy, err := ParseProxy("socks5" + strings.TrimPrefix(proxyURL, "http"))
	if err != nil {
		t.Fatal(err)
	}
	return proxy, asked
}

func TestSOCKS(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, r.Host+r.RequestURI)
	})
	proxy, asked := newSOCKS(t, s.Listener.Addr().String())
	c := newClient(t, Options{Proxy: proxy, AllowHosts: []string{}, Resolver: always()})
	res, err := get(t, c, "http://a.example/")
	if err != nil || string(res.Body) != "a.example/" {
		t.Fatalf("%+v, %v", res, err)
	}
	if name := <-asked; name != "a.example" {
		t.Errorf("proxy was asked for %q", name)
	}
	c.route.transport.CloseIdleConnections()
}

func TestParseProxy(t *testing.T) {
	for in, want := range map[string]string{
		"localhost:3128": "http://localhost:3128", "https://p.example": "https://p.example",
		"socks5://u:p@h:1": "socks5://u:p@h:1", "socks5h://h": "socks5h://h",
		"ftp://h": "", "http://": "", "http://u:secret@h:badport": "",
	} {
		u, err := ParseProxy(in)
		if (err == nil) != (want != "") || err == nil && u.String() != want {
			t.Errorf("ParseProxy(%q) = %v, %v; want %q", in, u, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("error tells the password: %v", err)
		}
	}
}
