package fetch

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
		{"a:80:1.1.1.1:0", ""}, {"a:80:1.1.1.1:99999", ""}, {"a:80:name", ""}, {"a*b:80:1.1.1.1", ""},
		{"a:80:1.1.1.1:1:1", ""}, {"[a:80:1.1.1.1", ""}, {"", ""},
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
	for i, s := range []string{"*:*:1.0.0.1", "*:80:1.0.0.2", "*.b.example:*:1.0.0.3", "*.a.b.example:*:1.0.0.4",
		"b.example:*:1.0.0.5", "b.example:81:1.0.0.6", "*:80:1.0.0.7"} {
		r, err := ParseResolve(s)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		list = append(list, r)
	}
	for in, want := range map[string]string{
		"x.example:82": "1.0.0.1", "x.example:80": "1.0.0.2", "x.b.example:80": "1.0.0.3",
		"x.a.b.example:80": "1.0.0.4",
		"b.example:80":     "1.0.0.5", "b.example:81": "1.0.0.6",
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
		t.Error("a host that no rule names has an address")
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

func TestAudience(t *testing.T) {
	var a Audience
	for _, u := range []string{"http://start.test/a", "http://start.test:8080/", "https://secure.test/b"} {
		a.AddURL(mustURL(t, u))
	}
	for _, text := range []string{"named.test", "http://plain.test:81", "*.wild.test", "HTTP://*.plain-wild.test"} {
		if err := a.Add(text); err != nil {
			t.Errorf("add %q: %v", text, err)
		}
	}
	for url, want := range map[string]bool{
		"http://start.test/x": true, "https://start.test/x": true, "http://start.test:8080/": true,
		"https://start.test:8080/": false, "http://start.test:81/": false,
		"https://secure.test/": true, "http://secure.test/": false, "https://secure.test:8443/": false,
		"https://www.secure.test/": false,
		"https://named.test/":      true, "http://named.test/": false, "http://plain.test:81/": true,
		"http://plain.test/":      false,
		"https://a.wild.test:99/": true, "https://a.b.wild.test/": true, "https://wild.test/": false,
		"https://notwild.test/": false, "http://a.wild.test/": false,
		"http://a.plain-wild.test/": true, "https://other.test/": false,
	} {
		if got := a.Has(mustURL(t, url)); got != want {
			t.Errorf("Has(%s) = %v, want %v", url, got, want)
		}
	}
	for _, text := range []string{"", "https://", "ftp://a.test", "*wild.test", "*.a.*", "*.a.test:80", "a.test/path",
		"a.test?q", "user@a.test", "a b"} {
		if err := new(Audience).Add(text); err == nil {
			t.Errorf("add %q: no error", text)
		}
	}
	if all := new(Audience); all.Add("*") != nil || !all.Has(mustURL(t, "https://any.test:7/")) ||
		all.Has(mustURL(t, "http://any.test/")) {
		t.Error("* is not every https origin")
	}
}

// Private headers go to the chosen origin alone, over HTTP/1 and HTTP/2, and a request's own headers are sent besides.
func TestPrivateHeaders(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w,
			r.Proto+" "+r.Header.Get("Authorization")+r.Header.Get("X-Public")+r.Header.Get("X-Own"))
	}
	s := newHTTP2Server(t, answer)
	for _, http1 := range []bool{false, true} {
		o := Options{RootCAs: poolOf(s), NoHTTP2: http1, Resolve: []Resolve{allTo(t, s.Listener.Addr())},
			Header: http.Header{"X-Public": {"p"}}, PrivateHeader: http.Header{"authorization": {"secret"}}}
		o.PrivateTo.AddURL(mustURL(t, "https://example.com/"))
		c := newClient(t, o)
		proto := "HTTP/2.0"
		if http1 {
			proto = "HTTP/1.1"
		}
		// The server's certificate is for example.com and the names below it.
		for _, tt := range []struct{ url, want string }{
			{"https://example.com/a", proto + " secretp"}, {"https://www.example.com/a", proto + " p"},
		} {
			for _, own := range []http.Header{nil, {"X-Own": {"o"}}} {
				want := tt.want
				if own != nil {
					want += "o"
				}
				res, err := do(t, c, Request{URL: mustURL(t, tt.url), Header: own})
				if err != nil || string(res.Body) != want {
					t.Errorf("%s: %+v, %v, want %q", tt.url, res, err, want)
				}
			}
		}
	}
}

// The headers that docs/network.md says are sent to every host are those of IsPublicHeader.
func TestPublicHeadersAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "network.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("permissions.go")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (.*) \| every host \|$`).FindSubmatch(doc[max(0,
		bytes.Index(doc, []byte("\n| header | sent to |"))):])
	_, body, found := bytes.Cut(source, []byte("\nfunc IsPublicHeader("))
	if row == nil || !found {
		t.Fatal("the row of docs/network.md or the function is not there")
	}
	body, _, _ = bytes.Cut(body, []byte("\n}\n"))
	names := func(text []byte, pattern string) (list []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			// which a Client always sets itself
			if name := http.CanonicalHeaderKey(string(m[1])); name != "Accept-Encoding" {
				list = append(list, name)
			}
		}
		slices.Sort(list)
		return list
	}
	if have, want := names(row[1], "`([A-Za-z-]+)\\*?`"), names(body, `"([A-Za-z-]+)"`); !slices.Equal(have, want) {
		t.Errorf("docs/network.md has %q, the program %q", have, want)
	}
}
