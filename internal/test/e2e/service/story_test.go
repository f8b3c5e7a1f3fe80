package service

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// settingsFor are settings by which crawls reach a synthetic web. Only an admin may use them. A request that is held
// has no time-out on a busy machine.
func settingsFor(w *testweb.Server, more map[string]any) map[string]json.RawMessage {
	all := map[string]any{"profile": "own-site", "resolve": []string{w.Resolve()}, "seeding_strategy": []string{"none"},
		"timeout": "10m"}
	for name, value := range more {
		all[name] = value
	}
	out := map[string]json.RawMessage{}
	for name, value := range all {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err) // the values are those of this file
		}
		out[name] = text
	}
	return out
}

// The whole story through the program: start, login link, keys, ten crawls of three hosts under two plans, events,
// pause, resume, edit, cancel, a quota reached and lifted, a schedule, a webhook with a bad receiver, a kill in the
// middle, export, delete.
func TestStory(t *testing.T) {
	const pages = 30
	w := e2e.Serve(t, testweb.Config{Seed: 3, Hosts: 3, Pages: pages, PageSize: 2000, Links: 8})
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, dir, "--max-crawls", "3", "--min-free", "0")
	s.logIn()
	root := must(run(t, nil, "keys", "create", "--scope", "admin", "--name", "root", "--data-dir", dir))(t)
	admin := s.client(root)

	// Two plans, each with an account and a key.
	keys := make([]string, 2)
	plans := []string{`{"max_crawls": 2}`, `{"max_crawls": 1, "pages_per_month": 45}`}
	for i, plan := range plans {
		name := fmt.Sprintf("plan%d", i)
		s.send(admin, "PUT", "/v1/plans/"+name, plan, nil)
		var account service.Account
		s.send(admin, "POST", "/v1/accounts", fmt.Sprintf(`{"name":"team %d","plan":%q}`, i, name), &account)
		var key service.Key
		s.send(admin, "POST", "/v1/keys", fmt.Sprintf(`{"account":%q,"name":"k","scopes":["admin"]}`, account.ID), &key)
		keys[i] = key.Secret
	}
	first, second := s.client(keys[0]), s.client(keys[1])

	// A schedule, and a webhook whose receiver fails at first.
	var schedule service.Schedule
	s.send(first, "POST", "/v1/schedules",
		`{"name":"nightly","cron":"30 2 * * *","zone":"Europe/Berlin","submission":{"start_urls":["https://example.com/"]}}`, &schedule)
	if schedule.NextAt.IsZero() {
		t.Errorf("the schedule is never due: %+v", schedule)
	}
	var requests atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer receiver.Close()
	var hook service.Webhook
	s.send(first, "POST", "/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":["crawl.finished"],"allow_private":true}`,
		receiver.URL), &hook)

	// Ten crawls: the web answers ten pages, and holds the rest.
	w.Hold(10)
	var ids [2][]string
	for i := range 10 {
		c := []*client.Client{first, second}[i%2]
		in := service.Submission{StartURLs: []string{w.StartURLs()[i%3]}, Name: fmt.Sprintf("crawl %d", i),
			Settings: settingsFor(w, nil)}
		crawl := must(c.Submit(t.Context(), in, fmt.Sprintf("story-%d", i)))(t)
		if again := must(c.Submit(t.Context(), in, fmt.Sprintf("story-%d", i)))(t); again.ID != crawl.ID {
			t.Errorf("a repeated request made a second crawl")
		}
		ids[i%2] = append(ids[i%2], crawl.ID)
	}
	paused, cancelled := ids[0][0], ids[0][4]
	s.reaches(first, paused, service.Running)
	s.until("a crawl that waits says why", func() bool {
		crawl := must(first.Crawl(t.Context(), cancelled))(t)
		return crawl.State == service.Queued && crawl.Waiting != nil && crawl.Waiting.Detail != "" &&
			crawl.Waiting.Position > 0
	})
	if queue := must(admin.Queue(t.Context(), service.CrawlFilter{}))(t); len(queue.Items) != 0 {
		t.Errorf("the queue of an account without crawls: %+v", queue)
	}

	// Pause, edit while paused, resume; cancel one that waits.
	must(first.Command(t.Context(), paused, service.CommandPause))(t)
	s.reaches(first, paused, service.Paused)
	name := "renamed"
	edited := must(first.Edit(t.Context(), paused, service.Edit{Name: &name,
		Settings: map[string]json.RawMessage{"max_urls": json.RawMessage("500")}}))(t)
	if edited.Name != name {
		t.Errorf("the name is %q after an edit", edited.Name)
	}
	must(first.Command(t.Context(), paused, service.CommandResume))(t)
	must(first.Command(t.Context(), cancelled, service.CommandCancel))(t)
	s.reaches(first, cancelled, service.Cancelled)

	// Killed in the middle, and started again: what was accepted goes on.
	s.kill()
	w.Release()
	s = startServer(t, dir, "--max-crawls", "3", "--min-free", "0")
	if strings.Contains(s.out.String(), "/login?token=") {
		t.Error("the server prints a login link although somebody has logged in")
	}
	admin, first, second = s.client(root), s.client(keys[0]), s.client(keys[1])
	for _, id := range ids[0][:4] {
		if crawl := s.reaches(first, id, service.Complete); crawl.Found != pages || crawl.Outcomes["ok"] != pages {
			t.Errorf("%s: %d found, %v", id, crawl.Found, crawl.Outcomes)
		}
	}

	// The quota of the second plan lets 45 pages through, and pauses what comes then. Lifted, the rest goes on by
	// itself.
	var used service.Usage
	s.until("the quota is used up", func() bool {
		s.send(second, "GET", "/v1/usage", "", &used)
		return used.Pages.Used == 45
	})
	s.until("a crawl waits for the quota", func() bool {
		list := must(second.Crawls(t.Context(), service.CrawlFilter{}))(t)
		return slices.ContainsFunc(list.Items, func(c service.Crawl) bool {
			return c.Waiting != nil &&
				c.Waiting.Code == service.WaitQuota
		})
	})
	s.send(admin, "PUT", "/v1/plans/plan1", `{"max_crawls": 1, "pages_per_month": 1000}`, nil)
	for _, id := range ids[1] {
		if crawl := s.reaches(second, id, service.Complete); crawl.Outcomes["ok"] != pages {
			t.Errorf("%s: %v", id, crawl.Outcomes)
		}
	}
	if s.send(second, "GET", "/v1/usage", "", &used); used.Pages.Used != 5*pages {
		t.Errorf("%d pages were used, want %d", used.Pages.Used, 5*pages)
	}
	s.checkEvents(first, ids[0][:4])

	// Every crawl of the first account is told to the receiver in the end, which failed once.
	var deliveries service.List[service.Delivery]
	s.until("deliveries are attempted", func() bool {
		s.send(first, "GET", "/v1/webhooks/"+hook.ID+"/deliveries", "", &deliveries)
		return len(deliveries.Items) == 5 && !slices.ContainsFunc(deliveries.Items,
			func(d service.Delivery) bool { return d.Attempts == 0 })
	})
	for _, d := range deliveries.Items {
		if d.State != service.Delivered {
			s.send(first, "POST", "/v1/webhooks/"+hook.ID+"/deliveries/"+d.ID+"/redeliver", "", nil)
		}
	}
	s.until("all deliveries have arrived", func() bool {
		s.send(first, "GET", "/v1/webhooks/"+hook.ID+"/deliveries", "", &deliveries)
		return !slices.ContainsFunc(deliveries.Items,
			func(d service.Delivery) bool { return d.State != service.Delivered })
	})

	// Export by the command line, then delete.
	env := []string{"MAPWRIGHT_SERVER=" + s.url, "MAPWRIGHT_KEY=" + keys[0]}
	file := filepath.Join(t.TempDir(), "pages.jsonl")
	must(run(t, env, "remote", "get", paused, "pages.jsonl", "--output", file))(t)
	if text := must(os.ReadFile(file))(t); strings.Count(string(text), "\n") != pages {
		t.Errorf("the export has %d lines", strings.Count(string(text), "\n"))
	}
	if out := must(run(t, env, "remote", "list"))(t); strings.Count(out, "complete") != 4 ||
		strings.Count(out, "cancelled") != 1 {
		t.Errorf("the list of crawls:\n%s", out)
	}
	for _, id := range ids[0] {
		must(run(t, env, "remote", "delete", id))(t)
	}
	s.until("the crawls are gone", func() bool {
		return len(must(first.Crawls(t.Context(),
			service.CrawlFilter{}))(t).Items) == 0
	})
	for _, id := range ids[0] {
		s.until("the directory is gone", func() bool {
			_, err := os.Stat(filepath.Join(dir, "crawls",
				id))
			return os.IsNotExist(err)
		})
	}
	s.send(first, "DELETE", "/v1/schedules/"+schedule.ID, "", nil)
	s.stop()
}

// checkEvents reads the events of crawls from the beginning: each began, ended once, and ids ascend.
func (s *server) checkEvents(c *client.Client, ids []string) {
	s.t.Helper()
	for _, id := range ids {
		var last int64
		counts := map[service.EventType]int{}
		for event, err := range c.Events(s.t.Context(), id, 0) {
			if err != nil {
				s.t.Fatal(err)
			}
			if event.ID <= last {
				s.t.Errorf("event %d comes after %d", event.ID, last)
			}
			last = event.ID
			if counts[event.Type]++; event.Type == service.CrawlFinished {
				break
			}
		}
		if counts[service.CrawlQueued] == 0 || counts[service.CrawlStarted] == 0 {
			s.t.Errorf("%s: events %v", id, counts)
		}
	}
}

// logIn uses the login link that the server printed.
func (s *server) logIn() {
	s.t.Helper()
	link := regexp.MustCompile(`http://\S+/login\?token=\S+`).FindString(s.out.String())
	if link == "" {
		s.t.Fatal("the server printed no login link")
	}
	c := httpClient(s.t, s.base)
	for range 3 { // looking at the link does not use it up
		res := must(c.Get(link))(s.t)
		body := must(io.ReadAll(res.Body))(s.t)
		if err := res.Body.Close(); err != nil || res.StatusCode != 200 || !strings.Contains(string(body), "<button") {
			s.t.Errorf("the login page: %d %s %v", res.StatusCode, body, err)
		}
	}
	u := must(url.Parse(link))(s.t)
	var cookie *http.Cookie
	for i, want := range []int{http.StatusSeeOther, http.StatusUnauthorized} { // once only
		res := must(c.PostForm(s.url+s.base+"/login", url.Values{"token": {u.Query().Get("token")}}))(s.t)
		if err := res.Body.Close(); err != nil || res.StatusCode != want {
			s.t.Errorf("login %d: status %d, want %d", i+1, res.StatusCode, want)
		}
		if cookies := res.Cookies(); i == 0 && len(cookies) == 1 {
			cookie = cookies[0]
		}
	}
	if cookie == nil || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
		s.t.Fatalf("the cookie of the session: %+v", cookie)
	}
}

// send sends a request for which the client has no method.
func (s *server) send(c *client.Client, method, path, body string, out any) {
	s.t.Helper()
	var in any
	if body != "" {
		in = json.RawMessage(body)
	}
	if err := c.Do(s.t.Context(), method, path, in, out); err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
}
