package fetch

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestOptionsNameEveryFault(t *testing.T) {
	_, err := New(Options{
		UserAgent: "a\nb", Timeout: -1, DNSTTL: -time.Second, MaxBody: -1, MaxInflight: -2, MinRate: -7,
		Header: http.Header{"bad name": {"x"}, "X": {"bad\rvalue"}}, Proxy: &url.URL{Scheme: "ftp"}, Resolve: []Resolve{{Host: "x"}},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"user agent", "timeout", "DNS TTL", "max body", "max inflight", "min rate", `"bad name"`, "header X", "proxy scheme", `resolve "x"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in: %v", want, err)
		}
	}
}

func TestIdleFor(t *testing.T) {
	for _, tt := range []struct {
		files    uint64
		inflight int
		want     int
	}{
		{20000, 512, 2048}, {1024, 512, 16}, {2048, 512, 512}, {1 << 62, 1, 2048}, {0, 1, 16},
	} {
		if got := idleFor(tt.files, tt.inflight); got != tt.want {
			t.Errorf("idleFor(%d, %d) = %d, want %d", tt.files, tt.inflight, got, tt.want)
		}
	}
	if openFileLimit() == 0 {
		t.Error("no open files allowed")
	}
}

func TestNoURL(t *testing.T) {
	if _, err := do(t, newClient(t, Options{}), Request{}); err == nil {
		t.Error("fetched nothing")
	}
}

func TestDefaultUserAgent(t *testing.T) {
	if got, want := DefaultUserAgent("1.2"), "Mapwright/1.2 (+https://github.com/mapwright/mapwright)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
