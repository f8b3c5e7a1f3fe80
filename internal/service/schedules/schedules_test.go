package schedules

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
)

// testDB is a database in a file. Writes fail while fail is not nil, as if the process ended there.
type testDB struct {
	*sql.DB
	fail error
}

func newDB(t *testing.T) *testDB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec(Schema); err != nil {
		t.Fatal(err)
	}
	return &testDB{DB: db}
}

func (db *testDB) Read(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return fn(tx)
}

func (db *testDB) Write(ctx context.Context, fn func(*sql.Tx) error) error {
	if db.fail != nil {
		return db.fail
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// testCrawls stands for the crawls of a service: they run until the test ends them.
type testCrawls struct {
	byKey map[string]*service.Crawl
	byID  map[string]*service.Crawl
	made  []time.Time // when crawls and recrawls were started
	after func()      // called after one was started
	limit error       // of Submit
}

func newCrawls() *testCrawls {
	return &testCrawls{byKey: map[string]*service.Crawl{}, byID: map[string]*service.Crawl{}, after: func() {}}
}

func (c *testCrawls) Check(_ context.Context, _ *service.Caller, s service.Submission) error {
	if len(s.StartURLs) == 0 {
		return &service.Error{Code: service.ErrInvalid, Fields: []service.FieldError{{Field: "start_urls", Code: "missing", Detail: "give one"}}}
	}
	return nil
}

func (c *testCrawls) Submit(_ context.Context, caller *service.Caller, _ service.Submission, key string) (*service.Crawl, error) {
	defer c.after()
	if c.limit != nil {
		return nil, c.limit
	}
	if c.byKey[key] == nil {
		crawl := &service.Crawl{ID: fmt.Sprintf("c%d", len(c.byID)), Account: caller.Account.ID, State: service.Queued}
		c.byKey[key], c.byID[crawl.ID] = crawl, crawl
		c.made = append(c.made, time.Now().UTC())
	}
	return c.byKey[key], nil
}

func (c *testCrawls) Get(_ context.Context, caller *service.Caller, id string) (*service.Crawl, error) {
	crawl := c.byID[id]
	if crawl == nil || crawl.Account != caller.Account.ID {
		return nil, &service.Error{Code: service.ErrNotFound, Detail: "there is no such crawl"}
	}
	return crawl, nil
}

func (c *testCrawls) Command(_ context.Context, _ *service.Caller, id string, cmd service.Command, _ service.Recrawl) (*service.Crawl, error) {
	defer c.after()
	crawl := c.byID[id]
	if cmd != service.CommandRecrawl || !crawl.State.Ended() {
		return nil, &service.Error{Code: service.ErrState, State: crawl.State}
	}
	crawl.State = service.Queued
	crawl.Generation++
	c.made = append(c.made, time.Now().UTC())
	return crawl, nil
}

func (c *testCrawls) endAll() {
	for _, crawl := range c.byID {
		crawl.State = service.Complete
	}
}

type testJournal struct {
	events []service.Event
	audit  []string
}

func (j *testJournal) AddEvent(_ *sql.Tx, e service.Event) error {
	j.events = append(j.events, e)
	return nil
}

func (j *testJournal) AddAudit(_ *sql.Tx, _ *service.Caller, action, object string, _ any) error {
	j.audit = append(j.audit, action+" "+object)
	return nil
}

type fixture struct {
	t       *testing.T
	db      *testDB
	crawls  *testCrawls
	journal *testJournal
	*Schedules
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, db: newDB(t), crawls: newCrawls(), journal: &testJournal{}}
	f.Schedules = New(Options{DB: f.db, Crawls: f.crawls, Journal: f.journal, Account: func(_ context.Context, id string) (*service.Account, error) {
		return &service.Account{ID: id}, nil
	}})
	return f
}

func caller(account string, scopes ...service.Scope) *service.Caller {
	return &service.Caller{Account: service.Account{ID: account}, Key: "k", Scopes: append(scopes, service.ScopeWrite)}
}

func (f *fixture) create(in Input) *service.Schedule {
	f.t.Helper()
	s, err := f.Create(f.t.Context(), caller("a"), in)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// run runs the schedules for some time.
func (f *fixture) run(long time.Duration) {
	ctx, cancel := context.WithTimeout(f.t.Context(), long)
	defer cancel()
	f.Run(ctx)
}

func (f *fixture) get(id string) *service.Schedule {
	f.t.Helper()
	s, err := f.Get(f.t.Context(), caller("a"), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func text(s string) *string { return &s }

func daily() Input {
	return Input{Cron: text("0 3 * * *"), Submission: &service.Submission{StartURLs: []string{"https://example.com/"}}}
}

func wantTimes(t *testing.T, got []time.Time, want ...string) {
	t.Helper()
	var texts []string
	for _, at := range got {
		texts = append(texts, at.Format("01-02 15:04:05"))
	}
	if !slices.Equal(texts, want) {
		t.Errorf("started at %q, want %q", texts, want)
	}
}

// The clock of a bubble begins at midnight UTC on 2000-01-01.
func TestDaily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.crawls.after = f.crawls.endAll
		s := f.create(daily())
		if at := s.NextAt.Format(time.RFC3339); at != "2000-01-01T03:00:00Z" || !s.Enabled || s.Zone != "UTC" {
			t.Errorf("created %+v", s)
		}
		f.run(50 * time.Hour)
		wantTimes(t, f.crawls.made, "01-01 03:00:00", "01-02 03:00:00")
		if s := f.get(s.ID); s.LastCrawl != "c1" || s.LastAt.Format("02 15") != "02 03" || s.LastError != "" || s.NextAt.Format("02 15") != "03 03" {
			t.Errorf("after two runs %+v", s)
		}
		// Down for ten days: what was missed runs once.
		time.Sleep(10 * 24 * time.Hour)
		f.run(24 * time.Hour)
		wantTimes(t, f.crawls.made[2:], "01-13 02:00:00", "01-13 03:00:00")
		if len(f.journal.events) != 0 {
			t.Errorf("events %v", f.journal.events)
		}
		off := false
		if _, err := f.Edit(t.Context(), caller("a"), s.ID, Input{Enabled: &off}); err != nil {
			t.Fatal(err)
		}
		f.run(48 * time.Hour)
		if n := len(f.crawls.made); n != 4 || !f.get(s.ID).NextAt.IsZero() {
			t.Errorf("%d starts though it is off", n)
		}
	})
}

// A run is skipped with an event while the last one has not ended, or cannot be started, and the next one comes at its time.
func TestSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := f.create(daily())
		f.run(30 * time.Hour) // the first stays queued, the second is skipped
		wantTimes(t, f.crawls.made, "01-01 03:00:00")
		if len(f.journal.events) != 1 {
			t.Fatalf("events %v", f.journal.events)
		}
		e := f.journal.events[0]
		var data map[string]string
		if err := json.Unmarshal(e.Data, &data); err != nil || e.Type != service.ScheduleSkipped || e.Account != "a" || e.Crawl != "c0" || data["schedule"] != s.ID || !strings.Contains(data["reason"], "queued") {
			t.Errorf("event %+v %s", e, e.Data)
		}
		if got := f.get(s.ID); !strings.Contains(got.LastError, "not ended") || got.LastCrawl != "c0" {
			t.Errorf("%+v", got)
		}
		f.crawls.endAll()
		f.crawls.limit = &service.Error{Code: service.ErrPlanLimit, Detail: "too many wait"}
		f.run(24 * time.Hour)
		if got := f.get(s.ID); got.LastError != "too many wait" || len(f.journal.events) != 2 {
			t.Errorf("%+v, %d events", got, len(f.journal.events))
		}
		// What the service cannot do now stays due.
		f.crawls.limit = &service.Error{Code: service.ErrUnavailable, Detail: "the disk is full"}
		f.run(24 * time.Hour)
		f.crawls.limit = nil
		f.run(time.Minute)
		wantTimes(t, f.crawls.made[1:], "01-04 06:00:00")
		// A crawl that was deleted does not hold up the next one.
		delete(f.crawls.byID, "c1")
		f.run(24 * time.Hour)
		wantTimes(t, f.crawls.made[2:], "01-05 03:00:00")
	})
}

// Killed between starting a run and noting that: it is not started a second time.
func TestStartedOnce(t *testing.T) {
	for name, in := range map[string]Input{"crawl": daily(), "recrawl": {Cron: text("0 3 * * *"), Crawl: text("old")}} {
		for _, ended := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ended ", ended), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t)
					f.crawls.byID["old"] = &service.Crawl{ID: "old", Account: "a", State: service.Complete}
					s := f.create(in)
					f.crawls.after = func() {
						f.db.fail = errors.New("killed")
						if ended {
							f.crawls.endAll()
						}
					}
					f.run(3*time.Hour + time.Second)
					if len(f.crawls.made) != 1 {
						t.Fatalf("%d started", len(f.crawls.made))
					}
					f.db.fail, f.crawls.after = nil, func() {}
					f.run(time.Hour)
					wantTimes(t, f.crawls.made, "01-01 03:00:00")
					if got := f.get(s.ID); got.LastError != "" || got.LastCrawl == "" || got.NextAt.Format("02 15") != "02 03" || len(f.journal.events) > 0 {
						t.Errorf("%+v, events %v", got, f.journal.events)
					}
				})
			})
		}
	}
}

// A schedule that was computed by a clock that was far ahead is computed anew. After a small step back nothing runs twice.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := f.create(daily())
		set := func(last, next time.Duration) {
			err := f.db.Write(t.Context(), func(tx *sql.Tx) error {
				r, err := get(t.Context(), tx, caller("a"), s.ID)
				if err != nil {
					return err
				}
				r.LastAt, r.NextAt = page.Time{Time: time.Now().Add(last)}, page.Time{Time: time.Now().Add(next)}
				return put(t.Context(), tx, r)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		set(time.Hour, 27*time.Hour)
		f.run(time.Minute)
		if at := f.get(s.ID).NextAt; at.Format("2006 02 15") != "2000 02 03" {
			t.Errorf("after a step back of an hour the next run is %v", at)
		}
		set(365*24*time.Hour, 366*24*time.Hour)
		f.run(time.Minute)
		if at := f.get(s.ID).NextAt; at.Format("2006 02 15") != "2000 01 03" {
			t.Errorf("after a step back of a year the next run is %v", at)
		}
	})
}

func TestFaults(t *testing.T) {
	f := newFixture(t)
	f.crawls.byID["mine"] = &service.Crawl{ID: "mine", Account: "a", State: service.Complete}
	f.crawls.byID["other"] = &service.Crawl{ID: "other", Account: "b", State: service.Complete}
	good := &service.Submission{StartURLs: []string{"https://example.com/"}}
	for name, c := range map[string]struct {
		in     Input
		fields []string
	}{
		"nothing":        {Input{}, []string{"cron", "submission"}},
		"both times":     {Input{Cron: text("@daily"), Interval: text("6h"), Submission: good}, []string{"interval"}},
		"both crawls":    {Input{Cron: text("@daily"), Submission: good, Crawl: text("mine")}, []string{"crawl"}},
		"bad expression": {Input{Cron: text("0 25 * * *"), Submission: good}, []string{"cron"}},
		"bad zone":       {Input{Cron: text("@daily"), Zone: text("Nowhere"), Submission: good}, []string{"zone"}},
		"short interval": {Input{Interval: text("10s"), Submission: good}, []string{"interval"}},
		"bad submission": {Input{Interval: text("1d"), Submission: &service.Submission{}}, []string{"submission.start_urls"}},
		"other account":  {Input{Interval: text("1d"), Crawl: text("other")}, []string{"crawl"}},
		"bad age":        {Input{Interval: text("1d"), Crawl: text("mine"), Recrawl: &service.Recrawl{MaxAge: "x"}}, []string{"recrawl.max_age"}},
		"long name":      {Input{Name: text(strings.Repeat("x", 201)), Interval: text("1d"), Submission: good}, []string{"name"}},
		"all at once":    {Input{Name: text(strings.Repeat("x", 201)), Cron: text("x"), Submission: &service.Submission{}}, []string{"name", "cron", "submission.start_urls"}},
	} {
		_, err := f.Create(t.Context(), caller("a"), c.in)
		of, ok := errors.AsType[*service.Error](err)
		if !ok || of.Code != service.ErrInvalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var fields []string
		for _, fault := range of.Fields {
			fields = append(fields, fault.Field)
		}
		if !slices.Equal(fields, c.fields) {
			t.Errorf("%s: faults of %q, want %q", name, fields, c.fields)
		}
	}
	if list, err := f.List(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestOwners(t *testing.T) {
	f := newFixture(t)
	s, err := f.Create(t.Context(), caller("a", service.ScopeAdmin), daily())
	if err != nil {
		t.Fatal(err)
	}
	isAdmin := func() (admin bool) {
		_ = f.db.Read(t.Context(), func(tx *sql.Tx) error {
			r, err := get(t.Context(), tx, caller("a"), s.ID)
			admin = err == nil && r.Admin
			return err
		})
		return admin
	}
	if !isAdmin() {
		t.Error("the schedule of an admin may not do what an admin may")
	}
	stranger := caller("b")
	_, getErr := f.Get(t.Context(), stranger, s.ID)
	_, editErr := f.Edit(t.Context(), stranger, s.ID, Input{Name: text("x")})
	for _, err := range []error{getErr, editErr, f.Delete(t.Context(), stranger, s.ID)} {
		if of, ok := errors.AsType[*service.Error](err); !ok || of.Code != service.ErrNotFound {
			t.Errorf("another account gets %v", err)
		}
	}
	if _, err := f.Get(t.Context(), caller("b", service.ScopeAdmin), s.ID); err != nil {
		t.Error(err)
	}
	changed, err := f.Edit(t.Context(), caller("a"), s.ID, Input{Interval: text("6h"), Name: text("each")})
	if err != nil || changed.Cron != "" || changed.Interval != "6h" || changed.Name != "each" || isAdmin() {
		t.Errorf("%+v, %v, admin %v", changed, err, isAdmin())
	}
	if list, err := f.List(t.Context(), "a"); err != nil || len(list) != 1 || list[0].Name != "each" {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := f.List(t.Context(), "b"); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := f.Delete(t.Context(), caller("a"), s.ID); err != nil {
		t.Error(err)
	}
	if got := strings.Join(f.journal.audit, ", "); got != "schedule.create "+s.ID+", schedule.edit "+s.ID+", schedule.delete "+s.ID {
		t.Errorf("audit %s", got)
	}
}
