package e2e

import (
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// field is the value of a line of a two-column table; empty if there is no such line.
func field(table, name string) string {
	for line := range strings.Lines(table) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// The closing table and status give the same command for a crawl that a limit ended, and status says why it ended.
func TestStatusSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	root := site(t, map[string]string{"/": `<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>`, "/1": "1"}, nil).URL
	dir := filepath.Join(t.TempDir(), "my site")
	got := run(t, "crawl", root, "--profile", "own-site", "--max-urls-per-host", "2", "--data-dir", dir)
	want := `mapwright resume --data-dir "` + dir + `" --max-urls-per-host N (in all; 0 is no limit)`
	if next := field(got.stdout, "Go on with"); got.code != 3 || next != want {
		t.Errorf("exit %d, goes on with %q, want %q", got.code, next, want)
	}
	status := run(t, "status", "--data-dir", dir)
	succeeded(t, status)
	if next := field(status.stdout, "Go on with"); next != want {
		t.Errorf("status goes on with %q, want %q", next, want)
	}
	const reason = "Reached max_urls_per_host limit of 2 on some hosts"
	if state := field(status.stdout, "State"); state != "partial ("+reason+")" {
		t.Errorf("state %q", state)
	}
	status = run(t, "status", "--json", "--data-dir", dir)
	if live := parse[struct{ State, Reason string }](t, status.stdout); live.State != "partial" ||
		live.Reason != reason {
		t.Errorf("status --json: %+v", live)
	}
}

// inspect prints what a crawl would record of a page that cannot be fetched, and fails.
func TestInspectOfAPageThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	addr := closedPort(t)
	url := "http://" + addr + "/page"
	cause := "dial tcp " + addr + ": connect: connection refused"
	if runtime.GOOS == "windows" {
		cause = "dial tcp " + addr
	}
	got := run(t, "inspect", "--json", "--ignore-robots", url)
	ins := parse[inspection](t, got.stdout)
	if got.code != 1 || ins.URL != url || ins.Outcome != "connect_error" || !strings.HasPrefix(ins.Error, cause) ||
		ins.Indexable || ins.IndexableReason != "error" {
		t.Errorf("exit %d:\n%s", got.code, got.stdout)
	}
	got = run(t, "inspect", "--ignore-robots", url)
	if got.code != 1 || field(got.stdout, "Outcome") != "connect_error" ||
		!strings.HasPrefix(field(got.stdout, "Error"), cause) {
		t.Errorf("exit %d:\n%s", got.code, got.stdout)
	}
	whole := "it is longer than what is sent"
	resolve := handlers(t, map[string]http.HandlerFunc{"a.test": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
		w.Write([]byte(whole[:5]))
	}})
	half := run(t, "inspect", "--json", "--ignore-robots", "--resolve", resolve, "http://a.test/")
	if ins := parse[inspection](t, half.stdout); half.code != 1 || ins.Outcome != "read_error" ||
		ins.StatusCode != 200 || ins.Error != "body: unexpected EOF" || len(ins.Links) != 0 {
		t.Errorf("a page that breaks off: exit %d:\n%s", half.code, half.stdout)
	}
	if want := "mapwright: " + url + " was not fetched: connect_error (" + cause; !strings.HasPrefix(got.stderr, want) {
		t.Errorf("%q does not begin with %q", got.stderr, want)
	}
}

// An export that has nothing to write says so.
func TestExportOfNothing(t *testing.T) {
	t.Parallel()
	root := site(t, map[string]string{"/": "<meta name=robots content=noindex>"}, nil).URL
	dir, out := filepath.Join(t.TempDir(), "data"), t.TempDir()
	if got := run(t, "crawl", root, "--profile", "own-site", "--data-dir", dir); got.code != 0 {
		t.Fatalf("exit %d", got.code)
	}
	got := run(t, "export", "--data-dir", dir, "--format", "xml", "--output", out)
	if got.code != 0 || got.stdout != "1 URL, 0 indexable: no file was written\n" {
		t.Errorf("%q", got.stdout)
	}
}
