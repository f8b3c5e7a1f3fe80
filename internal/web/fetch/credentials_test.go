package fetch

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Users are bound to their origins: another host, port or scheme gets nothing, and the first user of an origin counts.
func TestBasicAuthStaysWithItsOrigin(t *testing.T) {
	tests := []struct{ user, url, want string }{
		{"ann:pw@example.com", "https://example.com/", "Basic YW5uOnB3"},
		{"ann:pw@example.com", "http://example.com/", ""},
		{"ann:pw@example.com", "https://www.example.com/", ""},
		{"ann:pw@example.com", "https://example.com:8443/", ""},
		{"ann:pw@example.com", "https://example.com.evil.test/", ""},
		{"ann:pw@http://example.com:8080", "http://example.com:8080/a?b", "Basic YW5uOnB3"},
		{"ann:pw@http://example.com:8080", "http://example.com/", ""},
		{"ann:pw@http://example.com:8080", "https://example.com:8080/", ""},
		{"ann:p:w@x@*.example.com", "https://a.example.com/", "Basic YW5uOnA6d0B4"},
		{"ann:p:w@x@*.example.com", "https://example.com/", ""},
		{":@example.com", "https://EXAMPLE.com./", ""},
		{":@example.com", "https://EXAMPLE.com/", "Basic Og=="},
	}
	for _, test := range tests {
		auth, origin, err := ParseBasicAuth(test.user)
		if err != nil {
			t.Fatalf("%s: %v", test.user, err)
		}
		if err := auth.To.Add(origin); err != nil {
			t.Fatal(err)
		}
		c := newClient(t, Options{BasicAuth: []BasicAuth{auth, {Name: "second", To: auth.To}}})
		r := Request{URL: mustURL(t, test.url), Header: http.Header{"If-None-Match": {"x"}}}
		h := c.ownHeader(&r)
		if h.Get("Authorization") != test.want || h.Get("If-None-Match") != "x" || len(r.Header) != 1 {
			t.Errorf("%s for %s: %v, want %q", test.user, test.url, h, test.want)
		}
	}
	for _, text := range []string{"", "s3cret", "ann:s3cret", "s3cret@a.test", "ann:s3cret@", "ann:s3@cret word",
		"ann:s3cret\n@a.test", "ann:s3cret@a.test/path", "ann:s3cret@ftp://a.test"} {
		if _, _, err := ParseBasicAuth(text); err == nil || strings.Contains(err.Error(), "cret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The user of an origin replaces the header Authorization there, over HTTP/1 and HTTP/2; other origins have the header.
func TestBasicAuthIsSent(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, strings.Join(r.Header["Authorization"], "|"))
	}
	plain, secure := serve(t, echo), newHTTP2Server(t, echo)
	auth := BasicAuth{Name: "ann", Password: "pw"}
	auth.To.AddURL(mustURL(t, secure.URL))
	o := Options{BasicAuth: []BasicAuth{auth}, RootCAs: poolOf(secure),
		PrivateHeader: http.Header{"Authorization": {"Bearer x"}}}
	o.PrivateTo.AddURL(mustURL(t, secure.URL))
	o.PrivateTo.AddURL(mustURL(t, plain.URL))
	for _, o.NoHTTP2 = range []bool{false, true} {
		c := newClient(t, o)
		for url, want := range map[string]string{secure.URL: "Basic YW5uOnB3", plain.URL: "Bearer x"} {
			if res, err := get(t, c, url); err != nil || string(res.Body) != want {
				t.Errorf("%s: %v, want %q", url, err, want)
			}
		}
	}
}
