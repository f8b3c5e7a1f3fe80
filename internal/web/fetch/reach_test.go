package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// A reachingWire notes the addresses that it is told, and refuses one of them.
type reachingWire struct {
	eventLog
	refuse string
}

func (w *reachingWire) Reach(addr netip.Addr) error {
	w.add("reach " + addr.String())
	if addr.String() == w.refuse {
		return errNotNow
	}
	return nil
}

func (w *reachingWire) Start() error {
	w.add("start")
	return nil
}

// twoAddresses resolves every name to two addresses.
type twoAddresses struct{}

func (twoAddresses) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("9.9.9.9"), netip.MustParseAddr("8.8.8.8")}, nil
}

// The Wire is told the address that is connected to first before the connection is made, and that of the connection
// before each request. If it refuses, nothing is connected or sent, and a connection that is there is kept.
func TestReach(t *testing.T) {
	for _, tt := range []struct {
		name, scheme string
		http2        bool
	}{{"HTTP/1", "http", false}, {"HTTP/1 over TLS", "https", false}, {"HTTP/2", "https", true}} {
		t.Run(tt.name, func(t *testing.T) {
			var requests, dials atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, "good")
			}))
			s.EnableHTTP2 = tt.http2
			if tt.scheme == "https" {
				s.StartTLS()
			} else {
				s.Start()
			}
			t.Cleanup(s.Close)
			o := Options{Resolver: twoAddresses{}, NoHTTP2: !tt.http2}
			if tt.scheme == "https" {
				o.RootCAs = poolOf(s)
			}
			o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				if strings.HasPrefix(addr, "9.9.9.9:") {
					return nil, errors.New("this address is dead")
				}
				var d net.Dialer
				return d.DialContext(ctx, network, s.Listener.Addr().String())
			}
			c := newClient(t, o)
			kept, redials := []string{"reach 8.8.8.8", "start"}, int64(0)
			if tt.http2 { // a connection of HTTP/2 that was never used is not kept
				kept, redials = []string{"reach 9.9.9.9", "reach 8.8.8.8", "start"}, 2
			}
			for i, step := range []struct {
				refuse          string
				want            []string
				dials, requests int64 // in all
			}{
				{"9.9.9.9", []string{"reach 9.9.9.9"}, 0, 0},
				{"8.8.8.8", []string{"reach 9.9.9.9", "reach 8.8.8.8"}, 2, 0},
				{"", kept, 2 + redials, 1},
				{"8.8.8.8", []string{"reach 8.8.8.8"}, 2 + redials, 1},
				{"", []string{"reach 8.8.8.8", "start"}, 2 + redials, 2},
			} {
				w := &reachingWire{refuse: step.refuse}
				_, err := do(t, c, Request{URL: mustURL(t, tt.scheme+"://example.com/"), Wire: w})
				if refused := step.refuse != ""; refused != errors.Is(err, errNotNow) ||
					refused && (KindOf(err) != Canceled || IsOurs(err)) || !refused && err != nil {
					t.Errorf("request %d: %v", i+1, err)
				}
				if !slices.Equal(w.events, step.want) || dials.Load() != step.dials ||
					requests.Load() != step.requests {
					t.Errorf("request %d: %q, %d dials, %d requests; want %q, %d, %d", i+1, w.events, dials.Load(),
						requests.Load(), step.want, step.dials, step.requests)
				}
			}
		})
	}
}

// The Wire is not told the address of a proxy, nor one that the guard refuses.
func TestReachWithoutAddress(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "good") })
	proxy, _ := newProxy(t, s.Listener.Addr().String())
	w := &reachingWire{}
	_, err := do(t, newClient(t, Options{Proxy: proxy}), Request{URL: mustURL(t, "http://example.com/"), Wire: w})
	if err != nil || !slices.Equal(w.events, []string{"start"}) {
		t.Errorf("behind a proxy: %q, %v", w.events, err)
	}
	w = &reachingWire{}
	_, err = do(t, newClient(t, Options{}), Request{URL: mustURL(t, "http://10.0.0.1/"), Wire: w})
	if KindOf(err) != RefusedAddress || len(w.events) > 0 {
		t.Errorf("an address that is not public: %q, %v", w.events, err)
	}
}
