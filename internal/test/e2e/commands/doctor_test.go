package commands

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// doctor finds faults of the machine and of the way to a site, and leaves nothing behind.
func TestDoctor(t *testing.T) {
	t.Parallel()
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(late.Close)
	closed := "http://" + e2e.ClosedPort(t)
	where := t.TempDir()
	file := filepath.Join(where, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  string
		check string
		state string // empty if it depends on the machine
		says  string // in detail or advice
	}{
		{"", "open files", "ok", "workers"},
		{"", "clock", "unknown", "give a URL"},
		{"--data-dir " + filepath.Join(where, "a", "b"), "disk", "ok", "free in " + where},
		{"--data-dir " + file, "disk", "fault", "not a directory"},
		{"--max-urls 900000000000", "disk", "warning", "free some space"},
		{"--global-frontier-size-limit 1000000000 --bloom-capacity 10000000000 --max-workers 65536", "memory", "", "128 GiB"},
		{"--proxy " + closed, "proxy", "fault", "start the proxy"},
		{late.URL, late.URL, "ok", "robots.txt answers 200"},
		{late.URL, "clock", "warning", "ahead of"},
		{closed, closed, "fault", "check the network"},
	} {
		args := append([]string{"doctor", "--json"}, strings.Fields(c.args)...)
		if !strings.Contains(c.args, "--data-dir") {
			args = append(args, "--data-dir", where)
		}
		got := e2e.Run(t, args...)
		found, fault := false, false
		for line := range strings.Lines(got.Stdout) {
			var f struct{ Check, State, Detail, Advice string }
			if err := json.Unmarshal([]byte(line), &f); err != nil {
				t.Fatal(err)
			}
			fault = fault || f.State == "fault"
			if f.Check == c.check {
				found = (c.state == "" || f.State == c.state) && strings.Contains(f.Detail+" "+f.Advice, c.says)
			}
		}
		if code := map[bool]int{true: 1}[fault]; !found || got.Code != code || got.Stderr != "" {
			t.Errorf("doctor %s: %s is not %s with %q, or the exit status %d is wrong:\n%s", c.args, c.check, c.state, c.says,
				got.Code, got.Stdout)
		}
	}
	if left, err := os.ReadDir(where); err != nil || len(left) != 1 {
		t.Errorf("it left %v, %v", left, err)
	}
	if got := e2e.Run(t, "doctor", closed, "--data-dir", where); got.Code != 1 || !strings.Contains(got.Stdout, "→ check") {
		t.Errorf("exit status %d:\n%s", got.Code, got.Stdout)
	}
	e2e.Refused(t, e2e.Run(t, "doctor", "http://[/", "--max-workers", "0"), "flag --max-workers", "start URL")
}
