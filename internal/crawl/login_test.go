package crawl

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/state"
)

// A form is filled in as a browser does: hidden fields, checked boxes, chosen options and the first button are sent.
func TestFillForm(t *testing.T) {
	const page = `<form action="/search"><input name=q></form>
<table><form id=in method=POST action=" /session "><tr><td><input type="hidden" name="csrf" value="a&amp;b">
<input name=user value=old><input type=PASSWORD name=pass><input type=checkbox name=keep checked>
<input type=checkbox name=news value=yes><input type=radio name=lang value=de><input type=radio name=lang value=en checked>
<select name=area><option value=1>x<option value=2 selected>y</select><select name=first><option value=a><option value=b></select>
<select name=text><option>a<option selected> two
 words <b>x</b></option></select><select name=none disabled><option value=1></select>
<textarea name=note>
text</textarea><input name=off value=1 disabled><input type=file name=file>
<form action=/nested></table><button name=do value=enter>in</button><input type=submit name=do value=second></form>
<input name=late value=3 form=in><input name=alone value=4>`
	fields := url.Values{"user": {"ann"}, "pass": {"a b"}}
	f, err := findForm([]byte(page), fields)
	if err != nil {
		t.Fatal(err)
	}
	want := "area=2&csrf=a%26b&do=enter&first=a&keep=on&lang=en&late=3&note=text&pass=a+b&text=two+words&user=ann"
	if got := f.fill(fields).Encode(); got != want || f.action != "/session" {
		t.Errorf("%s to %s\nwant %s", got, f.action, want)
	}
	if f.fill(fields)["user"][0] != "ann" || len(fields) != 2 {
		t.Errorf("the fields of the user were changed: %v", fields)
	}
}

// A page without the form says which forms it has.
func TestFindFormRefuses(t *testing.T) {
	fields := url.Values{"user": {"x"}, "pass": {"s3cret"}}
	for page, want := range map[string]string{
		"<p>none": "no form (it needs one with the fields pass, user)",
		"<form method=post><input name=user></form>":                                              "no form with the fields pass, user; it has forms with user",
		"<form><input name=user><input name=pass>":                                                "POST",
		"<input name=user><input name=pass>":                                                      "no form",
		`<form method=post enctype=multipart/form-data><input name=user><input name=pass></form>`: "POST",
	} {
		if _, err := findForm([]byte(page), fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", page, err, want)
		}
	}
}

// However often a site forgets the session, a run logs in a bounded number of times, says so once, and goes on. A page
// that leads to another login is asked for again once.
func TestLoginsAreBounded(t *testing.T) {
	logins := 0
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.Method == http.MethodPost {
			logins++
			fmt.Fprint(w, "<p>in")
			return
		}
		fmt.Fprint(w, "<form method=post><input name=user></form>")
	}))
	defer site.Close()
	var warned []string
	l := logInTo(t, site.URL+"/login", &warned)
	for i := range 2 * maxLogins {
		page, err := weburl.Parse(fmt.Sprintf("%s/%d", site.URL, i))
		if err != nil {
			t.Fatal(err)
		}
		session := l.number()
		if again := l.renew(t.Context(), page, session); again != (i < maxLogins) {
			t.Errorf("page %d is asked for again: %v", i, again)
		}
		if i < maxLogins && !l.renew(t.Context(), page, session) {
			t.Errorf("page %d of an older session is not asked for again", i)
		}
		if l.renew(t.Context(), page, l.number()) {
			t.Errorf("page %d is asked for a third time", i)
		}
	}
	if logins != 1+maxLogins || len(warned) != 2 {
		t.Errorf("%d logins, want %d; warnings %q", logins, 1+maxLogins, warned)
	}
}

// logInTo logs in as ann at a page with a field user.
func logInTo(t *testing.T, page string, warned *[]string) *login {
	t.Helper()
	data := filepath.Join(t.TempDir(), "login")
	if err := os.WriteFile(data, []byte("\ufeffuser=ann\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	l, err := logIn(t.Context(), f, &config.Settings{Login: page, LoginData: data},
		func(format string, args ...any) { *warned = append(*warned, fmt.Sprintf(format, args...)) })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The page of the login may redirect, its form is sent relative to the base element, and a redirect with status 307 or
// 308 sends it again. The page that has the form is the login page then too.
func TestLoginFollowsRedirects(t *testing.T) {
	var sent []string
	mux := http.NewServeMux()
	mux.Handle("/login", http.RedirectHandler("/en/sign-in?a=1", http.StatusFound))
	mux.HandleFunc("GET /en/sign-in", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<base href="/auth/"><form method=post action=send><input name=user></form>`)
	})
	mux.Handle("POST /auth/send", http.RedirectHandler("/auth/send/", http.StatusPermanentRedirect))
	mux.HandleFunc("/auth/send/", func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Method+" "+r.FormValue("user"))
		http.Redirect(w, r, "/home", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /home", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "in") })
	site := httptest.NewServer(mux)
	defer site.Close()
	l := logInTo(t, site.URL+"/login", nil)
	if want := []string{"POST ann"}; !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
	for path, want := range map[string]bool{"/login?next=/": true, "/en/sign-in": true, "/home": false} {
		u, err := weburl.Parse(site.URL + path)
		if err != nil || l.isLoginPage(u) != want {
			t.Errorf("%s is the login page: %v, want %v; %v", path, !want, want, err)
		}
	}
}

// A login that fails changes nothing of a crawl: neither does a recrawl begin, nor does the crawl count as interrupted.
func TestFailedLoginChangesNothing(t *testing.T) {
	t.Parallel()
	site := newHandSite(t, map[string]any{"a.test/": plainPage, "a.test/login": `<html>no form here`})
	data := filepath.Join(t.TempDir(), "login")
	if err := os.WriteFile(data, []byte("user=me\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := newDataDir(t)
	site.crawl(dir, nil, "http://a.test/")
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []*Recrawl{nil, {}} {
		_, err = runAlone(t.Context(), Options{Plan: plan, Recrawl: again, Dir: dir, Log: slog.New(slog.DiscardHandler),
			Settings: site.settings(func(s *config.Settings) { s.Login, s.LoginData = "http://a.test/login", data })})
		if !errors.Is(err, ErrLogin) {
			t.Errorf("recrawl %v: %v", again != nil, err)
		}
		store, err := state.Open(dir.State(), state.Options{Mode: state.ExistingOnly})
		if err != nil {
			t.Fatal(err)
		}
		facts := store.Facts()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if status := page.Status(facts[page.FactStatus]); status != page.Complete || facts[page.FactGeneration] != nil {
			t.Errorf("recrawl %v: the crawl is %s, generation %q", again != nil, status, facts[page.FactGeneration])
		}
	}
	if rep, _ := site.resume(dir, &Recrawl{}, nil); rep.Status != page.Complete {
		t.Errorf("a recrawl after that is %s", rep.Status)
	}
}
