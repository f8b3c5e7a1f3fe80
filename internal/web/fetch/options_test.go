package fetch

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestOptionsNameEveryFault(t *testing.T) {
	_, err := New(Options{
		UserAgent: "a\nb", Timeout: -1, MaxBody: -1, MaxInflight: -2, MinRate: -7,
		Header: http.Header{"bad name": {"x"}, "X": {"bad\rvalue"}}, Proxy: &url.URL{Scheme: "ftp"},
		Resolve: []Resolve{{Host: "x"}},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"user agent", "timeout", "max body", "max inflight", "min rate",
		`"bad name"`, "header X", "proxy scheme", `resolve "x"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in: %v", want, err)
		}
	}
}

func TestSocketsForFiles(t *testing.T) {
	for _, tt := range []struct {
		files    uint64
		inflight int
		sockets  int
		idle     int
	}{
		{1 << 62, 1, 1<<20 - 4096, 2048}, {20000, 512, 15904, 2048}, {4096, 512, 3072, 2048}, {2048, 512, 1536, 512},
		{1024, 512, 768, 16}, {256, 64, 128, 16}, {0, 1, 16, 14},
	} {
		sockets := socketsFor(tt.files)
		if idle := idleFor(sockets, tt.inflight); sockets != tt.sockets || idle != tt.idle {
			t.Errorf("%d files, %d in flight: %d sockets and %d idle, want %d and %d", tt.files, tt.inflight, sockets,
				idle, tt.sockets, tt.idle)
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
