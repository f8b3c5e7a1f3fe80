package commands

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
		script := d.Script("sh", "console")
		if script == "" || slices.Contains(elsewhere, name) {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := e2e.Serve(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6, HostName: "example.com"})
			e2e.RunScript(t, web.Addr(), strings.NewReplacer("shop.test", "example.com", "h0.test",
				"example.com").Replace(script))
		})
	}
	if ran < 3 {
		t.Errorf("only %d documents have commands", ran)
	}
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
