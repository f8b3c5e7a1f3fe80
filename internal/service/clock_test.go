package service

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// anyName resolves every name to one public address. The connections of a bubble are pipes, so nothing connects to it.
type anyName struct{}

func (anyName) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
}

// startWebInBubble starts a web without sockets, with the settings of quick and a client that reaches it.
func startWebInBubble(t *testing.T, cfg testweb.Config) (*testweb.Server, []config.Layer, *fetch.Client) {
	t.Helper()
	web, err := testweb.StartOn(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := fetch.New(fetch.Options{Dial: web.Dial, Resolver: anyName{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		web.Close()
	})
	base := quick(web)
	delete(base[0], "resolve")
	return web, base, client
}

// A quota that is used up in three months in a row: the crawl goes on by itself when a month begins, but not while a
// user has paused it, and each page is counted once, in its month. The service is stopped for most of a month, since it
// looks at the clock each second.
func TestMonthsTurnDuringPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		web, base, client := startWebInBubble(t, testweb.Config{Pages: 60})
		o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: base, Fetcher: client}
		ts := openService(t, o)
		ts.setPlan(Plan{PagesPerMonth: 25})
		c := ts.submit(ts.admin, web.StartURLs()[0], "seeding_strategy", `["none"]`)
		nearEnd := func() { // of the month, in which it starts the service
			ts.end()
			time.Sleep(time.Until(nextMonth(time.Now())) - 20*time.Second)
			ts = openService(t, o).run()
		}
		want := func(used, counted int64) {
			t.Helper()
			if u, granted := ts.used(); u != used || granted != 0 {
				t.Errorf("in %s %d pages are used and %d reserved, want %d and 0", monthOf(time.Now()), u, granted,
					used)
			}
			if pages := web.HostStats(0).Pages; int64(pages) != counted {
				t.Errorf("the web served %d pages, want %d", pages, counted)
			}
		}
		waitsForQuota := func(counted int64) {
			t.Helper()
			ts.await(c.ID, func(c *Crawl) bool {
				return c.State == Paused && c.Waiting.Code == WaitQuota && c.PagesCounted == counted &&
					c.Waiting.Until.Equal(nextMonth(time.Now()))
			})
			want(25, counted)
		}
		nearEnd()
		waitsForQuota(25)
		time.Sleep(time.Until(nextMonth(time.Now())) - time.Millisecond)
		waitsForQuota(25) // the last millisecond of January
		waitsForQuota(50) // it goes on by itself in February

		nearEnd()
		ts.do(c.ID, CommandPause)
		time.Sleep(time.Minute) // into March
		if got := ts.awaitState(c.ID, Paused); got.Waiting.Code != WaitOperator {
			t.Errorf("a crawl that a user paused waits for %+v", got.Waiting)
		}
		want(0, 50)
		ts.do(c.ID, CommandResume)
		if got := ts.awaitState(c.ID, Complete); got.Done != 60 || got.PagesCounted != 60 {
			t.Errorf("%d pages done, %d counted", got.Done, got.PagesCounted)
		}
		want(10, 60)
		ts.end()
	})
}

// The clock was set back over the end of a month. What was booked while it was ahead stays in that month, and pages are
// reserved in the present one.
func TestClockSetBackOverAMonth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ts := openService(t, Options{RecordsOnly: true})
		ts.setPlan(Plan{PagesPerMonth: 100})
		c := ts.submit(ts.admin, "https://www.example.com/")
		g := &grants{ts.Service, c.ID}
		want := func(used, granted int64) {
			t.Helper()
			if u, g := ts.used(); u != used || g != granted {
				t.Errorf("in %s %d pages are used and %d reserved, want %d and %d", monthOf(time.Now()), u, g, used,
					granted)
			}
		}
		if _, err := g.Grant(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Grant(t.Context(), 12); err != nil {
			t.Fatal(err)
		}
		err := ts.Write(t.Context(), func(tx *Tx) error { // as the clock would have had it
			return errors.Join(tx.Change("UPDATE crawl SET grant_month = '2000-02'"),
				tx.Change("UPDATE page_usage SET month = '2000-02'"))
		})
		if err != nil {
			t.Fatal(err)
		}
		want(0, 0)
		total, err := g.Grant(t.Context(), 15) // three of them were reserved while the clock was ahead
		if err != nil || total != 15+12 {
			t.Errorf("%d pages are granted, %v; want 27", total, err)
		}
		want(0, 12)
		if err := ts.Write(t.Context(), func(tx *Tx) error { return tx.settle(c.ID, 20) }); err != nil {
			t.Fatal(err)
		}
		want(5, 0)
		time.Sleep(time.Until(nextMonth(time.Now())))
		want(15, 0)
		ts.end()
	})
}
