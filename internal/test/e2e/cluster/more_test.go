//go:build cluster

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A page and all links that it names are one step, also if they belong to other machines: of pages that name their
// links only once, either all are found or none, whatever machine is killed.
func TestClusterLinksWithTheirPage(t *testing.T) {
	t.Parallel()
	const hosts = 60
	rounds := size(6, 20)
	var (
		mu    sync.Mutex
		named = map[string]bool{} // guarded by mu; pages that have named their links
	)
	s := e2e.NewMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/robots.txt" || strings.HasPrefix(r.URL.Path, "/sitemap") {
			return false
		}
		var host, round int
		if n, _ := fmt.Sscanf(r.Host+r.URL.Path, "n%d.test/round/%d", &host, &round); n != 2 {
			e2e.WritePage(w, r.Host+r.URL.Path)
			return true
		}
		links := []string{fmt.Sprintf("http://n%d.test/round/%d", host, round+1)}
		if round == 0 && host == 0 {
			for h := 1; h < hosts; h++ {
				links = append(links, fmt.Sprintf("http://n%d.test/round/1", h))
			}
		}
		mu.Lock()
		again := named[r.Host+r.URL.Path]
		named[r.Host+r.URL.Path] = true
		mu.Unlock()
		if round >= rounds {
			links = nil
		}
		if !again && round > 0 {
			links = append(links, fmt.Sprintf("/own/%d", round),
				fmt.Sprintf("http://n%d.test/of/%d/%d", (host+7)%hosts, host, round),
				fmt.Sprintf("http://n%d.test/of/%d/%d", (host+31)%hosts, host, round))
		}
		e2e.WritePage(w, letters(round)+r.Host, links...)
		return true
	})
	f, _ := newFleet(t, nil, append(patient(), "--start-url", "http://n0.test/round/0", "--scope", "any", "--profile",
		"own-site", "--max-inflight-per-host", "1", "--min-delay-ms", "500",
		"--max-delay-ms", "500", "--resolve", "*:80:"+s.Listener.Addr().String())...)
	s.Hold(0)
	f.start(3)
	f.shares(f.machines[0], 3)
	s.Release()
	for n := range size(3, 9) {
		at := len(s.Requests("n"))
		if got := f.machines[n%3].Kill(); got.Code != -1 {
			break
		}
		f.join(n % 3)
		f.machines[n%3].UntilEnded(func() bool { return len(s.Requests("n")) >= at+100 })
	}
	f.ends(0, "complete")
	got := f.export()
	whole, none := 0, 0
	for host := range hosts {
		for round := 1; round <= rounds; round++ {
			found := 0
			for _, u := range []string{fmt.Sprintf("http://n%d.test/own/%d", host, round),
				fmt.Sprintf("http://n%d.test/of/%d/%d", (host+7)%hosts, host, round),
				fmt.Sprintf("http://n%d.test/of/%d/%d", (host+31)%hosts, host, round)} {
				if _, ok := got.lines[u]; ok {
					found++
				}
			}
			switch found {
			case 0:
				none++
			case 3:
				whole++
			default:
				t.Errorf("of the three links that round %d of n%d.test has named, %d are found", round, host, found)
			}
			if l := got.lines[fmt.Sprintf("http://n%d.test/round/%d", host, round)]; l.Outcome != "ok" {
				t.Errorf("round %d of n%d.test is %q", round, host, l.Outcome)
			}
		}
	}
	t.Logf("%d pages with all their links, %d without, because they were fetched again", whole, none)
	if whole == 0 {
		t.Error("no page has its links")
	}
}

// A machine that is stopped while it uses HTTP/2 starts no request when it goes on after its lease.
func TestClusterPausedHTTP2(t *testing.T) {
	t.Parallel()
	const hosts = 20
	chain := size(100, 200)
	shared := make(chan struct{}) // closed when the machines share the partitions
	var (
		mu       sync.Mutex
		inflight = map[string]int{} // guarded by mu
		most     int                // guarded by mu
		asked    int                // guarded by mu
		old      int                // guarded by mu; requests over HTTP/1.1
	)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if r.ProtoMajor < 2 {
			old++
		}
		asked++
		inflight[r.Host]++
		most = max(most, inflight[r.Host])
		mu.Unlock()
		select {
		case <-shared:
		case <-r.Context().Done():
		}
		mu.Lock()
		inflight[r.Host]--
		mu.Unlock()
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		var links []string
		if n == 0 {
			for h := 1; h < hosts; h++ {
				links = append(links, fmt.Sprintf("https://s%d.test/1", h))
			}
		}
		if n < chain {
			links = append(links, fmt.Sprint("/", n+1))
		}
		e2e.WritePage(w, letters(n)+r.Host, links...)
	}))
	cert, authority := selfSigned(t, hosts)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(web.Close)
	f, _ := newFleet(t, nil, append(patient(), "--start-url", "https://s0.test/0", "--scope", "any", "--profile",
		"own-site", "--http2", "--max-inflight-per-host", "1", "--min-delay-ms", "200",
		"--max-delay-ms", "200", "--resolve", "*:443:"+web.Listener.Addr().String())...)
	f.env = []string{"SSL_CERT_FILE=" + authority}
	f.start(2)
	f.shares(f.machines[0], 2)
	close(shared)
	f.machines[0].Until("every host is asked", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return asked > 4*hosts
	})
	f.machines[1].Signal(syscall.SIGSTOP)
	f.shares(f.machines[0], 1)
	f.machines[1].Signal(syscall.SIGCONT)
	f.ends(0, "complete")
	if got := f.export(); len(got.lines) != hosts*chain+1 {
		t.Errorf("%d URLs are found, want %d", len(got.lines), hosts*chain+1)
	}
	mu.Lock()
	defer mu.Unlock()
	if most > 1 || old > 0 {
		t.Errorf("a host had %d requests at once; %d of %d requests were not HTTP/2", most, old, asked)
	}
}

// selfSigned is a certificate for the hosts of TestClusterPausedHTTP2, and the file that makes a program trust it.
func selfSigned(t *testing.T, hosts int) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	for h := range hosts {
		c.DNSNames = append(c.DNSNames, fmt.Sprintf("s%d.test", h))
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, path
}

// A machine whose disk is full leaves. The others go on, and find the same.
func TestClusterFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	const delay = 300 * time.Millisecond
	cfg := tableWeb(size(40, 200), 16)
	want, _ := alone(t, cfg, delay)
	web := serveSlowly(t, cfg)
	web.Hold(0)
	f, _ := newFleet(t, web, tableCrawl(web, delay)...)
	f.start(2)
	small := filepath.Join(f.dirs, "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	join := f.invoke("join", "--data-dir", filepath.Join(small, "data"))
	join.Under = []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs -o size=400m tmpfs "$0" && exec "$@"`,
		small}
	p := join.Start(t)
	f.shares(p, 3)
	web.Release()
	f.answered(cfg.Hosts)
	// The process sees the small file system alone; its root directory leads there.
	fill, err := os.Create(filepath.Join("/proc", strconv.Itoa(p.Pid()), "root", small, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for range 350 {
		if _, err := fill.Write(chunk); err != nil {
			break // it is full
		}
	}
	if err := fill.Close(); err != nil {
		t.Fatal(err)
	}
	if got := p.Wait(); got.Code != 1 || !strings.Contains(got.Stderr, "disk") {
		t.Errorf("the machine without space ends with %d: %s", got.Code, got.Stderr)
	}
	f.finish()
	f.ends(0, "complete")
	got := f.export()
	got.same(t, &want)
	oneAtATime(t, web)
}
