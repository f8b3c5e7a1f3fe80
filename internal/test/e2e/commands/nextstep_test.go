package commands

import (
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// The closing table and status give the same command for a crawl that a limit ended, and status says why it ended.
func TestStatusSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	root := e2e.Site(t, map[string]string{"/": `<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>`, "/1": "1"}, nil).URL
	dir := filepath.Join(t.TempDir(), "my site")
	got := e2e.Run(t, "crawl", root, "--profile", "own-site", "--max-urls-per-host", "2", "--data-dir", dir)
	want := `mapwright resume --data-dir "` + dir + `" --max-urls-per-host N (in all; 0 is no limit)`
	if next := e2e.Field(got.Stdout, "Go on with"); got.Code != 3 || next != want {
		t.Errorf("exit %d, goes on with %q, want %q", got.Code, next, want)
	}
	status := e2e.Run(t, "status", "--data-dir", dir)
	e2e.Succeeded(t, status)
	if next := e2e.Field(status.Stdout, "Go on with"); next != want {
		t.Errorf("status goes on with %q, want %q", next, want)
	}
	const reason = "Reached max_urls_per_host limit of 2 on some hosts"
	if state := e2e.Field(status.Stdout, "State"); state != "partial ("+reason+")" {
		t.Errorf("state %q", state)
	}
	status = e2e.Run(t, "status", "--json", "--data-dir", dir)
	if live := e2e.Parse[struct{ State, Reason string }](t, status.Stdout); live.State != "partial" ||
		live.Reason != reason {
		t.Errorf("status --json: %+v", live)
	}
}

// The closing table of a crawl in which nothing answered says how to begin again, since a resume has nothing to do.
func TestFailedCrawlSaysHowToTryAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "http://"+e2e.ClosedPort(t)+"/", "--ignore-robots", "--max-retries", "0", "--data-dir", dir)
	want := "mapwright wipe --data-dir " + dir + ", then the same command: nothing is left that resume would fetch"
	if next := e2e.Field(got.Stdout, "Try again"); got.Code != 1 || next != want {
		t.Errorf("exit %d, try again %q, want %q", got.Code, next, want)
	}
}

// inspect prints what a crawl would record of a page that cannot be fetched, and fails.
func TestInspectOfAPageThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	addr := e2e.ClosedPort(t)
	url := "http://" + addr + "/page"
	cause := "dial tcp " + addr + ": connect: connection refused"
	if runtime.GOOS == "windows" {
		cause = "dial tcp " + addr
	}
	got := e2e.Run(t, "inspect", "--json", "--ignore-robots", url)
	ins := e2e.Parse[inspection](t, got.Stdout)
	if got.Code != 1 || ins.URL != url || ins.Outcome != "connect_error" || !strings.HasPrefix(ins.Error, cause) ||
		ins.Indexable || ins.IndexableReason != "error" {
		t.Errorf("exit %d:\n%s", got.Code, got.Stdout)
	}
	got = e2e.Run(t, "inspect", "--ignore-robots", url)
	if got.Code != 1 || e2e.Field(got.Stdout, "Outcome") != "connect_error" ||
		!strings.HasPrefix(e2e.Field(got.Stdout, "Error"), cause) {
		t.Errorf("exit %d:\n%s", got.Code, got.Stdout)
	}
	whole := "it is longer than what is sent"
	resolve := e2e.Handlers(t, map[string]http.HandlerFunc{"a.test": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
		w.Write([]byte(whole[:5]))
	}})
	half := e2e.Run(t, "inspect", "--json", "--ignore-robots", "--resolve", resolve, "http://a.test/")
	if ins := e2e.Parse[inspection](t, half.Stdout); half.Code != 1 || ins.Outcome != "read_error" ||
		ins.StatusCode != 200 || ins.Error != "body: unexpected EOF" || len(ins.Links) != 0 {
		t.Errorf("a page that breaks off: exit %d:\n%s", half.Code, half.Stdout)
	}
	if want := "mapwright: " + url + " was not fetched: connect_error (" + cause; !strings.HasPrefix(got.Stderr, want) {
		t.Errorf("%q does not begin with %q", got.Stderr, want)
	}
}

// An export that has nothing to write says so.
func TestExportOfNothing(t *testing.T) {
	t.Parallel()
	root := e2e.Site(t, map[string]string{"/": "<meta name=robots content=noindex>"}, nil).URL
	dir, out := filepath.Join(t.TempDir(), "data"), t.TempDir()
	if got := e2e.Run(t, "crawl", root, "--profile", "own-site", "--data-dir", dir); got.Code != 0 {
		t.Fatalf("exit %d", got.Code)
	}
	got := e2e.Run(t, "export", "--data-dir", dir, "--format", "xml", "--output", out)
	if got.Code != 0 || got.Stdout != "1 URL, 0 indexable: no file was written\n" {
		t.Errorf("%q", got.Stdout)
	}
}
