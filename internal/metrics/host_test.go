package metrics

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// A web page must not be able to read the metrics by a name of its own that it makes resolve to this machine.
func TestOtherHostNamesAreRefused(t *testing.T) {
	s, err := New(someLabels()).Serve("127.0.0.1:0", func() any { return nil }, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	}()
	for host, want := range map[string]int{
		s.Addr(): 200, "localhost": 200, "LOCALHOST:80": 200, "localhost.:9": 200, "127.0.0.1": 200, "[::1]:9090": 200,
		"[::1]": 200, "10.1.2.3:1": 200,
		"evil.example": 403, "evil.example:9090": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
	} {
		for _, path := range []string{"/metrics", "/status", "/healthz", "/debug/pprof/cmdline"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if res.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != want {
				t.Errorf("%s with host %s: status %d, want %d", path, host, res.StatusCode, want)
			}
			if path == "/debug/pprof/cmdline" && len(os.Args) > 1 && strings.Contains(string(body), os.Args[1]) {
				t.Errorf("the command line shows its arguments: %q", body)
			}
		}
	}
}
