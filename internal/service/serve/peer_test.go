package serve

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/service"
)

// A web page must not be able to use the API by a name of its own that it makes resolve to this machine.
func TestHostNames(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Service: &service.Service{}, Listen: "127.0.0.1:8080",
		PublicURL: &url.URL{Scheme: "https", Host: "crawls.example.com:8443"}})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"127.0.0.1:8080": true, "127.0.0.1": true, "[::1]:8080": true, "localhost": true, "LOCALHOST:1": true,
		"localhost.": true, "crawls.example.com": true, "Crawls.Example.com:443": true,
		"": false, "evil.test": false, "evil.test:8080": false, "localhost.evil.test": false,
		"127.0.0.1.evil.test": false, "example.com": false, "x crawls.example.com": false,
	} {
		if got := metrics.IsServed(host, s.names); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// X-Forwarded-For counts only as far as trusted proxies wrote it.
func TestRemoteAddress(t *testing.T) {
	t.Parallel()
	s := &Server{Options: Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}}}
	for _, c := range []struct{ peer, forwarded, want string }{
		{"192.0.2.1:5", "", "192.0.2.1"},
		{"192.0.2.1:5", "198.51.100.7", "192.0.2.1"}, // not trusted
		{"10.0.0.1:5", "198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:5", "203.0.113.9, 198.51.100.7", "198.51.100.7"}, // the client made the first up
		{"10.0.0.1:5", "198.51.100.7, 10.0.0.2", "198.51.100.7"},
		{"10.0.0.1:5", "", "10.0.0.1"},
		{"10.0.0.1:5", "nonsense", "10.0.0.1"},
		{"[::1]:5", "2001:db8::1", "2001:db8::1"},
		{"10.0.0.1:5", "fe80::1%" + strings.Repeat("z", 10_000), "fe80::1"},
		{"10.0.0.1:5", "198.51.100.7, fe80::2%eth0", "fe80::2"},
		{"[::ffff:10.0.0.1]:5", "198.51.100.7", "198.51.100.7"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{}}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := s.remote(r); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.peer, c.forwarded, got, c.want)
		}
	}
}
