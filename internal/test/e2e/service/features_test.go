package service

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/warctest"
)

// memberSite is a site behind a password, with links to another site and a file that is not there. It returns what
// reaches it, and how many requests came without the credentials.
func memberSite(t *testing.T) (resolve string, asked func() map[string]int) {
	var mu sync.Mutex
	counts := map[string]int{} // guarded by mu
	handle := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		counts[r.Method+" "+r.Host+r.URL.RequestURI()]++
		if _, password, _ := r.BasicAuth(); r.Host == "members.test" && (password != "passwordSecret" ||
			!strings.Contains(r.Header.Get("Cookie"), "given=cookieSecret")) {
			counts["without credentials"]++
		} else if r.Host != "members.test" && (password != "" || r.Header.Get("Cookie") != "") {
			counts["credentials for others"]++
		}
		mu.Unlock()
		switch {
		case r.Host == "other.test" || r.URL.Path != "/" && r.URL.Path != "/a":
			http.NotFound(w, r)
		default:
			e2e.WritePage(w, "Page "+r.URL.Path, "/a?sid=1", "/a?sid=2&utm_source=x", "http://other.test/gone")
			fmt.Fprint(w, `<img src="/no.png">`)
		}
	}
	resolve = e2e.Handlers(t, map[string]http.HandlerFunc{"members.test": handle, "other.test": handle})
	return resolve, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return counts
	}
}

// A user submits a crawl with checks, archives, tables, parameters and credentials, and reads everything with a key that
// only reads. No answer has a secret. The plan refuses settings, also as short forms. What was written goes with the
// crawl.
func TestFeaturesOfACrawl(t *testing.T) {
	resolve, asked := memberSite(t)
	dir := filepath.Join(t.TempDir(), "data")
	config := e2e.Write(t, filepath.Join(t.TempDir(), "settings.yaml"), fmt.Sprintf(
		"resolve: [%q]\nmin_delay_ms: 0\nmax_delay_ms: 0\nper_ip: false\n", resolve))
	s := startServer(t, dir, "--min-free", "0", "--config", config)
	admin := s.client(adminKey(t, dir))
	s.send(admin, "PUT", "/v1/plans/small", `{"refused_settings": ["near_duplicates"]}`, nil)
	keyOf := func(account string, scope service.Scope) string {
		var key service.Key
		s.send(admin, "POST", "/v1/keys", fmt.Sprintf(`{"account":%q,"name":"k","scopes":[%q]}`, account, scope), &key)
		return key.Secret
	}
	for _, name := range []string{"team", "others"} {
		s.send(admin, "POST", "/v1/accounts", fmt.Sprintf(`{"name":%q,"plan":"small"}`, name), nil)
	}
	secret := keyOf("team", service.ScopeWrite)
	writer, reader := s.client(secret), s.client(keyOf("team", service.ScopeRead))
	stranger := s.client(keyOf("others", service.ScopeWrite))
	remote := []string{"MAPWRIGHT_SERVER=" + s.url, "MAPWRIGHT_KEY=" + secret}
	users := e2e.Write(t, filepath.Join(t.TempDir(), "users.txt"), "ann:passwordSecret@members.test\n")
	id := must(run(t, append(remote, "MAPWRIGHT_IGNORE_PARAMS=none"), "remote", "submit", "http://members.test/",
		"--scope", "host", "--basic-auth", "@"+users, "--cookie", "given=cookieSecret", "--check-external",
		"--check-assets", "--ignore-params", "default,sid", "--warc", "--parquet"))(t)
	s.reaches(writer, id, service.Complete)
	want := map[string]int{"HEAD other.test/gone": 1, "HEAD members.test/no.png": 1, "GET members.test/a": 1,
		"without credentials": 0, "credentials for others": 0}
	for what, n := range want {
		if got := asked()[what]; got != n {
			t.Errorf("%s: %d requests, want %d", what, got, n)
		}
	}

	// The report lists the files; each can be read.
	read := func(c *client.Client, name string) (string, error) {
		body, err := c.Result(t.Context(), id, name)
		if err != nil {
			return "", err
		}
		defer body.Close()
		text, err := io.ReadAll(body)
		return string(text), err
	}
	var report struct{ Files []string }
	if err := json.Unmarshal([]byte(must(read(reader, "report"))(t)), &report); err != nil {
		t.Fatal(err)
	}
	found, archived := map[string]bool{}, int64(0)
	for _, name := range report.Files {
		base := filepath.Base(name)
		text := must(read(reader, base))(t)
		if strings.HasPrefix(name, "warc/") {
			archived += int64(len(text))
			records, err := warctest.Read([]byte(text))
			if err != nil || len(records) < 5 {
				t.Errorf("%s has %d records: %v", name, len(records), err)
			}
			for _, r := range records {
				text += string(r.Block)
			}
			base = "archive"
		}
		found[base] = true
		noSecret(t, name, text)
		if _, err := read(stranger, filepath.Base(name)); err == nil {
			t.Errorf("another account reads %s", name)
		}
	}
	for _, name := range []string{"archive", "pages.parquet", "links.parquet", "links.jsonl", "problems.jsonl"} {
		if !found[name] {
			t.Errorf("the report does not list %s: %q", name, report.Files)
		}
	}
	if problems := must(read(reader, "problems.jsonl"))(t); !strings.Contains(problems, "broken_external") ||
		!strings.Contains(problems, "broken_asset") {
		t.Errorf("problems: %s", problems)
	}
	noSecret(t, "the log", must(read(reader, "log"))(t))
	var shown json.RawMessage
	s.send(reader, "GET", "/v1/crawls/"+id, "", &shown)
	noSecret(t, "the crawl", string(shown))

	// What the plan, or the service, does not allow is refused with its reason.
	_, err := run(t, remote, "remote", "submit", "http://members.test/", "--near-duplicates", "--delay", "1ms", "--insecure",
		"--cookie-file", users, "--ca-file", users, "--max-checks", "200000", "--per-ip=false")
	for _, name := range []string{"near_duplicates", "min_delay_ms", "insecure", "cookie_file", "ca_file", "max_checks",
		"per_ip"} {
		if err == nil || !strings.Contains(err.Error(), "settings."+name) {
			t.Errorf("%s is not refused: %v", name, err)
		}
	}
	list := must(run(t, remote, "remote", "submit", "http://members.test/", "--list"))(t)
	if crawl := s.reaches(writer, list, service.Complete); crawl.Found != 1 || crawl.Settings["max_depth"] != 0.0 {
		t.Errorf("a list of one URL has found %d, with %v", crawl.Found, crawl.Settings)
	}

	// Archives count as disk, and go with the crawl.
	var usage service.Usage
	s.send(reader, "GET", "/v1/usage", "", &usage)
	if usage.Disk.Used < archived {
		t.Errorf("the account uses %d bytes of disk, and its archive has %d", usage.Disk.Used, archived)
	}
	s.send(writer, "DELETE", "/v1/crawls/"+id, "", nil)
	s.until("the crawl is gone", func() bool { return isGone(writer, id) })
	if _, err := os.Stat(filepath.Join(dir, "crawls", id)); !os.IsNotExist(err) {
		t.Errorf("the directory of a deleted crawl is there: %v", err)
	}
}

// noSecret wants a text to have none of the secrets of the crawl.
func noSecret(t *testing.T, name, text string) {
	t.Helper()
	for _, secret := range []string{"passwordSecret", "cookieSecret", "127.0.0.1"} {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("%s has %q: %s", name, secret, text[max(0, at-100):min(len(text), at+100)])
		}
	}
}
