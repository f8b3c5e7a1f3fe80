package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/test/htmltest"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// login logs a browser in with a key of an account, which is made if it is not there.
func (f *dashboard) login(account string, scope service.Scope) *browser {
	f.t.Helper()
	operator := &service.Caller{System: "test", Scopes: []service.Scope{service.ScopeAdmin}}
	made, err := f.svc.Accounts.Create(f.t.Context(), operator, service.Account{Name: account})
	if err != nil {
		f.t.Fatal(err)
	}
	key, err := f.svc.Accounts.CreateKey(f.t.Context(), operator,
		service.Key{Account: made.ID, Name: "test", Scopes: []service.Scope{scope}})
	if err != nil {
		f.t.Fatal(err)
	}
	b := f.newBrowser()
	if p := b.submit(b.get("/login"), "/login", map[string]string{"key": key.Secret}); p.status != http.StatusOK {
		f.t.Fatalf("the login leads to %s with status %d", p.at, p.status)
	}
	return b
}

// Pages need a session, forms its token, and changes the scope for them. What belongs to others does not exist.
func TestGuards(t *testing.T) {
	t.Parallel()
	f := newDashboard(t, testweb.Config{}, "")
	f.site.Hold(0)
	admin := f.loggedIn()
	c := f.submit(service.Submission{})
	stranger := f.newBrowser()
	for _, path := range []string{"/", "/new", "/settings", "/settings/audit", "/crawls/" + c.ID, "/crawls/" + c.ID +
		"/live", "/nothing"} {
		if p := stranger.get(path); p.at.Path != "/login" {
			t.Errorf("%s is shown without a session, at %s", path, p.at)
		}
	}
	if p := admin.get("/nothing"); p.status != http.StatusNotFound {
		t.Errorf("an address without a page answers %d", p.status)
	}
	form := admin.get("/crawls/" + c.ID)
	for name, values := range map[string]map[string]string{"without a token": {"csrf": ""},
		"with the token of another session": {"csrf": attr(findInput(t, f.loggedIn().get("/"), "csrf"), "value")}} {
		if p := admin.submit(form, "/cancel", values); p.status != http.StatusForbidden {
			t.Errorf("a form %s answers %d", name, p.status)
		}
	}
	req, err := http.NewRequest(http.MethodPost, f.url+"/crawls/"+c.ID+"/cancel",
		strings.NewReader(url.Values{"csrf": {attr(findInput(t, form, "csrf"), "value")}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	if p := admin.read(admin.client.Do(req)); p.status != http.StatusForbidden {
		t.Errorf("a form of another site answers %d", p.status)
	}
	reader := f.login("readers", service.ScopeRead)
	if p := reader.get("/"); len(p.rows("Running")) > 0 || strings.Contains(p.text, "New crawl") {
		t.Error("a reader of another account sees the crawl, or a button")
	}
	for _, path := range []string{"", "/live", "/pages", "/page?url=http%3A%2F%2Fh0.test%2F", "/problems", "/changes"} {
		if p := reader.get("/crawls/" + c.ID + path); p.status != http.StatusNotFound {
			t.Errorf("the crawl of another account answers %d at %q", p.status, path)
		}
	}
	for _, path := range []string{"/settings/hosts", "/settings/audit"} {
		if p := reader.get(path); p.status != http.StatusForbidden {
			t.Errorf("%s answers %d to a reader", path, p.status)
		}
	}
	token := map[string][]string{"csrf": {attr(findInput(t, reader.get("/"), "csrf"), "value")},
		"start_urls": {"http://h0.test/"}}
	if p := reader.read(reader.client.PostForm(f.url+"/new", token)); p.status != http.StatusForbidden {
		t.Errorf("a reader makes a crawl: %d", p.status)
	}
	if p := admin.submit(admin.get("/"), "/leave", nil); p.at.Path != "/login" {
		t.Errorf("logging out leads to %s", p.at)
	}
	if p := admin.get("/"); p.at.Path != "/login" {
		t.Error("the session goes on after logging out")
	}
}

func findInput(t *testing.T, p *page, name string) *html.Node {
	t.Helper()
	for _, n := range p.all("input") {
		if attr(n, "name") == name {
			return n
		}
	}
	t.Fatalf("%s has no field %s", p.at, name)
	return nil
}

// Every page below a base path is well-formed, keeps to the policy, has each id once, labels its fields, and leads to
// pages that exist.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	f := newDashboard(t, smallSite(), "/some/base")
	b := f.loggedIn()
	c := f.submit(service.Submission{Settings: map[string]json.RawMessage{"links": json.RawMessage("true")}})
	f.await(c.ID, service.Complete)
	seen, queue := map[string]bool{}, []string{f.url + "/"}
	for len(queue) > 0 && len(seen) < 150 {
		at := queue[0]
		queue = queue[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		p := b.get(at)
		if p.status != http.StatusOK {
			t.Errorf("%s answers %d", at, p.status)
		}
		if !strings.HasPrefix(p.header.Get("Content-Type"), "text/html") || strings.Contains(at, "/v1/") {
			continue
		}
		checkPolicy(t, p)
		if err := htmltest.Check(p.text); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		for _, n := range append(p.all("a"), append(p.all("link"), p.all("script")...)...) {
			to, err := p.at.Parse(attr(n, "href") + attr(n, "src"))
			if err != nil {
				t.Fatal(err)
			}
			if to.Fragment = ""; to.Host != p.at.Host {
				if attr(n, "rel") != "noreferrer noopener" {
					t.Errorf("%s: a link to %s tells where it comes from", at, to)
				}
				continue
			}
			if !strings.HasPrefix(to.String(), f.url+"/") {
				t.Errorf("%s: %s is not below the base", at, to)
			}
			queue = append(queue, to.String())
		}
	}
	for _, want := range []string{"/new", "/settings", "/settings/schedules", "/settings/webhooks", "/settings/hosts",
		"/settings/audit", "/crawls/" + c.ID,
		"/crawls/" + c.ID + "/pages", "/crawls/" + c.ID + "/problems", "/crawls/" + c.ID + "/changes"} {
		if !seen[f.url+want] {
			t.Errorf("no link leads to %s", want)
		}
	}
}

// checkPolicy looks for what the Content-Security-Policy would refuse, and for what people with a screen reader would
// miss.
func checkPolicy(t *testing.T, p *page) {
	t.Helper()
	policy := p.header.Get("Content-Security-Policy")
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("%s has the policy %q", p.at, policy)
	}
	ids, labels := map[string]bool{}, map[string]bool{}
	for n := range p.root.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("%s: %s has the attribute %s", p.at, n.Data, a.Key)
			}
		}
		if id := attr(n, "id"); id != "" {
			if ids[id] {
				t.Errorf("%s: the id %s exists twice", p.at, id)
			}
			ids[id] = true
		}
		if n.Data == "label" {
			labels[attr(n, "for")] = true
		}
		if n.Type == html.ElementNode && (n.Data == "style" || n.Data == "script" && n.FirstChild != nil) {
			t.Errorf("%s has an inline %s", p.at, n.Data)
		}
	}
	for _, name := range []string{"input", "select", "textarea"} {
		for _, n := range p.all(name) {
			if attr(n, "type") != "hidden" && n.Parent.Data != "label" && !labels[attr(n, "id")] {
				t.Errorf("%s: the field %s has no label", p.at, attr(n, "name"))
			}
		}
	}
	if n := len(p.all("h1")); n != 1 {
		t.Errorf("%s has %d headings of the first level", p.at, n)
	}
}

// Keys, schedules, webhooks and denied hosts are made and removed by forms; the audit log has all of it.
func TestSettings(t *testing.T) {
	t.Parallel()
	f := newDashboard(t, testweb.Config{}, "")
	b := f.loggedIn()
	made := b.submit(b.get("/settings"), "/settings/keys", map[string]string{"name": "robot", "scope": "write"})
	secret := ""
	for _, n := range made.all("code") {
		if attr(n, "class") == "secret" {
			secret = textOf(n)
		}
	}
	caller, err := f.svc.Accounts.Authenticate(t.Context(), secret)
	if err != nil || !caller.Has(service.ScopeWrite) || caller.Has(service.ScopeAdmin) {
		t.Fatalf("the key that is shown is %+v, %v", caller, err)
	}
	if p := b.get("/settings"); strings.Contains(p.text, secret) {
		t.Error("the secret of a key is shown twice")
	}
	b.read(b.client.PostForm(f.url+"/settings/keys/revoke", map[string][]string{"csrf": {attr(findInput(t, made,
		"csrf"), "value")}, "id": {caller.Key}}))
	if _, err := f.svc.Accounts.Authenticate(t.Context(), secret); err == nil {
		t.Error("a revoked key is valid")
	}

	c := f.submit(service.Submission{Name: "again and again"})
	f.await(c.ID, service.Complete)
	bad := b.submit(b.get("/settings/schedules"), "/settings/schedules",
		map[string]string{"name": "x", "when": "99 99 * * *", "zone": "Nowhere/Else"})
	if bad.status != http.StatusUnprocessableEntity {
		t.Errorf("a bad schedule answers %d", bad.status)
	}
	times := b.submit(b.get("/settings/schedules?crawl="+c.ID), "/settings/schedules",
		map[string]string{"name": "nightly", "when": "0 3 * * *", "zone": "Europe/Berlin", "crawl": c.ID})
	if rows := times.rows("Schedules"); len(rows) != 1 || rows[0][0] != "nightly" ||
		!strings.Contains(rows[0][1], "0 3 * * *") {
		t.Errorf("the schedules are %q", rows)
	}
	change := ""
	for _, n := range times.all("a") {
		if textOf(n) == "Edit" {
			change = attr(n, "href")
		}
	}
	if p := b.submit(b.get(change), "/schedules/edit", map[string]string{"enabled": "",
		"when": "99 99 * * *"}); p.status != http.StatusUnprocessableEntity {
		t.Errorf("a bad time of a schedule answers %d", p.status)
	}
	times = b.submit(b.get(change), "/schedules/edit", map[string]string{"enabled": "", "name": "often", "when": "6h"})
	if rows := times.rows("Schedules"); len(rows) != 1 || rows[0][0] != "often" ||
		!strings.Contains(rows[0][1], "every 6h") {
		t.Errorf("the schedules are %q", rows)
	}
	off := b.submit(times, "/schedules/edit", nil)
	if rows := off.rows("Schedules"); len(rows) != 1 || !strings.Contains(rows[0][0], "off") {
		t.Errorf("the schedules are %q", rows)
	}
	if rows := b.submit(off, "/schedules/delete", nil).rows("Schedules"); len(rows) != 0 {
		t.Errorf("the schedules are %q", rows)
	}

	hook := b.submit(b.get("/settings/webhooks"), "/settings/webhooks",
		map[string]string{"url": "https://example.com/hook"})
	hook.want("https://example.com/hook", "shown only now")
	if p := b.submit(b.get("/settings/webhooks"), "/settings/webhooks",
		map[string]string{"url": "ftp://x"}); p.status != http.StatusUnprocessableEntity {
		t.Errorf("a bad address of a webhook answers %d", p.status)
	}
	edit := ""
	for _, n := range hook.all("a") {
		if textOf(n) == "Edit" {
			edit = attr(n, "href")
		}
	}
	if p := b.submit(b.get(edit), "/webhooks/edit", map[string]string{"enabled": "",
		"url": "http://127.0.0.1:9/hook"}); p.status != http.StatusUnprocessableEntity || !fieldHasFault(p, "url") {
		t.Errorf("a private address of a webhook answers %d, or the fault is not beside it", p.status)
	}
	changed := b.submit(b.get(edit), "/webhooks/edit", map[string]string{"enabled": "",
		"url": "http://127.0.0.1:9/hook", "allow_private": "yes", "events": "crawl.paused"})
	if rows := changed.rows("Webhooks"); len(rows) != 1 || rows[0][0] != "http://127.0.0.1:9/hook" ||
		rows[0][1] != "crawl.paused" {
		t.Errorf("the webhooks are %q", rows)
	}
	// without a tick, all events
	b.submit(b.get(edit), "/webhooks/edit", map[string]string{"enabled": "", "url": "https://example.com/hook"})
	if rows := b.get("/settings/webhooks").rows("Webhooks"); len(rows) != 1 ||
		rows[0][0] != "https://example.com/hook" || !strings.Contains(rows[0][1], "crawl.finished") {
		t.Errorf("the webhooks are %q", rows)
	}
	log := b.submit(hook, "/webhooks/test", nil)
	log.want("Deliveries", "test", "Send now")
	b.submit(log, "/webhooks/again", nil).want("pending", "Send now")
	hookOff := b.submit(log, "/webhooks/edit", nil)
	if rows := hookOff.rows("Webhooks"); len(rows) != 1 || !strings.Contains(rows[0][0], "off") {
		t.Errorf("the webhooks are %q", rows)
	}
	if rows := b.submit(hookOff, "/webhooks/edit", nil).rows("Webhooks"); len(rows) != 1 ||
		strings.Contains(rows[0][0], "off") {
		t.Errorf("the webhooks are %q", rows)
	}
	if rows := b.submit(log, "/webhooks/delete", nil).rows("Webhooks"); len(rows) != 0 {
		t.Errorf("the webhooks are %q", rows)
	}

	denied := b.submit(b.get("/settings/hosts"), "/settings/hosts",
		map[string]string{"host": "denied.test", "reason": "they asked"})
	if rows := denied.rows("Hosts"); !strings.Contains(fmt.Sprint(rows), "they asked") {
		t.Errorf("the hosts are %q", rows)
	}
	audit := fmt.Sprint(b.get("/settings/audit").rows("Who did what, newest first"))
	for _, action := range []string{"session.begin", "key.create", "key.revoke", "schedule.create", "webhook.create",
		"webhook.edit", "webhook.redeliver", "host.deny"} {
		if !strings.Contains(audit, action) {
			t.Errorf("the audit log lacks %s: %s", action, audit)
		}
	}
}

// A crawl that a limit has ended goes on after the limit is raised.
func TestEdit(t *testing.T) {
	t.Parallel()
	f := newDashboard(t, smallSite(), "")
	b := f.loggedIn()
	c := f.submit(service.Submission{Settings: map[string]json.RawMessage{"max_urls": json.RawMessage("10")}})
	f.await(c.ID, service.Partial)
	p := b.get("/crawls/" + c.ID)
	if rows := b.get("/").rows("Needs attention"); len(rows) != 1 {
		t.Errorf("what needs attention is %q", rows)
	}
	if bad := b.submit(p, "/edit", map[string]string{"max_urls": "many",
		"priority": "eleven"}); bad.status != http.StatusUnprocessableEntity {
		t.Errorf("a bad change answers %d", bad.status)
	}
	p = b.submit(p, "/edit", map[string]string{"max_urls": "1000", "name": "Renamed", "labels": "a, b"})
	p.want("Renamed")
	b.submit(p, "/resume", nil)
	f.await(c.ID, service.Complete)
	again := b.get("/crawls/" + c.ID)
	if bad := b.submit(again, "/recrawl", map[string]string{"max_age": "soon", "include": "(",
		"exclude": "["}); bad.status != http.StatusUnprocessableEntity {
		t.Errorf("a recrawl of pages that cannot be told answers %d", bad.status)
	} else {
		for _, name := range []string{"max_age", "include", "exclude"} {
			if !fieldHasFault(bad, name) {
				t.Errorf("the fault of %s is not beside it", name)
			}
		}
		bad.want("soon")
	}
	f.site.Hold(0)
	b.submit(again, "/recrawl", nil)
	for _, path := range []string{"/pages", "/problems"} {
		b.get("/crawls/" + c.ID + path).want("what it found until it last ended")
	}
	if c := f.await(c.ID, service.Running); c.Generation != 1 || c.Name != "Renamed" ||
		fmt.Sprint(c.Labels) != "[a b]" {
		t.Errorf("the crawl is %+v", c)
	}
	f.site.Release()
	f.await(c.ID, service.Complete)
	b.get("/crawls/" + c.ID + "/changes").want("What the last recrawl found")

	// A recrawl of some pages leaves the others as they were checked before.
	for _, name := range []string{"max_age", "include", "exclude"} {
		if byID(b.get("/crawls/"+c.ID), name).Data == "" {
			t.Errorf("the form of a recrawl has no field %s", name)
		}
	}
	b.submit(b.get("/crawls/"+c.ID), "/recrawl", map[string]string{"include": "^" + f.site.StartURLs()[0] + "$\n"})
	waitFor(t, "the second recrawl is over", func() bool {
		now, err := f.svc.Crawls.Get(t.Context(), f.admin, c.ID)
		return err == nil && now.Generation == 2 && now.State == service.Complete
	})
	text, err := os.ReadFile(f.svc.Crawls.DataDir(c.ID).JSONL())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `"generation":2`); n != 1 {
		t.Errorf("a recrawl of one page checked %d", n)
	}
}
