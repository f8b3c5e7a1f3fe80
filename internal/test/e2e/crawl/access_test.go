package crawl

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
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
