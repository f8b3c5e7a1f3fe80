package schedules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

// fixture is a service that keeps records and runs nothing: crawls stay queued until the test ends them.
type fixture struct {
	t *testing.T
	*Schedules
	caller, stranger *service.Caller
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOf(t, service.Options{RecordsOnly: true})
}

func newFixtureOf(t *testing.T, o service.Options) *fixture {
	t.Helper()
	o.Dir = t.TempDir()
	s, err := service.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f := &fixture{t: t, Schedules: New(s, nil)}
	f.caller, f.stranger = f.account("a"), f.account("b")
	return f
}

// account makes an account, and returns a caller of it that may write.
func (f *fixture) account(name string) *service.Caller {
	f.t.Helper()
	admin := &service.Caller{System: "test", Scopes: []service.Scope{service.ScopeAdmin}}
	account, err := f.service.Accounts.Create(f.t.Context(), admin, service.Account{Name: name})
	if err != nil {
		f.t.Fatal(err)
	}
	return &service.Caller{Account: account, System: "test", Scopes: []service.Scope{service.ScopeWrite}}
}

func asAdmin(c *service.Caller) *service.Caller {
	admin := *c
	admin.Scopes = []service.Scope{service.ScopeAdmin}
	return &admin
}

// list reads all parts of the list of schedules.
func (f *fixture) list(account string) (all []service.Schedule, err error) {
	for cursor := ""; ; {
		part, err := f.List(f.t.Context(), account, cursor, 100)
		all = append(all, part.Items...)
		if cursor = part.NextCursor; err != nil || cursor == "" {
			return all, err
		}
	}
}

func (f *fixture) create(in Input) *service.Schedule {
	f.t.Helper()
	s, err := f.Create(f.t.Context(), f.caller, in)
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
	s, err := f.Get(f.t.Context(), f.caller, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// sql changes the database behind the back of the service.
func (f *fixture) sql(query string, args ...any) {
	f.t.Helper()
	err := f.service.Write(f.t.Context(), func(tx *service.Tx) error {
		_, err := tx.ExecContext(f.t.Context(), query, args...)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// endAll ends all crawls.
func (f *fixture) endAll() { f.sql("UPDATE crawl SET state = 'complete'") }

// events are the events of a type.
func (f *fixture) events(kind service.EventType) (list []service.Event) {
	f.t.Helper()
	all, err := f.service.Events.Since(f.t.Context(), service.EventFilter{})
	if err != nil {
		f.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e service.Event) bool { return e.Type != kind })
}

// started are the times at which crawls and recrawls were queued.
func (f *fixture) started() (list []time.Time) {
	for _, e := range f.events(service.CrawlQueued) {
		list = append(list, e.At.Time)
	}
	return list
}

// crawl makes a crawl of an account that has ended.
func (f *fixture) crawl(c *service.Caller) string {
	f.t.Helper()
	crawl, err := f.service.Crawls.Submit(f.t.Context(), c, *daily().Submission, "")
	if err != nil {
		f.t.Fatal(err)
	}
	f.endAll()
	return crawl.ID
}

func text(s string) *string { return &s }

func daily() Input {
	return Input{Cron: text("0 3 * * *"), Submission: &service.Submission{StartURLs: []string{"https://example.com/"},
		Settings: map[string]json.RawMessage{"max_urls": json.RawMessage("5")}}}
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := f.create(daily())
		if at := s.NextAt.Format(time.RFC3339); at != "2000-01-01T03:00:00Z" || !s.Enabled || s.Zone != "UTC" {
			t.Errorf("created %+v", s)
		}
		for range 2 {
			f.run(25 * time.Hour)
			f.endAll()
		}
		wantTimes(t, f.started(), "01-01 03:00:00", "01-02 03:00:00")
		if s := f.get(s.ID); s.LastCrawl == "" || s.LastAt.Format("02 15") != "02 03" || s.LastError != "" ||
			s.NextAt.Format("02 15") != "03 03" {
			t.Errorf("after two runs %+v", s)
		}
		crawl, err := f.service.Crawls.Get(t.Context(), f.caller, f.get(s.ID).LastCrawl)
		if err != nil || crawl.Schedule != s.ID || crawl.Account != f.caller.Account.ID {
			t.Errorf("crawl %+v, %v", crawl, err)
		}
		// Down for ten days: what was missed runs once.
		time.Sleep(10 * 24 * time.Hour)
		f.run(time.Minute)
		f.endAll()
		f.run(24 * time.Hour)
		wantTimes(t, f.started()[2:], "01-13 02:00:00", "01-13 03:00:00")
		if skipped := f.events(service.ScheduleSkipped); len(skipped) != 0 {
			t.Errorf("events %v", skipped)
		}
		off := false
		if _, err := f.Edit(t.Context(), f.caller, s.ID, Input{Enabled: &off}); err != nil {
			t.Fatal(err)
		}
		f.run(48 * time.Hour)
		if n := len(f.started()); n != 4 || !f.get(s.ID).NextAt.IsZero() {
			t.Errorf("%d starts though it is off", n)
		}
	})
}

// A run is skipped with an event while the last one has not ended, or cannot be started, and the next one comes at its
// time.
func TestSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := f.create(daily())
		f.run(30 * time.Hour) // the first stays queued, the second is skipped
		wantTimes(t, f.started(), "01-01 03:00:00")
		skipped := f.events(service.ScheduleSkipped)
		if len(skipped) != 1 {
			t.Fatalf("events %v", skipped)
		}
		e, last := skipped[0], f.get(s.ID)
		var data map[string]string
		if err := json.Unmarshal(e.Data, &data); err != nil || e.Account != f.caller.Account.ID ||
			e.Crawl != last.LastCrawl || data["schedule"] != s.ID || !strings.Contains(data["reason"], "queued") {
			t.Errorf("event %+v %s", e, e.Data)
		}
		if !strings.Contains(last.LastError, "not ended") {
			t.Errorf("%+v", last)
		}
		// The plan allows no crawl.
		f.endAll()
		f.sql("UPDATE plan SET terms_json = '{\"name\":\"default\",\"refused_settings\":[\"max_urls\"]}'")
		f.run(24 * time.Hour)
		if got := f.get(s.ID); !strings.Contains(got.LastError, "does not allow") ||
			len(f.events(service.ScheduleSkipped)) != 2 {
			t.Errorf("%+v", got)
		}
		f.sql("UPDATE plan SET terms_json = '{\"name\":\"default\",\"max_priority\":9}'")
		f.run(24 * time.Hour)
		wantTimes(t, f.started()[1:], "01-04 03:00:00")
		if got := f.get(s.ID); got.LastError != "" {
			t.Errorf("%+v", got)
		}
		// A crawl that was deleted does not hold up the next one.
		f.sql("DELETE FROM crawl")
		f.run(24 * time.Hour)
		wantTimes(t, f.started()[2:], "01-05 03:00:00")
	})
}

// A run that starts something is a change of its account, and is skipped when the account has none left. Runs that are
// skipped are none, and admins are not bound.
func TestRunsAreChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		left := 3
		f.LimitBy(func(account string) bool {
			if left--; account != f.caller.Account.ID {
				t.Errorf("a change of account %s is counted", account)
			}
			return left >= 0
		})
		every := Input{Interval: text("1m"), Submission: daily().Submission}
		s := f.create(every)
		f.run(3*time.Minute + 30*time.Second) // the first stays queued
		if left != 2 {
			t.Errorf("%d changes are left, want 2", left)
		}
		f.endAll()
		crawl := f.get(s.ID).LastCrawl
		visit := f.create(Input{Interval: text("1m"), Crawl: &crawl})
		f.run(75 * time.Second) // each runs once: no time here is that of a run
		f.endAll()
		skipped := len(f.events(service.ScheduleSkipped))
		f.run(3 * time.Minute)
		for _, id := range []string{s.ID, visit.ID} {
			if got := f.get(id); !strings.Contains(got.LastError, "too many changes") {
				t.Errorf("%+v", got)
			}
		}
		if got := len(f.events(service.ScheduleSkipped)) - skipped; got != 2 {
			t.Errorf("%d events say that a run is skipped, want one for each schedule", got)
		}
		f.endAll()
		started := len(f.started())
		if _, err := f.Create(t.Context(), asAdmin(f.caller), every); err != nil {
			t.Fatal(err)
		}
		f.run(2 * time.Minute)
		if got := len(f.started()) - started; got != 1 {
			t.Errorf("an admin's schedule has started %d crawls, want 1", got)
		}
	})
}

// Killed between starting a run and noting that: it is not started a second time.
func TestStartedOnce(t *testing.T) {
	t.Parallel()
	for _, recrawl := range []bool{false, true} {
		for _, ended := range []bool{false, true} {
			t.Run(fmt.Sprintf("recrawl %v, ended %v", recrawl, ended), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t)
					in, before := daily(), 0
					if recrawl {
						in, before = Input{Cron: text("0 3 * * *"), Crawl: text(f.crawl(f.caller))}, 1
					}
					s := f.create(in)
					f.write = func(ctx context.Context, fn func(*service.Tx) error) error {
						if len(f.started()) > before {
							return errors.New("killed")
						}
						return f.service.Write(ctx, fn)
					}
					f.run(3*time.Hour + time.Second)
					if n := len(f.started()) - before; n != 1 {
						t.Fatalf("%d started", n)
					}
					if ended {
						f.endAll()
					}
					f.write = f.service.Write
					f.run(time.Hour)
					wantTimes(t, f.started()[before:], "01-01 03:00:00")
					got := f.get(s.ID)
					if got.LastError != "" || got.LastCrawl == "" || got.NextAt.Format("02 15") != "02 03" ||
						len(f.events(service.ScheduleSkipped)) > 0 {
						t.Errorf("%+v", got)
					}
					if !ended {
						return
					}
					f.run(24 * time.Hour)
					wantTimes(t, f.started()[before:], "01-01 03:00:00", "01-02 03:00:00")
				})
			})
		}
	}
}

// A schedule whose crawl the plan does not allow any more, or that is gone, can be disabled, and not enabled. An admin
// is judged by the plan of the schedule's account.
func TestEditOfARefusedSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		crawl := f.crawl(f.caller)
		start, visit := f.create(daily()), f.create(Input{Cron: text("0 3 * * *"), Crawl: &crawl})
		f.sql("UPDATE plan SET terms_json = '{\"name\":\"default\",\"refused_settings\":[\"max_urls\"]}'")
		f.sql("DELETE FROM crawl")
		other := *asAdmin(f.caller)
		other.Account.ID, other.Account.Plan = "none", "none" // it must not matter
		for _, c := range []*service.Caller{f.caller, &other} {
			for what, s := range map[string]*service.Schedule{"submission": start, "crawl": visit} {
				for _, in := range []Input{{Enabled: new(false), Name: text("off")}, {Interval: text("2h")}} {
					if _, err := f.Edit(t.Context(), c, s.ID, in); err != nil {
						t.Errorf("%s: %+v: %v", what, in, err)
					}
				}
				_, err := f.Edit(t.Context(), c, s.ID, Input{Enabled: new(true)})
				if refusal, ok := errors.AsType[*service.Error](err); !ok || len(refusal.Fields) != 1 ||
					!strings.HasPrefix(refusal.Fields[0].Field, what) {
					t.Errorf("%s: enabled: %v", what, err)
				}
			}
		}
	})
}

// Reasons that change for many schedules at once are events only as long as the account may make changes.
func TestReasonsThatChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		left := 100
		f.LimitBy(func(string) bool { left--; return left >= 0 })
		crawl, other := f.crawl(f.caller), f.crawl(f.caller)
		f.sql("UPDATE crawl SET state = 'paused' WHERE id = ?", crawl)
		f.sql("UPDATE crawl SET state = 'queued' WHERE id = ?", other)
		for range 20 {
			f.create(Input{Interval: text("1m"), Crawl: &crawl})
		}
		const plan = "UPDATE plan SET terms_json = '{\"name\":\"default\",\"max_priority\":9,\"max_queued\":1}'"
		f.sql(plan)
		f.run(2 * time.Minute) // not ended: each has its first event, which needs no change
		if got := len(f.events(service.ScheduleSkipped)); got != 20 || left != 100 {
			t.Errorf("%d events, %d changes left, want 20 and 100", got, left)
		}
		for range 20 {
			f.sql("UPDATE crawl SET state = 'complete' WHERE id = ?", crawl) // the plan allows no other waiting crawl
			f.run(2 * time.Minute)
			f.sql("UPDATE crawl SET state = 'paused' WHERE id = ?", crawl)
			f.run(2 * time.Minute)
		}
		if got := len(f.events(service.ScheduleSkipped)); got != 120 {
			t.Errorf("%d events, want 120", got)
		}
	})
}

// Runs that are skipped one after the other for the same reason are one event and one line of the log, whatever the
// crawl does meanwhile. Another reason, and the next time after a run, are events again.
func TestSkippedForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var log bytes.Buffer
		f.log = slog.New(slog.NewTextHandler(&log, nil))
		crawl := f.crawl(f.caller)
		visit := f.create(Input{Interval: text("1m"), Crawl: &crawl})
		start := f.create(Input{Interval: text("2m"), Submission: daily().Submission})
		want := func(what string, n int, states ...string) {
			t.Helper()
			if got := len(f.events(service.ScheduleSkipped)); got != n {
				t.Errorf("%s: %d events, want %d", what, got, n)
			}
			if got := strings.Count(log.String(), "is skipped"); got != n {
				t.Errorf("%s: %d lines of the log, want %d", what, got, n)
			}
			for i, s := range []*service.Schedule{visit, start} {
				if got := f.get(s.ID); !strings.Contains(got.LastError, states[i]) || got.NextAt.Before(time.Now()) {
					t.Errorf("%s: %+v", what, got)
				}
			}
		}
		f.run(10 * time.Minute)
		want("both are queued", 2, "is queued", "is queued")
		f.sql("UPDATE crawl SET state = 'running'")
		f.run(10 * time.Minute)
		f.sql("UPDATE crawl SET state = 'paused'")
		f.run(10 * time.Minute)
		want("both are paused", 2, "is paused", "is paused")
		f.endAll()
		f.run(10 * time.Minute)
		want("both have run again", 4, "is queued", "is queued")
		f.sql("DELETE FROM crawl WHERE id = ?", crawl)
		f.run(10 * time.Minute)
		want("one is deleted", 5, "no crawl", "is queued")
	})
}

// What is submitted is read when a run starts, and not before: it may be large, and there may be many schedules. So a
// submission that cannot be read holds up nothing but its own run.
func TestSubmissionsAreReadWhenTheyStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		skipped, later := f.create(daily()), f.create(Input{Cron: text("0 5 1 2 *"), Submission: daily().Submission})
		f.run(4 * time.Hour) // the first starts and stays queued
		f.sql("UPDATE schedule SET submission_json = 'no JSON'")
		other := f.create(Input{Interval: text("1h"), Submission: daily().Submission})
		f.run(24 * time.Hour)
		if got := f.get(other.ID); got.LastCrawl == "" {
			t.Errorf("%+v", got)
		}
		if n := len(f.started()); n != 2 {
			t.Errorf("%d started", n)
		}
		r, err := read(t.Context(), f.service.DB().Read(), skipped.ID)
		if err != nil || !strings.Contains(r.LastError, "not ended") || r.NextAt.Format("02 15") != "03 03" {
			t.Errorf("%+v, %v", r.Schedule, err)
		}
		if r, err = read(t.Context(), f.service.DB().Read(), later.ID); err != nil || !r.LastAt.IsZero() ||
			!r.NextAt.Equal(later.NextAt.Time) {
			t.Errorf("%+v, %v", r.Schedule, err)
		}
	})
}

// Each start takes long, and one account has many schedules due. That of another account, which becomes due meanwhile,
// is the next to start.
func TestAccountsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for range 4 {
			f.create(daily())
		}
		if _, err := f.Create(t.Context(), f.stranger,
			Input{Cron: text("1 3 * * *"), Submission: daily().Submission}); err != nil {
			t.Fatal(err)
		}
		f.write = func(ctx context.Context, fn func(*service.Tx) error) error {
			time.Sleep(40 * time.Second)
			return f.service.Write(ctx, fn)
		}
		f.run(4 * time.Hour)
		wantTimes(t, f.started(), "01-01 03:00:00", "01-01 03:00:40", "01-01 03:01:20", "01-01 03:02:00",
			"01-01 03:02:40")
		var of []string
		for _, e := range f.events(service.CrawlQueued) {
			of = append(of, e.Account)
		}
		a, b := f.caller.Account.ID, f.stranger.Account.ID
		if want := []string{a, a, b, a, a}; !slices.Equal(of, want) {
			t.Errorf("started for %v, want %v", of, want)
		}
	})
}

// What is submitted is not read for a run that is refused whatever it is. A run that cannot be started for another
// reason is tried again later, and holds up no other schedule.
func TestRefusedBeforeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		changes, left := 0, 10
		f.LimitBy(func(string) bool { changes++; left--; return left >= 0 })
		s := f.create(daily())
		visit := f.create(Input{Cron: text("0 3 * * *"), Crawl: text(f.crawl(f.caller))})
		f.run(4 * time.Hour) // both are queued
		f.sql("UPDATE schedule SET submission_json = 'no JSON' WHERE submission_json <> ''")
		f.sql("UPDATE crawl_input SET starts_json = 'no JSON'")
		want := func(reason string, took int) {
			t.Helper()
			changes = 0
			f.run(24 * time.Hour)
			for _, id := range []string{s.ID, visit.ID} {
				r, err := read(t.Context(), f.service.DB().Read(), id)
				if err != nil || !strings.Contains(r.LastError, reason) || r.NextAt.Before(time.Now()) {
					t.Errorf("%+v, %v; want %q", r.Schedule, err, reason)
				}
			}
			if changes != took {
				t.Errorf("%s: %d changes, want %d", reason, changes, took)
			}
		}
		want("not ended", 0)
		f.endAll()
		f.sql("UPDATE plan SET terms_json = '{\"name\":\"default\",\"max_priority\":9,\"max_queued\":1}'")
		if _, err := f.service.Crawls.Submit(t.Context(), f.caller, *daily().Submission, ""); err != nil {
			t.Fatal(err)
		}
		want("allows 1 waiting crawls", 2) // another reason
		f.endAll()
		left = 0
		want("too many changes", 2)

		left = 10_000
		started := len(f.started())
		time.Sleep(22*time.Hour + 50*time.Minute + 10*time.Second)
		if _, err := f.Create(t.Context(), f.stranger,
			Input{Interval: text("15m"), Submission: daily().Submission}); err != nil {
			t.Fatal(err)
		}
		f.run(20 * time.Minute) // those that cannot be read are tried again and again
		wantTimes(t, f.started()[started:], "01-05 03:05:10")
	})
}

// What a user does with a schedule while its run starts is not undone.
func TestChangedWhileStarting(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(f *fixture, id string) error{
		"edited": func(f *fixture, id string) error {
			_, err := f.Edit(f.t.Context(), f.caller, id, Input{Name: text("other"), Cron: text("0 7 * * *")})
			return err
		},
		"disabled": func(f *fixture, id string) error {
			_, err := f.Edit(f.t.Context(), f.caller, id, Input{Enabled: new(bool)})
			return err
		},
		"deleted": func(f *fixture, id string) error { return f.Delete(f.t.Context(), f.caller, id) },
	} {
		for at := range 2 { // before which transaction of a run
			t.Run(fmt.Sprint(what, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t)
					s := f.create(Input{Cron: text("0 3 * * *"), Crawl: text(f.crawl(f.caller))})
					writes := 0
					f.write = func(ctx context.Context, fn func(*service.Tx) error) error {
						if writes++; writes == at+1 {
							if err := change(f, s.ID); err != nil {
								t.Error(err)
							}
						}
						return f.service.Write(ctx, fn)
					}
					f.run(4 * time.Hour)
					if n := len(f.started()); n != 2 {
						t.Errorf("%d started", n-1)
					}
					got, err := f.Get(t.Context(), f.caller, s.ID)
					switch what {
					case "deleted":
						if err == nil {
							t.Errorf("%+v", got)
						}
					case "disabled":
						if err != nil || got.Enabled || !got.NextAt.IsZero() || got.LastAt.IsZero() {
							t.Errorf("%+v, %v", got, err)
						}
					case "edited":
						if err != nil || got.Name != "other" || got.NextAt.Format("02 15") != "01 07" ||
							got.LastAt.IsZero() {
							t.Errorf("%+v, %v", got, err)
						}
					}
				})
			})
		}
	}
}

// A schedule that was computed by a clock that was far ahead is computed anew. After a small step back nothing runs
// twice.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := f.create(daily())
		set := func(last, next time.Duration) {
			f.sql("UPDATE schedule SET last_at = ?, next_at = ?", time.Now().Add(last).UnixMilli(),
				time.Now().Add(next).UnixMilli())
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

// An interval schedule that was made while the clock was far ahead runs in its interval all the same. It is not written
// again while nothing changes.
func TestIntervalOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		f := newFixtureOf(t, service.Options{RecordsOnly: true, Observe: func(time.Duration) { writes.Add(1) }})
		in := daily()
		in.Cron, in.Interval = nil, new("6h")
		s := f.create(in)
		f.sql("UPDATE schedule SET created_at = ?, next_at = ?", time.Now().AddDate(1, 0, 0).UnixMilli(),
			time.Now().AddDate(1, 0, 0).Add(6*time.Hour).UnixMilli())
		before := writes.Load()
		f.run(time.Hour)
		if at := f.get(s.ID).NextAt; !at.After(time.Now()) || at.After(time.Now().Add(6*time.Hour)) {
			t.Errorf("the next run is %v", at)
		}
		if n := writes.Load() - before; n != 1 {
			t.Errorf("%d transactions in an hour in which it was not due", n)
		}
		for range 4 {
			f.run(6 * time.Hour)
			f.endAll()
		}
		if n := len(f.started()); n != 4 {
			t.Errorf("%d runs in a day", n)
		}
	})
}

// Once in the night in which clocks go forward, and once in that in which they go back.
func TestNightsOfClockChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		in := daily()
		in.Cron, in.Zone = text("30 2 * * *"), text("Europe/Berlin")
		f.create(in)
		for _, from := range []string{"2000-03-25T12:00:00Z", "2000-10-28T12:00:00Z"} {
			at, err := time.Parse(time.RFC3339, from)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(at))
			f.endAll()
			f.sql("UPDATE schedule SET next_at = ?", at.UnixMilli()) // what was missed
			f.run(time.Minute)
			before := len(f.started())
			for range 2 {
				f.endAll()
				f.run(24 * time.Hour)
			}
			if n := len(f.started()) - before; n != 2 {
				t.Errorf("%d runs in two nights after %s", n, from)
			}
		}
		wantTimes(t, f.started()[1:3], "03-26 01:00:00", "03-27 00:30:00")
		wantTimes(t, f.started()[4:], "10-29 00:30:00", "10-30 01:30:00")
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mine, other := f.crawl(f.caller), f.crawl(f.stranger)
	good := daily().Submission
	bad := &service.Submission{StartURLs: []string{"http://127.0.0.1/"},
		Settings: map[string]json.RawMessage{"shards": json.RawMessage("3")}}
	for name, c := range map[string]struct {
		in     Input
		fields []string
	}{
		"nothing":        {Input{}, []string{"cron", "submission"}},
		"both times":     {Input{Cron: text("@daily"), Interval: text("6h"), Submission: good}, []string{"interval"}},
		"both crawls":    {Input{Cron: text("@daily"), Submission: good, Crawl: text(mine)}, []string{"crawl"}},
		"bad expression": {Input{Cron: text("0 25 * * *"), Submission: good}, []string{"cron"}},
		"bad zone":       {Input{Cron: text("@daily"), Zone: text("Nowhere"), Submission: good}, []string{"zone"}},
		"long zone": {Input{Cron: text("@daily"), Zone: text("Europe" + strings.Repeat("/", 100) + "Berlin"),
			Submission: good}, []string{"zone"}},
		"short interval": {Input{Interval: text("10s"), Submission: good}, []string{"interval"}},
		"bad submission": {Input{Interval: text("1d"), Submission: bad},
			[]string{"submission.settings.shards", "submission.start_urls[0]"}},
		"other account": {Input{Interval: text("1d"), Crawl: text(other)}, []string{"crawl"}},
		"bad age": {Input{Interval: text("1d"), Crawl: text(mine), Recrawl: &service.Recrawl{MaxAge: "x"}},
			[]string{"recrawl.max_age"}},
		"long name": {Input{Name: text(strings.Repeat("x", 201)), Interval: text("1d"), Submission: good},
			[]string{"name"}},
		"bad choice": {Input{Interval: text("1d"), Crawl: text(mine),
			Recrawl: &service.Recrawl{Include: []string{"("}, Exclude: []string{"["}}},
			[]string{"recrawl.include", "recrawl.exclude"}},
		"all at once": {Input{Name: text(strings.Repeat("x", 201)), Zone: text("Nowhere"), Cron: text("x"),
			Submission: &service.Submission{}}, []string{"name", "zone", "cron", "submission.start_urls"}},
	} {
		_, err := f.Create(t.Context(), f.caller, c.in)
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
	if list, err := f.list(""); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// What a schedule starts may use what its maker might, and what the last one might who changed it. Keys play no part. A
// list of schedules has no settings and the first start URLs only, and what is to be submitted counts as disk of the
// account.
func TestInput(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in := daily()
	in.Submission.StartURLs = nil
	for i := range 100 {
		in.Submission.StartURLs = append(in.Submission.StartURLs, fmt.Sprintf("https://a.test/%d", i))
	}
	in.Submission.Settings = map[string]json.RawMessage{"exclude": json.RawMessage(`["/private/"]`)}
	made := f.create(in)
	list, err := f.list("")
	if err != nil || len(list) != 1 || list[0].Submission.Settings != nil || len(list[0].Submission.StartURLs) != 10 {
		t.Errorf("the list has %+v, %v", list, err)
	}
	if s := f.get(made.ID).Submission; len(s.StartURLs) != 100 || s.Settings == nil {
		t.Errorf("the schedule has %+v", s)
	}
	if err := f.service.Accounts.PutPlan(t.Context(), asAdmin(f.caller),
		service.Plan{Name: "default", MaxPriority: 9, DiskBytes: 2000}); err != nil {
		t.Fatal(err)
	}
	_, err = f.Create(t.Context(), f.caller, in)
	if e, ok := errors.AsType[*service.Error](err); !ok || e.Code != service.ErrPlanLimit {
		t.Errorf("a second one: %v", err)
	}
}

func TestOwners(t *testing.T) {
	t.Parallel()
	synctest.Test(t, owners)
}

func owners(t *testing.T) {
	f := newFixture(t)
	in := daily()
	in.Submission.Settings["allow_private"] = json.RawMessage("true")
	if _, err := f.Create(t.Context(), f.caller, in); err == nil {
		t.Error("a tenant may use the setting of an admin")
	}
	s, err := f.Create(t.Context(), asAdmin(f.caller), in)
	if err != nil {
		t.Fatal(err)
	}
	f.sql("UPDATE schedule SET next_at = 1")
	f.run(time.Second)
	if len(f.started()) != 1 {
		t.Errorf("not started: %+v", f.get(s.ID))
	}
	_, getErr := f.Get(t.Context(), f.stranger, s.ID)
	_, editErr := f.Edit(t.Context(), f.stranger, s.ID, Input{Name: text("x")})
	for _, err := range []error{getErr, editErr, f.Delete(t.Context(), f.stranger, s.ID)} {
		if of, ok := errors.AsType[*service.Error](err); !ok || of.Code != service.ErrNotFound {
			t.Errorf("another account gets %v", err)
		}
	}
	if _, err := f.Get(t.Context(), asAdmin(f.stranger), s.ID); err != nil {
		t.Error(err)
	}
	if _, err := f.Edit(t.Context(), f.caller, s.ID, Input{Name: text("each")}); err == nil {
		t.Error("a tenant may keep the setting of an admin")
	}
	changed, err := f.Edit(t.Context(), f.caller, s.ID, Input{Interval: text("6h"), Name: text("each"),
		Submission: daily().Submission})
	if err != nil || changed.Cron != "" || changed.Interval != "6h" || changed.Name != "each" {
		t.Errorf("%+v, %v", changed, err)
	}
	if list, err := f.list(f.caller.Account.ID); err != nil || len(list) != 1 || list[0].Name != "each" {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := f.list(f.stranger.Account.ID); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := f.Delete(t.Context(), f.caller, s.ID); err != nil {
		t.Error(err)
	}
	audit, err := f.service.Accounts.AuditLog(t.Context(), f.caller.Account.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, e := range audit {
		if e.Object == s.ID {
			actions = append(actions, e.Action)
		}
	}
	if want := []string{"schedule.delete", "schedule.edit", "schedule.create"}; !slices.Equal(actions, want) {
		t.Errorf("audit %q, want %q", actions, want)
	}
}

// A recrawl that is cancelled does not stop the schedule that started it.
func TestCancelledRecrawl(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		id := f.crawl(f.caller)
		f.sql("INSERT INTO crawl_run (crawl, generation, state, started_at, ended_at, result_json, progress_json) "+
			"VALUES (?, 0, 'complete', 1, 2, '{}', '{}')", id)
		s := f.create(Input{Interval: text("1h"), Crawl: &id})
		for range 2 {
			f.run(time.Hour + time.Minute)
			if _, err := f.service.Crawls.Command(t.Context(), f.caller, id, service.CommandCancel, nil); err != nil {
				t.Fatal(err)
			}
		}
		wantTimes(t, f.started()[1:], "01-01 01:00:00", "01-01 02:00:00")
		if skipped := f.events(service.ScheduleSkipped); len(skipped) != 0 || f.get(s.ID).LastError != "" {
			t.Errorf("skipped %v, last error %q", skipped, f.get(s.ID).LastError)
		}
	})
}

// No answer has the values of headers, or the passwords of proxies and of start URLs that an earlier version stored.
// The crawls have the headers.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.caller = asAdmin(f.caller)
		in := daily()
		in.Submission.Settings["header"] = json.RawMessage(`["Authorization: s3cret", "Accept-Language: de"]`)
		in.Submission.Settings["proxy"] = json.RawMessage(`"http://user:s3cret@proxy.example:3128"`)
		made := f.create(in)
		f.sql("UPDATE schedule SET submission_json = replace(submission_json, 'https://example.com/', " +
			"'https://user:s3cret@example.com/')")
		list, err := f.list("")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		edited, err := f.Edit(t.Context(), f.caller, made.ID, Input{Name: text("other")})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*service.Schedule{made, edited, &list[0], f.get(made.ID)} {
			shown := service.ToJSON(s)
			listed := s == &list[0] // a list has no settings
			if strings.Contains(shown, "s3cret") || strings.Contains(shown, "Authorization: (hidden)") == listed ||
				!strings.Contains(shown, "https://example.com/") {
				t.Error(shown)
			}
		}
		// What is shown cannot be taken for a value.
		_, err = f.Edit(t.Context(), f.caller, made.ID, Input{Submission: edited.Submission})
		if e := (*service.Error)(nil); !errors.As(err, &e) ||
			!strings.Contains(service.ToJSON(e.Fields), "is only shown in its place") {
			t.Errorf("a submission as it is shown: %v", err)
		}
		f.run(25 * time.Hour)
		if s := f.get(made.ID); s.LastCrawl == "" || s.LastError != "" {
			t.Fatalf("%+v", s)
		}
		var stored string
		if err := f.service.DB().Read().QueryRowContext(t.Context(),
			"SELECT stored_json FROM crawl_input").Scan(&stored); err != nil ||
			!strings.Contains(stored, "Authorization: s3cret") {
			t.Errorf("the crawl has %s, %v", stored, err)
		}
	})
}

// A part of the list reads a bounded number of bytes, however large the submissions are, and its cursor leads to the
// rest.
func TestPartsOfTheList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := strings.Repeat("a", 4000)
	var want []string
	for range 6 {
		in := Input{Cron: new("0 3 * * *"), Submission: &service.Submission{}}
		for i := range 255 {
			in.Submission.StartURLs = append(in.Submission.StartURLs, fmt.Sprintf("https://a.test/%d/%s", i, long))
		}
		want = append(want, f.create(in).ID)
	}
	for _, limit := range []int{1, 2, 1000} {
		var got []string
		for cursor := ""; len(got) < 2*len(want); {
			part, err := f.List(t.Context(), f.caller.Account.ID, cursor, limit)
			if err != nil || len(part.Items) == 0 || len(part.Items) > min(limit, service.PartBytes/(255*4000)) {
				t.Fatalf("%d schedules in a part of at most %d, %v", len(part.Items), limit, err)
			}
			for _, s := range part.Items {
				got = append(got, s.ID)
			}
			if cursor = part.NextCursor; cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %q, want %q", limit, got, want)
		}
	}
}

// An edit that meets another one, or a run, is judged by what it meets: an enabled schedule has one time, is due at it,
// and starts one thing.
func TestEditMeetsAnotherChange(t *testing.T) {
	t.Parallel()
	at := func(day, hour int) time.Time { return time.Date(2000, 1, day, hour, 0, 0, 0, time.UTC) }
	for name, test := range map[string]struct {
		made, first, second Input // made has a submission
		refused             string
		next                time.Time // zero if the schedule is off
	}{
		"on, and a label": {Input{Cron: new("0 3 * * *"), Enabled: new(false)}, Input{Enabled: new(true)},
			Input{Name: new("other")}, "", at(1, 3)},
		"off, and another hour": {Input{Cron: new("0 3 * * *")}, Input{Enabled: new(false)},
			Input{Cron: new("0 4 * * *")}, "", time.Time{}},
		"another hour, and a label": {Input{Cron: new("0 3 * * *")}, Input{Cron: new("0 5 * * *")},
			Input{Name: new("other")}, "", at(1, 5)},
		"an expression, and none": {Input{Interval: new("6h")}, Input{Cron: new("0 5 * * *")}, Input{Cron: new("")},
			"cron", at(1, 5)},
		"none, and no interval": {Input{Cron: new("0 3 * * *")}, Input{Interval: new("7h")}, Input{Interval: new("")},
			"cron", at(1, 7)},
		"a crawl, and none": {Input{Cron: new("0 3 * * *")}, Input{}, Input{Crawl: new("")}, "submission", at(1, 3)},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			if name == "a crawl, and none" {
				test.first.Crawl = new(f.crawl(f.caller))
			}
			test.made.Submission = daily().Submission
			id := f.create(test.made).ID
			second := make(chan error, 1)
			err := f.service.Write(t.Context(), func(tx *service.Tx) error {
				go func() {
					_, err := f.Edit(t.Context(), f.caller, id, test.second)
					second <- err
				}()
				synctest.Wait() // it is judged, and waits for this transaction
				r, err := get(t.Context(), tx, f.caller, id)
				if err != nil {
					return err
				}
				test.first.applyTo(r)
				return errors.Join(f.check(t.Context(), f.caller, r, true), put(tx, r))
			})
			if err != nil {
				t.Fatal(name, err)
			}
			var fields []string
			err = <-second
			if refusal, ok := errors.AsType[*service.Error](err); ok {
				for _, f := range refusal.Fields {
					fields = append(fields, f.Field)
				}
			}
			if strings.Join(fields, " ") != test.refused {
				t.Errorf("%s: %v, want a refusal of %q", name, err, test.refused)
			}
			got := f.get(id)
			if got.Enabled == got.NextAt.IsZero() || !got.NextAt.Equal(test.next) ||
				(got.Cron == "") == (got.Interval == "") || (got.Submission == nil) == (got.Crawl == "") {
				t.Errorf("%s: %s", name, service.ToJSON(got))
			}
		})
	}
}

// A run that ends while an edit is judged is not made again. One that is due when something else than its time is
// edited is made.
func TestEditBesideARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		id := f.create(daily()).ID
		time.Sleep(3*time.Hour - time.Second)
		edited := make(chan error, 1)
		err := f.service.Write(t.Context(), func(tx *service.Tx) error {
			go func() {
				_, err := f.Edit(t.Context(), f.caller, id, Input{Zone: new("Atlantic/Reykjavik")})
				edited <- err
			}()
			synctest.Wait() // it is judged, and due in a second
			time.Sleep(2 * time.Second)
			return tx.Change("UPDATE schedule SET last_at = ?, next_at = ? WHERE id = ?", time.Now(),
				time.Now().Add(24*time.Hour-time.Second), id)
		})
		if err := errors.Join(err, <-edited); err != nil {
			t.Fatal(err)
		}
		if got := f.get(id); got.NextAt.Format("02 15:04") != "02 03:00" || got.LastAt.IsZero() ||
			got.Zone != "Atlantic/Reykjavik" {
			t.Errorf("after a run: %s", service.ToJSON(got))
		}
		time.Sleep(25 * time.Hour)
		if _, err := f.Edit(t.Context(), f.caller, id, Input{Name: new("other"), Enabled: new(true)}); err != nil {
			t.Fatal(err)
		}
		f.run(time.Minute)
		wantTimes(t, f.started(), "01-02 04:00:01")
	})
}

// While the disk is nearly full, schedules are not made or changed, but deleted; a run is skipped and says why, and the
// next run comes when there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const least = 1 << 30
		var free atomic.Int64
		free.Store(least)
		f := newFixtureOf(t, service.Options{MinFree: least, SlotDir: t.TempDir(),
			FreeBytes: func(string) (int64, error) { return free.Load(), nil }})
		s, other := f.create(daily()), f.create(daily())
		recrawl := f.create(Input{Cron: text("0 3 * * *"), Crawl: text(f.crawl(f.caller))})
		free.Store(least - 1)
		_, err := f.Create(t.Context(), f.caller, daily())
		_, editErr := f.Edit(t.Context(), f.caller, s.ID, Input{Cron: text("0 4 * * *")})
		for what, err := range map[string]error{"create": err, "edit": editErr} {
			if e, ok := errors.AsType[*service.Error](err); !ok || e.Code != service.ErrDiskFull {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := f.Delete(t.Context(), f.caller, other.ID); err != nil {
			t.Errorf("delete: %v", err)
		}
		f.LimitBy(func(string) bool { t.Error("a run on a full disk is a change of its account"); return true })
		f.run(28 * time.Hour)
		f.LimitBy(nil)
		for _, id := range []string{s.ID, recrawl.ID} {
			if got := f.get(id); !strings.Contains(got.LastError, "disk is free") || !got.LastAt.IsZero() {
				t.Errorf("last run %v, error %q", got.LastAt, got.LastError)
			}
		}
		if n := len(f.events(service.ScheduleSkipped)); n != 2 {
			t.Errorf("%d events say that runs were skipped, want one for each schedule", n)
		}
		free.Store(least)
		f.run(24 * time.Hour)
		for _, id := range []string{s.ID, recrawl.ID} {
			if got := f.get(id); got.LastError != "" || got.LastAt.IsZero() {
				t.Errorf("with space again: last run %v, error %q", got.LastAt, got.LastError)
			}
		}
	})
}

// What a schedule starts has the rights of the one who gave what it starts. An admin who changes something else gives it
// none; a tenant who changes anything takes an admin's away.
func TestRightsAfterAnEdit(t *testing.T) {
	t.Parallel()
	other := daily().Submission
	for name, test := range map[string]struct {
		maker, editor service.Scope
		in            Input
		want          service.Scope
	}{
		"the name by an admin":       {service.ScopeWrite, service.ScopeAdmin, Input{Name: new("x")}, service.ScopeWrite},
		"the time by an admin":       {service.ScopeWrite, service.ScopeAdmin, Input{Cron: new("1 1 * * *")}, service.ScopeWrite},
		"the submission by an admin": {service.ScopeWrite, service.ScopeAdmin, Input{Submission: other}, service.ScopeAdmin},
		"the name by a tenant":       {service.ScopeAdmin, service.ScopeWrite, Input{Name: new("x")}, service.ScopeWrite},
	} {
		f := newFixture(t)
		as := func(scope service.Scope) *service.Caller {
			c := *f.caller
			c.Scopes = []service.Scope{scope}
			return &c
		}
		s, err := f.Create(t.Context(), as(test.maker), daily())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Edit(t.Context(), as(test.editor), s.ID, test.in); err != nil {
			t.Fatal(name, err)
		}
		r, err := read(t.Context(), f.service.DB().Read(), s.ID)
		if err != nil || !slices.Equal(r.scopes, []service.Scope{test.want}) {
			t.Errorf("after a change of %s: %v, %v", name, r.scopes, err)
		}
	}
}
