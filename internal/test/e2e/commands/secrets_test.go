//go:build unix

package commands

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// What may hold secrets can be read only by the user who crawls, and outputs for publication by all users, as far as
// the umask allows.
func TestModesOfFiles(t *testing.T) {
	// inherited by the program; other tests of this package do not run meanwhile, since this one is not parallel
	was := syscall.Umask(0)
	_, dir, p := e2e.Hanging(t, "--header", "Authorization: Bearer tok-123", "--log-file",
		filepath.Join(t.TempDir(), "log"))
	syscall.Umask(was)
	want := map[string]os.FileMode{"": 0o700 | os.ModeDir, "state": 0o700 | os.ModeDir, "crawl.json": 0o600,
		"control.sock": 0o600 | os.ModeSocket}
	check := func() {
		t.Helper()
		for name, mode := range want {
			if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
				t.Errorf("%q: %v, %v, want %v", name, info.Mode(), err, mode)
			}
		}
	}
	check()

	// A client that sends without end is cut off, and the crawl still answers others.
	conn, err := net.Dial("unix", filepath.Join(dir, "control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent, chunk := 0, append([]byte(`{"command":"`), bytes.Repeat([]byte{'x'}, 1<<20)...)
	for err == nil && sent < 64<<20 {
		var n int
		n, err = conn.Write(chunk)
		sent += n
		chunk = chunk[12:]
		chunk = append(chunk, bytes.Repeat([]byte{'x'}, 12)...)
	}
	if err == nil {
		t.Errorf("the control socket took %d bytes", sent)
	}
	if s := e2e.Run(t, "status", "--data-dir", dir); s.Code != 0 || strings.Contains(s.Stdout, "tok-123") {
		t.Errorf("status %d: %s", s.Code, s.Stdout)
	}

	p.Signal(os.Interrupt)
	if got := p.Wait(); got.Code != 130 || strings.Contains(got.Stdout+got.Stderr, "tok-123") {
		t.Errorf("exit status %d", got.Code)
	}
	delete(want, "control.sock")
	want["sitemap.jsonl"], want["sitemap.xml"], want["report.json"] = 0o644, 0o644, 0o644
	check()
}

// Links in the place of temporary files are removed, and nothing is written through them.
func TestTemporaryFilesAreNotFollowed(t *testing.T) {
	t.Parallel()
	dir := e2e.Crawled(t, "--links")
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sitemap.jsonl", "sitemap.xml", "sitemap-00001.xml", "sitemap.csv", "links.jsonl",
		"report.json", "crawl.json"} {
		if err := os.Symlink(victim, filepath.Join(dir, name+".mapwright.tmp")); err != nil {
			t.Fatal(err)
		}
	}
	e2e.Succeeded(t, e2e.Run(t, "export", "--data-dir", dir, "--format", "jsonl,xml,csv,links"))
	e2e.Succeeded(t, e2e.Run(t, "resume", "--data-dir", dir, "--max-depth", "7"))
	if text, err := os.ReadFile(victim); err != nil || string(text) != "untouched" {
		t.Errorf("the file that the links point to: %q, %v", text, err)
	}
	if info, err := os.Lstat(filepath.Join(dir, "sitemap.xml")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("sitemap.xml: %v, %v", info, err)
	}
}

// The record of files is not followed either, if another user put a link in its place in a directory that is exported
// to.
func TestRecordOfFilesIsNotFollowed(t *testing.T) {
	t.Parallel()
	dir, out := e2e.Crawled(t), t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	e2e.Write(t, victim, "untouched")
	if err := os.Symlink(victim, filepath.Join(out, "mapwright.files")); err != nil {
		t.Fatal(err)
	}
	e2e.Succeeded(t, e2e.Run(t, "export", "--data-dir", dir, "--output", out))
	if text, err := os.ReadFile(victim); err != nil || string(text) != "untouched" {
		t.Errorf("the file that the link points to: %q, %v", text, err)
	}
}

// A crawl in a directory whose path is too long for a socket can be asked, even if the path of the temporary directory
// is too long too.
func TestControlSocketInALongPath(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), strings.Repeat("a-long-name", 8), strings.Repeat("another-long-name", 5))
	if err := os.MkdirAll(long, 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{"TMPDIR=" + long}
	const all = 3
	web := e2e.Serve(t, testweb.Config{Pages: all, Faults: testweb.OnAll(testweb.Hang{})})
	dir := filepath.Join(long, "data")
	p := e2e.Invocation{Args: []string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site",
		"--resolve", web.Resolve(), "--data-dir", dir, "--timeout", "1h"}, Env: env}.Start(t)
	// An export before the first page says on standard error that there is nothing to write.
	p.Until("its status shows every page but the one that hangs", func() bool {
		if e2e.Pages(web) <= all {
			return false // it may not have its socket yet
		}
		got := e2e.Invocation{Args: []string{"status", "--json", "--data-dir", dir}, Env: env}.Run(t)
		e2e.Succeeded(t, got)
		s := e2e.Parse[e2e.Live](t, got.Stdout)
		return s.PID == p.Pid() && s.Settled(all)
	})
	e2e.Succeeded(t, e2e.Invocation{Args: []string{"export", "--data-dir", dir, "--output", t.TempDir()},
		Env: env}.Run(t))
	// Without the socket the message says so.
	if err := os.Remove(filepath.Join(dir, "control.sock")); err != nil {
		t.Fatal(err)
	}
	e2e.Refused(t, e2e.Run(t, "status", "--data-dir", dir), "in use by process", "cannot be asked", "try again")
	if left, err := filepath.Glob(filepath.Join(long, "mapwright-*")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	p.Signal(os.Interrupt)
	p.Wait()
}
