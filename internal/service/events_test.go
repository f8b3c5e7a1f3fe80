package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/test/long"
)

// Events are the same from memory and from the database, whatever the first one is, and also when more are added than
// are kept in memory.
func TestRecentEvents(t *testing.T) {
	t.Parallel()
	long.Test(t)
	ts := openService(t, Options{RecordsOnly: true})
	add := func(n int) {
		t.Helper()
		if err := ts.Write(t.Context(), func(tx *Tx) error {
			for i := range n {
				if err := tx.Record(Event{Type: HostBlocked, Account: fmt.Sprint("account", i%3),
					Crawl: fmt.Sprint("crawl", i%5)}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	add(10)
	for _, n := range []int{0, 1, recentMost / 2, 3 * recentMost, 1, 4 * recentMost, 7} {
		add(n)
		last, err := ts.Events.Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []EventFilter{{After: last}, {After: last - 1}, {After: last - 100},
			{After: last - 100, Limit: 7}, {After: last - 100, Account: "account1"},
			{After: last - 100, Crawl: "crawl3"},
			{After: last - recentMost}, {After: last - 2*recentMost}, {After: 0}, {After: 0, Limit: 3}} {
			got, err := ts.Events.Since(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if f.Limit == 0 {
				f.Limit = 1000
			}
			want, err := ts.Events.read(t.Context(), &f)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%d of %d events, %+v: %d events, want %d", n, last, f, len(got), len(want))
			}
		}
	}
	if n := len(ts.Events.events); n == 0 || n > 2*recentMost {
		t.Errorf("%d events are in memory", n)
	}
}

// Events and the audit log are removed in bounded steps when they were kept long enough, never before webhooks were
// told, and never one behind one that stays. A client that misses some is told so, and no other.
func TestOldEventsAreRemoved(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{KeepEvents: 24 * time.Hour, KeepAudit: 48 * time.Hour})
	now := time.Now()
	old := func(table string, ids string, age time.Duration) {
		t.Helper()
		if err := ts.Write(t.Context(), func(tx *Tx) error {
			return tx.Change("UPDATE "+table+" SET at = ? WHERE "+ids, Millis(now.Add(-age)))
		}); err != nil {
			t.Fatal(err)
		}
	}
	gap := func(f EventFilter, want int64, wantMissing bool) {
		t.Helper()
		if after, missing, err := ts.Events.Gap(t.Context(), f); err != nil || after != want || missing != wantMissing {
			t.Errorf("%+v: goes on after %d, missing %v, %v; want %d, %v", f, after, missing, err, want, wantMissing)
		}
	}
	prune := func(wantMore bool) {
		t.Helper()
		if more, err := ts.prune(t.Context(), now); err != nil || more != wantMore {
			t.Errorf("more to remove: %v, %v", more, err)
		}
	}
	count := func(table string) (n int) {
		if err := ts.db.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	first := ts.submit(ts.admin, "https://a.test/")
	err := ts.Write(t.Context(), func(tx *Tx) error {
		for range pruneStep + 10 {
			if err := tx.Record(Event{Type: LimitWarning, Account: first.Account, Crawl: first.ID}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	second := ts.submit(ts.admin, "https://b.test/")
	last := int64(pruneStep + 12)
	prune(false)
	gap(EventFilter{}, 0, false)
	gap(EventFilter{After: last + 1}, last, true) // of another database

	old("event", "id < 1012", 25*time.Hour)
	old("event", "id = 1008", time.Hour) // the clock jumped
	if err := ts.Write(t.Context(),
		func(tx *Tx) error { return tx.Change("INSERT INTO cursor (reader, event) VALUES ('webhooks', 500)") }); err != nil {
		t.Fatal(err)
	}
	prune(true)
	if n := count("event"); int64(n) != last-500 {
		t.Errorf("%d events are left, webhooks were told of 500", n)
	}
	if err := ts.Write(t.Context(),
		func(tx *Tx) error {
			return tx.Change("UPDATE cursor SET event = ? WHERE reader = 'webhooks'",
				last)
		}); err != nil {
		t.Fatal(err)
	}
	prune(false)
	if n := count("event"); n != 5 {
		t.Errorf("%d events are left, want 5", n)
	}
	gap(EventFilter{}, 1007, true)
	gap(EventFilter{After: 1006, Account: first.Account}, 1007, true)
	gap(EventFilter{After: 1007}, 1007, false)
	gap(EventFilter{Crawl: first.ID}, 1007, true)
	gap(EventFilter{Crawl: second.ID}, 0, false) // all of its events are there
	if id, err := ts.Events.Last(t.Context()); err != nil || id != last {
		t.Errorf("the last event is %d, %v", id, err)
	}

	old("event", "id > 0", 25*time.Hour)
	prune(false)
	if id, err := ts.Events.Last(t.Context()); err != nil || id != last || count("event") != 0 {
		t.Errorf("the last event is %d, %v; %d are left", id, err, count("event"))
	}
	entries := count("audit")
	old("audit", "id = 1", 49*time.Hour)
	prune(false)
	if n := count("audit"); n != entries-1 {
		t.Errorf("%d of %d entries of the audit log are left", n, entries)
	}
}

// Rows that were recorded while the clock was far ahead, however many they are, keep no later ones, and go with them.
// The newest rows stay.
func TestPruneBehindTheFuture(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true, KeepEvents: 24 * time.Hour, KeepAudit: 24 * time.Hour})
	now := time.Now()
	for _, table := range []string{"event", "audit"} {
		if err := ts.Write(t.Context(), func(tx *Tx) error {
			return tx.Change("DELETE FROM " + table)
		}); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(rows int, age time.Duration) {
		t.Helper()
		if err := ts.Write(t.Context(), func(tx *Tx) error {
			tx.now = now.Add(-age)
			for range rows {
				err := errors.Join(tx.Record(Event{Type: LimitWarning}), tx.Audit(ts.admin, "x", "", nil))
				if err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(left int) {
		t.Helper()
		for more, err := true, error(nil); more; {
			if more, err = ts.prune(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
		for _, table := range []string{"event", "audit"} {
			if n, err := Value[int](t.Context(), ts.db.Read(), "SELECT COUNT(*) FROM "+table); err != nil || n != left {
				t.Errorf("%d rows of %s are left, want %d, %v", n, table, left, err)
			}
		}
	}
	fill(2, 50*time.Hour)
	fill(pruneStep+10, -400*24*time.Hour)
	fill(3, 12*time.Hour)
	want(pruneStep + 13)
	now = now.Add(20 * time.Hour)
	fill(1, -time.Minute)
	fill(1, 0)
	want(2)
}

// A crawl of which every host is blocked leaves few events, whatever number of runs it has. Other notices are recorded.
func TestBlocksAreFewEvents(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	id := ts.submit(ts.admin, "http://a.test/").ID
	for run := range 3 {
		err := ts.Write(t.Context(), func(tx *Tx) error {
			row, err := getRow(t.Context(), tx, "", id)
			if err != nil {
				return err
			}
			var all []crawl.Notice
			for i := range mostBlocks - 5 {
				all = append(all, crawl.Notice{Host: fmt.Sprint(run, "-", i, ".test"), Reason: "it fails"})
			}
			return row.recordNotices(tx, append(all, crawl.Notice{Limit: "pages", Percent: 80}))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if blocks, limits := ts.count(id, HostBlocked), ts.count(id, LimitWarning); blocks != mostBlocks || limits != 3 {
		t.Errorf("%d hosts, %d limits", blocks, limits)
	}
}

// Old answers to submissions, and the events of blocked hosts among all others of a crawl, are found by an index of
// their own: all who write wait for the transactions.
func TestQueriesOfTransactionsUseAnIndex(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	for query, index := range map[string]string{deleteOldAnswers: "INDEX", countBlocks: "INDEX event_blocked"} {
		plan, err := Collect(t.Context(), ts.db.Read(),
			func(text *string) []any { return []any{new(int), new(int), new(int), text} },
			"EXPLAIN QUERY PLAN "+query, 1)
		if err != nil || len(plan) != 1 || !strings.Contains(plan[0], index) {
			t.Errorf("%s: %q, %v", query, plan, err)
		}
	}
}
