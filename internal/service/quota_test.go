package service

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// Pages are booked in the UTC month in which they were reserved, none is booked twice, and what a crawl does not need
// goes back. Clocks that jump do no harm.
func TestQuotaOverMonths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ts := openService(t, Options{Dir: dir})
		ts.setPlan(Plan{PagesPerMonth: 100})
		c := ts.submit(ts.admin, "https://www.example.com/")
		other := ts.submit(ts.admin, "https://www.example.com/")
		g, h := &grants{ts.Service, c.ID}, &grants{ts.Service, other.ID}
		grant := func(g *grants, used, want int64) {
			t.Helper()
			if total, err := g.Grant(t.Context(), used); err != nil || total != want {
				t.Errorf("at %d pages %d are granted, %v; want %d", used, total, err, want)
			}
		}
		settle := func(id string, counted int64) {
			t.Helper()
			if err := ts.Write(t.Context(), func(tx *Tx) error { return tx.settle(id, counted) }); err != nil {
				t.Fatal(err)
			}
		}
		want := func(used, granted int64) {
			t.Helper()
			if u, g := ts.used(); u != used || g != granted {
				t.Errorf("in %s %d pages are used and %d reserved, want %d and %d", monthOf(time.Now()), u, g, used,
					granted)
			}
		}
		time.Sleep(time.Until(nextMonth(time.Now()).Add(-time.Hour)))
		grant(g, 0, 12)
		grant(h, 0, 11)
		want(0, 23)
		grant(g, 12, 12+10)
		want(12, 21)
		settle(other.ID, 3)
		want(15, 10)
		for range 3 { // kills, or changes of settings that begin the run anew: the same pages are counted again
			grant(g, 12, 12+10)
			want(15, 10)
		}

		time.Sleep(2 * time.Hour) // the month turns while the crawl runs
		want(0, 0)
		grant(g, 20, 20+12)
		want(0, 12)
		settle(c.ID, 30)
		want(10, 0)
		usage := func(month string) (pages int64) {
			if err := ts.db.Read().QueryRowContext(t.Context(), "SELECT pages FROM page_usage WHERE month = ?",
				month).Scan(&pages); err != nil {
				t.Error(err)
			}
			return pages
		}
		if got := usage("2000-01"); got != 23 {
			t.Errorf("%d pages were used in January, want 23", got)
		}
		settle(c.ID, 30)
		settle(c.ID, 5)
		want(10, 0)

		// All that is left, and not one more.
		total := int64(0)
		for used := int64(30); ; used = total {
			var err error
			if total, err = g.Grant(t.Context(), used); err != nil {
				t.Fatal(err)
			}
			if total == used {
				break
			}
		}
		if total != 120 {
			t.Errorf("%d pages were granted in all, want 120", total)
		}
		want(100, 0)
		ts.setPlan(Plan{})
		grant(g, total, math.MaxInt64)
		ts.end()
	})
}
