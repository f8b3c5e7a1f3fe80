package serve

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

// pipes is a listener in memory, so that a test of time-outs needs no time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial() net.Conn { return p.dialFrom("127.0.0.1:1") }

func (p *pipes) dialFrom(address string) net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- from{theirs, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}
	return ours
}

// from is a connection of a client with an address.
type from struct {
	net.Conn
	peer net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.peer }

// inBubble runs a test against the server in a bubble.
func inBubble(t *testing.T, test func(t *testing.T, s *Server, p *pipes)) {
	withOptions(t, Options{}, test)
}

func withOptions(t *testing.T, o Options, test func(t *testing.T, s *Server, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		o.Service = &service.Service{}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		serveIn(t, s, func(p *pipes) { test(t, s, p) })
	})
}

// serveIn runs a test against a server, in a bubble.
func serveIn(t *testing.T, s *Server, test func(p *pipes)) {
	p, h, ended := &pipes{make(chan net.Conn), make(chan struct{})}, s.HTTP(), make(chan error)
	l := s.Limit(p).(*connections)
	go func() { ended <- h.Serve(l) }()
	test(p)
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	time.Sleep(time.Second) // net/http waits before it leaves a client that still sends
	l.turns.mu.Lock()
	defer l.turns.mu.Unlock()
	if l.turns.all.taken != 0 || len(l.turns.all.below) != 0 {
		t.Errorf("%d turns of %d clients have not ended", l.turns.all.taken, len(l.turns.all.below))
	}
}

// A client that sends its request slowly, or not at all, holds a connection for a bounded time.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sends string // what the client sends at the start; then one byte each second
		within      time.Duration
	}{
		{"nothing", "", headerTime},
		{"head", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", headerTime},
		{"body", "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
			"application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\n", bodyTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *Server, p *pipes) {
				conn, began, written := p.dial(), time.Now(), make(chan struct{})
				go func() {
					defer close(written)
					_, err := io.WriteString(conn, c.sends)
					for err == nil {
						time.Sleep(time.Second)
						_, err = io.WriteString(conn, "x")
					}
				}()
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if took := time.Since(began); took > c.within+2*time.Second {
					t.Errorf("the server waited %s", took)
				}
				if err == nil && res.StatusCode < 400 {
					t.Errorf("status %d", res.StatusCode)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
				<-written
			})
		})
	}
}

// A client that does not read its answer is left.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Server, p *pipes) {
		conn, began := p.dial(), time.Now()
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(answerTime + time.Second)
		if _, err := io.Copy(io.Discard, conn); err != nil || time.Since(began) > answerTime+2*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func ask(s *Server, method, target string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost/", nil)
	u, err := url.Parse(target)
	if err != nil {
		panic(err) // the addresses are those of the tests
	}
	r.URL = u
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w
}

// Whatever is asked, an error is a problem document, and no path leads out of its place.
func TestAddresses(t *testing.T) {
	t.Parallel()
	public, err := url.Parse("https://crawls.example/a/b/")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Service: &service.Service{}, PublicURL: public})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"GET", "/a/b/healthz", 200}, {"HEAD", "/a/b/healthz", 200}, {"GET", "/a/b/openapi.json", 200},
		{"GET", "/a/b", 308}, {"GET", "/healthz", 404}, {"GET", "/a/bhealthz", 404}, {"GET", "/", 404},
		{"GET", "/a/b/v1/nothing", 404}, {"GET", "/a/b/nothing", 303},
		{"POST", "/a/b/healthz", 405}, {"DELETE", "/a/b/v1/crawls", 405}, {"PROPFIND", "/a/b/v1/crawls", 405},
		{"OPTIONS", "/a/b/v1/crawls", 405},
		{"GET", "/a/b/v1/../healthz", 404}, {"GET", "/a/b//healthz", 404}, {"GET", "/a/b//", 404},
		{"GET", "/a/b%2fhealthz", 404}, {"GET", "/a/b/v1//crawls", 404},
		{"GET", "/a/b/./healthz", 404}, {"GET", "/a/../a/b/healthz", 404},
		{"GET", "/a/b/v1/crawls", 401}, {"GET", "/a/b/v1/crawls/%2e%2e", 404},
		{"GET", "/a/b/v1/crawls/..%2f..%2fservice.db", 404}, {"GET", "/a/b/v1/crawls/x%00/pages", 401},
		{"GET", "/a/b/login?" + strings.Repeat("&", mostFields-1), 200},
		{"GET", "/a/b/login?" + strings.Repeat("&", mostFields), 422},
	} {
		w := ask(s, c.method, c.target, nil)
		if w.Code != c.status {
			t.Errorf("%s %s: status %d, want %d", c.method, c.target, w.Code, c.status)
		}
		if kind := w.Header().Get("Content-Type"); w.Code >= 400 && kind != "application/problem+json" {
			t.Errorf("%s %s: an error of the type %q", c.method, c.target, kind)
		}
		if w.Code == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.target)
		}
		for _, name := range []string{"X-Content-Type-Options", "Referrer-Policy", "Content-Security-Policy",
			"X-Frame-Options", "Strict-Transport-Security"} {
			if w.Header().Get(name) == "" {
				t.Errorf("%s %s: no header %s", c.method, c.target, name)
			}
		}
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s %s: header %s", c.method, c.target, name)
			}
		}
	}
	if w := ask(s, "GET", "/a/b/healthz",
		func(r *http.Request) { r.Host = "evil.test" }); w.Code != http.StatusMisdirectedRequest {
		t.Errorf("another host name: status %d", w.Code)
	}
}

// What takes as long as hundreds of requests is refused before it is computed, and no request is outside the rules.
func TestCostlyRequests(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Service: &service.Service{}})
	if err != nil {
		t.Fatal(err)
	}
	for ranges, status := range map[string]int{"bytes=0-9": 206, "bytes=0-9,20-29": 200,
		"bytes=" + strings.Repeat(",0-0", 1000): 200} {
		w := ask(s, "GET", "/assets/"+s.assets.version+"/style.css",
			func(r *http.Request) { r.Header.Set("Range", ranges) })
		if w.Code != status || strings.HasPrefix(w.Header().Get("Content-Type"), "multipart") {
			t.Errorf("ranges %.30s: status %d, %s", ranges, w.Code, w.Header().Get("Content-Type"))
		}
	}
	login := func(form string) int {
		return ask(s, "POST", "/login", func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			r.Body = io.NopCloser(strings.NewReader(form))
		}).Code
	}
	if status := login(strings.Repeat("a&", mostFields)); status != http.StatusBadRequest {
		t.Errorf("a form of many fields: status %d", status)
	}
	inBubble(t, func(t *testing.T, s *Server, p *pipes) {
		c := p.dial()
		defer c.Close()
		if _, err := io.WriteString(c, "OPTIONS * HTTP/1.1\r\nHost: evil.test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("OPTIONS * of another host: %+v, %v", res, err)
		}
	})
}

// Requests without a key, or with a malformed one, are refused, each with the same status.
func TestCallersWithoutKeys(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Service: &service.Service{}})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		for _, given := range []string{"", "Basic eDp5", "Bearer mw_x"} {
			w := ask(s, "GET", "/v1/crawls", func(r *http.Request) { r.Header.Set("Authorization", given) })
			if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
				t.Fatalf("authorization %q: status %d, header %v", given, w.Code, w.Header())
			}
		}
	}
}

// A server that drains is not ready, and still answers.
func TestDrain(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Service: &service.Service{}})
	if err != nil {
		t.Fatal(err)
	}
	if w := ask(s, "GET", "/readyz", nil); w.Code != 200 {
		t.Errorf("before: %d", w.Code)
	}
	s.Drain()
	s.Drain()
	if w := ask(s, "GET", "/readyz", nil); w.Code != 503 {
		t.Errorf("while it drains: %d", w.Code)
	}
	if w := ask(s, "GET", "/healthz", nil); w.Code != 200 {
		t.Errorf("health while it drains: %d", w.Code)
	}
}
