package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// What a caller asks for is judged while another transaction is under way. Only what is accepted waits for it.
func TestJudgedBeforeTheTransaction(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	hosts := []string{"a.test"}
	account, err := ts.Accounts.Edit(t.Context(), ts.admin, DefaultAccount, AccountEdit{OwnHosts: &hosts})
	if err != nil {
		t.Fatal(err)
	}
	tenant := &Caller{Account: account, System: "test", Scopes: []Scope{ScopeWrite}}
	c := ts.submit(tenant, "https://a.test/", "profile", `"own-site"`)
	ts.do(c.ID, CommandPause)
	hosts = []string{}
	if _, err := ts.Accounts.Edit(t.Context(), ts.admin, DefaultAccount, AccountEdit{OwnHosts: &hosts}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = ts.Write(ctx, func(*Tx) error {
		_, err := ts.Crawls.Edit(ctx, ts.admin, c.ID, Edit{StartURLs: &[]string{"https://a.test/", "x://y"}})
		refusedBy(t, "an edit of the start URLs", err, "start_urls[1]", "bad_value")
		_, err = ts.Crawls.Edit(ctx, ts.admin, c.ID, Edit{Labels: new(make([]string, maxLabels+1))})
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("an edit of the labels: %v", err)
		}
		_, err = ts.Crawls.Command(ctx, tenant, c.ID, CommandResume, nil)
		refusedBy(t, "a resume without the host", err, "settings.profile", faultHost)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The records of a run do not read what its crawl was submitted with, which may be large: all who write wait for them.
func TestRecordsReadNoInput(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 8})
	ts := openService(t, Options{Base: quick(web)}).run()
	web.Hold(2)
	c := ts.submit(ts.admin, web.StartURLs()[0])
	awaitPages(t, web, 3)
	err := ts.Write(t.Context(),
		func(tx *Tx) error { return tx.Change("UPDATE crawl_input SET starts_json = 'no JSON'") })
	if err != nil {
		t.Fatal(err)
	}
	web.Release()
	for {
		added := ts.Events.Added()
		list, err := ts.Crawls.List(t.Context(), ts.admin, CrawlFilter{})
		if err != nil || len(list.Items) != 1 {
			t.Fatal(list, err)
		}
		if got := list.Items[0]; got.State.Ended() {
			if got.State != Complete || got.Done != 8 || got.ID != c.ID {
				t.Errorf("it is %s with %d pages", got.State, got.Done)
			}
			return
		}
		select {
		case <-added:
		case <-t.Context().Done():
			t.Fatal("it did not end")
		}
	}
}

// editWhile edits a crawl. Between the judgement and the transaction it does something else, once.
func (ts *testService) editWhile(id string, e Edit, meanwhile func()) error {
	var r *row
	var input *encodedInput
	var once sync.Once
	return ts.Crawls.change(ts.t.Context(), ts.admin, id, ts.Add, func(whole *row) (err error) {
		r = whole
		input, err = ts.Crawls.edit(ts.t.Context(), ts.admin, r, &e)
		once.Do(meanwhile)
		return err
	}, func(tx *Tx, _ *row) error { return r.putEdit(tx, ts.admin, &e, input) })
}

// An edit of a crawl that changes while it is judged is judged again.
func TestEditMeetsAnotherChange(t *testing.T) {
	t.Parallel()
	name := "renamed"
	starts := Edit{StartURLs: &[]string{"https://b.test/"}, Name: &name}
	for _, c := range []struct {
		what  string
		edit  Edit
		other func(ts *testService, id string)
		// what follows
		refused string // field of the fault, or the state
		depth   string
		labels  []string
	}{
		{what: "settings and settings", edit: Edit{Settings: raw("max_urls", "5"), Name: &name},
			other: func(ts *testService, id string) {
				edit(ts, id, Edit{Settings: raw("max_depth", "3"), Labels: &[]string{"l"}})
			}, depth: "3", labels: []string{"l"}},
		{what: "the name and the labels", edit: Edit{Name: &name},
			other: func(ts *testService, id string) { edit(ts, id, Edit{Labels: &[]string{"l"}}) }, labels: []string{"l"}},
		{what: "start URLs and settings", edit: starts,
			other: func(ts *testService, id string) { edit(ts, id, Edit{Settings: raw("max_depth", "4")}) }, depth: "4"},
		{what: "start URLs and a start", edit: starts, other: begin, refused: "start_urls"},
		{what: "a limit and a start", edit: Edit{Settings: raw("max_urls", "5"), Name: &name}, other: begin},
		{what: "the scope and a start", edit: Edit{Settings: raw("scope", `"domain"`)}, other: begin,
			refused: "settings.scope"},
		{what: "the name and a deletion", edit: Edit{Name: &name},
			other: func(ts *testService, id string) { ts.do(id, CommandDelete) }, refused: "deleting"},
		{what: "start URLs and a cancellation", edit: starts,
			other: func(ts *testService, id string) { ts.do(id, CommandCancel) }, refused: "start_urls"},
	} {
		ts := openService(t, Options{RecordsOnly: true})
		id := ts.submit(ts.admin, "https://a.test/", "user_agent", `"mine"`).ID
		err := ts.editWhile(id, c.edit, func() { c.other(ts, id) })
		refusal, _ := errors.AsType[*Error](err)
		if c.refused != "" {
			if refusal == nil || string(refusal.State) != c.refused && !slices.Equal(faultsOf(err), []string{c.refused}) {
				t.Errorf("%s: %v, want a refusal of %s", c.what, err, c.refused)
			}
			continue
		}
		r, getErr := ts.getWhole(t.Context(), "", id)
		if err := errors.Join(err, getErr); err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if r.Name != name || string(r.given["max_depth"]) != c.depth || fmt.Sprint(r.Labels) != fmt.Sprint(c.labels) ||
			r.setting("user-agent") == "" || len(r.starts) != 1 || c.edit.StartURLs != nil &&
			r.starts[0] != "https://b.test/" || string(r.given["max_urls"]) != string(c.edit.Settings["max_urls"]) {
			t.Errorf("%s: %s", c.what, ToJSON(r.Crawl))
		}
	}
}

func edit(ts *testService, id string, e Edit) {
	ts.t.Helper()
	if _, err := ts.Crawls.Edit(ts.t.Context(), ts.admin, id, e); err != nil {
		ts.t.Error(err)
	}
}

// begin makes a crawl one that runs, as the dispatcher does.
func begin(ts *testService, id string) {
	ts.t.Helper()
	err := ts.Write(ts.t.Context(), func(tx *Tx) error {
		r, err := getRow(ts.t.Context(), tx, "", id)
		if err != nil {
			return err
		}
		r.State, r.StartedAt = Running, page.Time{Time: tx.now}
		return r.move(tx, Actor{System: "test"}, CrawlStarted, nil)
	})
	if err != nil {
		ts.t.Error(err)
	}
}

// A setting that the plan refuses by now can be taken away, and not be changed.
func TestRefusedSettingIsTakenAway(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	id := ts.submit(ts.admin, "https://a.test/", "max_depth", "3", "delay", `"2s"`).ID
	ts.setPlan(Plan{Refused: []string{"max_depth", "base_delay_ms", "min_delay_ms", "max_delay_ms"}})
	_, err := ts.Crawls.Edit(t.Context(), ts.admin, id, Edit{Settings: raw("max_depth", "2")})
	refusedBy(t, "another value", err, "settings.max_depth", "not_permitted")
	edit(ts, id, Edit{Settings: raw("max_depth", "null", "delay", "null")})
	if c := ts.get(id); len(c.Settings) > 0 {
		t.Errorf("settings %v", c.Settings)
	}
	ts.submit(ts.admin, "https://a.test/", "max_depth", "null")
}

// Names of settings that there are not are refused with a null too, and nothing of them is kept. A null of a setting
// that was removed takes it away.
func TestNullOfUnknownSetting(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	id := ts.submit(ts.admin, "https://a.test/", "trap_repeats", "3", "max_urls", "7").ID
	unknown := strings.Repeat("x", 20_000)
	for _, name := range []string{unknown, "max_url", "start_url"} {
		_, err := ts.Crawls.Edit(t.Context(), ts.admin, id, Edit{Settings: raw("max_urls", "8", name, "null")})
		refusedBy(t, "null of an unknown name", err, "settings."+name, "unknown_setting")
	}
	_, err := ts.Crawls.Edit(t.Context(), ts.admin, id, Edit{Settings: raw(strings.Repeat("<", 70_000), "null")})
	if err == nil {
		t.Error("a long name with null is taken")
	}
	edit(ts, id, Edit{Settings: raw("trap_repeats", "null", "max_depth", "null")})
	r, err := ts.getWhole(t.Context(), "", id)
	if got := ToJSON(r.given); err != nil || got != `{"max_urls":7}` || len(r.Warnings) > 0 {
		t.Errorf("stored %s, warnings %q, %v", got, r.Warnings, err)
	}
	log, err := ts.Accounts.AuditLog(t.Context(), "", 0, 100)
	if size := len(ToJSON(log)); err != nil || size > 10_000 {
		t.Errorf("the audit log has %d bytes, %v", size, err)
	}
}

// A crawl whose plan has changed since its row was read is judged again, also if the rights of its account were read
// after that. A plan that an admin chose for a crawl stays when that of the account changes.
func TestPlanChangesWhileAnEditIsJudged(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	id := ts.submit(ts.admin, "https://a.test/").ID
	if err := ts.Accounts.PutPlan(t.Context(), ts.admin, Plan{Name: "other", MaxPriority: 9}); err != nil {
		t.Fatal(err)
	}
	var judged []string
	err := ts.Crawls.change(t.Context(), ts.admin, id, ts.Write, func(r *row) error {
		if judged = append(judged, r.Plan); len(judged) > 1 {
			return nil
		}
		return ts.Write(t.Context(), func(tx *Tx) error { return tx.Change("UPDATE crawl SET plan = 'other'") })
	}, func(_ *Tx, now *row) error {
		if now.Plan != "other" {
			t.Errorf("recorded with plan %s", now.Plan)
		}
		return nil
	})
	if want := []string{"default", "other"}; err != nil || !slices.Equal(judged, want) {
		t.Errorf("judged with plans %q, want %q: %v", judged, want, err)
	}
	edit(ts, id, Edit{Plan: new("other")})
	for _, plan := range []string{"other", "default"} {
		if err := ts.editAccount(DefaultAccount, AccountEdit{Plan: &plan}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := ts.getWhole(t.Context(), "", id)
	if err != nil || r.Plan != "other" || !r.planByAdmin {
		t.Errorf("plan %s, by an admin %v, %v", r.Plan, r.planByAdmin, err)
	}
}

// A null beside a short form counts as not given: a plan judges what takes effect, and the next edit keeps it.
func TestNullBesideAShortForm(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	c := ts.submit(ts.admin, "https://a.test/", "list", "true", "max_depth", "null", "min_delay_ms", "400")
	edit(ts, c.ID, Edit{Settings: raw("delay", "4", "base_delay_ms", "null", "max_delay_ms", "null",
		"min_delay_ms", "null")})
	edit(ts, c.ID, Edit{Settings: raw("max_urls", "9")})
	r, err := ts.getWhole(t.Context(), "", c.ID)
	want := `{"base_delay_ms":0,"max_delay_ms":4000,"max_depth":0,"max_urls":9,"min_delay_ms":4000}`
	if got := ToJSON(r.Settings); err != nil || got != want || r.setting("max-depth") != "0" ||
		r.setting("min-delay-ms") != "4000" {
		t.Errorf("settings %s, effective depth %s and delay %s, %v", got, r.setting("max-depth"),
			r.setting("min-delay-ms"), err)
	}
	edit(ts, c.ID, Edit{Settings: raw("delay", "null", "max_delay_ms", "6000")})
	if got, want := ToJSON(ts.get(c.ID).Settings), `{"max_delay_ms":6000,"max_depth":0,"max_urls":9}`; got != want {
		t.Errorf("without the delay: settings %s, want %s", got, want)
	}
	ts.setPlan(Plan{Refused: []string{"max_depth", "base_delay_ms"}})
	settings := raw("list", "true", "max_depth", "null", "delay", `"2s"`, "max_delay_ms", "null")
	faults := []string{"settings.base_delay_ms", "settings.max_depth"}
	_, err = ts.Crawls.Submit(t.Context(), ts.admin, Submission{StartURLs: c.StartURLs, Settings: settings}, "")
	if got := faultsOf(err); !slices.Equal(got, faults) {
		t.Errorf("a submission: faults %v, want %v", got, faults)
	}
	_, err = ts.Crawls.Edit(t.Context(), ts.admin, c.ID, Edit{Settings: settings})
	if got := faultsOf(err); !slices.Equal(got, faults) {
		t.Errorf("an edit: faults %v, want %v", got, faults)
	}
}

// Of many edits at once none is lost, and none is recorded in part.
func TestEditsAtOnce(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	id := ts.submit(ts.admin, "https://a.test/").ID
	settings := []string{"max_urls", "max_depth", "max_urls_per_host", "max_body_size"}
	var group sync.WaitGroup
	for i, name := range settings {
		group.Go(func() {
			for n := range 3 {
				edit(ts, id, Edit{Settings: raw(name, fmt.Sprint(100*i+n+1))})
			}
		})
	}
	group.Wait()
	r, err := ts.getWhole(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range settings {
		if want := fmt.Sprint(100*i + 3); string(r.given[name]) != want || fmt.Sprint(r.Settings[name]) != want {
			t.Errorf("%s is %s, shown as %v, want %s", name, r.given[name], r.Settings[name], want)
		}
	}
	if r.edits != int64(3*len(settings)) {
		t.Errorf("%d edits", r.edits)
	}
}

// A limit that is raised in the last moment of a run, before the crawl writes its files, holds: the crawl goes on. After
// that moment it is refused.
func TestEditAtTheEnd(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 30})
	ts := openService(t, Options{Base: quick(web)}).run()
	web.Hold(0)
	id := ts.submit(ts.admin, web.StartURLs()[0], "max_depth", "0").ID
	awaitPages(t, web, 1)
	// The run ends before it is told.
	e := Edit{Settings: raw("max_depth", "100")}
	var edited *row
	var input *encodedInput
	if err := ts.Crawls.change(t.Context(), ts.admin, id, ts.Add, func(r *row) (err error) {
		edited = r
		input, err = ts.Crawls.edit(t.Context(), ts.admin, r, &e)
		return err
	}, func(tx *Tx, _ *row) error { return edited.putEdit(tx, ts.admin, &e, input) }); err != nil {
		t.Fatal(err)
	}
	web.Release()
	if c := ts.awaitState(id, Complete); c.Done != 30 {
		t.Errorf("%d pages, want 30", c.Done)
	}
	ts = openService(t, Options{RecordsOnly: true})
	id = ts.submit(ts.admin, "https://a.test/").ID
	if err := ts.Write(t.Context(), func(tx *Tx) error {
		return tx.Change("UPDATE crawl SET state = ?, started_at = 1 WHERE id = ?", Finishing, id)
	}); err != nil {
		t.Fatal(err)
	}
	_, err := ts.Crawls.Edit(t.Context(), ts.admin, id, e)
	refusedBy(t, "an edit of a crawl that writes its files", err, "settings.max_depth", "wrong_state")
}
