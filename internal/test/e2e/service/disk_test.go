package service

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// onSmallDisk begins a command line that runs a shell's script with the rest of the line as its arguments, in a file
// system of 420 MiB that is mounted at a directory.
func onSmallDisk(t *testing.T, script string) func(dir string) []string {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root on Linux can mount a small file system")
	}
	under := func(script, dir string) []string {
		return []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs -o size=420m tmpfs "$0" && ` + script, dir}
	}
	if out, err := exec.Command("unshare", under("true", t.TempDir())[1:]...).CombinedOutput(); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v %s", err, out)
	}
	return func(dir string) []string { return under(script, dir) }
}

// A server starts on a full disk, with the space of its reserve: its users need it to delete crawls. Nothing is added.
func TestStartOnAFullDisk(t *testing.T) {
	small := t.TempDir()
	dir := filepath.Join(small, "data")
	under := onSmallDisk(t, `"$1" keys create --data-dir "$0/data" >"$0/key" && { dd if=/dev/zero of="$0/fill" bs=4k; `+
		`test -e "$0/data/reserve" && exec "$@"; }`)
	s := startUnder(t, under(small), dir, "--min-free", "0")
	key := must(os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "root", small, "key")))(t)
	c := s.client(strings.TrimSpace(string(key)))
	wantFull(t, c)
	var mine service.List[service.Key]
	s.send(c, "GET", "/v1/keys", "", &mine)
	s.send(c, "DELETE", "/v1/keys/"+mine.Items[0].ID, "", nil)
}

// wantFull submits a crawl, which is refused because of the disk.
func wantFull(t *testing.T, c *client.Client) {
	t.Helper()
	_, err := c.Submit(t.Context(), service.Submission{StartURLs: []string{"http://site.example/"}}, "")
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusInsufficientStorage ||
		!strings.HasSuffix(e.Type, "/problems/disk-full") {
		t.Errorf("a submission on a full disk: %v", err)
	}
}

// A disk that is really full in the middle of a crawl: the crawl pauses and says why, the database records it with the
// space of its reserve, and the crawl goes on by itself when there is space again, with nothing lost and no page
// counted twice.
func TestDiskIsFull(t *testing.T) {
	under := onSmallDisk(t, "exec \"$@\"")
	const pages = 60
	w := e2e.Serve(t, testweb.Config{Seed: 4, Pages: pages, PageSize: 2000, Links: 8})
	small := t.TempDir()
	dir := filepath.Join(small, "data")
	s := startUnder(t, under(small), dir, "--min-free", "0", "--max-crawls", "1")
	// The server alone sees the small file system; its root directory leads there.
	seen := filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "root", small)
	keys := exec.Command("nsenter", "--mount", "--target", strconv.Itoa(s.cmd.Process.Pid), e2e.Binary, "keys",
		"create",
		"--scope", "admin", "--data-dir", dir)
	keys.Env = environment(t)
	c := s.client(strings.TrimSpace(string(must(keys.Output())(t))))
	w.Hold(20)
	crawl := must(c.Submit(t.Context(), service.Submission{StartURLs: w.StartURLs(), Settings: settingsFor(w, nil)},
		""))(t)
	other := must(c.Submit(t.Context(), service.Submission{StartURLs: w.StartURLs(), Settings: settingsFor(w, nil)},
		""))(t)
	deleted := must(c.Submit(t.Context(), service.Submission{StartURLs: w.StartURLs()}, ""))(t)
	s.until("pages were fetched", func() bool { return w.HostStats(0).Pages > 20 })
	if _, err := os.Stat(filepath.Join(seen, "data", "reserve")); err != nil {
		t.Fatalf("the server has no reserve: %v", err)
	}
	fill := filepath.Join(seen, "fill")
	fillUp(t, fill)
	w.Release()
	crawl = s.reaches(c, crawl.ID, service.Paused)
	if crawl.Waiting == nil || crawl.Waiting.Code != service.WaitDisk || crawl.Desired != service.DesiredRun {
		t.Errorf("the crawl is paused for %+v, desired %s", crawl.Waiting, crawl.Desired)
	}
	wantFull(t, c)
	s.send(c, "DELETE", "/v1/crawls/"+deleted.ID, "", nil)
	s.until("a crawl is deleted", func() bool {
		_, err := c.Crawl(t.Context(), deleted.ID)
		e, ok := errors.AsType[*client.Error](err)
		return ok && e.Status == http.StatusNotFound
	})
	s.until("a crawl waits for the disk", func() bool {
		other = must(c.Crawl(t.Context(), other.ID))(t)
		return other.Waiting != nil && other.Waiting.Code == service.WaitDisk
	})
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{crawl.ID, other.ID} {
		crawl = s.reaches(c, id, service.Complete)
		if crawl.Found != pages || crawl.Outcomes["ok"] != pages || crawl.PagesCounted != pages {
			t.Errorf("%d found, %d counted, %v", crawl.Found, crawl.PagesCounted, crawl.Outcomes)
		}
		text := must(os.ReadFile(filepath.Join(seen, "data", "crawls", id, "sitemap.jsonl")))(t)
		if n := strings.Count(string(text), "\n"); n != pages {
			t.Errorf("the export has %d lines", n)
		}
	}
	var used service.Usage
	if s.send(c, "GET", "/v1/usage", "", &used); used.Pages.Used != 2*pages || used.Pages.Granted != 0 {
		t.Errorf("%d pages used and %d reserved, want %d", used.Pages.Used, used.Pages.Granted, 2*pages)
	}
	s.until("the reserve is there again", func() bool {
		_, err := os.Stat(filepath.Join(seen, "data",
			"reserve"))
		return err == nil
	})
	s.stop()
}

// fillUp writes a file until the disk has no byte left.
func fillUp(t *testing.T, path string) {
	t.Helper()
	file := must(os.Create(path))(t)
	for size := 1 << 20; size > 0; {
		switch _, err := file.Write(make([]byte, size)); {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}
