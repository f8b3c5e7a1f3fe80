//go:build service

package story

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
	"time"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/testweb"
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
  server {
    listen 127.0.0.1:%[2]d;
    location /crawls/ {
      proxy_pass %[3]s;
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering on;
      proxy_read_timeout 1h;
    }
  }
}
`

// freePort is a port of this machine that no process listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startNginx puts an nginx before the server of an address.
func startNginx(t *testing.T, port int, upstream string) {
	t.Helper()
	dir := t.TempDir()
	conf := fmt.Sprintf(nginxConf, dir, port, upstream)
	if os.Getuid() == 0 {
		conf = "user root;\n" + conf
	}
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "nginx", "-p", dir, "-c", path)
	var out buffer
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
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nginx does not listen: %s", out.String())
		}
	}
}

// Behind nginx with a base path and buffering on, events arrive while the stream is open, and a client that reconnects again and again misses none.
func TestBehindNginx(t *testing.T) {
	w := web(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6})
	w.Hold(1)
	port := freePort(t)
	public := fmt.Sprintf("http://127.0.0.1:%d/crawls", port)
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, dir, "--max-crawls", "1", "--public-url", public, "--trusted-proxies", "127.0.0.1")
	startNginx(t, port, s.url)
	s.url, s.base = fmt.Sprintf("http://127.0.0.1:%d", port), "/crawls"
	key := must(run(t, nil, "keys", "create", "--scope", "admin", "--data-dir", dir))(t)
	c := s.client(key)
	submit := func() string {
		return must(c.Submit(t.Context(), service.Submission{StartURLs: w.StartURLs()[:1], Settings: settingsFor(w, nil)}, ""))(t).ID
	}
	s.reaches(c, submit(), service.Running)
	waiting := submit() // it stays in the queue, so nothing is sent for it but its events
	got := must(c.Crawl(t.Context(), waiting))(t)
	if link := got.Links["self"]; link != "/crawls/v1/crawls/"+waiting {
		t.Errorf("link %s", link)
	}
	var last int64
	var ids []int64
	for i := range 50 {
		command := service.CommandPause
		if i%2 == 1 {
			command = service.CommandResume
		}
		must(c.Command(t.Context(), waiting, command))(t)
		ctx, cancel := context.WithCancel(t.Context())
		for event, err := range c.Events(ctx, waiting, last) {
			if err != nil {
				t.Fatal(err)
			}
			last = event.ID
			ids = append(ids, last)
			break // the connection is closed, whatever else is on its way
		}
		cancel()
	}
	// All events that there are, by one stream.
	var all []int64
	for event, err := range c.Events(t.Context(), waiting, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, event.ID); len(all) >= len(ids) {
			break
		}
	}
	if !slices.Equal(all, ids) {
		t.Errorf("reconnecting gave the events %v, one stream %v", ids, all)
	}
	w.Release()
	s.reaches(c, waiting, service.Queued, service.Paused, service.Running, service.Complete)

	// A slash is added, other paths are not ours, and errors of the server pass through.
	for path, want := range map[string]int{"/crawls/healthz": 200, "/crawls/v1/none": 404, "/crawls/v1/crawls": 401} {
		res := must(http.Get(s.url + path))(t)
		body := must(io.ReadAll(res.Body))(t)
		if err := res.Body.Close(); err != nil || res.StatusCode != want {
			dump, _ := httputil.DumpResponse(res, false)
			t.Errorf("%s: %s%s", path, dump, body)
		}
		if want == 404 && !strings.Contains(res.Header.Get("Content-Type"), "problem+json") {
			t.Errorf("%s: type %s", path, res.Header.Get("Content-Type"))
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
