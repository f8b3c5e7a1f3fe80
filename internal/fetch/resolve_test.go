package fetch

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
)

func TestParseResolve(t *testing.T) {
	tests := []struct{ in, want string }{
		{"example.com:80:127.0.0.1", "{example.com 80 [127.0.0.1] 0}"},
		{"Example.COM.:443:127.0.0.1:8443", "{example.com 443 [127.0.0.1] 8443}"},
		{"*:*:127.0.0.1:8080", "{* 0 [127.0.0.1] 8080}"},
		{"*.example.com:*:10.0.0.1", "{*.example.com 0 [10.0.0.1] 0}"},
		{"a:80:[::1]:81", "{a 80 [::1] 81}"},
		{"[::1]:80:[2001:db8::1]", "{::1 80 [2001:db8::1] 0}"},
		{"a:80:10.0.0.1,[fd00::1]", "{a 80 [10.0.0.1 fd00::1] 0}"},
		{"a:80:::1", ""}, {"a:80", ""}, {"a:80:", ""}, {":80:1.1.1.1", ""}, {"a:0:1.1.1.1", ""}, {"a:x:1.1.1.1", ""},
		{"a:80:1.1.1.1:0", ""}, {"a:80:1.1.1.1:99999", ""}, {"a:80:name", ""}, {"a*b:80:1.1.1.1", ""}, {"a:80:1.1.1.1:1:1", ""}, {"[a:80:1.1.1.1", ""}, {"", ""},
	}
	for _, tt := range tests {
		r, err := ParseResolve(tt.in)
		if got := fmt.Sprint(r); (err == nil) != (tt.want != "") || err == nil && got != tt.want {
			t.Errorf("ParseResolve(%q) = %s, %v; want %s", tt.in, got, err, tt.want)
		}
	}
}

func TestOverride(t *testing.T) {
	var list []Resolve
	for i, s := range []string{"*:*:1.0.0.1", "*:80:1.0.0.2", "*.b.example:*:1.0.0.3", "*.a.b.example:*:1.0.0.4", "b.example:*:1.0.0.5", "b.example:81:1.0.0.6", "*:80:1.0.0.7"} {
		r, err := ParseResolve(s)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		list = append(list, r)
	}
	for in, want := range map[string]string{
		"x.example:82": "1.0.0.1", "x.example:80": "1.0.0.2", "x.b.example:80": "1.0.0.3", "x.a.b.example:80": "1.0.0.4",
		"b.example:80": "1.0.0.5", "b.example:81": "1.0.0.6",
	} {
		host, port, err := splitAddr(in)
		if err != nil {
			t.Fatal(err)
		}
		r, ok := override(list, host, port)
		if !ok || r.Addrs[0] != netip.MustParseAddr(want) {
			t.Errorf("%s goes to %v, want %s", in, r.Addrs, want)
		}
	}
	if _, ok := override(list[2:6], "c.example", 80); ok {
		t.Error("a host that nobody named has an address")
	}
}

func TestResolveConnects(t *testing.T) {
	host := make(chan string, 1)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { host <- r.Host })
	r, err := ParseResolve("*.example:80:127.0.0.1:" + portOf(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Options{Resolve: []Resolve{r}, Resolver: always(), AllowHosts: []string{}})
	if _, err := get(t, c, "http://shop.example/"); err != nil {
		t.Fatal(err)
	}
	if got := <-host; got != "shop.example" {
		t.Errorf("asked for %q, want shop.example", got)
	}
	if _, err := get(t, c, "http://shop.example:81/"); KindOf(err) != DNSError {
		t.Errorf("another port: %v, want DNS to be asked", err)
	}
}
