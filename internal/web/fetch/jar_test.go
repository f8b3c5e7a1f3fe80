package fetch

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A jar follows the rules of browsers: domain, path, scheme, public suffixes, prefixes of names, removal.
func TestJarRules(t *testing.T) {
	c := &Cookies{}
	c.KeepAnswers()
	var err error
	if c.Given, err = ParseCookies("given=1; replaced=old"); err != nil {
		t.Fatal(err)
	}
	c.To.AddURL(mustURL(t, "https://a.test/"))
	for _, set := range []struct{ from, cookie string }{
		{"https://a.test/in/x", "folder=1"}, {"https://a.test/", "host=1; Path=/"},
		{"https://a.test/", "all=1; Domain=a.test"}, {"https://a.test/", "safe=1; Secure"},
		{"https://a.test/", "replaced=first"}, {"https://a.test/", "gone=1"}, {"https://a.test/", "gone=; Max-Age=0"},
		{"https://a.test/", "never=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"},
		{"https://b.a.test/", "up=1; Domain=a.test"}, {"https://b.a.test/", "foreign=1; Domain=c.test"},
		{"https://b.co.uk/", "suffix=1; Domain=co.uk"}, {"https://a.test/", "long=" + strings.Repeat("x", maxCookie)},
		{"http://a.test/", "plain=1; Secure"}, {"http://a.test/", "safe=2"},
		{"http://a.test/", "safe=; Max-Age=0"}, {"http://a.test/", "replaced=new"},
		{"https://a.test/", "__Host-bad=1; Secure; Domain=a.test; Path=/"},
		{"https://a.test/", "__Host-good=1; Secure; Path=/"}, {"http://a.test/", "__Secure-bad=1"},
		{"http://127.0.0.1:81/", "address=1"}, {"http://[::1]:81/", "six=1; Secure"},
		{"http://127.0.0.1/", "local=1; Secure"}, {"http://localhost/", "local=1; Secure"},
		{"https://path.test/", "id=all; Path=/"}, {"https://path.test/", "id=deep; Path=/x"},
	} {
		c.jar.take(mustURL(t, set.from), http.Header{"Set-Cookie": {set.cookie}})
	}
	for url, want := range map[string]string{
		"https://a.test/":       "given=1; host=1; all=1; safe=1; replaced=new; up=1; __Host-good=1",
		"https://a.test/in/y":   "given=1; folder=1; host=1; all=1; safe=1; replaced=new; up=1; __Host-good=1",
		"http://a.test/":        "host=1; all=1; replaced=new; up=1",
		"https://a.test:8443/":  "host=1; all=1; safe=1; replaced=new; up=1; __Host-good=1", // as browsers do
		"https://b.a.test/":     "all=1; up=1",
		"https://c.test/":       "",
		"https://d.co.uk/":      "",
		"http://127.0.0.1:8080": "address=1; local=1",
		"http://[::1]/":         "six=1",
		"http://localhost/":     "local=1",
		"https://path.test/x/y": "id=deep; id=all", // servers take the first
		"https://path.test/y":   "id=all",
	} {
		if got := c.header(mustURL(t, url)); got != want {
			t.Errorf("%s gets %q, want %q", url, got, want)
		}
	}
}

// However many cookies and sites there are, a jar stays within its bounds, and a site keeps the cookies that it had.
func TestJarIsBounded(t *testing.T) {
	j := newJar()
	u := mustURL(t, "http://a.test/")
	for i := range 3 * maxSiteCookies {
		j.take(u, http.Header{"Set-Cookie": {fmt.Sprintf("n%d=%d", i, i), "n0=again"}})
	}
	if got := j.cookies(u); len(got) != maxSiteCookies || got[0].Value != "again" {
		t.Errorf("%d cookies, want %d and the first one as it was set last", len(got), maxSiteCookies)
	}
	value := strings.Repeat("x", 4000)
	for i := range 2 * maxJarBytes / maxSiteBytes {
		u := mustURL(t, fmt.Sprintf("http://s%d.test/", i))
		for k := range 40 {
			j.take(u, http.Header{"Set-Cookie": {fmt.Sprintf("n%d=%s", k, value)}})
		}
	}
	for i := range 1000 { // that set nothing
		j.take(mustURL(t, fmt.Sprintf("http://e%d.test/", i)), http.Header{"Set-Cookie": {"a=1; Secure"}})
	}
	total := 0
	for at := j.order.Front(); at != nil; at = at.Next() {
		total += at.Value.(*siteCookies).bytes
	}
	if j.bytes > maxJarBytes || j.bytes < maxJarBytes/2 || j.bytes != total || len(j.sites) != j.order.Len() ||
		len(j.cookies(u)) != 0 {
		t.Errorf("%d bytes, %d of %d sites, and %d of the oldest", j.bytes, total, len(j.sites), len(j.cookies(u)))
	}
}

// Requests at the same time keep and send cookies, over HTTP/1 and HTTP/2.
func TestJarOfClient(t *testing.T) {
	s := newHTTP2Server(t, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s"})
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, r.Header.Get("Cookie"))
	})
	for _, http1 := range []bool{false, true} {
		cookies := &Cookies{}
		cookies.KeepAnswers()
		c := newClient(t, Options{RootCAs: poolOf(s), NoHTTP2: http1, Cookies: cookies})
		if res, err := get(t, c, s.URL); err != nil || len(res.Body) > 0 {
			t.Errorf("the first request: %v", err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				res, err := c.Do(t.Context(), Request{URL: mustURL(t, s.URL)})
				if err != nil || string(res.Body) != "session=s" {
					t.Errorf("a later request: %v", err)
				}
				res.Close()
			})
		}
		wg.Wait()
	}
}
