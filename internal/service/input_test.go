package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
)

// texts is n texts of a form, as JSON.
func texts(n int, form string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(form, i)
	}
	return ToJSON(list)
}

// refusedBy wants an error with exactly one fault.
func refusedBy(t *testing.T, what string, err error, field, code string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Fields) != 1 || e.Fields[0].Field != field || e.Fields[0].Code != code {
		t.Errorf("%s: %.300v, want %s %s", what, err, field, code)
	}
}

// What a caller submits is bounded in bytes and in the length of its lists, with a submission, a change and a recrawl
// alike.
func TestInputIsBounded(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	tenant := &Caller{Account: ts.admin.Account, System: "test", Scopes: []Scope{ScopeWrite}}
	for _, c := range []struct{ name, key, value, field, code string }{
		{"many types", "xml_types", texts(1001, "a/%d"), "settings.xml_types", faultValue},
		{"many types in one text", "xml_types", ToJSON(strings.Repeat("a,", 1000) + "b"), "settings.xml_types",
			faultValue},
		{"many headers", "header", texts(101, "X-A: %d"), "settings.header", faultValue},
		{"many bytes of a list", "xml_types", texts(700_000, "%d"), "settings", faultSize},
		{"many bytes of a text", "only_hosts", ToJSON(strings.Repeat("a", 70_000)), "settings", faultSize},
		{"many bytes of a name", strings.Repeat("a", 70_000), "1", "settings", faultSize},
	} {
		_, err := ts.Crawls.Submit(t.Context(), tenant, Submission{StartURLs: []string{"https://a.test/"},
			Settings: raw(c.key, c.value)}, "")
		refusedBy(t, c.name, err, c.field, c.code)
	}
	long := make([]string, 300)
	for i := range long {
		long[i] = fmt.Sprintf("https://a.test/%d/%s", i, strings.Repeat("a", 4000))
	}
	_, err := ts.Crawls.Submit(t.Context(), tenant, Submission{StartURLs: long}, "")
	refusedBy(t, "many bytes of start URLs", err, "start_urls", "too_large")
	many := map[string]json.RawMessage{}
	for i := range 5000 {
		many[fmt.Sprintf("s%d", i)] = json.RawMessage("1")
	}
	_, err = ts.Crawls.Submit(t.Context(), tenant, Submission{StartURLs: slices.Repeat([]string{"http://[", "x"}, 400),
		Settings: many}, "")
	if e, ok := errors.AsType[*Error](err); !ok || len(e.Fields) != 2*maxFaults {
		t.Errorf("a refusal of thousands of faults: %.300v", err)
	}

	half := texts(800, "part-%d-"+strings.Repeat("a", 30))
	c := ts.submit(tenant, "https://a.test/", "xml_types", half)
	_, err = ts.Crawls.Edit(t.Context(), tenant, c.ID, Edit{Settings: raw("skip_extensions", half)})
	refusedBy(t, "a change that makes it too much", err, "settings", faultSize)
	if _, err = ts.Crawls.Edit(t.Context(), tenant, c.ID, Edit{Settings: raw("skip_extensions", half, "xml_types",
		"null")}); err != nil {
		t.Error(err)
	}
	refusedBy(t, "a recrawl", (&Recrawl{Include: slices.Repeat([]string{strings.Repeat("a", 999)}, 70)}).Check(), "",
		"too_large")
	refusedBy(t, "a recrawl by large expressions", (&Recrawl{Exclude: []string{"(?:a?){999}b"}}).Check(), "exclude",
		"bad_value")
}

// Lists of crawls have neither settings nor more than the first start URLs; a crawl has its settings.
func TestListsLeaveOutWhatIsLarge(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	starts := make([]string, 200)
	for i := range starts {
		starts[i] = fmt.Sprintf("https://a.test/%d/%s", i, strings.Repeat("a", 20*i))
	}
	made, err := ts.Crawls.Submit(t.Context(), ts.admin, Submission{StartURLs: starts,
		Settings: raw("exclude", `["/private/"]`)}, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ts.Crawls.Get(t.Context(), ts.admin, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	queue, err := ts.Crawls.Queue(t.Context(), ts.admin, CrawlFilter{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := ts.Crawls.List(t.Context(), ts.admin, CrawlFilter{Name: "/a.test/9/"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, c := range []*Crawl{made, got} {
		if text := ToJSON(c); !strings.Contains(text, `"settings":{"exclude":["/private/"]}`) ||
			len(c.StartURLs) != 10 || c.StartURLCount != 200 {
			t.Errorf("a crawl: %s", text)
		}
	}
	for _, c := range append(queue.Items, list.Items...) {
		if text := ToJSON(c); strings.Contains(text, "settings") || strings.Contains(text, "private") ||
			len(c.StartURLs) != 10 || c.StartURLCount != 200 {
			t.Errorf("in a list: %s", text)
		}
	}
	if got := FirstStarts(starts[100:]); len(got) != 2 {
		t.Errorf("%d long start URLs are shown", len(got))
	}
	if got := ToJSON(ts.submit(ts.admin, "https://b.test/")); !strings.Contains(got, `"settings":{}`) {
		t.Errorf("a crawl without settings: %s", got)
	}
}

// A part of a list is bounded in bytes, whatever crawls hold, and the parts together have each crawl once and in order.
func TestPartsOfListsAreBounded(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	var want []string
	for i := range 12 {
		want = append(want, ts.submit(ts.admin, fmt.Sprintf("https://a%d.test/", i)).ID)
	}
	for _, id := range want { // the dispatcher does not run
		ts.Crawls.dispatch.order = append(ts.Crawls.dispatch.order, &entry{id: id, account: ts.admin.Account.ID})
	}
	large, warnings := []string{strings.Repeat("<", PartBytes/30)}, texts(200, strings.Repeat("w", 1000)+"%d")
	err := ts.Write(t.Context(), func(tx *Tx) error {
		return tx.Change("UPDATE crawl SET first_starts_json = ?, recrawl_json = ?, result_json = ? WHERE id <> ?", large,
			&Recrawl{Include: large}, json.RawMessage(`{"reason":"r","warnings":`+warnings+`}`), want[5])
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]func(CrawlFilter) (*List[*Crawl], error){
		"list":  func(f CrawlFilter) (*List[*Crawl], error) { return ts.Crawls.List(t.Context(), ts.admin, f) },
		"queue": func(f CrawlFilter) (*List[*Crawl], error) { return ts.Crawls.Queue(t.Context(), ts.admin, f) },
	} {
		var got []string
		parts := 0
		for cursor := ""; parts == 0 || cursor != ""; parts++ {
			part, err := list(CrawlFilter{Limit: 1000, Cursor: cursor})
			if err != nil || len(part.Items) == 0 {
				t.Fatalf("%s: %v, %v", name, part, err)
			}
			if bytes := len(ToJSON(part)); bytes > PartBytes {
				t.Errorf("%s: a part has %d bytes", name, bytes)
			}
			for _, c := range part.Items {
				if got = append(got, c.ID); c.Warnings != nil {
					t.Errorf("%s: a crawl has %d warnings", name, len(c.Warnings))
				}
			}
			cursor = part.NextCursor
		}
		if name == "list" {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) || parts != 3 {
			t.Errorf("%s: %q in %d parts, want %q", name, got, parts, want)
		}
	}
}

// Of the errors and warnings of a report the database keeps the first ones, and says how many there are.
func TestTextsOfReportsAreBounded(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	c := ts.submit(ts.admin, "https://a.test/")
	var lines []string
	for i := range 90 {
		lines = append(lines, fmt.Sprint(i, strings.Repeat(" warning", 100)))
	}
	err := ts.Write(t.Context(), func(tx *Tx) error {
		r, err := getRow(t.Context(), tx, "", c.ID)
		if err != nil {
			return err
		}
		r.StartedAt = r.CreatedAt
		return r.finish(tx, Actor{System: "test"}, &report.Report{Status: page.Partial, Errors: lines[50:],
			Warnings: lines})
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ts.Crawls.Get(t.Context(), ts.admin, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := ts.Crawls.Runs(t.Context(), ts.admin, c.ID)
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	for _, result := range []Result{got.Result, runs[0].Result} {
		for kind, texts := range map[string][]string{"errors": result.Errors, "warnings": result.Warnings} {
			first, n := lines, len(texts)-1
			if kind == "errors" {
				first = lines[50:]
			}
			if len(ToJSON(texts)) > 17<<10 || !slices.Equal(texts[:n], first[:n]) ||
				texts[n] != fmt.Sprintf("and %d more: report.json has all %s", len(first)-n, kind) {
				t.Errorf("%d %s, the last is %q", len(texts), kind, texts[n])
			}
		}
	}
}

// Names and labels of a crawl count as disk, also after a change. What is audited of a tenant's change is small.
func TestWordsCountAsDisk(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	used := func() int64 {
		t.Helper()
		u, err := ts.Accounts.Usage(t.Context(), DefaultAccount)
		if err != nil {
			t.Fatal(err)
		}
		return u.Disk.Used
	}
	labels := slices.Repeat([]string{strings.Repeat("<", maxName)}, maxLabels) // each is stored in six bytes
	want := int64(6 * maxName * maxLabels)
	id := ts.submit(ts.admin, "https://a.test/").ID
	before := used()
	edit(ts, id, Edit{Labels: &labels, Name: new(strings.Repeat("n", maxName))})
	if got := used() - before; got < want+maxName || got > 2*want {
		t.Errorf("labels and a name of %d bytes count as %d", want+maxName, got)
	}
	edit(ts, id, Edit{Labels: &[]string{}, Name: new("")})
	if got := used(); got != before {
		t.Errorf("without them %d bytes are used, before they were given %d", got, before)
	}
	tenant := &Caller{Account: ts.admin.Account, System: "test", Scopes: []Scope{ScopeWrite}}
	err := ts.Write(t.Context(), func(tx *Tx) error {
		return errors.Join(tx.Audit(tenant, "test", id, labels), tx.Audit(ts.admin, "test", id, labels))
	})
	if err != nil {
		t.Fatal(err)
	}
	log, err := ts.Accounts.AuditLog(t.Context(), "", 0, 2)
	if err != nil || int64(len(log[0].Data)) < want || len(log[1].Data) > mostAudited {
		t.Errorf("audited %d bytes of an admin and %d of a tenant, %v", len(log[0].Data), len(log[1].Data), err)
	}
}

// The sums of an account are those of its crawls and schedules, whatever happens to these.
func TestSumsOfAccounts(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	b := ts.addCaller("b")
	sql := func(text string, args ...any) {
		t.Helper()
		if err := ts.Write(t.Context(), func(tx *Tx) error { return tx.Change(text, args...) }); err != nil {
			t.Fatal(err)
		}
	}
	type sums struct{ disk, input, queued int64 }
	want := func(what string, of *Caller, queued int64) {
		t.Helper()
		read := func(text string) (s sums) {
			s, err := One(t.Context(), ts.db.Read(), func(s *sums) []any { return []any{&s.disk, &s.input, &s.queued} }, text,
				of.Account.ID)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		got := read("SELECT disk_bytes, input_bytes, queued FROM account WHERE id = ?")
		counted := read("SELECT (SELECT COALESCE(SUM(disk_bytes), 0) FROM crawl WHERE account = a.id), " +
			"(SELECT COALESCE(SUM(input_bytes), 0) FROM crawl WHERE account = a.id) + " +
			"(SELECT COALESCE(SUM(input_bytes), 0) FROM schedule WHERE account = a.id), " +
			"(SELECT COUNT(*) FROM crawl WHERE account = a.id AND state = 'queued') FROM account AS a WHERE id = ?")
		if got != counted || got.queued != queued {
			t.Errorf("%s: %+v, want %+v and %d queued", what, got, counted, queued)
		}
	}
	var ids []string
	for range 3 {
		ids = append(ids, ts.submit(ts.admin, "https://a.test/").ID)
		ts.submit(b, "https://b.test/")
	}
	want("submitted", ts.admin, 3)
	ts.do(ids[0], CommandPause)
	sql("UPDATE crawl SET disk_bytes = 7000 WHERE id = ?", ids[1])
	edit(ts, ids[2], Edit{Settings: raw("exclude", `["/x/"]`), Labels: &[]string{"label"}})
	want("paused, run and edited", ts.admin, 2)
	const schedule = "INSERT INTO schedule (id, account, name, cron, every, zone, enabled, submission_json, crawl, " +
		"recrawl_json, created_by, scopes_json, created_at, input_bytes) VALUES (?, ?, '', '', '', '', 0, '', '', '', '', " +
		"'', 0, ?) ON CONFLICT (id) DO UPDATE SET input_bytes = excluded.input_bytes"
	for _, id := range []string{"s", "s", "t"} {
		sql(schedule, id, ts.admin.Account.ID, 300+len(id))
		sql(schedule, id, ts.admin.Account.ID, 500)
	}
	want("with schedules", ts.admin, 2)
	sql("DELETE FROM schedule WHERE id = 's'")
	sql("DELETE FROM crawl_input WHERE crawl IN (?, ?)", ids[1], ids[2])
	sql("DELETE FROM event")
	sql("DELETE FROM crawl WHERE id IN (?, ?)", ids[1], ids[2])
	want("deleted", ts.admin, 0)
	ts.do(ids[0], CommandResume)
	want("resumed", ts.admin, 1)
	want("of another account", b, 3)
}

// What is submitted counts as disk of the account, and cannot exceed what its plan allows.
func TestInputCountsAsDisk(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{Base: quickAt("*:443:127.0.0.1:1")})
	used := func() int64 {
		t.Helper()
		u, err := ts.Accounts.Usage(t.Context(), DefaultAccount)
		if err != nil {
			t.Fatal(err)
		}
		return u.Disk.Used
	}
	const limit = 300_000
	ts.setPlan(Plan{DiskBytes: limit})
	text := texts(500, strings.Repeat("a", 100)+"%d")
	limited := func(err error) bool {
		e, ok := errors.AsType[*Error](err)
		return ok && e.Code == ErrPlanLimit
	}
	var last *Crawl
	for i := 0; ; i++ {
		before := used()
		c, err := ts.Crawls.Submit(t.Context(), ts.admin, Submission{StartURLs: []string{"https://a.invalid/"},
			Settings: raw("xml_types", text)}, "")
		if limited(err) && i > 0 {
			break
		}
		if err != nil || i > 10 {
			t.Fatalf("submission %d with %d bytes used: %v", i, before, err)
		}
		ts.do(c.ID, CommandPause)
		last = c
		if more := used() - before; more < int64(2*len(text)) {
			t.Errorf("submission %d adds %d bytes, its settings have %d", i, more, len(text))
		}
	}
	ts.setPlan(Plan{DiskBytes: limit / 10})
	if _, err := ts.Crawls.Edit(t.Context(), ts.admin, last.ID,
		Edit{Settings: raw("skip_extensions", `["pdf"]`)}); !limited(err) {
		t.Errorf("a change beyond the limit: %v", err)
	}
	if _, err := ts.Crawls.Edit(t.Context(), ts.admin, last.ID, Edit{Labels: &[]string{"a"}}); err != nil {
		t.Errorf("a change of the labels: %v", err)
	}
	ts.setPlan(Plan{DiskBytes: limit})
	ts.run()
	ts.do(last.ID, CommandDelete)
	awaitGone(ts, last.ID)
	if _, err := ts.Crawls.Submit(t.Context(), ts.admin, Submission{StartURLs: []string{"https://a.invalid/"},
		Settings: raw("xml_types", text)}, ""); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}
