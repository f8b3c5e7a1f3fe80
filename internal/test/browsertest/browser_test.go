//go:build browser

package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A tab notices what a page must not do.
func TestBrowserFaults(t *testing.T) {
	b := Start(t)
	policy := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", policy)
		switch r.URL.Path {
		case "/good":
			fmt.Fprint(w, `<!doctype html><html lang="en"><title>Good</title><main><h1>Good</h1></main>`)
		case "/error":
			fmt.Fprint(w, `<!doctype html><title>a</title><script>console.error("a fault")</script>`)
		case "/exception":
			fmt.Fprint(w, `<!doctype html><title>a</title><script>undefinedFunction()</script>`)
		default:
			fmt.Fprint(w, `<!doctype html><title>a</title><img src="http://elsewhere.test/x.png" alt="">`)
		}
	}))
	defer server.Close()
	for _, c := range []struct{ path, policy, want string }{
		{"/good", "", ""},
		{"/error", "", "a fault"},
		{"/exception", "", "undefinedFunction"},
		{"/image", "", "ERR_NAME_NOT_RESOLVED"},
		{"/error", "script-src 'none'", "Content Security Policy"},
	} {
		policy = c.policy
		tab := b.Tab(t, Look{})
		tab.Open(server.URL + c.path)
		got := strings.Join(tab.Faults(), "\n")
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: the faults are %q, want %q", c.path, got, c.want)
		}
		if c.path == "/good" {
			tab.Axe()
			tab.FitsWidth()
		}
	}
}
