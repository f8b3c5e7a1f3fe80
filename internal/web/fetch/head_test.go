package fetch

import (
	"net/http"
	"strings"
	"testing"
)

// HEAD gives the headers of a page without its body, over both protocols, and the connection can be used again.
func TestHead(t *testing.T) {
	page := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.Method != http.MethodHead || r.Header.Get("X-Own") == "" {
			http.Error(w, r.Method, http.StatusTeapot)
		}
		w.Header().Set("Content-Length", "100000")
		if r.URL.Path == "/body" { // a body that should not be there
			_, _ = w.Write([]byte(strings.Repeat("x", 100_000)))
		}
	}
	h2, h1 := newHTTP2Server(t, page), serve(t, page)
	for proto, url := range map[string]string{"HTTP/1.1": h1.URL, "HTTP/2.0": h2.URL} {
		c := newClient(t, Options{RootCAs: poolOf(h2)})
		for i, path := range []string{"/", "/body", "/"} {
			res, err := do(t, c, Request{URL: mustURL(t, url+path), Mode: Head,
				Header: http.Header{"X-Own": {"1"}}})
			if err != nil || res.Status != 200 || res.Proto != proto || res.ContentLength != 100_000 || res.Body != nil ||
				res.WireBytes != 0 || res.Reused != (i > 0) {
				t.Errorf("%s %s: %+v, %v", proto, path, res, err)
			}
			res.Close()
		}
	}
}
