package fetch

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// clientFor makes a Client of another one, and does not loosen the guard.
func clientFor(t *testing.T, c *Client, o Options) *Client {
	t.Helper()
	out, err := c.For(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	return out
}

// newGuarded makes a Client with the real guard.
func newGuarded(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// echo answers with what a request brought, and the number of its connection.
func echo(t *testing.T, secure, http2 bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, r.RemoteAddr+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Crawl"))
	}))
	s.Config.ErrorLog = quiet()
	s.EnableHTTP2 = http2
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// TestForPermissions: two Clients share sockets, and one of them may reach private addresses. The other may not,
// whatever the first has opened or looked up, and in whichever order they are made.
func TestForPermissions(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := echo(t, secure, true)
		port := s.URL[strings.LastIndexByte(s.URL, ':'):]
		var lookups atomic.Int64
		resolver := fakeResolver(func(context.Context, string) ([]netip.Addr, error) {
			lookups.Add(1)
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		})
		scheme := s.URL[:strings.Index(s.URL, "://")]
		byName, byAddress := scheme+"://example.com"+port+"/", s.URL+"/"
		strict := newGuarded(t, Options{Resolver: resolver, RootCAs: poolOf(s)})
		open := clientFor(t, strict, Options{AllowPrivate: true, RootCAs: poolOf(s)})
		host := clientFor(t, open, Options{AllowHosts: []string{"127.0.0.1" + port}, RootCAs: poolOf(s)})
		rule := clientFor(t, open, Options{Resolve: []Resolve{mustResolve(t, "example.com:*:127.0.0.1")},
			RootCAs: poolOf(s)})
		for range 3 {
			for _, tt := range []struct {
				title        string
				c            *Client
				named, plain bool // whether the name and the address may be reached
			}{
				{"all", open, true, true}, {"none", strict, false, false},
				{"the host by its address", host, false, true}, {"by a rule", rule, true, false},
			} {
				for url, allowed := range map[string]bool{byName: tt.named, byAddress: tt.plain} {
					_, err := get(t, tt.c, url)
					if allowed && err != nil || !allowed && KindOf(err) != RefusedAddress {
						t.Errorf("%s, %s: %v, want it allowed: %v", tt.title, url, err, allowed)
					}
				}
			}
		}
		// Each Client has asked DNS itself, but for the one with a rule. A Client that was refused asks once: its
		// answer is kept.
		if got := lookups.Load(); got != 3 {
			t.Errorf("%d lookups, want one of each Client without a rule", got)
		}
		if n := strict.Stats().Conns; n != open.Stats().Conns || n < 3 {
			t.Errorf("%d connections, and %d: want one count of all", n, open.Stats().Conns)
		}
	}
}

// TestForConnections: over HTTP/1, TLS and HTTP/2 a connection is used by the Client that opened it only, and headers
// and credentials go out with the requests of their own Client.
func TestForConnections(t *testing.T) {
	for _, tt := range []struct {
		name          string
		secure, http2 bool
	}{{"HTTP/1", false, false}, {"HTTP/1 over TLS", true, false}, {"HTTP/2", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			s := echo(t, tt.secure, tt.http2)
			var audience Audience
			audience.AddURL(mustURL(t, s.URL))
			base := newGuarded(t, Options{AllowPrivate: true, RootCAs: poolOf(s)})
			clients := map[string]*Client{"": base}
			for _, name := range []string{"a", "b"} {
				clients[name] = clientFor(t, base, Options{
					AllowPrivate: true, RootCAs: poolOf(s), PrivateTo: audience,
					PrivateHeader: http.Header{"Authorization": {name}, "X-Crawl": {name}},
				})
			}
			var mu sync.Mutex
			conns := map[string]string{} // client of each connection
			var wg sync.WaitGroup
			for name, c := range clients {
				for range 2 {
					wg.Go(func() {
						for range 50 {
							res, err := c.Do(t.Context(), Request{URL: mustURL(t, s.URL)})
							if err != nil {
								t.Error(err)
								return
							}
							conn, sent, _ := strings.Cut(string(res.Body), " ")
							res.Close()
							if want := strings.TrimRight(name+" "+name, " "); strings.TrimSpace(sent) != want {
								t.Errorf("client %q sent %q", name, sent)
							}
							mu.Lock()
							if of, known := conns[conn]; known && of != name {
								t.Errorf("client %q used a connection of %q", name, of)
							}
							conns[conn] = name
							mu.Unlock()
						}
					})
				}
			}
			wg.Wait()
			if n := len(conns); n < 3 || n > 6 {
				t.Errorf("%d connections of three clients with two requests at a time each", n)
			}
			// Closing one leaves the others as they are.
			if err := clients["a"].Close(); err != nil {
				t.Error(err)
			}
			if res, err := get(t, clients["b"], s.URL); err != nil || !res.Reused {
				t.Errorf("after another was closed: %+v, %v", res, err)
			}
		})
	}
}

// TestForResolve: a rule, or a proxy, of one Client is not seen by another.
func TestForResolve(t *testing.T) {
	serveName := func(name string) *httptest.Server {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, name)
		})
	}
	one, two, proxy := serveName("one"), serveName("two"), serveName("proxy")
	base := newGuarded(t, Options{Resolver: always("127.0.0.1"),
		Resolve: []Resolve{mustResolve(t, "shop.example:80:127.0.0.1:"+portOf(one.URL))}})
	other := clientFor(t, base, Options{Resolve: []Resolve{mustResolve(t,
		"shop.example:80:127.0.0.1:"+portOf(two.URL))}})
	none := clientFor(t, base, Options{})
	at, err := ParseProxy(proxy.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	proxied := clientFor(t, base, Options{Proxy: at})
	for range 3 {
		for want, c := range map[string]*Client{"one": base, "two": other, "proxy": proxied} {
			if res, err := get(t, c, "http://shop.example/"); err != nil || string(res.Body) != want {
				t.Errorf("%+v, %v; want %s", res, err, want)
			}
		}
		if _, err := get(t, none, "http://shop.example/"); KindOf(err) != RefusedAddress {
			t.Errorf("without a rule: %v, want the address refused", err)
		}
	}
}

// TestForShares: the limits are those of the first Client, whatever a later one says, and nothing else is taken from
// it.
func TestForShares(t *testing.T) {
	full := reflect.TypeFor[Options]()
	base := newGuarded(t, Options{MaxSockets: 40, MaxMemory: 1 << 21, UserAgent: "A/1", Header: http.Header{"X": {"y"}},
		AllowPrivate: true, MaxBody: 7})
	c := clientFor(t, base, Options{MaxSockets: 1, MaxMemory: 1, MaxIdle: 1})
	own := map[string]bool{}
	for _, name := range []string{
		"UserAgent", "Header", "PrivateHeader", "PrivateTo", "Proxy", "Resolve", "AllowPrivate", "AllowHosts",
		"NoHTTP2", "Timeout", "HeaderTimeout", "MinRate",
		"MaxBody", "RootCAs",
	} {
		own[name] = true
	}
	fresh := newGuarded(t, Options{})
	for i := range full.NumField() {
		name := full.Field(i).Name
		from := base
		if own[name] {
			from = fresh
		}
		if got, want := reflect.ValueOf(c.opts).Field(i),
			reflect.ValueOf(from.opts).Field(i); !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if _, err := base.For(Options{Timeout: -1}); err == nil {
		t.Error("bad options were accepted")
	}
}
