package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A memberSite shows its pages to visitors who have logged in by the form at /login, which has a token. /logout and
// /forget end all sessions. /boxed shows the form itself to others; every other page leads them to /login.
type memberSite struct {
	*httptest.Server
	mu       sync.Mutex
	sessions map[string]bool // guarded by mu; those that are valid
	logins   int             // guarded by mu
	foreign  []string        // guarded by mu; what hosts other than members.test got
}

func newMemberSite(t *testing.T) *memberSite {
	t.Helper()
	s := &memberSite{sessions: map[string]bool{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// seen is the number of logins, and what other hosts got.
func (s *memberSite) seen() (logins int, foreign []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins, s.foreign
}

const loginForm = `<form method="post" action="/session"><input type="hidden" name="token" value="t0ken">
<input name="username"><input type="password" name="password"><button name="go" value="1">Log in</button></form>`

func (s *memberSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Host != "members.test" {
		s.foreign = append(s.foreign, fmt.Sprint(r.Header["Cookie"], r.PostFormValue("password")))
		fmt.Fprint(w, "<p>elsewhere")
		return
	}
	w.Header().Set("Content-Type", "text/html")
	cookie, err := r.Cookie("session")
	in := err == nil && s.sessions[cookie.Value]
	switch path := r.URL.Path; {
	case path == "/robots.txt" || path == "/sitemap.xml":
		http.NotFound(w, r)
	case path == "/login":
		http.SetCookie(w, &http.Cookie{Name: "before", Value: "1"})
		fmt.Fprint(w, "<h1>Log in</h1>", loginForm)
	case path == "/away":
		fmt.Fprint(w, strings.Replace(loginForm, "/session", "http://evil.test/session", 1))
	case path == "/session" && r.Method == http.MethodPost:
		_, err := r.Cookie("before")
		if err != nil || r.PostFormValue("token") != "t0ken" || r.PostFormValue("go") != "1" ||
			r.PostFormValue("username") != "ann" || r.PostFormValue("password") != "s3cret horse" {
			fmt.Fprint(w, "<p>Wrong.", loginForm)
			return
		}
		s.logins++
		id := fmt.Sprintf("s3ssion%d", s.logins)
		s.sessions[id] = true
		http.SetCookie(w, &http.Cookie{Name: "session", Value: id, Path: "/"})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case path == "/logout":
		clear(s.sessions)
		http.Redirect(w, r, "/login", http.StatusFound)
	case path == "/boxed" && !in:
		fmt.Fprint(w, "<p>For members.", loginForm)
	case !in:
		http.Redirect(w, r, "/login?next="+path, http.StatusFound)
	default:
		fmt.Fprintf(w, `<title>%s</title><a href="/a">a</a> <a href="/boxed">b</a> <a href="/logout">out</a>
<a href="/forget">f</a> <a href="/c">c</a> <a href="/d">d</a> <a href="http://other.test/">o</a>`, path)
		if path == "/forget" {
			clear(s.sessions)
		}
	}
}

// A site behind a login form is crawled. A link that logs out, and sessions that the site forgets, cost another login
// and no page. Each run logs in again; neither the data directory nor the output has what was sent.
func TestLogin(t *testing.T) {
	t.Parallel()
	site := newMemberSite(t)
	dir := filepath.Join(t.TempDir(), "data")
	data := e2e.Write(t, filepath.Join(t.TempDir(), "login.txt"), "# of the site\nusername=ann\npassword=s3cret horse\n")
	crawl := e2e.Invocation{Dir: filepath.Dir(data), Args: []string{"crawl", "http://members.test/", "--profile", "own-site",
		"--scope", "any", "--data-dir", dir, "--resolve", "*:80:" + site.Listener.Addr().String(), "--max-urls", "1",
		"--login", "http://members.test/login", "--login-data", "login.txt"}}
	first := crawl.Run(t)
	if logins, _ := site.seen(); first.Code != 3 || logins != 1 {
		t.Fatalf("exit status %d, want 3; %d logins, want 1", first.Code, logins)
	}
	second := e2e.Run(t, "resume", dir, "--max-urls", "100")
	if second.Code != 0 {
		t.Errorf("exit status %d, want 0", second.Code)
	}
	lines := e2e.ReadLines(t, dir)
	for _, path := range []string{"/", "/a", "/boxed", "/forget", "/c", "/d"} {
		if l := lines["http://members.test"+path]; l.Outcome != "ok" || l.Title != path {
			t.Errorf("%s: %q, title %q", path, l.Outcome, l.Title)
		}
	}
	if l := lines["http://members.test/logout"]; l.Outcome != "redirect" {
		t.Errorf("/logout: %q", l.Outcome)
	}
	logins, foreign := site.seen()
	if logins < 3 || logins > 12 {
		t.Errorf("%d logins, want one for each run, and one again for each lost session", logins)
	}
	warned := strings.Join(e2e.ReadReport(t, dir).Warnings, "\n")
	if strings.Count(warned, "logged in again") != 1 || !strings.Contains(warned, "--exclude '/logout'") {
		t.Errorf("warnings: %s", warned)
	}
	if len(foreign) == 0 || strings.Contains(fmt.Sprint(foreign), "s3") {
		t.Errorf("another host got %v", foreign)
	}
	if out := first.Stdout + first.Stderr + second.Stdout + second.Stderr; strings.Contains(out, "s3cret") ||
		strings.Contains(out, "s3ssion") {
		t.Errorf("the output has a secret: %s", out)
	}
	holdsNot(t, dir, "s3cret", "s3ssion", "t0ken")
	shown := e2e.Run(t, "inspect", "http://members.test/a", "--login", "http://members.test/login", "--login-data", data,
		"--resolve", "*:80:"+site.Listener.Addr().String())
	if !strings.Contains(shown.Stdout, "Title           /a") {
		t.Errorf("inspect does not log in: %s", shown.Stdout)
	}
	before, _ := site.seen()
	e2e.Succeeded(t, e2e.Run(t, "robots", "http://members.test/a", "--login", "http://members.test/login",
		"--login-data", data, "--resolve", "*:80:"+site.Listener.Addr().String()))
	if after, _ := site.seen(); after != before+1 {
		t.Error("robots does not log in")
	}
}

// A login that fails says why, and leaves no crawl behind.
func TestLoginFails(t *testing.T) {
	t.Parallel()
	site := newMemberSite(t)
	files := t.TempDir()
	for _, test := range []struct{ name, page, data, want string }{
		{"wrong password", "/login", "username=ann\npassword=s3cret\n", "shows the form again"},
		{"wrong field", "/login", "user=ann\npassword=s3cret\n", "forms with token, username, password, go"},
		{"another site", "/away", "username=ann\npassword=s3cret\n", "sent to http://evil.test"},
		{"no page", "/sitemap.xml", "username=ann\npassword=s3cret\n", "status 404"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		data := e2e.Write(t, filepath.Join(files, "login.txt"), test.data)
		got := e2e.Run(t, "crawl", "http://members.test/", "--profile", "own-site", "--data-dir", dir, "--resolve",
			"*:80:"+site.Listener.Addr().String(), "--login", "http://members.test"+test.page, "--login-data", data)
		if got.Code != 2 || !strings.Contains(got.Stderr, test.want) || strings.Contains(got.Stderr, "s3cret") {
			t.Errorf("%s: exit status %d, want 2 and %q:\n%s", test.name, got.Code, test.want, got.Stderr)
		}
		if _, foreign := site.seen(); e2e.Exists(t, dir, "crawl.json") || len(foreign) > 0 {
			t.Errorf("%s: there is a crawl, or another site got %v", test.name, foreign)
		}
	}
	// A site that does not answer is no bad usage.
	away := "http://" + e2e.ClosedPort(t) + "/login"
	got := e2e.Run(t, "crawl", "http://127.0.0.1/", "--allow-private", "--data-dir", filepath.Join(t.TempDir(), "data"),
		"--login", away, "--login-data", e2e.Write(t, filepath.Join(files, "login.txt"), "username=ann\n"))
	if got.Code != 1 || !strings.Contains(got.Stderr, "no login at "+away+": connect_error") {
		t.Errorf("exit status %d, want 1:\n%s", got.Code, got.Stderr)
	}
}
