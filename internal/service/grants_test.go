package service

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
)

// faultsOf are the fields that an error names.
func faultsOf(err error) (fields []string) {
	if e, ok := errors.AsType[*Error](err); ok {
		for _, f := range e.Fields {
			fields = append(fields, f.Field)
		}
	}
	slices.Sort(fields)
	return fields
}

// A safe plan that a tenant chooses lifts nothing that the plan of the account refuses, at the submission or at the
// start.
func TestSafePlanLiftsNothing(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	if err := ts.Accounts.PutPlan(t.Context(), ts.admin, Plan{Name: defaultPlan, MaxURLs: 20, MaxPriority: 4,
		Refused: []string{"header", "extract"}}); err != nil {
		t.Fatal(err)
	}
	tenant := &Caller{Account: ts.admin.Account, System: "test", Scopes: []Scope{ScopeWrite}}
	priority := 5
	sub := Submission{StartURLs: []string{"https://a.test/"}, Plan: "safe", Priority: &priority,
		Settings: raw("header", `["X-A: b"]`, "extract", `["a=h1"]`, "max_urls", "21")}
	_, err := ts.Crawls.Submit(t.Context(), tenant, sub, "")
	if got, want := faultsOf(err), []string{"priority", "settings.extract", "settings.header",
		"settings.max_urls"}; !slices.Equal(got, want) {
		t.Errorf("%v: faults %v, want %v", err, got, want)
	}
	c, err := ts.Crawls.Submit(t.Context(), tenant, Submission{StartURLs: sub.StartURLs, Plan: "safe"}, "")
	if err != nil || c.Plan != "safe" || c.Priority != 4 {
		t.Fatalf("%+v, %v", c, err)
	}
	r, err := ts.getWhole(t.Context(), "", c.ID)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := ts.Accounts.planOfCrawl(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := ts.o.settings(r, &plan); err != nil || s.MaxURLs != 20 {
		t.Errorf("it starts with %d pages, %v", s.MaxURLs, err)
	}
}

// A crawl stays under the plan of its account when the safe plan that it has is not safe any more, unless an admin gave
// it a plan that was not safe then.
func TestChosenPlanIsNoLongerSafe(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	put := func(p Plan) {
		t.Helper()
		if err := ts.Accounts.PutPlan(t.Context(), ts.admin, p); err != nil {
			t.Fatal(err)
		}
	}
	own := Plan{Name: defaultPlan, MaxURLs: 20, MaxPriority: 4, Refused: []string{"header", "extract"}}
	put(own)
	put(Plan{Name: "quick", Safe: true, MaxPriority: 9})
	put(Plan{Name: "large", MaxPriority: 9})
	tenant := &Caller{Account: ts.admin.Account, System: "test", Scopes: []Scope{ScopeWrite}}
	submit := func(by *Caller, plan string) string {
		t.Helper()
		c, err := ts.Crawls.Submit(t.Context(), by, Submission{StartURLs: []string{"https://a.test/"}, Plan: plan}, "")
		if err != nil {
			t.Fatal(err)
		}
		return c.ID
	}
	move := func(by *Caller, id, plan string) string {
		t.Helper()
		if _, err := ts.Crawls.Edit(t.Context(), by, id, Edit{Plan: &plan, Priority: new(4)}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	ids := map[string]string{
		"of a tenant":                    submit(tenant, "quick"),
		"moved by a tenant":              move(tenant, submit(tenant, ""), "quick"),
		"safe by an admin":               submit(ts.admin, "quick"),
		"moved back by a tenant":         move(tenant, submit(ts.admin, "large"), "quick"),
		"large by an admin":              submit(ts.admin, "large"),
		"moved to large by an admin":     move(ts.admin, submit(tenant, ""), "large"),
		"from safe to large by an admin": move(ts.admin, submit(tenant, "quick"), "large"),
	}
	isLarge := func(what string) bool { return strings.HasSuffix(what, "large by an admin") }
	next := func(id string) *config.Settings {
		t.Helper()
		r, err := ts.getWhole(t.Context(), "", id)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ts.Crawls.nextSettings(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	put(Plan{Name: "quick", MaxPriority: 9})
	for what, id := range ids {
		settings := raw("header", `["X-A: b"]`, "extract", `["a=h1"]`, "max_urls", "21")
		want, pages := []string{"priority", "settings.extract", "settings.header", "settings.max_urls"}, 20
		if isLarge(what) {
			want, pages = nil, 21
		}
		_, err := ts.Crawls.Edit(t.Context(), tenant, id, Edit{Priority: new(5), Settings: settings})
		if got := faultsOf(err); !slices.Equal(got, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: %v: faults %v, want %v", what, err, got, want)
		}
		edit(ts, id, Edit{Settings: raw("max_depth", "5")}) // the settings are not those of a safe crawl any more
		if s := next(id); s.MaxURLs != pages || s.Profile == config.Safe {
			t.Errorf("%s: it starts %s with %d pages, want %d", what, s.Profile, s.MaxURLs, pages)
		}
	}
	own.Safe = true
	put(own)
	entries, err := loadEntries(t.Context(), ts.db.Read(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, id := range ids {
		if isSafe := next(id).Profile == config.Safe; isSafe == isLarge(what) {
			t.Errorf("%s: under an account's plan that is safe it is safe: %t", what, isSafe)
		}
		at := slices.IndexFunc(entries, func(e *entry) bool { return e.id == id })
		if at < 0 || entries[at].planByAdmin != isLarge(what) {
			t.Errorf("%s: the dispatcher takes its plan for another one", what)
		}
	}
}

// A crawl that hosts of its account allowed is not crawled again, or resumed, without these hosts. One that has lost
// some of them is bound to the others.
func TestWithdrawnHosts(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	grant := func(hosts ...string) {
		t.Helper()
		account, err := ts.Accounts.Edit(t.Context(), ts.admin, DefaultAccount, AccountEdit{OwnHosts: &hosts})
		if err != nil {
			t.Fatal(err)
		}
		ts.admin.Account = account
	}
	tenant := func() *Caller {
		return &Caller{Account: ts.admin.Account, System: "test", Scopes: []Scope{ScopeWrite}}
	}
	end := func(id string, state State) {
		t.Helper()
		err := ts.Write(t.Context(), func(tx *Tx) error {
			return tx.Change("UPDATE crawl SET state = ?, desired = 'run', started_at = 1, ended_at = 2, begun = 1, "+
				"generation = 1 WHERE id = ?", state, id)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	grant("a.test", "*.b.test")
	own := ts.submit(tenant(), "https://a.test/", "profile", `"own-site"`).ID
	fast := ts.submit(tenant(), "https://www.b.test/", "min_delay_ms", "1", "only_hosts", `["www.b.test"]`).ID
	plain := ts.submit(tenant(), "https://a.test/").ID
	byAdmin := ts.submit(ts.admin, "https://c.test/", "profile", `"own-site"`).ID
	private := ts.submit(ts.admin, "https://c.test/", "profile", `"own-site"`, "only_hosts", `["c.test"]`,
		"allow_private", "true").ID
	again := func(by *Caller, id string, command Command, state State) []string {
		t.Helper()
		end(id, state)
		_, err := ts.Crawls.Command(t.Context(), by, id, command, nil)
		if fields := faultsOf(err); err == nil || len(fields) > 0 {
			return fields
		}
		t.Fatal(err)
		return nil
	}
	for _, id := range []string{own, fast, plain, byAdmin, private} {
		if faults := again(tenant(), id, CommandRecrawl, Complete); faults != nil {
			t.Errorf("with its hosts: %v", faults)
		}
	}
	grant("a.test")
	if faults := again(tenant(), own, CommandRecrawl, Complete); faults != nil {
		t.Errorf("with one host: %v", faults)
	}
	if r, err := ts.getWhole(t.Context(), "", own); err != nil ||
		!slices.Equal(r.stored["only-hosts"], []string{"a.test"}) {
		t.Errorf("it is bound to %v, %v", r.stored["only-hosts"], err)
	}
	if faults := again(tenant(), fast, CommandRecrawl, Complete); !slices.Equal(faults,
		[]string{"settings.min_delay_ms"}) {
		t.Errorf("a delay for a host that was withdrawn: %v", faults)
	}
	grant()
	for _, command := range []Command{CommandRecrawl, CommandResume} {
		state := map[Command]State{CommandRecrawl: Complete, CommandResume: Paused}[command]
		if faults := again(tenant(), own, command, state); !slices.Equal(faults, []string{"settings.profile"}) {
			t.Errorf("%s without hosts: %v", command, faults)
		}
		for _, id := range []string{plain, byAdmin, private} {
			if faults := again(tenant(), id, command, state); faults != nil {
				t.Errorf("%s of a crawl that needs none: %v", command, faults)
			}
		}
		if faults := again(ts.admin, own, command, state); faults != nil {
			t.Errorf("%s by an admin: %v", command, faults)
		}
	}
}

// An edit by an admin leaves a crawl bound to its granted hosts, unless it gives only_hosts. Without the hosts the crawl
// is not crawled again, whatever else was changed.
func TestBoundAfterAnEdit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begun bool
		edit  Edit
		bound []string
	}{
		"a limit":      {true, Edit{Settings: raw("duration", `"2h"`)}, []string{"a.test"}},
		"the scope":    {true, Edit{Settings: raw("scope", `"any"`, "max_depth", "3")}, []string{"a.test"}},
		"another plan": {false, Edit{Plan: new(defaultPlan)}, []string{"a.test"}},
		"a header":     {false, Edit{Settings: raw("header", `["X-A: b"]`)}, []string{"a.test"}},
		"the start":    {false, Edit{StartURLs: &[]string{"https://a.test/x"}}, []string{"a.test"}},
		"the hosts":    {true, Edit{Settings: raw("only_hosts", `["b.test"]`)}, []string{"b.test"}},
	} {
		ts := openService(t, Options{RecordsOnly: true})
		grant := func(hosts ...string) *Caller {
			account, err := ts.Accounts.Edit(t.Context(), ts.admin, DefaultAccount, AccountEdit{OwnHosts: &hosts})
			if err != nil {
				t.Fatal(err)
			}
			return &Caller{Account: account, System: "test", Scopes: []Scope{ScopeWrite}}
		}
		id := ts.submit(grant("a.test"), "https://a.test/", "ignore_robots", "true", "scope", `"any"`).ID
		set := func(columns string) {
			if err := ts.Write(t.Context(), func(tx *Tx) error {
				return tx.Change("UPDATE crawl SET "+columns+" WHERE id = ?", id)
			}); err != nil {
				t.Fatal(err)
			}
		}
		if c.begun {
			set("state = 'paused', started_at = 1, begun = 1")
		}
		if _, err := ts.Crawls.Edit(t.Context(), ts.admin, id, c.edit); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, err := ts.getWhole(t.Context(), "", id)
		if err != nil || !slices.Equal(r.stored["only-hosts"], c.bound) {
			t.Errorf("after an edit of %s it is bound to %v, %v", name, r.stored["only-hosts"], err)
		}
		ts.o.Base = append(ts.o.Base, config.Layer{"user-agent": {Texts: []string{"another/1"}}})
		set("state = 'complete', desired = 'run', started_at = 1, ended_at = 2, begun = 1")
		_, err = ts.Crawls.Command(t.Context(), grant(), id, CommandRecrawl, nil)
		if faults := faultsOf(err); !slices.Equal(faults, []string{"settings.ignore_robots"}) {
			t.Errorf("after an edit of %s, without hosts: %v, %v", name, faults, err)
		}
	}
}

// What hosts of the account allowed needs them after any change by an admin. What an admin submitted does not.
func TestWithdrawnAfterAnAdminsEdit(t *testing.T) {
	t.Parallel()
	only := raw("profile", `"own-site"`, "only_hosts", `["www.a.test"]`)
	private := raw("profile", `"own-site"`, "only_hosts", `["www.a.test"]`, "allow_private", "true")
	for name, c := range map[string]struct {
		byAdmin  bool
		settings map[string]json.RawMessage
		edit     map[string]json.RawMessage
		refused  []string
		bound    []string // when one of two hosts is withdrawn
	}{
		"an admin's value": {settings: raw("ignore_robots", "true"), edit: raw("allow_private", "true"),
			refused: []string{"settings.ignore_robots"}, bound: []string{"*.a.test"}},
		"with hosts of the submission": {settings: only, edit: raw("timeout", "400"),
			refused: []string{"settings.profile"}, bound: []string{"www.a.test"}},
		"without hosts": {settings: only, edit: raw("only_hosts", "null", "timeout", "400"),
			refused: []string{"settings.profile"}, bound: []string{"*.a.test"}},
		"with hosts of the admin": {settings: raw("min_delay_ms", "1"),
			edit:    raw("only_hosts", `["www.a.test"]`, "allow_private", "true"),
			refused: []string{"settings.min_delay_ms"}, bound: []string{"www.a.test"}},
		"a crawl of an admin": {byAdmin: true, settings: private, edit: raw("timeout", "400"),
			bound: []string{"www.a.test"}},
	} {
		ts := openService(t, Options{RecordsOnly: true})
		tenant := func(hosts ...string) *Caller {
			account, err := ts.Accounts.Edit(t.Context(), ts.admin, DefaultAccount, AccountEdit{OwnHosts: &hosts})
			if err != nil {
				t.Fatal(err)
			}
			return &Caller{Account: account, System: "test", Scopes: []Scope{ScopeWrite}}
		}
		by := tenant("b.test", "*.a.test")
		if c.byAdmin {
			by = ts.admin
		}
		crawl, err := ts.Crawls.Submit(t.Context(), by, Submission{StartURLs: []string{"https://www.a.test/"},
			Settings: c.settings}, "")
		if err != nil {
			t.Fatal(name, err)
		}
		edit(ts, crawl.ID, Edit{Settings: c.edit})
		edit(ts, crawl.ID, Edit{Settings: raw("max_urls", "5")})
		for command, state := range map[Command]State{CommandRecrawl: Complete, CommandResume: Paused} {
			again := func(by *Caller) []string {
				if err := ts.Write(t.Context(), func(tx *Tx) error {
					return tx.Change("UPDATE crawl SET state = ?, desired = 'run', started_at = 1, ended_at = 2, "+
						"begun = 1 WHERE id = ?", state, crawl.ID)
				}); err != nil {
					t.Fatal(err)
				}
				_, err := ts.Crawls.Command(t.Context(), by, crawl.ID, command, nil)
				if fields := faultsOf(err); err == nil || len(fields) > 0 {
					return fields
				}
				t.Fatal(name, err)
				return nil
			}
			if faults := again(tenant("c.test")); !slices.Equal(faults, c.refused) {
				t.Errorf("%s: %s with other hosts: faults %v, want %v", name, command, faults, c.refused)
			}
			if faults := again(tenant("*.a.test")); faults != nil {
				t.Errorf("%s: %s with the host: faults %v", name, command, faults)
			}
			if r, err := ts.getWhole(t.Context(), "", crawl.ID); err != nil ||
				!slices.Equal(r.stored[onlyHosts], c.bound) {
				t.Errorf("%s: %s binds it to %v, want %v, %v", name, command, r.stored[onlyHosts], c.bound, err)
			}
		}
	}
}

// What an account may is looked at again when a request has been judged: its plan, the plan's terms and its hosts may have
// changed since the request began.
func TestRightsOfARequestThatTakesLong(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		sub     Submission
		less    func(ts *testService, account string) error
		refused string
	}{
		"another plan": {Submission{Settings: raw("warc", "true")}, func(ts *testService, account string) error {
			return errors.Join(ts.Accounts.PutPlan(ts.t.Context(), ts.admin, Plan{Name: "small", Refused: []string{"warc"}}),
				ts.editAccount(account, AccountEdit{Plan: new("small")}))
		}, "settings.warc"},
		"another priority": {Submission{Priority: new(9)}, func(ts *testService, account string) error {
			return ts.Accounts.PutPlan(ts.t.Context(), ts.admin, Plan{Name: "default", MaxPriority: 1})
		}, "priority"},
		"no hosts": {Submission{Settings: raw("profile", `"own-site"`)}, func(ts *testService, account string) error {
			return ts.editAccount(account, AccountEdit{OwnHosts: &[]string{}})
		}, "settings.profile"},
		"a shorter queue": {Submission{}, func(ts *testService, account string) error {
			return errors.Join(ts.Accounts.PutPlan(ts.t.Context(), ts.admin, Plan{Name: "short", MaxQueued: 1}),
				ts.editAccount(account, AccountEdit{Plan: new("short")}))
		}, ""},
	} {
		ts := openService(t, Options{RecordsOnly: true})
		b := ts.addCaller("b")
		if err := ts.editAccount(b.Account.ID, AccountEdit{OwnHosts: &[]string{"a.test"}}); err != nil {
			t.Fatal(err)
		}
		test.sub.StartURLs = []string{"https://a.test/"}
		c, err := ts.Crawls.Submit(t.Context(), b, test.sub, "")
		if err != nil {
			t.Fatal(what, err)
		}
		r, judged, err := ts.Crawls.judge(t.Context(), b, &test.sub)
		if err != nil {
			t.Fatal(what, err)
		}
		if err := test.less(ts, b.Account.ID); err != nil {
			t.Fatal(what, err)
		}
		if _, err := ts.Crawls.add(t.Context(), b, r, judged, "", ""); !errors.Is(err, errChanged) {
			t.Errorf("%s, after it was judged: %v", what, err)
		}
		_, err = ts.Crawls.Submit(t.Context(), b, test.sub, "")
		if test.refused != "" {
			if got := faultsOf(err); !slices.Equal(got, []string{test.refused}) {
				t.Errorf("%s, before it was judged: %v", what, err)
			}
			// So it is with what a schedule submits.
			if got := faultsOf(ts.Crawls.Check(t.Context(), b, test.sub)); !slices.Equal(got, []string{test.refused}) {
				t.Errorf("%s, before it was checked: %v", what, got)
			}
		} else if refusal, _ := errors.AsType[*Error](err); refusal == nil || refusal.Code != ErrPlanLimit {
			t.Errorf("%s, before it was judged: %v", what, err)
		}
		list, err := ts.Crawls.List(t.Context(), b, CrawlFilter{})
		if err != nil || len(list.Items) != 1 || list.Items[0].ID != c.ID {
			t.Errorf("%s: %v, %v", what, list, err)
		}
	}
}

// An edit that is under way while the account gets another plan does not keep the crawl in the old one.
func TestEditAndAnotherPlan(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	id := ts.submit(ts.admin, "https://a.test/").ID
	err := ts.editWhile(id, Edit{Name: new("renamed")}, func() {
		if err := errors.Join(ts.Accounts.PutPlan(t.Context(), ts.admin, Plan{Name: "small"}),
			ts.editAccount(DefaultAccount, AccountEdit{Plan: new("small")})); err != nil {
			t.Error(err)
		}
	})
	r, getErr := ts.getWhole(t.Context(), "", id)
	if err := errors.Join(err, getErr); err != nil || r.Plan != "small" || r.Name != "renamed" {
		t.Errorf("plan %q, name %q, %v", r.Plan, r.Name, err)
	}
}

func (ts *testService) editAccount(id string, e AccountEdit) error {
	_, err := ts.Accounts.Edit(ts.t.Context(), ts.admin, id, e)
	return err
}
