package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

// The keys of an account are replaced while a crawl runs. The crawl, the schedule and the usage belong to the account
// and do not change.
func TestKeysRotatedInMidCrawl(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	old := f.key("team", service.ScopeAdmin)
	f.want(200, "PUT", "/v1/plans/default", old, `{"pages_per_month":1000}`)
	f.web.Hold(10)
	id := f.submit(f.client(old), f.submission(0, nil))
	f.until(f.client(old), id, 0, service.CrawlStarted)
	submission := must(json.Marshal(f.submission(1, nil)))
	var schedule service.Schedule
	if err := json.Unmarshal([]byte(f.want(201, "POST", "/v1/schedules", old,
		`{"cron":"0 3 1 1 *","submission":`+submission+`}`)), &schedule); err != nil {
		t.Fatal(err)
	}

	var key service.Key
	if err := json.Unmarshal([]byte(f.want(201, "POST", "/v1/keys", old, `{"scopes":["admin"]}`)), &key); err != nil {
		t.Fatal(err)
	}
	f.want(204, "DELETE", "/v1/keys/"+strings.Split(old, "_")[1], key.Secret, "")
	f.want(401, "GET", "/v1/crawls/"+id, old, "")
	f.web.Release()
	c := f.client(key.Secret)
	f.until(c, id, 0, service.CrawlFinished)
	if crawl, err := c.Crawl(t.Context(), id); err != nil || crawl.State != service.Complete ||
		crawl.PagesCounted != 25 {
		t.Errorf("%+v, %v", crawl, err)
	}

	// The schedule that the old key made is due.
	err := f.svc.Write(t.Context(), func(tx *service.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE schedule SET next_at = ? WHERE id = ?", time.Now().UnixMilli(),
			schedule.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	last, err := f.svc.Events.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.schedules.Wake()
	f.until(c, "", last, service.CrawlFinished)
	list, err := c.Crawls(t.Context(), service.CrawlFilter{})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if crawl := list.Items[0]; crawl.Schedule != schedule.ID || crawl.State != service.Complete ||
		crawl.Account != key.Account {
		t.Errorf("the crawl of the schedule: %+v", crawl)
	}
	var used service.Usage
	if err := json.Unmarshal([]byte(f.want(200, "GET", "/v1/usage", key.Secret, "")), &used); err != nil ||
		used.Pages.Used != 50 || used.Pages.Granted != 0 {
		t.Errorf("usage %+v, %v", used.Pages, err)
	}
}

// What is stored of a request does not grow with what the request repeats, and a refusal names a hundred faults at
// most.
func TestRequestsThatRepeat(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	admin := f.key("team", service.ScopeRead, service.ScopeWrite, service.ScopeAdmin)
	list := func(text string) string { return `["` + strings.Repeat(text+`","`, 5000) + text + `"]` }
	made := f.want(201, "POST", "/v1/keys", admin, `{"scopes":`+list("read")+`}`)
	var key service.Key
	if err := json.Unmarshal([]byte(made), &key); err != nil ||
		!slices.Equal(key.Scopes, []service.Scope{service.ScopeRead}) {
		t.Errorf("the key has scopes %v, %v", key.Scopes, err)
	}
	var hook service.Webhook
	if err := json.Unmarshal([]byte(f.want(201, "POST", "/v1/webhooks", admin, `{"url":"https://example.com/"}`)),
		&hook); err != nil {
		t.Fatal(err)
	}
	f.want(200, "PATCH", "/v1/webhooks/"+hook.ID, admin, `{"events":["crawl.paused`+strings.Repeat(`","crawl.paused`,
		3000)+`"]}`)
	if audit := f.want(200, "GET", "/v1/audit", admin, ""); len(audit) > 10_000 {
		t.Errorf("the audit log has %d bytes", len(audit))
	}
	for method, body := range map[string]string{"POST /v1/keys": `{"scopes":` + list("x") + `}`,
		"POST /v1/schedules": `{"cron":"` + strings.Repeat("1,", 3000) +
			`1 * * * *","submission":{"start_urls":["https://a.test/"]}}`} {
		method, path, _ := strings.Cut(method, " ")
		var problem service.Document
		if err := json.Unmarshal([]byte(f.want(422, method, path, admin, body)), &problem); err != nil ||
			len(problem.Errors) > 101 {
			t.Errorf("%s names %d faults, %v", path, len(problem.Errors), err)
		}
	}
}

// A key makes and revokes only keys that can do no more than itself and end no later. A person who logged in by a link
// makes keys that last.
func TestKeysOfKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := func(key string) string { return strings.Split(key, "_")[1] }
	read, write, admin := f.key("team", service.ScopeRead), f.key("team", service.ScopeWrite),
		f.key("team", service.ScopeAdmin)
	other := f.key("others", service.ScopeRead)
	f.want(403, "DELETE", "/v1/keys/"+id(write), read, "")
	f.want(403, "DELETE", "/v1/keys/"+id(admin), write, "")
	f.want(404, "DELETE", "/v1/keys/"+id(other), write, "")
	f.want(200, "GET", "/v1/me", admin, "")
	f.want(204, "DELETE", "/v1/keys/"+id(read), write, "")
	f.want(401, "GET", "/v1/me", read, "")
	f.want(422, "POST", "/v1/keys", write, `{"scopes":["read","admin"]}`)
	f.want(422, "POST", "/v1/keys", write, `{"account":"others"}`)

	in := func(hours int) string {
		return time.Now().Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
	}
	make := func(by, body string) (key service.Key) {
		t.Helper()
		if err := json.Unmarshal([]byte(f.want(201, "POST", "/v1/keys", by, body)), &key); err != nil {
			t.Fatal(err)
		}
		return key
	}
	ends := in(10)
	short := make(admin, `{"scopes":["admin"],"expires_at":"`+ends+`"}`)
	for body, want := range map[string]string{
		`{}`: ends, `{"scopes":["read"]}`: ends, `{"expires_at":"` + in(5) + `"}`: in(5), `{"account":"others"}`: ends,
	} {
		if made := make(short.Secret, body); made.ExpiresAt.Format(time.RFC3339) > want || made.ExpiresAt.IsZero() {
			t.Errorf("%s: it ends at %v, want %s", body, made.ExpiresAt, want)
		}
	}
	f.want(422, "POST", "/v1/keys", short.Secret, `{"expires_at":"`+in(11)+`"}`)
	for _, past := range []string{in(-1), "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T02:00:00+02:00"} {
		answer := f.want(422, "POST", "/v1/keys", admin, `{"expires_at":"`+past+`"}`)
		if !strings.Contains(answer, `"expires_at"`) || !strings.Contains(answer, "it is in the past") {
			t.Errorf("a key that ends at %s: %s", past, answer)
		}
	}
	if made := make(admin, `{}`); !made.ExpiresAt.IsZero() {
		t.Errorf("a key of one without end ends at %v", made.ExpiresAt)
	}
}

// An account has a bounded number of keys, and makes a bounded number in a day. An admin may make more.
func TestNumberOfKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	write, admin := f.key("team", service.ScopeWrite), f.key("admins", service.ScopeAdmin)
	made := 0
	for ; made < 1000; made++ {
		status, _, text := f.do("POST", "/v1/keys", write, `{"scopes":["read"]}`)
		if status == 403 {
			break
		}
		var key service.Key
		if err := json.Unmarshal([]byte(text), &key); status != 201 || err != nil {
			t.Fatalf("key %d: %d %s", made, status, text)
		}
		if made%2 == 0 { // it counts all the same
			f.want(204, "DELETE", "/v1/keys/"+key.ID, write, "")
		}
	}
	if made >= 200 {
		t.Errorf("%d keys were made", made)
	}
	f.want(201, "POST", "/v1/keys", admin, `{"account":"team"}`)
	f.key("others", service.ScopeWrite)
	err := f.svc.Write(t.Context(), func(tx *service.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE api_key SET created_at = created_at - 86400001") // a day later
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.want(201, "POST", "/v1/keys", write, `{}`)
}

// A tenant does not learn whether others crawl a host.
func TestHostsOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	tenant, admin := f.key("curious", service.ScopeWrite), f.key("default", service.ScopeAdmin)
	f.web.Hold(5)
	id := f.submit(f.client(admin), f.submission(0, nil))
	f.until(f.client(admin), id, 0, service.CrawlStarted)
	at := "/v1/hosts/" + f.web.HostName(0)
	if text := f.want(200, "GET", at, admin, ""); !strings.Contains(text, `"crawls"`) ||
		!strings.Contains(text, `"pace"`) {
		t.Errorf("an admin sees %s", text)
	}
	asked := strings.ReplaceAll(f.want(200, "GET", at, tenant, ""), f.web.HostName(0), "")
	if other := strings.ReplaceAll(f.want(200, "GET", "/v1/hosts/never.test", tenant, ""), "never.test",
		""); asked != other {
		t.Errorf("a host that others ask: %s, another: %s", asked, other)
	}
	f.web.Release()
	f.until(f.client(admin), id, 0, service.CrawlFinished)
}

// With 10,000 keys each is found, none of them for another, and the parts of the list make it whole.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first := f.key("default", service.ScopeRead)
	var account string
	err := f.svc.Write(t.Context(), func(tx *service.Tx) error {
		if err := tx.QueryRowContext(t.Context(), "SELECT account FROM api_key").Scan(&account); err != nil {
			return err
		}
		for i := range 9998 {
			_, err := tx.ExecContext(t.Context(),
				"INSERT INTO api_key (id, account, name, hash, scopes_json, created_at, expires_at) VALUES (?, ?, ?, "+
					"?, '[\"read\"]', 1, 0)",
				service.NewID(), account, fmt.Sprintf("key %d", i), strings.Repeat("0", 64))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	last := f.key("default", service.ScopeRead)
	for _, key := range []string{first, last} {
		f.want(200, "GET", "/v1/me", key, "")
	}
	firstID, lastID := strings.Split(first, "_")[1], strings.Split(last, "_")[1]
	f.want(401, "GET", "/v1/me", strings.Replace(first, firstID, lastID, 1), "")
	seen := map[string]bool{}
	for cursor, parts := "", 1; ; parts++ {
		var list service.List[service.Key]
		if err := json.Unmarshal([]byte(f.want(200, "GET", "/v1/keys?limit=1000&cursor="+cursor, last, "")),
			&list); err != nil {
			t.Fatal(err)
		}
		for _, key := range list.Items {
			seen[key.ID] = true
		}
		if cursor = list.NextCursor; cursor == "" || parts == 10 {
			if cursor != "" || parts != 10 {
				t.Errorf("after %d parts there is more: %q", parts, cursor)
			}
			break
		}
	}
	if len(seen) != 10_000 {
		t.Errorf("%d keys are listed", len(seen))
	}
}

// A key is revoked while the body of a request is on its way: the request changes nothing.
func TestKeyRevokedInMidRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	admin := f.key("team", service.ScopeAdmin)
	c := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: patience}}
	defer c.CloseIdleConnections()
	var hook service.Webhook
	if err := json.Unmarshal([]byte(f.want(201, "POST", "/v1/webhooks", admin, `{"url":"https://example.com/"}`)),
		&hook); err != nil {
		t.Fatal(err)
	}
	submission := must(json.Marshal(f.submission(0, nil)))
	const lists = "/v1/keys /v1/crawls /v1/webhooks /v1/schedules"
	for request, body := range map[string]string{
		"POST /v1/keys":                 `{"scopes":["write"]}`,
		"POST /v1/crawls":               submission,
		"POST /v1/webhooks":             `{"url":"https://example.com/other"}`,
		"PATCH /v1/webhooks/" + hook.ID: `{"url":"https://example.com/other"}`,
		"POST /v1/schedules":            `{"cron":"0 3 1 1 *","submission":` + submission + `}`,
	} {
		key := f.key("team", service.ScopeAdmin)
		var before []string
		sent := strings.NewReader(body)
		revoked := false
		// The server asks for the body after it has looked at the key.
		method, path, _ := strings.Cut(request, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, f.url+path, readerFunc(func(p []byte) (int, error) {
			if !revoked {
				revoked = true
				f.want(204, "DELETE", "/v1/keys/"+strings.Split(key, "_")[1], admin, "")
				for list := range strings.FieldsSeq(lists) {
					before = append(before, f.want(200, "GET", list, admin, ""))
				}
			}
			return sent.Read(p)
		}))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"},
			"Expect": {"100-continue"}}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 401 || !revoked {
			t.Errorf("%s: status %d, revoked %v", request, resp.StatusCode, revoked)
		}
		for i, list := range strings.Fields(lists) {
			if after := f.want(200, "GET", list, admin, ""); i < len(before) && after != before[i] {
				t.Errorf("%s has changed %s:\n%s\n%s", request, list, before[i], after)
			}
		}
	}
	f.want(204, "DELETE", "/v1/keys/"+strings.Split(admin, "_")[1], admin, "")
	f.want(401, "GET", "/v1/me", admin, "")
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A session ends while the body of a request is on its way: the request changes nothing, though the session's key is
// valid.
func TestSessionEndedInMidRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.key("team", service.ScopeAdmin)
	_, header, _ := f.do("POST", "/login", "", "key="+key, "Content-Type", "application/x-www-form-urlencoded")
	cookies := (&http.Response{Header: header}).Cookies()
	if len(cookies) == 0 {
		t.Fatal("no session")
	}
	pair := cookies[0].Name + "=" + cookies[0].Value
	var me struct {
		CSRF string `json:"csrf_token"`
	}
	if err := json.Unmarshal([]byte(f.want(200, "GET", "/v1/me", "", "", "Cookie", pair)), &me); err != nil {
		t.Fatal(err)
	}
	before, body, ended := "", strings.NewReader(`{"scopes":["read"]}`), false
	// The server asks for the body after it has looked at the session.
	r, err := http.NewRequestWithContext(t.Context(), "POST", f.url+"/v1/keys", readerFunc(func(p []byte) (int, error) {
		if !ended {
			ended = true
			f.want(204, "POST", "/logout", "", "", "Cookie", pair, "X-CSRF-Token", me.CSRF)
			before = f.want(200, "GET", "/v1/keys", key, "")
		}
		return body.Read(p)
	}))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Cookie": {pair}, "X-Csrf-Token": {me.CSRF}, "Content-Type": {"application/json"},
		"Expect": {"100-continue"}}
	c := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: patience}}
	defer c.CloseIdleConnections()
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 401 || !ended {
		t.Errorf("status %d, ended %v", resp.StatusCode, ended)
	}
	if after := f.want(200, "GET", "/v1/keys", key, ""); after != before {
		t.Errorf("keys:\n%s\n%s", before, after)
	}
}
