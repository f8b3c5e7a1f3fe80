package service

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// The first signal drains: the server is not ready any more and still answers. The second ends the process at once, and
// the next one goes on with the crawl.
func TestTwoSignals(t *testing.T) {
	t.Parallel()
	const pages = 20
	w := e2e.Serve(t, testweb.Config{Seed: 13, Pages: pages, PageSize: 2000, Links: 8})
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, dir, patient(t)...)
	key := adminKey(t, dir)
	c := s.client(key)
	w.Hold(5)
	id := submitTo(t, c, w, 0)
	s.until("a page is held", func() bool { return w.Held(0) > 0 })
	s.signal(syscall.SIGTERM)
	status := func(path string) int {
		res, err := http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s.until("it is not ready", func() bool { return status("/readyz") == http.StatusServiceUnavailable })
	if got := status("/healthz"); got != 200 {
		t.Errorf("health while it drains: %d", got)
	}
	again := time.NewTicker(50 * time.Millisecond) // signals within a second of the first count as the same
	defer again.Stop()
	for ended := false; !ended; {
		select {
		case <-again.C:
			s.signal(syscall.SIGTERM)
		case <-s.done:
			ended = true
		}
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit status %d", code)
	}
	w.Release()
	s = startServer(t, dir, "--min-free", "0")
	if crawl := s.reaches(s.client(key), id, service.Complete); crawl.Outcomes["ok"] != pages {
		t.Errorf("%v", crawl.Outcomes)
	}
	s.stop()
}

// A signal ends the watching of a crawl and not the crawl, and says so. A server that does not answer is named at once.
func TestWatchIsInterrupted(t *testing.T) {
	t.Parallel()
	w := e2e.Serve(t, testweb.Config{Seed: 14, Pages: 20, PageSize: 2000, Links: 8})
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, dir, "--min-free", "0")
	key := adminKey(t, dir)
	c := s.client(key)
	w.Hold(5)
	id := submitTo(t, c, w, 0)
	var out, errs e2e.Buffer
	watch := exec.CommandContext(t.Context(), e2e.Binary, "remote", "watch", id)
	watch.Stdout, watch.Stderr, watch.Env = &out, &errs, environment(t, "MAPWRIGHT_SERVER="+s.url, "MAPWRIGHT_KEY="+key)
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	s.until("the start is shown", func() bool { return strings.Contains(out.String(), "crawl.started") })
	if err := watch.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := watch.Wait(); watch.ProcessState.ExitCode() != 130 ||
		!strings.Contains(errs.String(), "mapwright remote cancel "+id) {
		t.Errorf("%v, after a signal it says %q", err, errs.String())
	}
	w.Release()
	s.reaches(c, id, service.Complete)
	s.stop()
	const nowhere = "http://127.0.0.1:1" // another process may have the port of the server now
	if _, err := run(t, []string{"MAPWRIGHT_SERVER=" + nowhere, "MAPWRIGHT_KEY=" + key}, "remote", "watch",
		id); err == nil || !strings.Contains(err.Error(), "cannot reach server "+nowhere) {
		t.Errorf("without a server: %v", err)
	}
}

// writeCertificate writes a certificate for this machine and its key, and returns their files and a pool that trusts
// it.
func writeCertificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	keyDER := must(x509.MarshalPKCS8PrivateKey(private))(t)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AddCert(must(x509.ParseCertificate(der))(t))
	return cert, key, pool
}

// With a certificate the server speaks https alone, and HTTP/1.1 alone: what an HTTP/2 client may leave unread has no
// bound. Cookies are for https alone, and names that are not the server's own are refused.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, certKey, pool := writeCertificate(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, dir, "--tls-cert", cert, "--tls-key", certKey)
	if !strings.HasPrefix(s.url, "https://") {
		t.Fatalf("it listens on %s", s.url)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	ask := func(req *http.Request) *http.Response {
		t.Helper()
		res := must(c.Do(req))(t)
		_, err := io.Copy(io.Discard, res.Body)
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Error(err)
		}
		return res
	}
	get := func(host string) *http.Response {
		t.Helper()
		req := must(http.NewRequestWithContext(t.Context(), "GET", s.url+"/healthz", nil))(t)
		req.Host = host
		return ask(req)
	}
	if res := get(""); res.StatusCode != 200 || res.Header.Get("Strict-Transport-Security") == "" ||
		res.ProtoMajor != 1 {
		t.Errorf("%s, status %d, %v", res.Proto, res.StatusCode, res.Header)
	}
	only := &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}}
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), only); err == nil {
		t.Errorf("a client that speaks only HTTP/2 is connected, with %q", conn.ConnectionState().NegotiatedProtocol)
		_ = conn.Close()
	}
	for curve, ok := range map[tls.CurveID]bool{tls.X25519: true, tls.CurveP256: true, tls.CurveP384: true,
		tls.CurveP521: false} { // which takes long to compute
		conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"),
			&tls.Config{RootCAs: pool, CurvePreferences: []tls.CurveID{curve}})
		if (err == nil) != ok {
			t.Errorf("%v: %v", curve, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	for _, host := range []string{"evil.test", "127.0.0.1.evil.test", "localhost.evil.test:8080", "xn--lcalhost-54a"} {
		if res := get(host); res.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("the name %s: status %d", host, res.StatusCode)
		}
	}
	link := must(url.Parse(regexp.MustCompile(`https://\S+/login\?token=\S+`).FindString(s.out.String())))(t)
	form := strings.NewReader(url.Values{"token": {link.Query().Get("token")}}.Encode())
	req := must(http.NewRequestWithContext(t.Context(), "POST", s.url+"/login", form))(t)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	cookies := ask(req).Cookies()
	if len(cookies) != 1 || !cookies[0].Secure || !cookies[0].HttpOnly ||
		cookies[0].SameSite != http.SameSiteStrictMode {
		t.Errorf("cookies %+v", cookies)
	}
	plain, err := http.Get("http://" + strings.TrimPrefix(s.url, "https://") + "/healthz")
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	if err == nil {
		if plain.StatusCode < 400 {
			t.Errorf("plain HTTP: status %d", plain.StatusCode)
		}
		if err := plain.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	s.stop()
}
