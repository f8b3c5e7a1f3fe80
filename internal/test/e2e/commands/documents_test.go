package commands

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/test/documents"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// elsewhere are the documents whose commands other tests run: those of the service, and TestCommandsOfAccess.
var elsewhere = []string{"service.md", "schedules.md", "webhooks.md", "hosts.md", "access.md"}

// The commands of the documents work as they are written, in their order, in a directory with a file urls.txt.
func TestCommandsOfDocuments(t *testing.T) {
	t.Parallel()
	all, err := documents.Read(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for name, d := range all {
		script := d.Script("sh")
		if script == "" || slices.Contains(elsewhere, name) {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := e2e.Serve(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6, HostName: "example.com"})
			e2e.RunScript(t, web.Addr(), script)
		})
	}
	if ran < 3 {
		t.Errorf("only %d documents have commands", ran)
	}
}

// Every picture of a terminal in a document has what its commands print: each line of it, in the same order. Times, rates
// and addresses are not compared.
func TestOutputsOfDocuments(t *testing.T) {
	t.Parallel()
	all, err := documents.Read(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{"commands.md": 60, "tuning.md": 400} // pages of the site that is crawled
	pictures := 0
	for name, d := range all {
		for i, b := range d.Blocks {
			if b.Kind != "console" {
				continue
			}
			pictures++
			t.Run(fmt.Sprint(name, " block ", i+1), func(t *testing.T) {
				t.Parallel()
				web := e2e.Serve(t, testweb.Config{Seed: 7, Pages: sizes[name], HostName: "example.com"})
				toSite := strings.NewReplacer("shop.test", "example.com", "h0.test", "example.com")
				out := e2e.RunScript(t, web.Addr(), "set -euo pipefail\n"+toSite.Replace(b.Commands()))
				comparePicture(t, toSite.Replace(strings.Join(b.Output(), "\n")), out)
			})
		}
	}
	if pictures < 5 {
		t.Errorf("only %d pictures of terminals: the search is broken", pictures)
	}
}

// comparePicture wants the lines of a picture in what was printed, in order. A line that ends with … is the beginning of
// one.
func comparePicture(t *testing.T, picture, printed string) {
	t.Helper()
	// On a busy machine pages take longer than the three seconds of the problem.
	onlySlow := regexp.MustCompile(`(Problems +)0 errors, 0 warnings, \d+ notices?\n +slow: \d+ URLs?\n`)
	lines := strings.Split(onlySlow.ReplaceAllString(printed, "${1}none found\n"), "\n")
	for shown := range strings.Lines(picture) {
		want, isBegin := strings.CutSuffix(masked(shown), "…")
		at := slices.IndexFunc(lines, func(line string) bool {
			line = masked(line)
			return line == want || isBegin && strings.HasPrefix(line, want)
		})
		if at < 0 {
			t.Fatalf("the document shows %q, which is not in, or not at this place of, what is printed:\n%s", shown, printed)
		}
		lines = lines[at+1:]
	}
}

// masks are what differs between two runs.
var masks = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`), "DATE"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\S*mapwright-demo-\d+`), "DIRECTORY"},
	{regexp.MustCompile(` \([0-9.,]+ pages/s\)`), ""}, // short runs have no rate
	{regexp.MustCompile(`\b(?:\d+m)?[0-9.]+(?:µs|ms|s)\b`), "TIME"},
}

func masked(line string) string {
	for _, m := range masks {
		line = m.what.ReplaceAllString(line, m.by)
	}
	return strings.TrimSpace(line)
}

// The commands of docs/access.md reach what is behind the password and behind the form.
func TestCommandsOfAccess(t *testing.T) {
	t.Parallel()
	all, err := documents.Read(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var reached sync.Map
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.Host == "members.example.com" {
			serveMembers(w, r, &reached)
			return
		}
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "correct horse" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		reached.Store(r.Host+r.URL.Path, true)
		fmt.Fprint(w, `<title>inside</title><a href="/second">second</a>`)
	}))
	t.Cleanup(site.Close)
	e2e.RunScript(t, site.Listener.Addr().String(),
		strings.ReplaceAll(all["access.md"].Script("sh"), "https://members", "http://members"))
	for _, page := range []string{"example.com/second", "members.example.com/second"} {
		if _, ok := reached.Load(page); !ok {
			t.Errorf("%s was not reached", page)
		}
	}
}

// serveMembers serves a site behind a login form.
func serveMembers(w http.ResponseWriter, r *http.Request, reached *sync.Map) {
	_, err := r.Cookie("session")
	switch {
	case r.URL.Path == "/login" && r.PostFormValue("username") == "ann" &&
		r.PostFormValue("password") == "correct horse" && r.PostFormValue("token") == "1":
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1", Path: "/"})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case r.URL.Path == "/login":
		fmt.Fprint(w, `<form method="post"><input type="hidden" name="token" value="1"><input name="username">
<input type="password" name="password"></form>`)
	case err != nil:
		http.Redirect(w, r, "/login", http.StatusFound)
	default:
		reached.Store(r.Host+r.URL.Path, true)
		fmt.Fprint(w, `<title>inside</title><a href="/second">second</a> <a href="/logout">out</a>`)
	}
}
