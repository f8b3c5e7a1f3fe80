package fetch

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/mapwright/mapwright/internal/web/http1"
)

func protoPage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, r.Proto)
}

// TestHTTP2Together begins many requests of an origin at once: if it speaks HTTP/2 they share
// one connection, whether the origin is new or its connection was closed.
func TestHTTP2Together(t *testing.T) {
	const together = 16
	s := newHTTP2Server(t, protoPage)
	c := newClient(t, Options{RootCAs: poolOf(s)})
	for round := range int64(5) {
		var wg sync.WaitGroup
		for range together {
			wg.Go(func() {
				wire := &countingWire{}
				res, err := c.Do(t.Context(), Request{URL: mustURL(t, s.URL), Wire: wire})
				if err != nil || string(res.Body) != "HTTP/2.0" || wire.started.Load() != 1 {
					t.Errorf("%+v, %v, started %d", res, err, wire.started.Load())
				}
				res.Close()
			})
		}
		wg.Wait()
		if dials := c.Stats().Dials; dials != round+1 {
			t.Errorf("round %d: %d dials, want one each round", round, dials)
		}
		if len(c.route.handovers.conns) != 0 || len(c.route.protocols.asking) != 0 {
			t.Errorf("left behind: %v, %v", c.route.handovers.conns, c.route.protocols.asking)
		}
		awaitConns(c, 0)
	}
	if n := len(c.route.protocols.open); n != 0 {
		t.Errorf("%d origins have a connection open", n)
	}
}

// TestHTTP2AnsweredBeforeSent lets net/http report the write of a request after its answer, as it
// may: the origin is known to speak HTTP/2 all the same.
func TestHTTP2AnsweredBeforeSent(t *testing.T) {
	s := newHTTP2Server(t, protoPage)
	c := newClient(t, Options{RootCAs: poolOf(s)})
	r := Request{URL: mustURL(t, s.URL)}
	k := c.newCall(t.Context(), &r)
	defer k.end()
	if _, err := c.route.http1.Do(&k.exchange, http1.Request{Origin: r.URL.Origin(), URI: "/",
		Head: c.public[Page].head}); err != errHTTP2 {
		t.Fatal(err)
	}
	k.onSent = nil // not yet
	res, err := c.route.transport.RoundTrip(c.httpRequest(k, &r))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	c.route.handedOver(k, dialAddr(&r), res.ProtoMajor)
	if h2, mine, err := c.route.protocols.ask(t.Context(), dialAddr(&r)); !h2 || mine || err != nil {
		t.Errorf("HTTP/2 %v, to be asked %v, %v; want it known", h2, mine, err)
	}
}

// TestHTTP2Hosts fetches from many hosts of HTTP/2 at once, and from each again: what
// net/http keeps open of them is bounded, and to close the rest fails no request.
func TestHTTP2Hosts(t *testing.T) {
	const hosts, together = 24, 8
	for _, proxied := range []bool{false, true} {
		t.Run(fmt.Sprintf("proxy=%v", proxied), func(t *testing.T) {
			s := newHTTP2Server(t, protoPage)
			o := Options{RootCAs: poolOf(s), MaxIdle: 4, MaxInflight: together,
				Resolve: []Resolve{allTo(t, s.Listener.Addr())}}
			most := int64(o.MaxIdle/2 + together)
			if proxied {
				var asked chan string
				t.Cleanup(func() { close(asked) }) // after the proxy
				o.Proxy, asked = newProxy(t, s.Listener.Addr().String())
				go func() {
					for range asked {
					}
				}()
				most = int64(o.MaxIdle + together)
			}
			c := newClient(t, o)
			next := make(chan int)
			var wg sync.WaitGroup
			for range together {
				wg.Go(func() {
					for i := range next {
						res, err := c.Do(t.Context(), Request{URL: mustURL(t,
							fmt.Sprintf("https://h%d.example.com/", i%hosts))})
						if err != nil || string(res.Body) != "HTTP/2.0" {
							t.Errorf("%+v, %v", res, err)
						}
						res.Close()
					}
				})
			}
			for i := range 3 * hosts {
				next <- i
			}
			close(next)
			wg.Wait()
			for c.Stats().Conns > most { // net/http closes connections in goroutines of its own
				runtime.Gosched()
			}
		})
	}
}

// allTo leads every name on the port of https to one address.
func allTo(t *testing.T, addr net.Addr) Resolve {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr.String())
	r, err := ParseResolve("*:443:" + host + ":" + port)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestHTTPSTogether does the same with an origin that speaks HTTP/1.1 only: no request
// waits longer than for the first handshake.
func TestHTTPSTogether(t *testing.T) {
	const together = 4
	var arrived sync.WaitGroup
	arrived.Add(together)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		arrived.Wait() // until all are there at once
		protoPage(w, r)
	}))
	t.Cleanup(s.Close)
	c := newClient(t, Options{RootCAs: poolOf(s)})
	var wg sync.WaitGroup
	for range together {
		wg.Go(func() {
			res, err := c.Do(t.Context(), Request{URL: mustURL(t, s.URL)})
			if err != nil || string(res.Body) != "HTTP/1.1" {
				t.Errorf("%+v, %v", res, err)
			}
			res.Close()
		})
	}
	wg.Wait()
	if stats := c.Stats(); stats.Dials != together || stats.Conns != together {
		t.Errorf("%+v, want %d connections kept", stats, together)
	}
	if h2, mine, err := c.route.protocols.ask(t.Context(), s.Listener.Addr().String()); h2 || mine || err != nil {
		t.Errorf("HTTP/2 %v, to be asked %v, %v; want it known", h2, mine, err)
	}
	arrived.Add(1)
	if res, err := get(t, c, s.URL); err != nil || !res.Reused || res.Timings.TLS != 0 {
		t.Errorf("%+v, %v; want the connection used again", res, err)
	}
}

// TestFirstHandshakeFails: those who waited for it try for themselves.
func TestFirstHandshakeFails(t *testing.T) {
	s := newHTTP2Server(t, protoPage)
	c := newClient(t, Options{RootCAs: poolOf(s)})
	open := c.dialer.open
	dialled, fail := make(chan struct{}), make(chan struct{})
	var dials atomic.Int64
	c.dialer.open = fakeDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			close(dialled)
			<-fail
			return nil, io.ErrUnexpectedEOF
		}
		return open.DialContext(ctx, "tcp", addr)
	})
	errs := make(chan error)
	ask := func() {
		res, err := c.Do(context.Background(), Request{URL: mustURL(t, s.URL)})
		res.Close()
		errs <- err
	}
	go ask()
	<-dialled
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		res, err := c.Do(ctx, Request{URL: mustURL(t, s.URL)})
		res.Close()
		errs <- err
	}()
	cancel()
	if err := <-errs; KindOf(err) != Canceled {
		t.Errorf("cancelled while waiting: %v", err)
	}
	go ask()
	close(fail)
	a, b := <-errs, <-errs
	if KindOf(a) != ConnectError {
		a, b = b, a
	}
	if KindOf(a) != ConnectError || b != nil {
		t.Errorf("%v and %v, want one to fail", a, b)
	}
}

// newSwitchingServer speaks HTTP/2 or not, as it is told, over connections that it
// can drop.
func newSwitchingServer(t *testing.T) (s *httptest.Server, http2 func(bool)) {
	s = httptest.NewUnstartedServer(http.HandlerFunc(protoPage))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet()
	var off atomic.Bool
	s.TLS = &tls.Config{}
	s.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cfg := s.TLS.Clone()
		cfg.GetConfigForClient = nil
		if off.Load() {
			cfg.NextProtos = []string{"http/1.1"}
		}
		return cfg, nil
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, func(on bool) { off.Store(!on); s.CloseClientConnections() }
}

// TestProtocolChanges lets an origin stop speaking HTTP/2, and begin again.
func TestProtocolChanges(t *testing.T) {
	s, http2 := newSwitchingServer(t)
	c := newClient(t, Options{RootCAs: poolOf(s)})
	for _, on := range []bool{true, false, true, false, false, true, true} {
		http2(on)
		awaitConns(c, 0)
		want := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[on]
		for i := range 3 {
			res, err := get(t, c, s.URL)
			if err != nil || string(res.Body) != want || res.Proto != want {
				t.Fatalf("request %d: %+v, %v; want %s", i, res, err, want)
			}
		}
		protocols := c.route.protocols
		protocols.mu.Lock() // a connection of HTTP/2 is closed by a goroutine of net/http
		h2, known := protocols.knowsLocked(s.Listener.Addr().String())
		protocols.mu.Unlock()
		if !known || h2 != on {
			t.Errorf("after %s: known %v, HTTP/2 %v", want, known, h2)
		}
	}
	awaitConns(c, 0)
	if handed := c.dialer.handed.Load(); handed != 0 {
		t.Errorf("%d connections are net/http's, of none", handed)
	}
}

// TestHandoverUnused forgets that an origin speaks HTTP/2 while net/http has a
// connection to it: the one made for nothing is closed.
func TestHandoverUnused(t *testing.T) {
	s := newHTTP2Server(t, protoPage)
	c := newClient(t, Options{RootCAs: poolOf(s)})
	for i := range 3 {
		res, err := get(t, c, s.URL)
		if err != nil || res.Proto != "HTTP/2.0" || res.Reused != (i > 0) {
			t.Fatalf("%+v, %v", res, err)
		}
		if conns := c.Stats().Conns; conns != 1 {
			t.Errorf("%d connections, want 1", conns)
		}
		c.route.protocols.mu.Lock()
		c.route.protocols.recent = map[string]bool{}
		c.route.protocols.mu.Unlock()
	}
	if dials := c.Stats().Dials; dials != 3 {
		t.Errorf("%d dials, want 3", dials)
	}
}

// TestHandoverCanceled ends the call between the handshake and net/http.
func TestHandoverCanceled(t *testing.T) {
	s := newHTTP2Server(t, protoPage)
	c := newClient(t, Options{RootCAs: poolOf(s)})
	r := Request{URL: mustURL(t, s.URL)}
	k := c.newCall(t.Context(), &r)
	if _, err := c.route.http1.Do(&k.exchange, http1.Request{Origin: r.URL.Origin(), URI: "/",
		Head: c.public[Page].head}); err != errHTTP2 {
		t.Fatal(err)
	}
	k.cancel(io.ErrNoProgress)
	if _, err := c.route.transport.RoundTrip(c.httpRequest(k, &r)); err == nil {
		t.Fatal("not cancelled")
	}
	c.route.handedOver(k, dialAddr(&r), 0)
	k.end()
	if conns := c.Stats().Conns; conns != 0 {
		t.Errorf("%d connections open", conns)
	}
	if res, err := get(t, c, s.URL); err != nil || res.Proto != "HTTP/2.0" {
		t.Errorf("next call: %+v, %v", res, err)
	}
}

func TestProtocolsAreBounded(t *testing.T) {
	p := newProtocols(100)
	p.opened("https://used.example")
	p.learn("https://used.example", true)
	for i := range 10_000 {
		p.learn(fmt.Sprintf("https://h%d.example", i), i%2 == 0)
		if h2, mine, err := p.ask(t.Context(), "https://used.example"); !h2 || mine || err != nil {
			t.Fatalf("forgotten after %d", i)
		}
	}
	if n := len(p.recent) + len(p.older); n > 200 {
		t.Errorf("%d origins remembered", n)
	}
}

// A server that sends frames which no request needs, while the connection is idle or while an answer is under way, has
// its connection closed after few of them.
func TestHTTP2Floods(t *testing.T) {
	inner := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(inner.Close)
	junk := make([]byte, 16<<10)
	for name, flood := range map[string]func(f *http2.Framer) error{
		"pings":    func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) },
		"settings": func(f *http2.Framer) error { return f.WriteSettings() },
		"unknown":  func(f *http2.Framer) error { return f.WriteRawFrame(0xfa, 0, 0, junk) },
	} {
		for _, idle := range []bool{true, false} {
			if name == "unknown" && !idle {
				continue // these are read slowly, see TestHTTP2Astray
			}
			t.Run(fmt.Sprintf("%s, idle %t", name, idle), func(t *testing.T) {
				frames := make(chan int, 1)
				answered := make(chan struct{})
				at := listen(t, func(_ int, raw net.Conn) {
					conn := tls.Server(raw, &tls.Config{Certificates: inner.TLS.Certificates, NextProtos: []string{"h2"}})
					serveFrames(conn, func(f *http2.Framer, stream uint32) error {
						if idle {
							if err := writeEmptyPage(f, stream); err != nil {
								return err
							}
							<-answered
						}
						go func() { _, _ = io.Copy(io.Discard, conn) }() // else a client that answers would wait
						n := 0
						for flood(f) == nil {
							n++
						}
						frames <- n
						return io.EOF
					})
				})
				c := newClient(t, Options{RootCAs: poolOf(inner)})
				_, err := do(t, c, Request{URL: mustURL(t, "https"+strings.TrimPrefix(at, "http"))})
				if close(answered); (err == nil) != idle {
					t.Errorf("the request: %v", err)
				}
				<-frames
				if n := c.Stats().Conns; n != 0 {
					t.Errorf("%d connections are open", n)
				}
			})
		}
	}
}

// Many small requests, and large bodies, keep their connection.
func TestHTTP2KeepsItsConnection(t *testing.T) {
	large := make([]byte, 8<<20)
	s := newHTTP2Server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/large" {
			_, _ = w.Write(large)
		}
	})
	c := newClient(t, Options{RootCAs: poolOf(s)})
	for i := range 1000 {
		path := "/small"
		if i%200 == 100 {
			path = "/large"
		}
		if _, err := do(t, c, Request{URL: mustURL(t, s.URL+path)}); err != nil {
			t.Fatal(i, err)
		}
	}
	if n := c.Stats().Dials; n != 1 {
		t.Errorf("%d connections were made", n)
	}
}
