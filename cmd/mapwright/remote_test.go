package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/service"
)

// Commands of the service that cannot be done say what is wrong and what to do.
func TestServiceMessages(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const nobody = "http://127.0.0.1:1" // a port that is given to no listener
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	busy := "serve --data-dir " + filepath.Join(dir, "new") + " --listen " + listener.Addr().String()
	for _, c := range []struct {
		args string
		want []string
		code int
	}{
		{busy, []string{"cannot listen"}, exitUsage},
		{busy + " --rate-limit inf", []string{"--rate-limit: must be a number from 0.01 to 1,000,000"}, exitUsage},
		{busy + " --rate-limit 1e300", []string{"--rate-limit: must be a number"}, exitUsage},
		{busy + " --rate-limit 1e-300", []string{"--rate-limit: must be a number"}, exitUsage},
		{busy + " --rate-limit 0", []string{"cannot listen"}, exitUsage},
		{busy + " --memory-limit 0", []string{"--memory-limit: must be at least 4MiB", "--max-crawls 4"}, exitUsage},
		{busy + " --memory-limit 100MiB --max-crawls 26", []string{"--memory-limit: must be at least 4MiB"}, exitUsage},
		{busy + " --memory-limit 100MiB --max-crawls 25", []string{"cannot listen"}, exitUsage},
		{"remote pause --key k", []string{"give its ID", "remote list"}, exitUsage},
		{"remote watch a b --key k", []string{`"b"`, "mapwright remote watch --help"}, exitUsage},
		{"remote nothing", []string{`"nothing"`, "mapwright remote --help"}, exitUsage},
		{"remote list", []string{"no key", keyVariable}, exitUsage},
		{"remote queue --key k --server " + nobody, []string{"cannot reach server " + nobody, "mapwright serve",
			serverVariable}, exitFailed},
		{"remote health --server " + nobody, []string{"cannot reach server " + nobody}, exitFailed},
		{"remote health --server nowhere", []string{`"nowhere" is not an http or https URL`}, exitUsage},
		{"serve --data-dir " + dir + " --listen " + listener.Addr().String(),
			[]string{"cannot listen on " + listener.Addr().String(), "--listen"}, exitUsage},
		{"serve --listen 127.0.0.1:0 --data-dir " + filepath.Join(dir, "file", "x"), []string{"data directory " + dir},
			exitFailed},
		{"serve --listen 127.0.0.1:0 --rate-limit NaN --max-crawls 0 --data-dir " + filepath.Join(dir, "new"),
			[]string{"--rate-limit: must be a number", "--max-crawls: must be"}, exitUsage},
		{"keys list --data-dir " + filepath.Join(dir, "none"),
			[]string{"has no database of a server", "mapwright serve"}, exitUsage},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(c.args), nil, stdio{&bytes.Buffer{}, &out, &errs})
		if code != c.code {
			t.Errorf("%s: exit status %d, want %d", c.args, code, c.code)
		}
		for _, text := range c.want {
			if !strings.Contains(errs.String(), text) {
				t.Errorf("%s: %q lacks %q", c.args, errs.String(), text)
			}
		}
	}
	// A server that cannot listen leaves nothing behind.
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

// Events are shown as people read them.
// remote health needs no key. An answer other than 200 is a failure that says why.
func TestRemoteHealth(t *testing.T) {
	healthy := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/base/healthz":
			http.NotFound(w, r)
		case healthy:
			fmt.Fprintln(w, "ok")
		default:
			http.Error(w, "the disk is full", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	for _, well := range []bool{true, false} {
		healthy = well
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"remote", "health", "--server", server.URL + "/base/"}, nil,
			stdio{&bytes.Buffer{}, &out, &errs})
		if well && (code != exitComplete || out.String() != "ok\n" || errs.Len() > 0) {
			t.Errorf("exit status %d, %q, %q", code, out.String(), errs.String())
		}
		if !well && (code != exitFailed || !strings.Contains(errs.String(), "status 503: the disk is full")) {
			t.Errorf("exit status %d, %q", code, errs.String())
		}
	}
}

// What a server sends does not reach the terminal as control sequences.
func TestRemoteEscapesWhatItShows(t *testing.T) {
	const title = "\x1b]0;title\x07"
	crawl := map[string]any{"id": "c" + title, "state": "failed", "errors": []string{"x509: " + title}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/events"):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 1\nevent: crawl.finished\ndata: {\"id\":1,\"type\":\"crawl.finished\",\"crawl\":\"c\"}\n\n")
		case r.Method == http.MethodGet && r.URL.Path == "/v1/crawls":
			json.NewEncoder(w).Encode(map[string]any{"items": []any{crawl}, "next_cursor": title})
		default:
			w.WriteHeader(map[string]int{http.MethodGet: 200, http.MethodPost: 202}[r.Method])
			json.NewEncoder(w).Encode(crawl)
		}
	}))
	defer server.Close()
	for _, args := range [][]string{{"list"}, {"watch", "c"}, {"submit", "http://a.test/", "--watch"}} {
		var out, errs bytes.Buffer
		run(t.Context(), append(append([]string{"remote"}, args...), "--key", "k", "--server", server.URL), nil,
			stdio{&bytes.Buffer{}, &out, &errs})
		if text := out.String() + errs.String(); strings.ContainsAny(text, "\x1b\x07") || !strings.Contains(text, "title") {
			t.Errorf("%v: %q, %q", args, out.String(), errs.String())
		}
	}
}

func TestEventText(t *testing.T) {
	for _, c := range []struct {
		event service.EventType
		data  string
		want  string
	}{
		{service.CrawlQueued, `{"state":"queued"}`, "crawl.queued"},
		{service.CrawlFinished, `{"state":"partial","reason":"Reached max_urls limit of 5, stopping crawl"}`,
			"crawl.finished  partial: Reached max_urls limit of 5, stopping crawl"},
		{service.CrawlPaused, `{"state":"paused","waiting":{"code":"operator","detail":"paused by a key"}}`,
			"crawl.paused  paused by a key"},
		{service.LimitWarning, `{"limit":"pages","percent":80}`, "limit.warning  80 % of the limit of pages is used"},
		{service.HostBlocked, `{"host":"a.test","reason":"it fails"}`, "host.blocked  a.test: it fails"},
		{service.Gap, `{"has":1,"from":2,"detail":"read the crawls again"}`, "gap  read the crawls again"},
		{service.CrawlDeleted, ``, "crawl.deleted"},
		{service.Sample, `{"done":1200,"pending":3,"in_flight":2,"pages_per_second_now":1.5}`,
			"1,200 done, 3 pending, 2 in flight, 1.5 pages/s"},
	} {
		text := eventText(&service.Event{Type: c.event, Data: []byte(c.data)})
		if _, got, _ := strings.Cut(text, "  "); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.event, c.data, got, c.want)
		}
	}
}
