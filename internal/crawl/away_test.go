package crawl

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// A host that wants to be left alone for years holds no crawl: not the one that it says so, nor others of the account.
// Each ends as partial, names the host and the time, and has an event. One whose links to it are only checked is
// complete, and one that starts there has failed. The host is asked once.
func TestHostThatIsAway(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	away := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "1790000000") // meant as a time
		w.WriteHeader(http.StatusTooManyRequests)
	})
	s := newHandSite(t, map[string]any{
		"good.test/": `<html><a href="http://away.test/1">x</a><a href="http://away.test/2">y</a>
			<a href="/3">z</a>`,
		"good.test/3":           plainPage,
		"other.test/":           `<html><a href="http://away.test/1">x</a>`,
		"away.test/1":           away,
		"away.test/2":           away,
		"away.test/":            away,
		"patient.test/":         `<html><a href="/1">x</a>`,
		"patient.test/1":        plainPage,
		"slow.test/":            `<html><a href="http://years.test/">x</a>`,
		"years.test/":           plainPage,
		"years.test/robots.txt": "User-agent: *\nCrawl-delay: 315360000\n",
	})
	shared := newShared(t, SharedOptions{})
	for _, tc := range []struct {
		start  string
		change func(*config.Settings)
		status page.Status
		ok     int64
		names  string // the host that is away
		events int
	}{
		{"http://good.test/", func(o *config.Settings) { o.Scope = "any" }, page.Partial, 2, "away.test", 1},
		{"http://other.test/", func(o *config.Settings) { o.Scope = "any" }, page.Partial, 1, "away.test", 1},
		{"http://other.test/", func(o *config.Settings) { o.CheckExternal = true }, page.Complete, 1, "away.test", 1},
		{"http://away.test/", func(*config.Settings) {}, page.Failed, 0, "away.test", 1},
		{"http://slow.test/", func(o *config.Settings) { o.Scope = "any" }, page.Partial, 1, "years.test", 1},
		{"http://patient.test/", func(*config.Settings) {}, page.Complete, 2, "", 0},
	} {
		var events atomic.Int64
		o := Options{Dir: newDataDir(t), Starts: []datadir.Start{{URL: mustURL(t, tc.start)}},
			Settings: s.settings(func(o *config.Settings) {
				o.SeedingStrategy, o.MaxInflightPerHost = []string{"none"}, 1
				tc.change(o)
			})}
		o.Managed.Account, o.Managed.Notify = "a", func(n Notice) {
			if n.Host != tc.names || !strings.Contains(n.Reason, "no requests until ") {
				t.Errorf("%s: event %+v", tc.start, n)
			}
			events.Add(1)
		}
		c, err := newTested(shared, o)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rep.Status != tc.status || rep.Outcomes["ok"] != tc.ok || int(events.Load()) != tc.events {
			t.Errorf("%s: %s (%s), outcomes %v, %d events; want %s with %d ok, %d events", tc.start, rep.Status,
				rep.Reason, rep.Outcomes, events.Load(), tc.status, tc.ok, tc.events)
		}
		want := tc.names + " asks by Retry-After or Crawl-delay for no requests until 20"
		reason := want
		if tc.names == "years.test" {
			reason = "years.test asks by Crawl-delay for more than a day between requests"
		}
		if tc.status != page.Complete && !strings.HasPrefix(rep.Reason, reason) {
			t.Errorf("%s: reason %q", tc.start, rep.Reason)
		}
		if o.Settings.CheckExternal { // what was not asked is not broken
			links, want := found(t, rep, problems.ExternalUnchecked), "host_blocked[http://other.test/][x]"
			if links["http://away.test/1"] != want || len(found(t, rep, problems.BrokenExternal)) > 0 {
				t.Errorf("%s: links %q, problems %+v", tc.start, links, rep.Problems)
			}
		}
		warned := strings.Contains(strings.Join(rep.Warnings, "\n"), want)
		if warned != (tc.names != "") || strings.Contains(strings.Join(rep.Warnings, "\n"), "URLs wait until then") ||
			strings.Contains(strings.Join(rep.Warnings, "\n"), "that far apart") {
			t.Errorf("%s: warnings %q", tc.start, rep.Warnings)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("the host was asked %d times", asked.Load())
	}
}

// Whichever machine of a crawl was told that a host wants to be left alone: the report of another one says so, the
// crawl is partial, and the engine knows why. A run after that time reads the rest.
func TestClusterAndAHostThatIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &timedWeb{answers: map[string]string{"a.test/": `<a href="http://away.test/1">x</a><a href="/2">y</a>`,
			"a.test/2": plainPage, "away.test/1": "429 1000000"}}
		s := w.options(t).Settings
		s.Scope = "any"
		c := newTestCluster(t, nil, s, "http://a.test/")
		c.fetcher = w
		first := c.machine()
		met := &countHosts{Handler: first.log.Handler(), message: "[BLOCKED] a host asks for no requests for longer " +
			"than a run waits; its URLs stay recorded, and resume tries it again after that time", left: 1,
			none: make(chan struct{})}
		first.log = slog.New(met)
		if _, err := first.once(t.Context(), met.none); !errors.As(err, new(*LeftError)) {
			t.Fatal(err)
		}
		m := c.machine()
		rep, err := m.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const want = "away.test asks by Retry-After or Crawl-delay for no requests until "
		if rep.Status != page.Partial || !strings.HasPrefix(rep.Reason, want) || rep.Outcomes["host_blocked"] != 1 {
			t.Errorf("status %s (%s), outcomes %v", rep.Status, rep.Reason, rep.Outcomes)
		}
		if got := c.look().Crawl; got.State != cluster.Finished || got.Reason != session.ReasonAway {
			t.Errorf("the engine says %s (%s)", got.State, got.Reason)
		}
		time.Sleep(1000001 * time.Second)
		w.answers["away.test/1"] = plainPage
		m.resume = &session.Resume{}
		rep, err = m.run(t.Context())
		if err != nil || rep.Status != page.Complete || rep.Outcomes["ok"] != 3 {
			t.Fatalf("%+v, %v", rep, err)
		}
		if n := len(w.requests("away.test")); n != 4 {
			t.Errorf("the requests were %q, want robots.txt and the page, before and after", w.requests("away.test"))
		}
	})
}
