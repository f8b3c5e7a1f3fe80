package fetch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// newProxy serves a proxy that logs what it is asked for and leads everything to
// one address.
func newProxy(t *testing.T, to string) (*url.URL, chan string) {
	t.Helper()
	log := make(chan string, 10)
	s := serve(t, lead(t, to, log))
	u, err := ParseProxy("user:secret@" + s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return u, log
}

// proxiesTo serves a proxy of each kind that leads everything to one address. The last one is no proxy.
func proxiesTo(t *testing.T, to string) map[string]*url.URL {
	t.Helper()
	log := make(chan string, 100)
	plain, secure := httptest.NewServer(lead(t, to, log)), httptest.NewTLSServer(lead(t, to, log))
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	socks, _ := newSOCKS(t, to)
	socks.User = url.UserPassword("user", "secret")
	proxies := map[string]*url.URL{"SOCKS": socks, "none": nil}
	for name, s := range map[string]*httptest.Server{"HTTP": plain, "HTTPS": secure} {
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		proxies[name] = u
	}
	return proxies
}

// proxyCert is the certificate of each server that httptest makes.
func proxyCert(t *testing.T) *x509.Certificate {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.Certificate()
}

// lead is the handler of a proxy.
func lead(t *testing.T, to string, log chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
	}
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
		_, _ = io.WriteString(w, "secure "+r.RequestURI+r.Header.Get("Proxy-Authorization"))
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

// A host that switches protocols without being asked, and then sends nothing, holds no request.
func TestSwitchingProtocols(t *testing.T) {
	t.Parallel()
	host := listen(t, func(_ int, c net.Conn) {
		if readRequest(c) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}
	})
	for name, r := range map[string]Request{"page": {}, "text": {Mode: Text}, "stream": {Mode: Stream},
		"head": {Mode: Head}, "form": {Form: url.Values{"name": {"value"}}}} {
		proxy := &url.URL{Scheme: "http", Host: strings.TrimPrefix(host, "http://")}
		for at, o := range map[string]Options{host: {}, "http://a.example": {Proxy: proxy, AllowHosts: []string{}}} {
			r.URL = mustURL(t, at+"/")
			res, err := do(t, newClient(t, o), r)
			if err != nil || res.Status != http.StatusSwitchingProtocols || len(res.Body) > 0 {
				t.Errorf("%s of %s: %+v, %v", name, at, res, err)
			}
		}
	}
}

// newSOCKS speaks as much of SOCKS 5 as a client needs, and leads everything to one address. Who offers a password must
// have the right one.
func newSOCKS(t *testing.T, to string) (*url.URL, chan string) {
	t.Helper()
	asked := make(chan string, 100)
	proxyURL := listen(t, func(_ int, c net.Conn) {
		r := bufio.NewReader(c)
		read := func(n int) []byte {
			p := make([]byte, n)
			_, _ = io.ReadFull(r, p)
			return p
		}
		if methods := read(int(read(2)[1])); bytes.Contains(methods, []byte{2}) {
			_, _ = c.Write([]byte{5, 2})
			user := read(int(read(2)[1]))
			if password := read(int(read(1)[0])); string(user)+" "+string(password) != "user secret" {
				_, _ = c.Write([]byte{1, 1})
				return
			}
			_, _ = c.Write([]byte{1, 0})
		} else {
			_, _ = c.Write([]byte{5, 0})
		}
		const domain = 3
		if kind := read(4)[3]; kind == domain {
			asked <- string(read(int(read(1)[0])))
		} else {
			asked <- netip.AddrFrom4([4]byte(read(4))).String()
		}
		read(2) // the port
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
	socks := *proxy
	for password, want := range map[string]Kind{"secret": "", "wrong": ConnectError} {
		socks.User = url.UserPassword("user", password)
		c := newClient(t, Options{Proxy: &socks, AllowHosts: []string{}, Resolver: always()})
		if _, err := get(t, c, "http://b.example/"); KindOf(err) != want {
			t.Errorf("password %q: %v, want %q", password, err, want)
		}
	}
}

// What a proxy answers to CONNECT is bounded, and what follows is left to be read.
func TestAskHTTP(t *testing.T) {
	const yes, after = "HTTP/1.1 200 OK\r\nVia: a\r\n b\r\n\r\n", "of the host"
	ask := func(ctx context.Context, serve func(net.Conn)) (rest string, err error) {
		ours, theirs := net.Pipe()
		var serving sync.WaitGroup
		serving.Go(func() {
			defer theirs.Close()
			if serve(theirs); readRequest(theirs) {
				t.Error("the proxy was asked again")
			}
		})
		defer serving.Wait()
		defer ours.Close()
		if err = askHTTP(ctx, ours, nil, "a.example:443"); err != nil {
			return "", err
		}
		text := make([]byte, len(after))
		_, err = io.ReadFull(ours, text)
		return string(text), err
	}
	for name, test := range map[string]struct {
		answer string
		status int // of a proxyError
		ok     bool
	}{
		"taken":         {yes, 0, true},
		"HTTP/1.0":      {"HTTP/1.0 200\r\n\r\n", 0, true},
		"bare lines":    {"HTTP/1.1 200 OK\nVia: a\n\n", 0, true},
		"with a length": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 0, true},
		"refused":       {"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno", 407, false},
		"no content":    {"HTTP/1.1 204 No Content\r\n\r\n", 204, false},
		"no HTTP":       {"SSH-2.0-OpenSSH\r\n\r\n", 0, false},
		"nothing":       {"", 0, false},
		"cut off":       {yes[:20], 0, false},
		"long":          {"HTTP/1.1 200 OK\r\nVia: " + strings.Repeat("a", maxHeader) + "\r\n\r\n", 0, false},
	} {
		rest, err := ask(t.Context(), func(c net.Conn) {
			if readRequest(c); test.ok {
				test.answer += after
			}
			_, _ = io.WriteString(c, test.answer)
			if !test.ok {
				c.Close()
			}
		})
		status := 0
		if refusal, ok := errors.AsType[*proxyError](err); ok {
			status = refusal.Status
		}
		if (err == nil) != test.ok || status != test.status || test.ok && rest != after {
			t.Errorf("%s: %q, %v", name, rest, err)
		}
	}
	// A proxy that does not answer is left when the call ends.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := ask(ctx, func(c net.Conn) { readRequest(c); cancel() }); err != context.Canceled {
		t.Errorf("%v, want the end of the context", err)
	}
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
