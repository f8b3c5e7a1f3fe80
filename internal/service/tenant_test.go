package service

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// probes are values for a setting: the default, and one that differs from it.
func probes(t *testing.T, e config.Entry) []any {
	t.Helper()
	other := map[string]any{
		"user-agent": fetch.DefaultUserAgent + " acme", "header": "X-A: b", "header-to": "https://api.example.com",
		"proxy": "http://p.test:1", "resolve": "a.test:80:10.0.0.1",
		"ct-base-url": "http://ct.test/", "commoncrawl-base-url": "http://cc.test/", "since": "2026-01-01",
		"base-url": "https://a.test/", "sitemap-name": "shop", "sitemap-split": "path", "include": "a", "exclude": "b",
		"skip-extensions": "pdf", "only-hosts": "own.test", "ignore-params": "sid", "exclude-from-sitemap": "a",
		"changefreq": "a=daily", "priority": "a=0.5", "only-params": "id",
		"extract": "a=h1", "seeding-strategy": "ct",
		"xml-types": "text/plain", "log-file": "x.log", "metrics-addr": "localhost:1",
		"ca-file": "/ca.pem", "basic-auth": "user:secret@own.test",
		"cookie": "a=b", "login": "https://own.test/login", "login-data": "/login.txt", "cookie-file": "/cookies.txt", "client-cert": "/client.pem",
		"scope": "any", "log-format": "json", "log-level": "debug",
	}
	if v, ok := other[e.Name]; ok {
		return []any{v}
	}
	switch v := e.Value.JSON().(type) {
	case bool:
		return []any{!v}
	case int, int64, float64:
		n, _ := numberOf(e)
		if e.Free == nil {
			return []any{n + 1, n}
		}
		if e.Name == "bloom-fp-rate" {
			return []any{0.02}
		}
		if e.Free.AtMost == nil {
			return []any{e.Free.AtLeast - 1, e.Free.AtLeast}
		}
		return []any{*e.Free.AtMost + 1, *e.Free.AtMost}
	}
	t.Fatalf("no value to try for %s: add one to this test", e.Name)
	return nil
}

func permissions() []config.Permission {
	return []config.Permission{config.Tenant, config.OwnHost, config.Admin, config.Operator}
}

// Every setting with a usual value and with one beyond what is free, by every kind of caller: it passes exactly if its
// permission says so, and a refusal names it. A setting without a permission fails.
func TestEverySettingByEveryCaller(t *testing.T) {
	t.Parallel()
	callers := []struct {
		name   string
		admin  bool
		hosts  []string
		passes []config.Permission // beyond the free range
	}{
		{"tenant", false, nil, []config.Permission{config.Tenant}},
		{"tenant of another host", false, []string{"other.test"}, []config.Permission{config.Tenant}},
		{"tenant of the host", false, []string{"own.test"}, []config.Permission{config.Tenant, config.OwnHost}},
		{"admin", true, nil, []config.Permission{config.Tenant, config.OwnHost, config.Admin}},
	}
	table := config.Defaults(config.Polite).Table()
	seen := map[config.Permission]int{}
	for _, e := range table {
		if !slices.Contains(permissions(), e.Permission) {
			t.Errorf("%s has the permission %q, want one of %v", e.Name, e.Permission, permissions())
			continue
		}
		if _, isNumber := numberOf(e); e.Free != nil &&
			(!isNumber || e.Permission == config.Tenant || e.Permission == config.Operator) {
			t.Errorf("%s has a free range, which means nothing for it", e.Name)
		}
		seen[e.Permission]++
		usual := e.Value.JSON()
		for _, value := range probes(t, e) {
			for _, c := range callers {
				n, isNumber := value.(float64)
				free := e.Free != nil && isNumber && inRange(e.Free, n)
				if free && n != *orEnd(e.Free) {
					t.Fatalf("%s: the probe %v is not an end of %s", e.Name, n, e.Free)
				}
				if _, isBool := value.(bool); isBool && value == usual && e.Permission != config.Operator {
					free = true
				}
				want := slices.Contains(c.passes, e.Permission) || free || e.Name == "http2" // which is ignored
				loaded, faults := load(t, settingsRequest{admin: c.admin, hosts: c.hosts},
					map[string]any{config.FileKey(e.Name): value})
				if ok := loaded != nil; ok != want {
					t.Errorf("%s = %v by %s: passes %v, want %v: %v", e.Name, value, c.name, ok, want, faults)
				}
				for _, f := range faults {
					if f.Field != "settings."+config.FileKey(e.Name) || f.Detail == "" || f.Code != faultPermission &&
						f.Code != faultHost && f.Code != faultValue {
						t.Errorf("%s by %s: fault %+v", e.Name, c.name, f)
					}
				}
				if loaded != nil && e.Permission == config.OwnHost && !free && !c.admin &&
					!slices.Equal(loaded.Settings.OnlyHosts, c.hosts) {
					t.Errorf("%s by %s: the crawl may ask %q, want it bound to %q", e.Name, c.name,
						loaded.Settings.OnlyHosts, c.hosts)
				}
			}
		}
	}
	for _, p := range permissions() {
		if seen[p] == 0 {
			t.Errorf("no setting has the permission %s", p)
		}
	}
}

// numberOf is the value of a setting that is a number.
func numberOf(e config.Entry) (n float64, ok bool) {
	switch v := e.Value.JSON().(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func inRange(r *config.Range, n float64) bool {
	return n >= r.AtLeast && (r.AtMost == nil || n <= *r.AtMost)
}

func orEnd(r *config.Range) *float64 {
	if r.AtMost != nil {
		return r.AtMost
	}
	return &r.AtLeast
}

// load loads settings as JSON, of a crawl that starts at own.test unless the submission says otherwise.
func load(t *testing.T, s settingsRequest, settings map[string]any) (*config.Loaded, []FieldError) {
	t.Helper()
	if s.startHosts == nil {
		s.startHosts = []string{"own.test"}
	}
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	s.settings = text
	loaded, faults := s.load()
	if (loaded == nil) == (len(faults) == 0) {
		t.Fatalf("%s: settings %v and faults %v", text, loaded, faults)
	}
	return loaded, faults
}

func TestSubmissionNamesEveryFault(t *testing.T) {
	t.Parallel()
	s := settingsRequest{startHosts: []string{"own.test", "127.0.0.1", "a.localhost", "[::1]", "8.8.8.8"},
		hosts: []string{"own.test"}}
	s.settings = json.RawMessage(`{"max_urls": "many", "shards": 2, "profile": "own-site", "proxy": "http://p.test", "max_pages": 3, "max-depth": 1, "colour": "red", "start_url": "x",
		"max_retries": 9, "gzip": ["a"], "csv": {}, "csv": true, "user_agent": "Evil/1.0", "header": ["Host: x", "X-Ok: 1", "user-agent: y"], "min_delay_ms": 900, "max_delay_ms": 600, "timeout": 500}`)
	_, faults := s.load()
	var got []string
	for _, f := range faults {
		got = append(got, f.Field+" "+f.Code)
	}
	want := []string{
		"settings.max_pages unknown_setting", "settings.max-depth unknown_setting", "settings.colour unknown_setting",
		"settings.start_url unknown_setting",
		"settings.gzip bad_form", "settings.csv bad_form", "settings.csv bad_form",
		"settings.shards not_permitted", "settings.proxy not_permitted", "settings.timeout not_permitted",
		"settings.user_agent not_permitted", "settings.header not_permitted", "settings.header not_permitted",
		"settings.profile host_not_granted", "settings.max_retries host_not_granted",
		"start_urls[1] private_address", "start_urls[2] private_address", "start_urls[3] private_address",
		"settings.max_urls bad_value", "settings.min_delay_ms bad_value",
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, f := range faults {
		if strings.Contains(f.Field, "max_pages") && !strings.Contains(f.Detail, "max_urls") ||
			strings.Contains(f.Field, "max-depth") && !strings.Contains(f.Detail, "max_depth") {
			t.Errorf("%+v does not name the setting", f)
		}
	}
}

// A crawl may start at a private address if the operator allows them to all accounts, and not because its user asks.
func TestPrivateStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		operator, user string
		want           []string
	}{
		{"true", `{}`, nil},
		{"true", `{"profile": "none"}`, []string{"settings.profile bad_value", "start_urls[0] private_address"}},
		{"false", `{}`, []string{"start_urls[0] private_address"}},
		{"false", `{"allow_private": true}`,
			[]string{"settings.allow_private not_permitted", "start_urls[0] private_address"}},
	} {
		s := settingsRequest{startHosts: []string{"127.0.0.1"}, settings: json.RawMessage(c.user),
			base: []config.Layer{{"allow-private": config.Given{Texts: []string{c.operator}}}}}
		_, faults := s.load()
		var got []string
		for _, f := range faults {
			got = append(got, f.Field+" "+f.Code)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, %s: %q, want %q", c.operator, c.user, got, c.want)
		}
	}
}

// Ranges hold for every caller, and are judged with the submission.
func TestSubmissionOutOfRange(t *testing.T) {
	t.Parallel()
	loaded, faults := load(t, settingsRequest{admin: true}, map[string]any{"max_retries": 251,
		"probe_after_successes": 60_001, "max_adaptive_delay_secs": 1e6, "base_delay_ms": -1, "duration": "100000h"})
	if loaded != nil || len(faults) != 5 {
		t.Fatalf("got %v, %v", loaded, faults)
	}
	for _, f := range faults {
		if f.Code != faultValue || !strings.Contains(f.Detail, "is not between") {
			t.Errorf("%+v", f)
		}
	}
}

func TestSubmissionForms(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`[]`, `"x"`, `{`, `{"max_urls"}`, `{"max_urls": 1`, `{} {}`, `{"max_urls": 1}]`,
		`{"include": [["a"]]}`, `{"include": [{}]}`, `{"max_urls": 1.5}`, `{"max_urls": 1e400}`, `{"include": 1e400}`} {
		s := settingsRequest{settings: json.RawMessage(text)}
		if loaded, faults := s.load(); loaded != nil || len(faults) == 0 {
			t.Errorf("%s is taken", text)
		}
	}
	for _, text := range []string{``, `null`, ` {} `, `{"max_urls": null}`, `{"max_urls": "10"}`, `{"duration": 1.5}`,
		`{"include": []}`, `{"safe": true}`, `{"ignore_robots": false}`} {
		s := settingsRequest{settings: json.RawMessage(text)}
		if _, faults := s.load(); len(faults) > 0 {
			t.Errorf("%s: %v", text, faults)
		}
	}
}

// What is given to a granted account stays with its hosts.
func TestGrantedHosts(t *testing.T) {
	t.Parallel()
	hosts := []string{"own.test", "*.own.test"}
	for _, c := range []struct {
		starts []string
		only   any
		bound  []string // nil: refused
	}{
		{[]string{"own.test"}, nil, hosts},
		{[]string{"own.test", "a.own.test"}, nil, hosts},
		{[]string{"own.test", "other.test"}, nil, nil},
		{[]string{"own.test"}, []string{"a.own.test"}, []string{"a.own.test"}},
		{[]string{"own.test"}, "a.own.test,*.b.own.test", []string{"a.own.test", "*.b.own.test"}},
		{[]string{"own.test"}, []string{"a.own.test", "other.test"}, nil},
		{[]string{"own.test"}, []string{}, nil},
		{[]string{"own.test"}, []string{"*.test"}, nil},
	} {
		settings := map[string]any{"profile": "own-site"}
		if c.only != nil {
			settings["only_hosts"] = c.only
		}
		loaded, faults := load(t, settingsRequest{startHosts: c.starts, hosts: hosts}, settings)
		switch {
		case (loaded == nil) != (c.bound == nil):
			t.Errorf("%v only %v: %v", c.starts, c.only, faults)
		case loaded != nil && !slices.Equal(loaded.Settings.OnlyHosts, c.bound):
			t.Errorf("%v only %v: bound to %q, want %q", c.starts, c.only, loaded.Settings.OnlyHosts, c.bound)
		}
	}
}

func TestUserAgentIsExtended(t *testing.T) {
	t.Parallel()
	base := config.Layer{"user-agent": {Texts: []string{"Acme/2"}, From: "flag"}}
	for text, want := range map[string]bool{
		"Acme/2": true, "Acme/2 (team a)": true, "Acme/21": false, "": false, fetch.DefaultUserAgent: false,
		"x Acme/2": false, "Acme/2 " + strings.Repeat("x", 300): false,
	} {
		loaded, faults := load(t, settingsRequest{base: []config.Layer{base}}, map[string]any{"user_agent": text})
		if (loaded != nil) != want {
			t.Errorf("%.40q: passes %v, want %v: %v", text, !want, want, faults)
		}
	}
	if loaded, faults := load(t, settingsRequest{base: []config.Layer{base}, admin: true},
		map[string]any{"user_agent": "Other/1"}); loaded == nil || loaded.Settings.UserAgent != "Other/1" {
		t.Errorf("an admin may not replace it: %v", faults)
	}
}

// A plan that is safe keeps a crawl safe.
func TestSafeBase(t *testing.T) {
	t.Parallel()
	base := config.Layer{config.SafeName: {Texts: []string{"true"}, From: "plan free"}}
	loaded, faults := load(t, settingsRequest{base: []config.Layer{base}, hosts: []string{"own.test"}},
		map[string]any{"profile": "own-site", "max_urls": 1000})
	if loaded == nil || loaded.Settings.Profile != config.Safe || loaded.Settings.MaxURLs != config.SafePages ||
		len(loaded.Warnings) == 0 {
		t.Errorf("%+v, %v", loaded, faults)
	}
}

// A crawl of a service speaks HTTP/2 only if the operator says so: servers could harm other accounts by it.
func TestHTTP2IsTheOperators(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		base []config.Layer
		want bool
	}{
		{nil, false},
		{[]config.Layer{{"http2": {Texts: []string{"true"}, From: "--config"}}}, true},
	} {
		o := Options{Base: test.base}
		o.setDefaults()
		loaded, faults := load(t, settingsRequest{base: o.Base}, map[string]any{})
		if loaded == nil || loaded.Settings.HTTP2 != test.want {
			t.Errorf("%v: %+v, %v", test.base, loaded, faults)
		}
		earlier := row{stored: map[string][]string{"http2": {"true"}}}
		if s, err := o.settings(&earlier, &Plan{}); err != nil || s.HTTP2 != test.want {
			t.Errorf("%v: a crawl of an earlier version: %+v, %v", test.base, s, err)
		}
	}
	var o Options
	o.setDefaults()
	for _, admin := range []bool{false, true} { // those of earlier versions may name it
		loaded, faults := load(t, settingsRequest{base: o.Base, admin: admin}, map[string]any{"http2": true})
		if loaded == nil || loaded.Settings.HTTP2 || len(loaded.Warnings) != 1 {
			t.Errorf("admin %v: %+v, %v", admin, loaded, faults)
		}
	}
}

// What the operator lets crawls reach holds as it is now, also for crawls that were submitted before, unless an admin
// gave the crawl a value of its own. Headers are the user's if any part of them is.
func TestWithdrawnByTheOperator(t *testing.T) {
	t.Parallel()
	stored := map[string][]string{"allow-private": {"true"}, "resolve": {"a.test:80:127.0.0.1"}, "insecure": {"true"},
		"proxy": {"http://127.0.0.1:1"}, "header": {"X-A: b"}, "header-to": {"http://a.test"}, "max-depth": {"3"},
		"cookie-file": {"cookies.txt"}, "max-body-size": {"99"}}
	for _, given := range []string{`{}`, `{"allow_private": null, "header": null}`,
		`{"allow_private": true, "resolve": ["a.test:80:127.0.0.1"], "insecure": true,
		"proxy": "http://127.0.0.1:1", "header": ["X-A: b"], "max_body_size": 99}`} {
		r := row{stored: stored}
		if err := json.Unmarshal([]byte(given), &r.given); err != nil {
			t.Fatal(err)
		}
		isOwn := len(r.givenKeys()) > 0
		var o Options
		o.setDefaults()
		s, err := o.settings(&r, &Plan{})
		if err != nil {
			t.Fatal(err)
		}
		if s.AllowPrivate != isOwn || (len(s.Resolve) > 0) != isOwn || s.Insecure != isOwn || (s.Proxy != "") != isOwn ||
			(len(s.Headers) > 0) != isOwn || (len(s.HeaderTo) > 0) != isOwn || s.MaxDepth != 3 ||
			(s.MaxBodySize == 99) != isOwn || s.CookieFile != "" {
			t.Errorf("%s: %+v", given, s)
		}
	}
	headers, to := []string{"X-New: c"}, []string{"http://c.test"}
	o := Options{Base: []config.Layer{{"header": {Texts: headers}, "header-to": {Texts: to}}}}
	o.setDefaults()
	s, err := o.settings(&row{stored: stored}, &Plan{})
	if err != nil || !slices.Equal(s.Headers, headers) || !slices.Equal(s.HeaderTo, to) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestInfoListsEverySetting(t *testing.T) {
	t.Parallel()
	info := config.Info(config.Defaults(config.Polite))
	if text, err := json.Marshal(info); err != nil || !strings.Contains(string(text), `"name":"max_urls"`) {
		t.Errorf("%s, %v", text, err)
	}
	if want := len(config.Defaults(config.Polite).Table()) + 1; len(info) != want {
		t.Errorf("%d settings, want %d", len(info), want)
	}
	for _, i := range info {
		if i.Kind == "" || i.Usage == "" || i.Permission == "" || i.Group == "" || i.Default == nil {
			t.Errorf("%+v", i)
		}
	}
}

func FuzzSubmission(f *testing.F) {
	f.Add(`{"max_urls": 10, "include": ["a"], "profile": "own-site"}`, false)
	f.Add(`{"allow_private": true, "resolve": "a:80:127.0.0.1"}`, true)
	f.Fuzz(func(t *testing.T, text string, admin bool) {
		s := settingsRequest{settings: json.RawMessage(text), admin: admin, hosts: []string{"own.test"},
			startHosts: []string{"own.test"}}
		loaded, faults := s.load()
		if (loaded == nil) == (len(faults) == 0) {
			t.Fatalf("settings %v, faults %v", loaded, faults)
		}
		if loaded == nil || admin {
			return
		}
		plain := config.Defaults(loaded.Settings.Profile).Table()
		for i, e := range loaded.Settings.Table() {
			same := fmt.Sprint(e.Value.JSON()) == fmt.Sprint(plain[i].Value.JSON())
			if !same && (e.Permission == config.Operator || e.Permission == config.Admin && e.Free == nil) {
				t.Errorf("%s became %v", e.Name, e.Value)
			}
			if n, ok := numberOf(e); ok && !same && e.Free != nil && !inRange(e.Free, n) &&
				(e.Permission == config.Admin || len(loaded.Settings.OnlyHosts) == 0) {
				t.Errorf("%s became %v", e.Name, e.Value)
			}
		}
	})
}

// A tenant's crawl cannot say that its requests come from another address, by whatever name servers take that from.
func TestWithheldHeaders(t *testing.T) {
	t.Parallel()
	load := func(header string, admin bool) []FieldError {
		settings, err := json.Marshal(map[string]any{"header": []string{header + ": 10.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		_, faults := (&settingsRequest{settings: settings, startHosts: []string{"example.com"}, admin: admin}).load()
		return faults
	}
	for name, withheld := range map[string]bool{
		"X-Forwarded-For": true, "x-forwarded": true, "Forwarded": true, "Forwarded-For": true,
		"X-Forwarded-Proto": true, "X-Original-Forwarded-For": true,
		"X-Azure-SocketIP": true, "Cf-Pseudo-IPv4": true, "X.Forwarded.For": true, "Ip": true,
		"X-HTTP-Host-Override": true, "X-Remote-User": true,
		"X-Real-IP": true, "True-Client-IP": true, "CF-Connecting-IP": true, "CF-Connecting-IPv6": true,
		"X-Client-IP": true, "Client-IP": true, "client_ip": true,
		"X-Cluster-Client-IP": true, "X-Originating-IP": true, "Fastly-Client-Ip": true, "X-Azure-ClientIP": true,
		"X-Remote-Addr": true, "X-Envoy-External-Address": true,
		"WL-Proxy-Client-IP": true, "X_Forwarded_For": true, "Proxy-Client-IP": true, "X-Original-URL": true,
		"X-Rewrite-URL": true, "Via": true, "X-Host": true, "Host": true,
		"X-Token": false, "Authorization": false, "Accept-Language": false, "Cookie": false, "X-Forward": false,
		"X-Skip": false, "X-Original": false,
	} {
		if got := len(load(name, false)) > 0; got != withheld {
			t.Errorf("%s: withheld %v, want %v", name, got, withheld)
		}
	}
	if faults := load("X-Real-IP", true); len(faults) > 0 {
		t.Errorf("an admin: %v", faults)
	}
}
