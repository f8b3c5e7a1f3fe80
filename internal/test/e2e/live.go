package e2e

import (
	"path/filepath"
	"testing"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Live is what tests read of 'status --json'.
type Live struct {
	SchemaVersion int            `json:"schema_version"`
	State         string         `json:"state"`
	Generation    int            `json:"generation"`
	PID           int            `json:"pid"`
	Profile       string         `json:"profile"`
	StartURLs     []string       `json:"start_urls"`
	Found         int            `json:"found"`
	Done          int            `json:"done"`
	Pending       int            `json:"pending"`
	InFlight      int            `json:"in_flight"`
	Outcomes      map[string]int `json:"outcomes"`
	Hosts         map[string]int `json:"hosts"`
	StartedAt     string         `json:"started_at"`
	Elapsed       float64        `json:"elapsed_seconds"`
}

// Settled reports whether a crawl has nothing in flight but one page and has recorded the others.
func (l Live) Settled(ok int) bool {
	return l.InFlight == 1 && l.Outcomes["ok"] == ok
}

// Status runs 'status --json' on a data directory.
func Status(t *testing.T, dir string) Live {
	t.Helper()
	got := Run(t, "status", "--json", "--data-dir", dir)
	Succeeded(t, got)
	return Parse[Live](t, got.Stdout)
}

// Flush makes a running crawl write to disk what it knows, also which page is in flight: an export begins with that.
func Flush(t *testing.T, dir string) {
	t.Helper()
	Succeeded(t, Run(t, "export", "--data-dir", dir, "--output", t.TempDir()))
}

// Hanging is a web of which every page answers but one, and a crawl of it that has come to that one.
func Hanging(t *testing.T, flags ...string) (web *testweb.Server, dir string, p *Process) {
	t.Helper()
	const all = 30
	web = Serve(t, testweb.Config{Pages: all, Faults: testweb.OnAll(testweb.Hang{})})
	dir = filepath.Join(t.TempDir(), "data")
	p = Start(t, append([]string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve",
		web.Resolve(), "--data-dir", dir, "--timeout", "1h"}, flags...)...)
	p.Until("only the page that hangs is left", func() bool {
		return Pages(web) == all+1 &&
			Status(t, dir).Settled(all)
	})
	return web, dir, p
}
