package crawl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A polite crawl of many hosts with one address asks the address ten times a second at most, and the status says what
// the hosts wait for. With --per-ip=false the hosts wait for their own delays only, also in a resume.
func TestHostsOfOneAddress(t *testing.T) {
	t.Parallel()
	const hosts = 60
	web := e2e.Serve(t, testweb.Config{Hosts: hosts, Pages: 1, PageSize: 500, Links: 1, Log: true})
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"crawl", "--resolve", web.Resolve(), "--scope", "host", "--data-dir", dir}
	for _, u := range web.StartURLs() {
		args = append(args, "--start-url", u)
	}
	began := time.Now()
	p := e2e.Start(t, args...)
	p.Until("20 requests were made, and the other hosts wait for the address", func() bool {
		return web.Stats().Requests >= 20 && e2e.Status(t, dir).Hosts["address"] > 10
	})
	// The client sends each request at least 100 ms after the one before it, however late the server sees it.
	if n, most := web.Stats().Requests, 1+int64(time.Since(began)/(100*time.Millisecond)); n > most {
		t.Errorf("%d requests within %v", n, time.Since(began))
	}
	if got := e2e.Run(t, "status", dir); !strings.Contains(e2e.Field(got.Stdout, "Hosts"), "address ") {
		t.Errorf("the status does not say what the hosts wait for:\n%s", got.Stdout)
	}
	p.Signal(os.Interrupt)
	p.Wait()
	e2e.Succeeded(t, e2e.Run(t, "resume", "--data-dir", dir, "--per-ip=false"))
	e2e.FoundExactly(t, web, testweb.Crawl{Starts: web.StartURLs(), Scope: "host"}, e2e.ReadLines(t, dir))
	e2e.AskedOnce(t, web)
}

// Only a crawl of an own site has no limit for addresses by default, and a safe crawl cannot do without it.
func TestPerIPOfProfiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ flags, want, warning string }{
		{"--profile polite", "true", ""},
		{"--profile polite --per-ip=false", "false", ""},
		{"--profile own-site", "false", ""},
		{"--profile own-site --per-ip", "true", ""},
		{"--safe", "true", ""},
		{"--safe --per-ip=false", "true", "profile safe sets per-ip to true (requested: false by"},
	} {
		got := e2e.Run(t, append([]string{"crawl", "--print-config"}, strings.Fields(tt.flags)...)...)
		if value := strings.Fields(e2e.Field(got.Stdout, "per-ip")); len(value) == 0 || value[0] != tt.want ||
			!strings.Contains(got.Stderr, tt.warning) || tt.warning == "" && got.Stderr != "" {
			t.Errorf("%s: per-ip is %q, want %s:\n%s", tt.flags, value, tt.want, got.Stderr)
		}
	}
}
