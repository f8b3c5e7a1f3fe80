package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestNotPublic(t *testing.T) {
	refused := []string{
		// IPv4 and its neighbours of special blocks
		"0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1",
		"127.255.255.255",
		"169.254.0.1", "169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1",
		"192.168.0.0", "192.168.255.255", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		// IPv4 inside of IPv6
		"::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "::127.0.0.1", "::10.0.0.1", "::8.8.8.8",
		"::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::192.168.1.1", "64:ff9b:1::8.8.8.8",
		"2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::1", "2001:0:a00:1::f7f7:f7f7",
		"2001:0:808:808::f5ff:fffe", // Teredo, client 10.0.0.1
		"2001:db8::5efe:10.0.0.1", "2a00::5efe:10.0.0.1", "2a00::200:5efe:192.168.0.1",
		// IPv6
		"::", "::1", "fc00::1", "fd12:3456::1", "fe80::1", "febf::1", "fec0::1", "feff::1", "ff02::1", "ff0e::1",
		"100::1", "2001:db8::1", "2001:2::1", "2001:10::1", "2001:20::1", "3fff::1", "4000::1", "5f00::1", "1::1",
		"fe80::1%eth0", "2606:4700::1111%eth0", "::ffff:8.8.8.8%eth0",
	}
	for _, s := range refused {
		if reason := NotPublic(netip.MustParseAddr(s)); reason == "" {
			t.Errorf("%s is taken for public", s)
		}
	}
	public := []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
		"128.0.0.1",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.255.255", "192.169.0.0",
		"198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2606:4700::1111",
		"2002:808:808::1", "2001:0:808:808::f7f7:f7f7", "2a00:1450::5efe:8.8.8.8", "2001:4860:4860::8888",
	}
	for _, s := range public {
		if reason := NotPublic(netip.MustParseAddr(s)); reason != "" {
			t.Errorf("%s is refused: %s", s, reason)
		}
	}
	if NotPublic(netip.Addr{}) == "" {
		t.Error("no address is taken for public")
	}
}

// TestGuard tries to reach a listener of this machine by every way of writing it.
func TestGuard(t *testing.T) {
	var hits atomic.Int64
	s := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	port := portOf(s.URL)
	resolver := fakeResolver(func(_ context.Context, host string) ([]netip.Addr, error) {
		switch {
		case host == "localhost", strings.HasPrefix(host, "inside"):
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		case strings.HasPrefix(host, "mapped"):
			return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("0.0.0.0"),
			netip.MustParseAddr("10.0.0.1")}, nil
	})
	for _, host := range []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "0", "127.0.0.1.", "127.127.127.127",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]",
		"[64:ff9b:1::7f00:1]", "[2002:7f00:1::]",
		"localhost", "LOCALHOST", "localhost.", "inside.example", "mapped.example", "several.example",
		"169.254.169.254", "[fe80::1]",
	} {
		for _, mode := range []Mode{Page, Text, Stream} {
			c := newClient(t, Options{AllowHosts: []string{"192.168.7.7:" + port}, Resolver: resolver})
			_, err := do(t, c, Request{URL: mustURL(t, "http://"+host+":"+port+"/robots.txt"), Mode: mode})
			if KindOf(err) != RefusedAddress {
				t.Errorf("%s: %v, want it refused", host, err)
			}
			if refusal, ok := errors.AsType[*AddressError](err); !ok || refusal.Reason == "" || refusal.Host == "" {
				t.Errorf("%s: %v does not say why", host, err)
			}
			if n := c.Stats().Refused; n != 1 {
				t.Errorf("%s: %d refusals counted, want 1", host, n)
			}
		}
	}
	if hits.Load() != 0 {
		t.Errorf("%d requests went through", hits.Load())
	}
}

// TestAllowed checks that an allowance is for the host and port named and no other.
func TestAllowed(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	port := portOf(s.URL)
	resolver := always("127.0.0.1")
	at := func(host string) Options { return Options{AllowHosts: []string{host + ":" + port}, Resolver: resolver} }
	tests := []struct {
		name string
		opts Options
		host string
		kind Kind
	}{
		{"address", at("127.0.0.1"), "127.0.0.1", ""},
		{"name of an allowed address", at("127.0.0.1"), "inside.example", RefusedAddress},
		{"localhost", at("localhost"), "localhost", ""},
		{"another name", at("localhost"), "inside.example", RefusedAddress},
		{"another address", at("localhost"), "127.0.0.1", RefusedAddress},
		{"below localhost", at("localhost"), "a.localhost", RefusedAddress},
		{"IPv6 in brackets", at("[::ffff:127.0.0.1]"), "127.0.0.1", ""},
		{"another port", Options{AllowHosts: []string{"127.0.0.1:80", "127.0.0.1:1"}, Resolver: resolver}, "127.0.0.1",
			RefusedAddress},
		{"another port of a name", Options{AllowHosts: []string{"localhost:80"}, Resolver: resolver}, "localhost",
			RefusedAddress},
		{"all", Options{AllowPrivate: true, AllowHosts: []string{}, Resolver: resolver}, "inside.example", ""},
		{"by the user's own address", Options{AllowHosts: []string{}, Resolver: resolver,
			Resolve: []Resolve{{Host: "shop.example", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}}},
			"shop.example", ""},
		{"beside the user's own address", Options{AllowHosts: []string{}, Resolver: resolver,
			Resolve: []Resolve{{Host: "shop.example", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}}},
			"other.example", RefusedAddress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := get(t, newClient(t, tt.opts), "http://"+tt.host+":"+port+"/")
			if KindOf(err) != tt.kind {
				t.Errorf("%v, want %q", err, tt.kind)
			}
		})
	}
}

// TestRebinding lets a name's answer change after every lookup: to a private
// address, and back.
func TestRebinding(t *testing.T) {
	var hits, lookups atomic.Int64
	s := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	resolver := fakeResolver(func(context.Context, string) ([]netip.Addr, error) {
		if lookups.Add(1)%2 == 1 {
			return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	})
	c := newClient(t, Options{Resolver: resolver, AllowHosts: []string{}})
	c.dialer.dns.ttl = time.Nanosecond
	guarded := c.dialer.guarded
	c.dialer.guarded = fakeDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		if strings.HasPrefix(addr, "8.8.8.8:") { // no test connects to another address
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		return guarded.DialContext(ctx, "tcp", addr)
	})
	url := "http://rebind.example:" + portOf(s.URL) + "/"
	for range 4 {
		if _, err := get(t, c, url); err == nil {
			t.Error("a request went through")
		}
	}
	if lookups.Load() < 4 || c.Stats().Refused != 2 || hits.Load() != 0 {
		t.Errorf("%d lookups, %d refused, %d went through; want 4, 2, 0", lookups.Load(), c.Stats().Refused,
			hits.Load())
	}
}

// TestRedirectToPrivate shows that a redirect is an answer, and that following it
// meets the guard.
func TestRedirectToPrivate(t *testing.T) {
	inside := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	port := portOf(inside.URL)
	outside := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.2:"+port+"/secret", http.StatusFound)
	})
	c := newClient(t, Options{})
	res, err := get(t, c, outside.URL)
	if err != nil || res.Status != http.StatusFound || res.Location != "http://127.0.0.2:"+port+"/secret" {
		t.Fatalf("%+v, %v; want the redirect itself", res, err)
	}
	if _, err := get(t, c, res.Location); KindOf(err) != RefusedAddress {
		t.Errorf("redirect's target: %v, want it refused", err)
	}
}
