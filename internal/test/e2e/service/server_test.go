package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
	"github.com/mapwright/mapwright/internal/test/apitest"
	"github.com/mapwright/mapwright/internal/test/e2e"
)

// patience is how long anything may take on a machine that is busy with other things. Only a test that fails waits for
// it.
const patience = 5 * time.Minute

// server is a running 'mapwright serve'.
type server struct {
	t    testing.TB
	dir  string
	url  string // with the base path
	base string // path
	cmd  *exec.Cmd
	out  e2e.Buffer
	done chan struct{} // closed when the process has ended
}

// environment is one without the settings of the user who runs the tests.
func environment(t testing.TB, more ...string) []string {
	return append([]string{"PATH=" + filepath.Dir(e2e.Binary) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"TMPDIR=" +
			t.TempDir()}, more...)
}

// startServer starts the server in a directory, and waits until it answers.
func startServer(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	return startUnder(t, nil, dir, args...)
}

// patient are flags of a server whose crawls wait for the requests under way when they stop, as long as the web holds
// them.
func patient(t testing.TB) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte("grace: 1h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--min-free", "0", "--config", path}
}

// startUnder starts the server by another command, to which it is given as arguments.
func startUnder(t testing.TB, under []string, dir string, args ...string) *server {
	t.Helper()
	s := &server{t: t, dir: dir, done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	line := slices.Concat(under, []string{e2e.Binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", dir}, args)
	s.cmd = exec.CommandContext(ctx, line[0], line[1:]...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Env = &s.out, &s.out, environment(t)
	if err := s.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		defer cancel()
		_ = s.cmd.Wait() // how it ended is in its state
	}()
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("mapwright serve, exit status %d:\n%s", s.cmd.ProcessState.ExitCode(), s.out.String())
		}
	})
	address := regexp.MustCompile(`listening on (https?://127\.0\.0\.1:\d+)`)
	s.until("it listens", func() bool {
		found := address.FindStringSubmatch(s.out.String())
		if found != nil {
			s.url = found[1]
		}
		return found != nil
	})
	return s
}

// until waits until something is so. It gives up when the server ends first, or takes too long.
func (s *server) until(what string, so func() bool) {
	s.t.Helper()
	look, late := time.NewTicker(2*time.Millisecond), time.After(patience)
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-s.done:
			s.t.Fatalf("the server ended before %s", what)
		case <-late:
			s.t.Fatalf("it took too long until %s", what)
		}
	}
}

func (s *server) signal(sig os.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
}

// kill ends the server as a power cut would end it.
func (s *server) kill() {
	s.signal(syscall.SIGKILL)
	<-s.done
}

// stop ends the server in good order.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Fatal("the server does not stop")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("exit status %d after SIGTERM", code)
	}
}

// httpClient is one that compares every exchange with the document.
func httpClient(t testing.TB, base string) *http.Client {
	t.Helper()
	inner := &http.Transport{}
	t.Cleanup(inner.CloseIdleConnections)
	transport, err := apitest.New(base, inner)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// client is a client with a key.
func (s *server) client(key string) *client.Client {
	s.t.Helper()
	c, err := client.New(client.Options{URL: s.url + s.base, Key: key, HTTP: httpClient(s.t, s.base)})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// run runs a command of the program and returns what it prints.
func run(t testing.TB, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, e2e.Binary, args...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr = environment(t, env...), &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("mapwright %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// must gives the result of a call, or fails the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// reaches waits until a crawl is in one of some states.
func (s *server) reaches(c *client.Client, id string, states ...service.State) *service.Crawl {
	s.t.Helper()
	var crawl *service.Crawl
	s.until(fmt.Sprintf("crawl %s is %v", id, states), func() bool {
		var err error
		if crawl, err = c.Crawl(s.t.Context(), id); err != nil {
			s.t.Fatal(err)
		}
		for _, state := range states {
			if crawl.State == state {
				return true
			}
		}
		if crawl.State.Ended() {
			s.t.Fatalf("crawl %s is %s (%s %v), want %v", id, crawl.State, crawl.Reason, crawl.Errors, states)
		}
		return false
	})
	return crawl
}
