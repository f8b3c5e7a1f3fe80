package service

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
)

// Credentials that a user gives go to their origins, and are shown nowhere. No caller can name a file of the server.
func TestCredentialsOfUsers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string]bool{} // guarded by mu; by host, whether a password arrived
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		mu.Lock()
		got[r.Host] = got[r.Host] || password == "t-s3cret"
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="http://other.test/">x</a> <a href="/2">x</a>`)
	}))
	t.Cleanup(site.Close)
	base := config.Layer{"resolve": {Texts: []string{"*:80:" + site.Listener.Addr().String()}, From: "test"},
		"max-delay-ms": {Texts: []string{"0"}, From: "test"}, "min-delay-ms": {Texts: []string{"0"}, From: "test"}}
	ts := openService(t, Options{Base: []config.Layer{base}}).run()
	tenant := &Caller{Account: ts.admin.Account, System: "test", Scopes: []Scope{ScopeWrite}}
	c := ts.submit(tenant, "http://start.test/", "scope", `"any"`, "basic_auth", `["ann:t-s3cret@start.test"]`)
	c = ts.awaitState(c.ID, Complete)
	mu.Lock()
	if !got["start.test"] || got["other.test"] || len(got) != 2 {
		t.Errorf("passwords arrived at %v", got)
	}
	mu.Unlock()
	if text := ToJSON(c); strings.Contains(text, "t-s3cret") || !strings.Contains(text, "(hidden)@start.test") {
		t.Errorf("the crawl is shown as %s", text)
	}
	for _, name := range []string{"crawl.json", "report.json", "mapwright.log"} {
		text, err := os.ReadFile(filepath.Join(string(ts.Crawls.DataDir(c.ID)), name))
		if err != nil || strings.Contains(string(text), "t-s3cret") {
			t.Errorf("%s: %v, or it has the password", name, err)
		}
	}
	for _, admin := range []bool{false, true} {
		loaded, faults := load(t, settingsRequest{admin: admin}, map[string]any{"basic_auth": []string{"@/etc/passwd"}})
		if loaded != nil || len(faults) != 1 || faults[0].Code != faultPermission {
			t.Errorf("a file of the server: %v", faults)
		}
	}
}
