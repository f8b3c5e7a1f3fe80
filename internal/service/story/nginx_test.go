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
	"github.com/mapwright/mapwright/internal/service/client"
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
  proxy_buffering on;
  proxy_read_timeout 1h;
  proxy_set_header Host $host;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header Connection "";
  server {
    listen 127.0.0.1:%[2]d;
    location /crawls/ {
      proxy_pass %[4]s;
      proxy_http_version 1.1;
    }
  }
  server {
    listen 127.0.0.1:%[3]d;
    location /crawls/ {
      proxy_pass %[4]s;
      proxy_http_version 1.0;
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

// startNginx puts an nginx before the server of an address. On its first port it asks the server by HTTP/1.1, on its second by HTTP/1.0 as if nothing was configured: then an answer
// has no chunks, and nginx keeps what comes until a buffer is full, unless the answer says otherwise.
func startNginx(t *testing.T, ports [2]int, upstream string) {
	t.Helper()
	dir := t.TempDir()
	conf := fmt.Sprintf(nginxConf, dir, ports[0], ports[1], upstream)
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
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[1]))
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nginx does not listen: %s", out.String())
		}
	}
}

// eventWithin is how soon an event reaches a client whose stream is open.
const eventWithin = 2 * time.Second

// Behind nginx with a base path and buffering on, events arrive within two seconds while the stream is open, and a client that reconnects fifty times misses none, whether they came while it
// was connected, while it was away, or in the moment in which it went.
func TestBehindNginx(t *testing.T) {
	w := web(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6})
	w.Hold(1)
	ports := [2]int{freePort(t), freePort(t)}
	public := fmt.Sprintf("http://127.0.0.1:%d/crawls", ports[0])
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, dir, "--max-crawls", "1", "--public-url", public, "--trusted-proxies", "127.0.0.1")
	startNginx(t, ports, s.url)
	key := must(run(t, nil, "keys", "create", "--scope", "admin", "--data-dir", dir))(t)
	s.base = "/crawls"
	var streams [2]*client.Client
	for i := range ports {
		s.url = fmt.Sprintf("http://127.0.0.1:%d", ports[i])
		streams[i] = s.client(key)
	}
	c := streams[1]
	submit := func() string {
		return must(c.Submit(t.Context(), service.Submission{StartURLs: w.StartURLs()[:1], Settings: settingsFor(w, map[string]any{"timeout": "300s"})}, ""))(t).ID
	}
	s.reaches(c, submit(), service.Running)
	waiting := submit() // it stays in the queue, so nothing is sent for it but its events: no sample pushes one out of a buffer
	got := must(c.Crawl(t.Context(), waiting))(t)
	if link := got.Links["self"]; link != "/crawls/v1/crawls/"+waiting {
		t.Errorf("link %s", link)
	}
	commands := 0
	var at time.Time // when the last command was answered
	command := func() {
		t.Helper()
		must(c.Command(t.Context(), waiting, []service.Command{service.CommandPause, service.CommandResume}[commands%2]))(t)
		commands, at = commands+1, time.Now()
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
			if took := time.Since(at); took > eventWithin {
				t.Errorf("connection %d: an event came %s after the last command", i, took)
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
