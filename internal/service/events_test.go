package service

import (
	"fmt"
	"testing"
)

// Events are the same from memory and from the database, whatever the first one is, and also when more are added than are kept in memory.
func TestRecentEvents(t *testing.T) {
	ts := openService(t, Options{RecordsOnly: true})
	add := func(n int) {
		t.Helper()
		if err := ts.Write(t.Context(), func(tx *Tx) error {
			for i := range n {
				if err := tx.Record(Event{Type: HostBlocked, Account: fmt.Sprint("account", i%3), Crawl: fmt.Sprint("crawl", i%5)}); err != nil {
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
		for _, f := range []EventFilter{{After: last}, {After: last - 1}, {After: last - 100}, {After: last - 100, Limit: 7}, {After: last - 100, Account: "account1"}, {After: last - 100, Crawl: "crawl3"},
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
	if n := len(ts.Events.recent.events); n == 0 || n > 2*recentMost {
		t.Errorf("%d events are in memory", n)
	}
}
