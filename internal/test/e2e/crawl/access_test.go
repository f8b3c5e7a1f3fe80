package crawl

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// newSecureSite serves two pages over TLS, to clients that show a certificate only. The file has the certificate of the
// site and its key, which may serve as that of a client too.
func newSecureSite(t *testing.T) (site *httptest.Server, file string) {
	t.Helper()
	site = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>page</title><a href="/second">second</a>`)
	}))
	site.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	site.StartTLS()
	t.Cleanup(site.Close)
	pair := site.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	return site, e2e.Write(t, filepath.Join(t.TempDir(), "site.pem"), string(text))
}

// A site whose certificate is signed by an authority of its own, and which asks for a client certificate, is crawled
// with both files, also after a resume from another directory. Without checks a warning stands in the log, in the
// report and in the status.
func TestCertificates(t *testing.T) {
	t.Parallel()
	site, file := newSecureSite(t)
	ok := func(dir string, want int) {
		t.Helper()
		n := 0
		for _, l := range e2e.ReadLines(t, dir) {
			if l.Outcome == "ok" {
				n++
			}
		}
		if n != want {
			t.Errorf("%d pages are ok, want %d", n, want)
		}
	}
	crawl := func(dir string, flags ...string) e2e.Invocation {
		args := append([]string{"crawl", site.URL, "--profile", "own-site", "--data-dir", dir, "--max-retries", "0",
			"--max-host-failures", "1"}, flags...)
		return e2e.Invocation{Args: args, Dir: filepath.Dir(file)}
	}
	dirs := filepath.Join(t.TempDir(), "data")
	crawl(dirs + "-none").Run(t)
	ok(dirs+"-none", 0)
	crawl(dirs+"-ca", "--ca-file", "site.pem").Run(t)
	ok(dirs+"-ca", 0)

	first := crawl(dirs+"-both", "--ca-file", "site.pem", "--client-cert", "site.pem,site.pem", "--max-urls", "1")
	if got := first.Run(t); got.Code != 3 || strings.Contains(got.Stderr, "NOT CHECKED") {
		t.Errorf("exit status %d, want 3", got.Code)
	}
	e2e.Succeeded(t, e2e.Run(t, "resume", dirs+"-both", "--max-urls", "10"))
	ok(dirs+"-both", 2)

	const loud = "CERTIFICATES ARE NOT CHECKED"
	got := crawl(dirs+"-insecure", "--insecure", "--client-cert", "site.pem").Run(t)
	ok(dirs+"-insecure", 2)
	if got.Code != 0 || !strings.Contains(got.Stderr, loud) || !strings.Contains(got.Stdout, loud) {
		t.Errorf("exit status %d, or no warning in the log or in the closing table", got.Code)
	}
	if warned := e2e.ReadReport(t, dirs+"-insecure").Warnings; len(warned) != 1 || !strings.Contains(warned[0], loud) {
		t.Errorf("the report warns %q", warned)
	}
	if status := e2e.Run(t, "status", dirs+"-insecure"); !strings.Contains(status.Stdout, "NOT CHECKED") {
		t.Errorf("status says nothing of it:\n%s", status.Stdout)
	}
}

// newPasswordSite serves the hosts *.test behind a password, on one address. Every page has links, redirects and a
// sitemap that lead to other hosts and ports. The log has, for each host and port, whether a password arrived.
func newPasswordSite(t *testing.T) (addr string, log *headerLog) {
	t.Helper()
	log = &headerLog{got: map[string]map[string]bool{}, paths: map[string]map[string]bool{}, lang: map[string]string{}}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.add(r)
		switch r.URL.Path {
		case "/robots.txt":
			http.NotFound(w, r)
			return
		case "/to-port":
			http.Redirect(w, r, "http://start.test:8080/", http.StatusFound)
			return
		case "/to-sibling":
			http.Redirect(w, r, "http://www.start.test/", http.StatusFound)
			return
		}
		if user, password, _ := r.BasicAuth(); r.Host == "start.test" && (user != "ann" || password != "s3cr:t@x") {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>in</title><a href="/own">own</a> <a href="/to-port">port</a> <a href="/to-sibling">sibling</a>
<a href="http://other.test/">other</a>`)
	}))
	t.Cleanup(site.Close)
	return site.Listener.Addr().String(), log
}

// A site behind a password is crawled. The password goes to its origin alone, and nowhere into the data directory: a
// resume needs it again, unless it is in a file.
func TestBasicAuth(t *testing.T) {
	t.Parallel()
	addr, log := newPasswordSite(t)
	dir := filepath.Join(t.TempDir(), "data")
	network := []string{"--resolve", "*:80:" + addr, "--resolve", "*:8080:" + addr}
	const user = "ann:s3cr:t@x@start.test"
	args := append([]string{"crawl", "http://start.test/", "--profile", "own-site", "--scope", "any", "--max-urls", "2",
		"--data-dir", dir, "--basic-auth", user}, network...)
	if got := e2e.Run(t, args...); got.Code != 3 || strings.Contains(got.Stdout+got.Stderr, "s3cr") {
		t.Errorf("exit status %d, want 3, and no password", got.Code)
	}
	resume := []string{"resume", dir, "--max-urls", "100"}
	e2e.Refused(t, e2e.Run(t, resume...), "--basic-auth", "MAPWRIGHT_BASIC_AUTH")
	e2e.Succeeded(t, e2e.Run(t, "export", dir)) // fetches nothing, and needs no password

	// With a file the crawl goes on by itself.
	file := e2e.Write(t, filepath.Join(t.TempDir(), "users"), "# of the site\n"+user+"\n")
	if got := e2e.Run(t, append(resume[:2:2], "--basic-auth", "@"+file, "--max-urls", "3")...); got.Code != 3 {
		t.Errorf("exit status %d, want 3", got.Code)
	}
	e2e.Succeeded(t, e2e.Run(t, resume...))

	lines := e2e.ReadLines(t, dir)
	for _, url := range []string{"http://start.test/", "http://start.test/own", "http://start.test:8080/",
		"http://www.start.test/", "http://other.test/"} {
		if lines[url].Outcome != "ok" {
			t.Errorf("%s: %q", url, lines[url].Outcome)
		}
	}
	for host, names := range log.got {
		if names["Authorization"] != (host == "start.test") {
			t.Errorf("%s got %v", host, names)
		}
	}
	for _, command := range [][]string{{"status", dir}, {"resume", dir, "--print-config"}} {
		if got := e2e.Run(t, command...); strings.Contains(got.Stdout+got.Stderr, "s3cr") {
			t.Errorf("%s shows the password", command[0])
		}
	}
	holdsNot(t, dir, "s3cr", "YW5uOnMzY3I6dEB4")
}

// holdsNot checks that no file of a directory has one of the texts.
func holdsNot(t *testing.T, dir string, texts ...string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, text := range texts {
			if bytes.Contains(content, []byte(text)) {
				t.Errorf("%s has %q", path, text)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Cookies reach the hosts that they are for, after redirects and a resume too. Neither the data directory nor the
// output has their values.
func TestCookies(t *testing.T) {
	t.Parallel()
	var got sync.Map // host to the header Cookie
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Host, r.Header.Get("Cookie"))
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "http://start.test:8080/", http.StatusFound)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "set", Value: "1", Domain: "start.test"})
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/moved">x</a> <a href="http://www.start.test/">x</a> <a href="http://other.test/">x</a>`)
	}))
	t.Cleanup(site.Close)
	addr, dir := site.Listener.Addr().String(), filepath.Join(t.TempDir(), "data")
	file := e2e.Write(t, filepath.Join(t.TempDir(), "cookies.txt"),
		".start.test\tTRUE\t/\tFALSE\t0\tfrom-file\ts3cret-file\n")
	run := e2e.Invocation{Args: []string{"crawl", "http://start.test/", "--profile", "own-site", "--scope", "any",
		"--max-urls", "1", "--data-dir", dir, "--resolve", "*:80:" + addr, "--resolve", "*:8080:" + addr,
		"--cookie-file", file}, Env: []string{"MAPWRIGHT_COOKIE=given=s3cret-given; more=s3cret-more"}}
	out := ""
	for _, code := range []int{3, 0} {
		result := run.Run(t)
		if out += result.Stdout + result.Stderr; result.Code != code {
			t.Fatalf("exit status %d, want %d", result.Code, code)
		}
		run.Args = []string{"resume", dir, "--max-urls", "100"}
	}
	for host, want := range map[string]string{"other.test": "", "start.test:8080": "",
		"www.start.test": "from-file=s3cret-file",
		"start.test":     "given=s3cret-given; more=s3cret-more; from-file=s3cret-file"} {
		if value, asked := got.Load(host); !asked || value != want {
			t.Errorf("%s got %q, want %q", host, value, want)
		}
	}
	e2e.Refused(t, e2e.Run(t, "resume", dir), "--cookie", "MAPWRIGHT_COOKIE")
	run.Args = []string{"resume", dir, "--print-config"}
	if out += run.Run(t).Stdout; strings.Contains(out, "s3cret") || !strings.Contains(out, "given=(hidden)") {
		t.Errorf("the output has a value: %s", out)
	}
	holdsNot(t, dir, "s3cret")
}

// A site that gives every visitor a session at the first page shows the others to who sends it back. With --cookies a
// crawl does. Another run begins with a new session.
func TestCookiesOfAnswers(t *testing.T) {
	t.Parallel()
	var sessions, foreign atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := r.Cookie("session")
		if r.Host != "start.test" && len(r.Cookies()) > 0 {
			foreign.Add(1)
		}
		if r.URL.Path == "/robots.txt" || r.URL.Path == "/sitemap.xml" {
			http.NotFound(w, r)
			return
		}
		if err != nil && r.Host == "start.test" && r.URL.Path != "/" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		if err != nil && r.Host == "start.test" {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: fmt.Sprintf("s3cret%d", sessions.Add(1)), Path: "/"})
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/a">a</a> <a href="/b">b</a> <a href="http://other.test/">other</a>`)
	}))
	t.Cleanup(site.Close)
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Succeeded(t, e2e.Run(t, "crawl", "http://start.test/", "--profile", "own-site", "--scope", "any", "--cookies",
		"--data-dir", dir, "--resolve", "*:80:"+site.Listener.Addr().String()))
	lines := e2e.ReadLines(t, dir)
	for _, url := range []string{"http://start.test/", "http://start.test/a", "http://start.test/b"} {
		if lines[url].Outcome != "ok" {
			t.Errorf("%s: %q", url, lines[url].Outcome)
		}
	}
	if _, asked := lines["http://other.test/"]; !asked || foreign.Load() > 0 {
		t.Errorf("the other host was asked: %v, with %d cookies", asked, foreign.Load())
	}
	holdsNot(t, dir, "s3cret")
	before := sessions.Load()
	e2e.Succeeded(t, e2e.Run(t, "recrawl", dir))
	if sessions.Load() == before {
		t.Error("a recrawl has the session of the crawl")
	}
}
