package crawl

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A passwordProxy is a forward proxy for plain HTTP that knows one user. It leads all names to one site.
type passwordProxy struct {
	*httptest.Server
	left atomic.Int64 // requests that are forwarded before the password is taken for wrong
}

const always = 1 << 40

func newPasswordProxy(t *testing.T, site string) *passwordProxy {
	t.Helper()
	p := &passwordProxy{}
	forward := &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, // the request has the whole URL already
		Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, site)
		}, DisableKeepAlives: true},
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		login := &http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
		if user, password, _ := login.BasicAuth(); user+" "+password != "ann secret" || p.left.Add(-1) < 0 {
			w.Header().Set("Proxy-Authenticate", `Basic realm="proxy"`)
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// The password of a proxy expires: before the first request of a crawl, in its middle, and before a recrawl. The crawl
// pauses until the proxy takes the password again. Nothing is recorded of what the proxy refused, and robots.txt and
// sitemaps are asked for again.
func TestProxyThatRefusesThePassword(t *testing.T) {
	t.Parallel()
	const pages = 12
	log := &headerLog{got: map[string]map[string]bool{}, paths: map[string]map[string]bool{}, lang: map[string]string{}}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.add(r)
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nDisallow: /secret\nSitemap: http://a.test/listed.xml\n")
		case "/listed.xml":
			e2e.WriteURLs(w, "http://a.test/listed")
		default:
			links := []string{"/secret"}
			for i := range pages {
				links = append(links, fmt.Sprint("/", i))
			}
			e2e.WritePage(w, r.URL.Path, links...)
		}
	}))
	t.Cleanup(site.Close)
	proxy := newPasswordProxy(t, site.Listener.Addr().String())
	const refused = "the proxy cannot be used: proxy answered 407 Proxy Authentication Required"

	var dir string
	check := func(t *testing.T, got e2e.Result) {
		t.Helper()
		rep := e2e.Ended(t, got, dir, 0, "complete", "")
		want := map[string]string{"http://a.test/secret": "blocked_by_robots", "http://a.test/": "ok",
			"http://a.test/listed": "ok"}
		for i := range pages {
			want[fmt.Sprint("http://a.test/", i)] = "ok"
		}
		lines := e2e.ReadLines(t, dir)
		for url, outcome := range want {
			if l := lines[url]; l.Outcome != outcome {
				t.Errorf("%s: %s (status %d), want %s", url, l.Outcome, l.StatusCode, outcome)
			}
		}
		if len(lines) != len(want) || rep.Indexable != pages+2 {
			t.Errorf("%d URLs, %d of them indexable; want %d and %d", len(lines), rep.Indexable, len(want), pages+2)
		}
		if log.asked("a.test", "/secret") {
			t.Error("the crawl asked for a page that robots.txt disallows")
		}
	}
	// Requests that come before the password expires: none, robots.txt, and some pages and sitemaps.
	for _, left := range []int64{0, 1, 6} {
		dir = filepath.Join(t.TempDir(), "data")
		proxy.left.Store(left)
		p := e2e.Start(t, "crawl", "http://a.test/", "--profile", "own-site", "--data-dir", dir, "--proxy",
			"http://ann:secret@"+proxy.Listener.Addr().String())
		p.Says(refused)
		proxy.left.Store(always)
		check(t, p.Wait())
	}

	before := e2e.Read(t, dir, "sitemap.xml")
	proxy.left.Store(0)
	p := e2e.Start(t, "recrawl", dir)
	p.Says(refused)
	p.Signal(os.Interrupt)
	if got := p.Wait(); got.Code != 130 {
		t.Errorf("exit status %d of a recrawl that was interrupted, want 130", got.Code)
	}
	if after := e2e.Read(t, dir, "sitemap.xml"); after != before {
		t.Errorf("the recrawl, which fetched nothing, has written the sitemap\n%s\nwhich was\n%s", after, before)
	}
	p = e2e.Start(t, "resume", dir)
	p.Says(refused)
	proxy.left.Store(always)
	check(t, p.Wait())
}
