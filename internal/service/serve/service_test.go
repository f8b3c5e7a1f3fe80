package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/service/hosts"
	"github.com/mapwright/mapwright/internal/service/schedules"
	"github.com/mapwright/mapwright/internal/service/serve"
	"github.com/mapwright/mapwright/internal/test/apitest"
	"github.com/mapwright/mapwright/internal/test/documents"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a service with its API, and a web for it to crawl.
type fixture struct {
	t         *testing.T
	svc       *service.Service
	schedules *schedules.Schedules
	server    *serve.Server
	url       string
	transport *apitest.Transport
	http      *http.Client
	web       *testweb.Server
}

func newFixture(t *testing.T, change func(*service.Options)) *fixture {
	t.Helper()
	web, err := testweb.Start(testweb.Config{Seed: 11, Hosts: 2, Pages: 25, PageSize: 1500, Links: 6})
	if err != nil {
		t.Fatal(err)
	}
	o := service.Options{Dir: t.TempDir(), SlotDir: t.TempDir(), MinFree: -1, Version: "test"}
	if change != nil {
		change(&o)
	}
	svc, err := service.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, svc: svc, web: web}
	known, err := hosts.New(t.Context(), svc, nil)
	if err != nil {
		t.Fatal(err)
	}
	options := serve.Options{Service: svc, Hosts: known, Schedules: schedules.New(svc, nil),
		Hooks: hooks.New(svc, hooks.Options{}), RatePerKey: -1,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	f.schedules = options.Schedules
	if f.server, err = serve.New(options); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.url = "http://" + l.Addr().String()
	inner := &http.Transport{MaxIdleConnsPerHost: 300}
	if f.transport, err = apitest.New("", inner); err != nil {
		t.Fatal(err)
	}
	f.http = &http.Client{Transport: f.transport, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	h := f.server.HTTP()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context){f.server.Run, known.Run, options.Schedules.Run, options.Hooks.Run} {
		running.Go(func() { run(ctx) })
	}
	running.Go(func() {
		if err := svc.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		web.Release()
		f.server.Drain()
		stop()
		err := h.Shutdown(context.Background())
		running.Wait()
		f.server.Close()
		inner.CloseIdleConnections()
		if err := errors.Join(err, svc.Close(), web.Close()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// key makes a key of an account, which is made if it is not there.
func (f *fixture) key(account string, scopes ...service.Scope) string {
	f.t.Helper()
	operator := &service.Caller{System: "test", Scopes: []service.Scope{service.ScopeAdmin}}
	if _, err := f.svc.Accounts.Create(f.t.Context(), operator, service.Account{Name: account}); err != nil {
		if e, ok := errors.AsType[*service.Error](err); !ok || e.Code != service.ErrExists {
			f.t.Fatal(err)
		}
	}
	key, err := f.svc.Accounts.CreateKey(f.t.Context(), operator, service.Key{Account: account, Scopes: scopes})
	if err != nil {
		f.t.Fatal(err)
	}
	return key.Secret
}

func (f *fixture) client(key string) *client.Client {
	f.t.Helper()
	c, err := client.New(client.Options{URL: f.url, Key: key, HTTP: f.http})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// do sends a request and reads the answer.
func (f *fixture) do(method, path, key, body string, header ...string) (int, http.Header, string) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := f.http.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		f.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// want sends a request and wants a status.
func (f *fixture) want(status int, method, path, key, body string, header ...string) string {
	f.t.Helper()
	got, _, text := f.do(method, path, key, body, header...)
	if got != status {
		f.t.Errorf("%s %s: status %d, want %d: %.500s", method, path, got, status, text)
	}
	return text
}

// patience is how long a test waits for what must come: it ends a test that would wait forever.
const patience = 5 * time.Minute

// submission is one of a host of the web. A request that is held has no time-out on a busy machine.
func (f *fixture) submission(host int, more map[string]any) service.Submission {
	all := map[string]any{"profile": "own-site", "resolve": []string{f.web.Resolve()},
		"seeding_strategy": []string{"none"}, "links": true, "timeout": "10m"}
	for name, value := range more {
		all[name] = value
	}
	s := service.Submission{StartURLs: []string{f.web.StartURLs()[host]}, Settings: map[string]json.RawMessage{}}
	for name, value := range all {
		text, err := json.Marshal(value)
		if err != nil {
			f.t.Fatal(err)
		}
		s.Settings[name] = text
	}
	return s
}

func (f *fixture) submit(c *client.Client, s service.Submission) string {
	f.t.Helper()
	crawl, err := c.Submit(f.t.Context(), s, "")
	if err != nil {
		f.t.Fatal(err)
	}
	return crawl.ID
}

// until reads events of a crawl until one of a type, and returns all that came.
func (f *fixture) until(c *client.Client, id string, last int64, want service.EventType) (seen []service.Event) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for event, err := range c.Events(ctx, id, last) {
		if err != nil {
			f.t.Fatal(err)
		}
		if seen = append(seen, event); event.Type == want {
			break
		}
	}
	return seen
}

// untilDone reads samples of a running crawl until so many pages are done.
func (f *fixture) untilDone(c *client.Client, id string, pages int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for event, err := range c.Events(ctx, id, 0) {
		if err != nil {
			f.t.Fatal(err)
		}
		var sample struct {
			Done int `json:"done"`
		}
		if event.Type == service.Sample && json.Unmarshal(event.Data, &sample) == nil && sample.Done >= pages {
			return
		}
	}
}

// pagesOf counts the recorded pages of a crawl, which are read in parts: an answer ends after limit pages, or after a
// second.
func (f *fixture) pagesOf(id, key string, limit int) int {
	f.t.Helper()
	seen := map[string]bool{}
	for cursor := ""; ; {
		var list struct {
			Items []struct {
				URL string `json:"url"`
			} `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		at := fmt.Sprintf("/v1/crawls/%s/pages?limit=%d&cursor=%s", id, limit, cursor)
		if err := json.Unmarshal([]byte(f.want(200, "GET", at, key, "")), &list); err != nil {
			f.t.Fatal(err)
		}
		for _, p := range list.Items {
			if seen[p.URL] {
				f.t.Errorf("%s comes twice", p.URL)
			}
			seen[p.URL] = true
		}
		if cursor = list.NextCursor; cursor == "" {
			return len(seen)
		}
	}
}

// One crawl from its submission to its deletion, with every result that it has.
func TestLifeOfACrawl(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.key("default", service.ScopeAdmin)
	c := f.client(key)
	f.web.Hold(5)
	id := f.submit(c, f.submission(0, nil))
	at := "/v1/crawls/" + id
	f.untilDone(c, id, 5)
	if text := f.want(404, "GET", at+"/pages.jsonl", key, ""); !strings.Contains(text,
		"files are written when it ends") {
		t.Errorf("before the end: %s", text)
	}
	seen := f.pagesOf(id, key, 3)
	if seen < 5 {
		t.Errorf("%d pages of a running crawl", seen)
	}
	f.want(200, "GET", at+"/page?url="+f.web.StartURLs()[0], key, "")
	f.want(404, "GET", at+"/page?url=http://elsewhere.test/", key, "")
	f.want(202, "POST", at+"/pause", key, "")
	f.until(c, id, 0, service.CrawlPaused)
	// A paused crawl shows what it has recorded, and says what to do for its files.
	if got := f.pagesOf(id, key, 200); got < seen {
		t.Errorf("%d pages of a paused crawl, %d while it ran", got, seen)
	}
	f.want(200, "GET", at+"/page?url="+f.web.StartURLs()[0], key, "")
	f.want(200, "GET", at+"/log", key, "")
	for _, name := range []string{"pages.jsonl", "report", "problems"} {
		if text := f.want(404, "GET", at+"/"+name, key, ""); !strings.Contains(text, "cancel it to have the files") {
			t.Errorf("%s of a paused crawl: %s", name, text)
		}
	}
	f.want(200, "PATCH", at, key, `{"name":"renamed","labels":["a","b"],"priority":7,"settings":{"max_urls":1000}}`)
	f.want(202, "POST", at+"/resume", key, "")
	f.web.Release()
	events := f.until(c, id, 0, service.CrawlFinished)
	for i := 1; i < len(events); i++ {
		if a, b := events[i-1].ID, events[i].ID; a != 0 && b != 0 && b <= a {
			t.Errorf("event %d comes after %d", b, a)
		}
	}
	var crawl service.Crawl
	if err := json.Unmarshal([]byte(f.want(200, "GET", at, key, "")), &crawl); err != nil {
		t.Fatal(err)
	}
	if crawl.State != service.Complete || crawl.Found != 25 || crawl.Name != "renamed" || crawl.Priority != 7 {
		t.Errorf("%+v", crawl)
	}
	// Every result.
	if n := strings.Count(f.want(200, "GET", at+"/pages.jsonl", key, ""), "\n"); n != 25 {
		t.Errorf("%d lines of pages", n)
	}
	status, header, part := f.do("GET", at+"/pages.jsonl", key, "", "Range", "bytes=0-9")
	if status != 206 || len(part) != 10 {
		t.Errorf("a range: status %d, %q", status, part)
	}
	f.want(416, "GET", at+"/pages.jsonl", key, "", "Range", "bytes=99999999-")
	f.want(304, "GET", at+"/pages.jsonl", key, "", "If-None-Match", header.Get("ETag"))
	for _, name := range []string{"report", "links", "sitemap.xml", "log", "runs", "problems", "pages",
		"pages?outcome=ok&status=2xx&depth=1&indexable=true&q=test&prefix=http", "pages?sort=-content_length&limit=3",
		"events?since=0",
		"sitemap.jsonl", "links.jsonl", "problems.jsonl", "report.json"} {
		if strings.HasPrefix(name, "events") {
			continue // a stream does not end
		}
		f.want(200, "GET", at+"/"+name, key, "")
	}
	for _, name := range []string{"changes", "changes.jsonl", "sitemap.csv", "pages.index", "sitemap-00001.xml",
		"sitemap-1.xml", "none", "service.db", "state", "crawl.json"} {
		f.want(404, "GET", at+"/"+name, key, "")
	}
	f.want(404, "GET", at+"/problems/none", key, "")
	f.want(422, "GET", at+"/pages?cursor=none", key, "")
	f.want(422, "GET", at+"/pages?problem=none", key, "")
	if text := f.want(422, "GET",
		at+"/pages?outcome=none&status=9&depth=-1&indexable=maybe&change=x&cursor=!&limit=0&what=1", key,
		""); strings.Count(text, `"field"`) != 7 {
		t.Errorf("not every fault is named: %s", text)
	}
	if text := f.want(409, "POST", at+"/pause", key, ""); !strings.Contains(text, `"state":"complete"`) ||
		!strings.Contains(text, `"allowed":[`) {
		t.Errorf("a command that is not allowed: %s", text)
	}
	f.want(202, "POST", at+"/recrawl", key, `{"include":["."]}`)
	f.until(c, id, events[len(events)-1].ID, service.CrawlFinished)
	f.want(200, "GET", at+"/changes", key, "")
	f.want(202, "DELETE", at, key, "")
	f.until(c, "", events[len(events)-1].ID, service.CrawlDeleted)
	f.want(404, "GET", at, key, "")
}

// A crawl can be read from the moment at which it is accepted.
func TestReadableAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *service.Options) { o.MaxCrawls = 1 })
	f.web.Hold(0)
	key := f.key("default", service.ScopeAdmin)
	transport := &http.Transport{MaxIdleConnsPerHost: 300}
	defer transport.CloseIdleConnections()
	plain := &http.Client{Transport: transport} // comparing 300 answers with the document takes long
	for range 10 {
		status, header, text := f.do("POST", "/v1/crawls", key, must(json.Marshal(f.submission(0, nil))))
		if status != 202 {
			t.Fatalf("status %d: %s", status, text)
		}
		var readers sync.WaitGroup
		for range 30 { // the last of them waits for its turn, which has a limit
			readers.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), "GET", f.url+header.Get("Location"), nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+key)
				res, err := plain.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.Body.Close() != nil ||
					res.StatusCode != 200 {
					t.Errorf("status %d, %v", res.StatusCode, err)
				}
			})
		}
		readers.Wait()
	}
}

func must(text []byte, err error) string {
	if err != nil {
		panic(err) // the values are those of the tests
	}
	return string(text)
}

// What belongs to another account does not exist, and a key does not do more than its scopes allow.
func TestAccountsAndScopes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.web.Hold(0)
	mine, other := f.key("mine", service.ScopeAdmin), f.key("other", service.ScopeWrite)
	reader, admin := f.key("mine", service.ScopeRead), f.key("default", service.ScopeAdmin)
	id := f.submit(f.client(mine), f.submission(0, nil))
	doc, err := apitest.Load()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.Security != nil && len(*op.Security) == 0 {
				continue // no key is needed
			}
			at := strings.NewReplacer("{id}", id, "{part}", "sitemap.xml", "{code}", "orphan", "{host}", "h0.test",
				"{name}", "small", "{delivery}", id).Replace(path)
			if path == "/v1/crawls/{id}/page" {
				at += "?url=http://h0.test/"
			}
			body := ""
			if op.RequestBody != nil {
				body = "{}"
			}
			tried++ // each address may fail a few times only
			from := fmt.Sprintf("192.0.2.%d", tried)
			f.want(401, method, at, "", body, "X-Forwarded-For", from)
			f.want(401, method, at, "mw_000000000000000000000000_X", body, "X-Forwarded-For", from)
			if method != "GET" {
				f.want(403, method, at, reader, body)
			}
			needsAdmin := strings.Contains(op.Description, "Needs the scope admin") ||
				strings.Contains(op.Description, "Needs a key with the scope admin")
			if needsAdmin {
				f.want(403, method, at, other, body)
			} else if strings.Contains(path, "{id}") {
				f.want(404, method, at, other, body)
			}
		}
	}
	for path, key := range map[string]string{"/v1/crawls?account=*": other, "/v1/usage?account=default": other,
		"/v1/keys?account=default": other} {
		f.want(422, "GET", path, key, "")
	}
	if text := f.want(200, "GET", "/v1/crawls?account=mine", admin, ""); !strings.Contains(text, id) {
		t.Errorf("an account by its name has no crawls: %s", text)
	}
	if text := f.want(200, "GET", "/v1/crawls", other, ""); strings.Contains(text, id) {
		t.Errorf("another account's crawl is listed: %s", text)
	}
	if text := f.want(200, "GET", "/v1/crawls?account=*&state=queued,running", admin, ""); !strings.Contains(text, id) {
		t.Errorf("an admin does not find the crawl: %s", text)
	}
	// No key makes one that may do more than itself, or one of another account.
	f.want(422, "POST", "/v1/keys", other, `{"scopes":["admin"]}`)
	f.want(422, "POST", "/v1/keys", other, `{"scopes":["read"],"account":"default"}`)
	var made service.Key
	if err := json.Unmarshal([]byte(f.want(201, "POST", "/v1/keys", other, `{"scopes":["read"],"name":"r"}`)),
		&made); err != nil {
		t.Fatal(err)
	}
	f.want(200, "GET", "/v1/me", made.Secret, "")
	if text := f.want(200, "GET", "/v1/keys", other, ""); strings.Contains(text, made.Secret) {
		t.Error("the list of keys has secrets")
	}
	f.want(404, "DELETE", "/v1/keys/"+made.ID, f.key("third", service.ScopeWrite), "")
	f.want(204, "DELETE", "/v1/keys/"+made.ID, other, "")
	f.want(401, "GET", "/v1/me", made.Secret, "")
}

// Accounts, plans, usage and the rest of what an admin sees.
func TestAdministration(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.key("default", service.ScopeAdmin)
	f.want(200, "PUT", "/v1/plans/small", key,
		`{"max_urls":10,"max_crawls":1,"pages_per_month":100,"refused_settings":["header"]}`)
	f.want(422, "PUT", "/v1/plans/small", key, `{"max_urls":-1,"max_priority":"x","more":1}`)
	f.want(200, "GET", "/v1/plans", key, "")
	var account service.Account
	if err := json.Unmarshal([]byte(f.want(201, "POST", "/v1/accounts", key,
		`{"name":"team","plan":"small","own_hosts":["*.example.com"]}`)), &account); err != nil {
		t.Fatal(err)
	}
	f.want(409, "POST", "/v1/accounts", key, `{"name":"team"}`)
	f.want(422, "POST", "/v1/accounts", key, `{"name":"","plan":"none","own_hosts":["http://x"]}`)
	f.want(200, "GET", "/v1/accounts", key, "")
	f.want(200, "GET", "/v1/accounts/"+account.ID, key, "")
	f.want(404, "GET", "/v1/accounts/000000000000000000000000", key, "")
	for _, path := range []string{"/v1/accounts", "/v1/plans"} {
		var names []string
		for cursor := ""; len(names) < 10; {
			var list service.List[struct {
				Name string `json:"name"`
			}]
			if err := json.Unmarshal([]byte(f.want(200, "GET", path+"?limit=1&cursor="+cursor, key, "")),
				&list); err != nil || len(list.Items) != 1 {
				t.Fatalf("%s after %q: %+v, %v", path, cursor, list, err)
			}
			names = append(names, list.Items[0].Name)
			if cursor = list.NextCursor; cursor == "" {
				break
			}
		}
		if want := map[string][]string{"/v1/accounts": {"default", "team"},
			"/v1/plans": {"default", "safe", "small"}}[path]; !slices.Equal(names, want) {
			t.Errorf("%s: %q, want %q", path, names, want)
		}
	}
	f.want(422, "GET", "/v1/accounts?limit=0&more=1", key, "")
	f.want(422, "GET", "/v1/crawls?account=none", key, "")
	f.want(200, "GET", "/v1/crawls?account=team", key, "")
	if text := f.want(409, "DELETE", "/v1/plans/small", key, ""); !strings.Contains(text, `account \"team\"`) {
		t.Errorf("the refusal does not name the account: %s", text)
	}
	f.want(409, "DELETE", "/v1/plans/default", key, "")
	f.want(404, "DELETE", "/v1/plans/none", key, "")
	f.want(200, "PATCH", "/v1/accounts/"+account.ID, key, `{"plan":"default"}`)
	f.want(204, "DELETE", "/v1/plans/small", key, "")
	f.want(422, "PATCH", "/v1/accounts/"+account.ID, key, `{"plan":"small"}`)
	f.want(200, "PATCH", "/v1/accounts/"+account.ID, key, `{"disabled":true}`)
	f.want(200, "GET", "/v1/usage?account="+account.ID, key, "")
	f.want(200, "GET", "/v1/usage", key, "")
	f.want(200, "GET", "/v1/settings", key, "")
	f.want(200, "GET", "/v1/queue", key, "")
	figures := f.want(200, "GET", "/metrics", key, "")
	named, err := documents.Metrics(filepath.Join("..", "..", "..", "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	ofService := 0
	for _, name := range named { // those of a crawl are tested in package crawl
		if regexp.MustCompile(`^mapwright_(service|http|database)_`).MatchString(name) {
			ofService++
			if !strings.Contains(figures, "# TYPE "+name+" ") {
				t.Errorf("the dashboard or an alert uses %s, which is not there", name)
			}
		}
	}
	if ofService < 5 {
		t.Errorf("only %d metrics of the service are used: the search is broken", ofService)
	}
	f.want(200, "GET", "/openapi.json", "", "")
	var audit service.List[service.AuditEntry]
	if err := json.Unmarshal([]byte(f.want(200, "GET", "/v1/audit?limit=2", key, "")), &audit); err != nil {
		t.Fatal(err)
	}
	if len(audit.Items) != 2 || audit.NextCursor == "" || audit.Items[0].Action != "account.edit" {
		t.Errorf("audit %+v", audit)
	}
	f.want(200, "GET", "/v1/audit?limit=2&cursor="+audit.NextCursor, key, "")
}

// A person logs in by a link or a key. Requests of the session that change something carry its token.
func TestSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	token, err := f.svc.Accounts.NewLogin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	login := func(form string, header ...string) (int, *http.Cookie) {
		status, h, _ := f.do("POST", "/login", "", form, append(header, "Content-Type",
			"application/x-www-form-urlencoded")...)
		cookies := (&http.Response{Header: h}).Cookies()
		if len(cookies) == 0 {
			return status, nil
		}
		return status, cookies[0]
	}
	if text := f.want(200, "GET", "/login?token="+token, "", ""); !strings.Contains(text, token) {
		t.Errorf("the page of the link: %s", text)
	}
	if status, _ := login("token="+token, "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("a login from another site: status %d", status)
	}
	status, cookie := login("token=" + token)
	if status != 303 || cookie == nil || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode ||
		cookie.Path != "/" {
		t.Fatalf("status %d, cookie %+v", status, cookie)
	}
	if status, _ := login("token=" + token); status != 401 {
		t.Errorf("the link a second time: status %d", status)
	}
	if status, _ := login("key=nonsense"); status != 401 {
		t.Errorf("a bad key: status %d", status)
	}
	pair := cookie.Name + "=" + cookie.Value
	var me struct {
		CSRF   string          `json:"csrf_token"`
		Scopes []service.Scope `json:"scopes"`
	}
	if err := json.Unmarshal([]byte(f.want(200, "GET", "/v1/me", "", "", "Cookie", pair)), &me); err != nil ||
		me.CSRF == "" || !slices.Equal(me.Scopes, []service.Scope{service.ScopeAdmin}) {
		t.Fatalf("%+v, %v", me, err)
	}
	const body = `{"scopes":["read"]}`
	f.want(403, "POST", "/v1/keys", "", body, "Cookie", pair)
	f.want(403, "POST", "/v1/keys", "", body, "Cookie", pair, "X-CSRF-Token", "wrong")
	f.want(403, "POST", "/v1/keys", "", body, "Cookie", pair, "X-CSRF-Token", me.CSRF, "Sec-Fetch-Site", "cross-site")
	f.want(403, "POST", "/v1/keys", "", body, "Cookie", pair, "X-CSRF-Token", me.CSRF, "Origin", "https://evil.test")
	if made := f.want(201, "POST", "/v1/keys", "", body, "Cookie", pair, "X-CSRF-Token", me.CSRF, "Origin",
		f.url); strings.Contains(made, "expires_at") {
		t.Errorf("a key that a person made by the login link ends: %s", made)
	}
	f.want(204, "POST", "/logout", "", "", "Cookie", pair, "X-CSRF-Token", me.CSRF)
	f.want(401, "GET", "/v1/me", "", "", "Cookie", pair)

	// A session by a key ends with the key.
	key := f.key("default", service.ScopeRead)
	if status, cookie = login("key=" + key); status != 303 {
		t.Fatalf("status %d", status)
	}
	pair = cookie.Name + "=" + cookie.Value
	f.want(200, "GET", "/v1/me", "", "", "Cookie", pair)
	if err := f.svc.Accounts.RevokeKey(t.Context(), &service.Caller{System: "test",
		Scopes: []service.Scope{service.ScopeAdmin}}, "", strings.Split(key, "_")[1]); err != nil {
		t.Fatal(err)
	}
	f.want(401, "GET", "/v1/me", "", "", "Cookie", pair)
}

// Bad requests are named as such, whatever they are.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.key("default", service.ScopeWrite)
	for _, c := range []struct {
		body   string
		status int
		fields []string
	}{
		{`{"start_urls":[],"settings":{"max_urls":-1,"no_such":1,"proxy":"http://x"},"priority":12,"labels":[""],"plan":"none"}`, 422,
			[]string{"start_urls", "settings.max_urls", "settings.no_such", "settings.proxy", "priority", "labels[0]",
				"plan"}},
		{`{"start_urls":["http://10.0.0.1/","ftp://x/","http://localhost/"]}`, 422, []string{"start_urls[1]"}},
		{`{"start_urls":["http://10.0.0.1/","http://localhost/"]}`, 422, []string{"start_urls[0]", "start_urls[1]"}},
		{`{"start_urls":"x"}`, 422, []string{"start_urls"}},
		{`not json`, 400, nil},
	} {
		var problem struct {
			Errors []service.FieldError `json:"errors"`
		}
		if err := json.Unmarshal([]byte(f.want(c.status, "POST", "/v1/crawls", key, c.body)), &problem); err != nil {
			t.Fatal(err)
		}
		for _, field := range c.fields {
			if !slices.ContainsFunc(problem.Errors, func(e service.FieldError) bool { return e.Field == field }) {
				t.Errorf("%s: no fault of %s: %+v", c.body, field, problem.Errors)
			}
		}
	}
	f.want(415, "POST", "/v1/crawls", key, `{}`, "Content-Type", "text/plain")
	f.want(413, "POST", "/v1/crawls", key, `{"name":"`+strings.Repeat("x", 9<<20)+`"}`)
	f.want(422, "POST", "/v1/crawls", key, `{"start_urls":["https://a.test/"]}`, "Idempotency-Key",
		strings.Repeat("k", 300))
	for _, id := range []string{"x", "..", "%2e%2e%2fservice.db", "000000000000000000000000", strings.Repeat("a", 500),
		"a%00b", "%F0%9F%92%A9"} {
		f.want(404, "GET", "/v1/crawls/"+id, key, "")
		f.want(404, "GET", "/v1/crawls/"+id+"/pages.jsonl", key, "")
	}
}

// A stream goes on after the last event that its client has, and ends when the server drains.
func TestEventStreams(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.web.Hold(0)
	key := f.key("default", service.ScopeAdmin)
	c := f.client(key)
	id := f.submit(c, f.submission(0, nil))
	f.until(c, id, 0, service.CrawlStarted)
	open := func(path string, header ...string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", f.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := f.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	var streams []*http.Response
	for _, s := range []*http.Response{open("/v1/events", "Last-Event-ID", "0"),
		open("/v1/crawls/" + id + "/events?since=0"), open("/v1/events")} {
		if s.StatusCode != 200 || s.Header.Get("X-Accel-Buffering") != "no" ||
			s.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("status %d, %v", s.StatusCode, s.Header)
		}
		streams = append(streams, s)
	}
	ahead := open("/v1/events", "Last-Event-ID", "4000") // of another database
	f.want(422, "GET", "/v1/events", key, "", "Last-Event-ID", "x")
	f.want(422, "GET", "/v1/events?since=-1", key, "")
	f.want(404, "GET", "/v1/crawls/000000000000000000000000/events", key, "")
	f.server.Drain()
	for i, s := range streams {
		text, err := io.ReadAll(s.Body)
		if err := errors.Join(err, s.Body.Close()); err != nil {
			t.Error(err)
		}
		if has := bytes.Contains(text, []byte("event: crawl.queued\n")); has != (i < 2) {
			t.Errorf("stream %d: %s", i, text)
		}
		if !bytes.Contains(text, []byte("\nid: ")) {
			t.Errorf("stream %d says not where it begins: %s", i, text)
		}
	}
	text, err := io.ReadAll(ahead.Body)
	if err := errors.Join(err, ahead.Body.Close()); err != nil || !bytes.Contains(text, []byte("event: gap\n")) ||
		!bytes.Contains(text, []byte(`"has":4000`)) {
		t.Errorf("a client with the id of an event that does not exist: %v, %s", err, text)
	}
	f.want(503, "GET", "/readyz", "", "")
}
