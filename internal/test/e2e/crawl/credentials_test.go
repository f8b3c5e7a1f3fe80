package crawl

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// secretHeaders are sent by the tests of credentials. X-Unknown stands for every header whose meaning the program does
// not know.
func secretHeaders() []string {
	return []string{"Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key", "X-Unknown"}
}

// A headerLog records, for each host, which of the secret headers arrived and on which paths the host was asked.
type headerLog struct {
	mu    sync.Mutex
	got   map[string]map[string]bool // guarded by mu; host to names of secret headers
	paths map[string]map[string]bool // guarded by mu; host to paths
	lang  map[string]string          // guarded by mu; host to Accept-Language
}

func (l *headerLog) add(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.got[r.Host] == nil {
		l.got[r.Host], l.paths[r.Host] = map[string]bool{}, map[string]bool{}
	}
	for _, name := range secretHeaders() {
		if r.Header.Get(name) != "" {
			l.got[r.Host][name] = true
		}
	}
	l.paths[r.Host][r.URL.Path] = true
	l.lang[r.Host] = r.Header.Get("Accept-Language")
}

// asked reports whether a host was asked for a path.
func (l *headerLog) asked(host, path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paths[host][path]
}

// newHeaderSite serves a site whose start page, redirects, robots.txt and sitemaps lead to other hosts.
func newHeaderSite(t *testing.T) (*httptest.Server, *headerLog) {
	t.Helper()
	log := &headerLog{got: map[string]map[string]bool{}, paths: map[string]map[string]bool{}, lang: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.add(r)
		switch r.Host + r.URL.Path {
		case "start.test/robots.txt":
			fmt.Fprint(w, "User-agent: *\nAllow: /\nSitemap: http://maps.test/foreign.xml\nSitemap: "+
				"http://start.test/moved.xml\n")
		case "rules.test/robots.txt":
			http.Redirect(w, r, "http://elsewhere.test/robots.txt", http.StatusFound)
		case "start.test/moved.xml":
			http.Redirect(w, r, "http://moved-maps.test/moved.xml", http.StatusFound)
		case "start.test/moved":
			http.Redirect(w, r, "http://target.test/page", http.StatusFound)
		case "start.test/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<a href="/own">own</a> <a href="/moved">moved</a> <a href="http://linked.test/">other</a> <a href="http://rules.test/">rules</a> <a href="http://named.test/">named</a>`)
		default:
			if strings.HasSuffix(r.URL.Path, ".xml") || strings.HasSuffix(r.URL.Path, ".txt") {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<title>page</title>")
		}
	}))
	t.Cleanup(server.Close)
	return server, log
}

// Headers that may be credentials reach the host of the start URL and the hosts that --header-to names, with and
// without a proxy. No link, redirect, robots.txt or sitemap carries them to another host.
func TestCredentialsStayWithTheStartHost(t *testing.T) {
	t.Parallel()
	for _, proxied := range []bool{false, true} {
		t.Run(fmt.Sprintf("proxy=%v", proxied), func(t *testing.T) {
			t.Parallel()
			server, log := newHeaderSite(t)
			addr := server.Listener.Addr().String()
			dir := filepath.Join(t.TempDir(), "data")
			args := []string{"crawl", "http://start.test/", "--scope", "any", "--profile", "own-site", "--data-dir",
				dir, "--header", "Accept-Language: de", "--header-to", "http://named.test"}
			if proxied {
				args = append(args, "--proxy", "http://"+addr)
			} else {
				args = append(args, "--resolve", "*:80:"+addr)
			}
			for _, name := range secretHeaders() {
				args = append(args, "--header", name+": secret-value")
			}
			if got := e2e.Run(t, args...); got.Code != 0 || strings.Contains(got.Stdout+got.Stderr, "secret-value") {
				t.Errorf("exit status %d, want 0, and no secret in the output", got.Code)
			}
			for _, want := range []struct{ host, path string }{
				{"start.test", "/own"}, {"target.test", "/page"}, {"linked.test", "/"}, {"rules.test", "/robots.txt"},
				{"elsewhere.test", "/robots.txt"},
				{"maps.test", "/foreign.xml"}, {"moved-maps.test", "/moved.xml"}, {"named.test", "/"},
			} {
				if !log.asked(want.host, want.path) {
					t.Errorf("%s was not asked for %s, so the test shows nothing", want.host, want.path)
				}
			}
			for host, names := range log.got {
				want := 0
				if host == "start.test" || host == "named.test" {
					want = len(secretHeaders())
				}
				if len(names) != want {
					t.Errorf("%s got %v, want %d of %v", host, names, want, secretHeaders())
				}
				if log.lang[host] != "de" {
					t.Errorf("%s did not get Accept-Language, which is no credential", host)
				}
			}
		})
	}
}

// A start URL that redirects to another host says that the credentials stay behind, and how to send them there.
func TestRedirectedStartSaysThatCredentialsStay(t *testing.T) {
	t.Parallel()
	server, log := newHeaderSite(t)
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "http://start.test/moved", "--profile", "own-site", "--data-dir", dir, "--header",
		"X-Api-Key: secret-value", "--resolve", "*:80:"+server.Listener.Addr().String())
	if want := "--header-to http://target.test"; got.Code != 0 || !strings.Contains(got.Stderr, want) {
		t.Errorf("exit status %d; standard error does not name %q:\n%s", got.Code, want, got.Stderr)
	}
	if !log.asked("target.test", "/page") || len(log.got["target.test"]) > 0 {
		t.Errorf("target.test got %v, want a request without credentials", log.got["target.test"])
	}
}

// The commands robots and inspect keep credentials with the host of their URL too.
func TestCommandsKeepCredentials(t *testing.T) {
	t.Parallel()
	server, log := newHeaderSite(t)
	more := []string{"--header", "Authorization: secret-value", "--resolve", "*:80:" + server.Listener.Addr().String()}
	e2e.Run(t, append([]string{"robots", "http://rules.test/"}, more...)...)
	e2e.Run(t, append([]string{"inspect", "http://start.test/moved"}, more...)...)
	if !log.asked("elsewhere.test", "/robots.txt") || len(log.got["elsewhere.test"]) > 0 {
		t.Errorf("elsewhere.test got %v, want a request without credentials", log.got["elsewhere.test"])
	}
	for _, host := range []string{"rules.test", "start.test"} {
		if !log.got[host]["Authorization"] {
			t.Errorf("%s did not get the header that was meant for it", host)
		}
	}
}

// A bare domain whose https has a wrong certificate is not crawled over plain http.
func TestBareDomainWithWrongCertificate(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	plain, log := newHeaderSite(t)
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "start.test", "--profile", "own-site", "--data-dir", dir, "--max-host-backoff-secs", "1",
		"--resolve", "*:443:"+secure.Listener.Addr().String(), "--resolve", "*:80:"+plain.Listener.Addr().String())
	if got.Code != 1 {
		t.Errorf("exit status %d, want 1", got.Code)
	}
	if len(log.paths) > 0 {
		t.Errorf("plain http was asked: %v", log.paths)
	}
	lines := e2e.ReadLines(t, dir)
	if l := lines["https://start.test/"]; len(lines) != 1 || l.Outcome != "tls_error" ||
		strings.HasPrefix(l.Error, "tls: tls:") {
		t.Errorf("got %+v, want one tls_error", lines)
	}
}

// A bare domain whose https does not answer in the handshake is not crawled over plain http: anyone on the way can drop
// what is encrypted.
func TestBareDomainWhoseHandshakeHangs(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	plain, log := newHeaderSite(t)
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "start.test", "--profile", "own-site", "--data-dir", dir, "--timeout", "1",
		"--max-retries",
		"0",
		"--resolve", "*:443:"+silent.Addr().String(), "--resolve", "*:80:"+plain.Listener.Addr().String())
	if want := "if the site has no https, start from http://start.test/"; got.Code != 1 ||
		!strings.Contains(got.Stderr, want) {
		t.Errorf("exit status %d, want 1 and %q:\n%s", got.Code, want, got.Stderr)
	}
	if len(log.paths) > 0 {
		t.Errorf("plain http was asked: %v", log.paths)
	}
	if l := e2e.ReadLines(t, dir)["https://start.test/"]; l.Outcome != "timeout" {
		t.Errorf("got %+v, want a timeout", l)
	}
}

// A bare domain whose https port answers in plain HTTP, or refuses, is crawled over plain http, and without
// credentials.
func TestBareDomainFallsBackWithoutCredentials(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain HTTP", "refused"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, log := newHeaderSite(t)
			addr := server.Listener.Addr().String()
			secure := addr
			if name == "refused" {
				secure = e2e.ClosedPort(t)
			}
			dir := filepath.Join(t.TempDir(), "data")
			got := e2e.Run(t, "crawl", "start.test", "--profile", "own-site", "--data-dir", dir,
				"--max-host-backoff-secs",
				"1", "--header", "Cookie: secret-value",
				"--resolve", "*:443:"+secure, "--resolve", "*:80:"+addr)
			if got.Code != 0 || !strings.Contains(got.Stderr, "--header-to http://start.test") {
				t.Errorf("exit status %d, want 0 and a word on the headers:\n%s", got.Code, got.Stderr)
			}
			if !log.asked("start.test", "/own") || len(log.got["start.test"]) > 0 {
				t.Errorf("asked for %v, with the headers %v", log.paths["start.test"], log.got["start.test"])
			}
		})
	}
}
