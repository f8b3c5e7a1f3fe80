package service

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
)

// What a user reads of a crawl has nothing of the operator in it: no setting, no path, no address of the network, no
// command. The operator's headers go to the origins that the operator names, and not to where a crawl starts.
func TestNothingOfTheOperator(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string]http.Header{} // guarded by mu; by host
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got[r.Host] = r.Header
		mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(w, r, "http://other.test/", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<html><body><a href="http://inside.test/">x</a> <a href="http://down.test/1">x</a> <a href="http://down.test/2">x</a> <a href="http://down.test/3">x</a> <a href="/moved">x</a> <a href="/2">x</a></body></html>`)
	}))
	t.Cleanup(site.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	base := config.Layer{}
	for name, texts := range map[string][]string{
		"header": {"X-Operator: op-s3cret", "Accept-Language: la"}, "header-to": {"http://inside.test"},
		"profile":           {"own-site"},
		"resolve":           {"down.test:80:" + closed.Addr().String(), "*:80:" + site.Listener.Addr().String()},
		"max-host-failures": {"2"}, "max-retries": {"0"},
		"max-host-backoff-secs": {"1"}, "skip-extensions": {"xyz-operator"}, "user-agent": {"test/1"},
	} {
		base[name] = config.Given{Texts: texts, From: "/etc/operator.yaml"}
	}
	ts := openService(t, Options{Base: []config.Layer{base}}).run()
	tenant := &Caller{Account: ts.admin.Account, System: "test", Scopes: []Scope{ScopeWrite}}
	asked := []string{"scope", `"any"`, "max_urls", "20", "links", "true"}
	for name := range base {
		asked = append(asked, config.FileKey(name), "null") // as if it were not given
	}
	c := ts.submit(tenant, "http://start.test/", asked...)
	c = ts.awaitState(c.ID, Complete)
	texts := map[string]string{"crawl": ToJSON(c), "live": ToJSON(ts.Crawls.Live(c.ID))}
	events, err := ts.Events.Since(t.Context(), EventFilter{Crawl: c.ID})
	if err != nil {
		t.Fatal(err)
	}
	texts["events"] = ToJSON(events)
	dir := string(ts.Crawls.DataDir(c.ID))
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if e.IsDir() && e.Name() == "state" {
			return fs.SkipDir
		}
		// these are not sent
		if err == nil && e.Type().IsRegular() && e.Name() != "crawl.json" && e.Name() != "metrics.jsonl" {
			text, err := os.ReadFile(path)
			texts[e.Name()] = string(text)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		for _, secret := range []string{"op-s3cret", "X-Operator", "inside.test\"]", "127.0.0.1", ts.Dir(),
			"/etc/operator", "--data-dir", "xyz-operator"} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s has %q: %s", name, secret, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
	if !strings.Contains(texts["crawl"], "host_blocked") || !strings.Contains(texts["sitemap.jsonl"],
		"connection refused") {
		t.Errorf("it does not say what was wrong: %s", texts["crawl"])
	}
	if rep := texts["report.json"]; !strings.Contains(rep, `"scope": "any"`) ||
		!strings.Contains(rep, `"max_urls": 20`) || strings.Contains(rep, `"resolve"`) {
		t.Errorf("the report has the wrong settings: %s", rep)
	}
	mu.Lock()
	for host, want := range map[string]string{"start.test": "", "inside.test": "op-s3cret", "other.test": ""} {
		if h := got[host]; h == nil || h.Get("X-Operator") != want || h.Get("Accept-Language") != "la" {
			t.Errorf("%s got %v", host, h)
		}
	}
	mu.Unlock()

	// Headers of a user replace the operator's, and origins that a user names do not get those.
	for _, own := range [][]string{{"header", `["X-Own: 1"]`}, {"header_to", `["http://start.test"]`}} {
		mu.Lock()
		clear(got)
		mu.Unlock()
		c := ts.submit(tenant, "http://start.test/", append(own, "scope", `"any"`, "max_urls", "20")...)
		ts.awaitState(c.ID, Complete)
		mu.Lock()
		for host, h := range got {
			if h.Get("X-Operator") != "" || (h.Get("X-Own") != "") != (host == "start.test" && own[0] == "header") {
				t.Errorf("with %s of a user, %s got %v", own[0], host, h)
			}
		}
		mu.Unlock()
	}
}

// An edit does not send hidden credentials to other origins.
func TestCredentialsAreNotRedirected(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	c := ts.submit(ts.admin, "http://a.test/", "header", `["X-Key: s3cret"]`, "cookie", `"a=s3cret"`,
		"basic_auth", `"u:s3cret@a.test"`)
	starts := []string{"http://thief.test/"}
	for _, test := range []struct {
		edit Edit
		want string // the fields that are refused
	}{
		{Edit{StartURLs: &starts}, "settings.basic_auth settings.cookie settings.header"},
		{Edit{StartURLs: &[]string{"http://a.test:81/"}, Settings: raw("cookie", "null", "header", "null")},
			"settings.basic_auth"},
		{Edit{Settings: raw("header_to", `["http://thief.test"]`)}, "settings.header"},
		{Edit{Settings: raw("cookie", "null", "basic_auth", "null"), StartURLs: &starts}, "settings.header"},
		{Edit{Settings: raw("max_urls", "5")}, ""},
		{Edit{Settings: raw("header", `["X-Key: other"]`, "cookie", "null", "basic_auth", "null"), StartURLs: &starts}, ""},
	} {
		_, err := ts.Crawls.Edit(t.Context(), ts.admin, c.ID, test.edit)
		var fields []string
		if e, ok := errors.AsType[*Error](err); ok {
			for _, f := range e.Fields {
				fields = append(fields, f.Field)
			}
		}
		if got := strings.Join(fields, " "); got != test.want || (err != nil) != (test.want != "") {
			t.Errorf("%+v: %v", test.edit, err)
		}
	}
}

// A header of the operator that may be a credential needs origins that it is for.
func TestOperatorHeadersNeedOrigins(t *testing.T) {
	t.Parallel()
	for header, refused := range map[string]bool{"Authorization: x": true, "Accept-Language: de": false} {
		o := Options{Dir: t.TempDir(), RecordsOnly: true, Base: []config.Layer{{"header": {Texts: []string{header},
			From: "test"}}}}
		s, err := Open(t.Context(), o)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "header_to") {
			t.Errorf("%s: %v", header, err)
		}
		if err == nil {
			s.Close()
		}
	}
}

// A client certificate of the operator would be shown to the hosts of users, and a file that cannot be read would fail
// their crawls.
func TestOperatorFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"client-cert": "users of the service",
		"basic-auth": "users of the service", "ca-file": "no such file"} {
		layer := config.Layer{name: {Texts: []string{"@" + filepath.Join(t.TempDir(), "none.pem")}, From: "test"}}
		if err := CheckBase([]config.Layer{layer}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A crawl that fails tells its user no path of the server.
func TestFailureWithoutPaths(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(site.Close)
	base := config.Layer{"resolve": {Texts: []string{"*:80:" + site.Listener.Addr().String()}, From: "test"}}
	ts := openService(t, Options{Base: []config.Layer{base}})
	wants := map[string]string{} // a part of the error, by crawl
	withDir := func(want string, obstruct func(dir string) error) {
		id := ts.submit(ts.admin, "http://a.test/").ID
		dir := string(ts.Crawls.DataDir(id))
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir), 0o700), obstruct(dir)); err != nil {
			t.Fatal(err)
		}
		wants[id] = want
	}
	withDir("mapwright.log", func(dir string) error { // a directory in the place of a file
		return os.MkdirAll(filepath.Join(dir, "mapwright.log"), 0o700)
	})
	withDir("its data directory", func(dir string) error {
		return errors.Join(os.Mkdir(dir, 0o700), os.Symlink("state", filepath.Join(dir, "state")))
	})
	ts.run()
	for id, want := range wants {
		c := ts.await(id, func(c *Crawl) bool { return c.State.Ended() })
		if c.State != Failed || len(c.Errors) != 1 || strings.Contains(ToJSON(c), ts.Dir()) ||
			!strings.Contains(c.Errors[0], want) || strings.Contains(c.Errors[0], "data directory the") {
			t.Errorf("%s, %q", c.State, c.Errors)
		}
	}
}
