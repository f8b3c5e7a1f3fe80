//go:build service

package service

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
	"github.com/mapwright/mapwright/internal/test/apitest"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

const nginxConf = `
daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  proxy_buffering on;
  proxy_read_timeout 1h;
  proxy_set_header Host $host;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header Connection "";
  server {
    listen unix:%[2]s;
    location /crawls/ {
      proxy_pass %[4]s;
      proxy_http_version 1.1;
    }
  }
  server {
    listen unix:%[3]s;
    location /crawls/ {
      proxy_pass %[4]s;
      proxy_http_version 1.0;
    }
  }
}
`

// startNginx puts an nginx before the server, and returns transports that lead to it. On its first socket it asks the
// server by HTTP/1.1, on its second by HTTP/1.0 as if nothing was configured: then an answer has no chunks, and nginx
// keeps what comes until a buffer is full, unless the answer says otherwise.
func startNginx(t *testing.T, s *server) (to [2]*http.Transport) {
	t.Helper()
	dir := t.TempDir()
	sockets := [2]string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	conf := fmt.Sprintf(nginxConf, dir, sockets[0], sockets[1], s.url)
	if os.Getuid() == 0 {
		conf = "user root;\n" + conf
	}
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "nginx", "-p", dir, "-c", path)
	var out e2e.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &out, append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin")
	if found, err := exec.LookPath("/usr/sbin/nginx"); err == nil {
		cmd.Path, cmd.Err = found, nil
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // ended by the signal
		if t.Failed() {
			t.Logf("nginx:\n%s", out.String())
		}
	})
	for i, socket := range sockets {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
		s.until("nginx listens", func() bool {
			conn, err := dial(t.Context(), "", "")
			return err == nil && conn.Close() == nil
		})
		to[i] = &http.Transport{DialContext: dial}
		t.Cleanup(to[i].CloseIdleConnections)
	}
	return to
}

// Behind nginx with a base path and buffering on, events arrive while the stream is open and nothing else is sent, and
// a client that reconnects fifty times misses none, whether they came while it was connected, while it was away, or in
// the moment in which it went. Heartbeats would take hours to fill a buffer of nginx.
func TestBehindNginx(t *testing.T) {
	w := e2e.Serve(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6})
	w.Hold(1)
	const public = "http://127.0.0.1/crawls"
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, dir, "--max-crawls", "1", "--public-url", public, "--trusted-proxies", "127.0.0.1")
	to := startNginx(t, s)
	key := must(run(t, nil, "keys", "create", "--scope", "admin", "--data-dir", dir))(t)
	s.base = "/crawls"
	var streams [2]*client.Client
	for i := range to {
		transport := must(apitest.New(s.base, to[i]))(t)
		streams[i] = must(client.New(client.Options{URL: public, Key: key,
			HTTP: &http.Client{Transport: transport}}))(t)
	}
	c := streams[1]
	submit := func() string {
		return must(c.Submit(t.Context(), service.Submission{StartURLs: w.StartURLs()[:1],
			Settings: settingsFor(w, nil)}, ""))(t).ID
	}
	s.reaches(c, submit(), service.Running)
	// it stays in the queue, so nothing is sent for it but its events: no sample pushes one out of a buffer
	waiting := submit()
	got := must(c.Crawl(t.Context(), waiting))(t)
	if link := got.Links["self"]; link != "/crawls/v1/crawls/"+waiting {
		t.Errorf("link %s", link)
	}
	commands := 0
	command := func() {
		t.Helper()
		must(c.Command(t.Context(), waiting, []service.Command{service.CommandPause,
			service.CommandResume}[commands%2]))(t)
		commands++
	}
	var ids []int64 // of the events that came; the first is that of the submission
	for i := range 50 {
		command() // while nothing is connected
		live := false
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		for event, err := range streams[i%2].Events(ctx, waiting, slices.Max(append(ids, 0))) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, event.ID)
			if len(ids) <= commands {
				continue // there are more from before the connection
			}
			if live {
				break
			}
			command() // while the stream is open
			live = true
			if i%3 == 0 {
				break // perhaps before its event
			}
		}
		cancel()
	}
	records := must(service.Open(t.Context(), service.Options{Dir: dir, RecordsOnly: true}))(t)
	defer records.Close()
	var all []int64
	for _, event := range must(records.Events.Since(t.Context(), service.EventFilter{Crawl: waiting}))(t) {
		all = append(all, event.ID)
	}
	if len(all) != commands+1 {
		t.Errorf("%d commands caused %d events beside that of the submission", commands, len(all)-1)
	}
	if !slices.Equal(all, ids) {
		t.Errorf("fifty connections gave the events %v, the database has %v", ids, all)
	}
	w.Release()
	s.reaches(c, waiting, service.Complete)

	// A slash is added, other paths are not ours, and errors of the server pass through.
	plain := &http.Client{Transport: to[1]}
	for path, want := range map[string]int{"/healthz": 200, "/v1/none": 404, "/v1/crawls": 401} {
		res := must(plain.Get(public + path))(t)
		body := must(io.ReadAll(res.Body))(t)
		if err := res.Body.Close(); err != nil || res.StatusCode != want {
			dump, _ := httputil.DumpResponse(res, false)
			t.Errorf("%s: %s%s", path, dump, body)
		}
		if want == 404 && !strings.Contains(res.Header.Get("Content-Type"), "problem+json") {
			t.Errorf("%s: type %s", path, res.Header.Get("Content-Type"))
		}
	}
}
