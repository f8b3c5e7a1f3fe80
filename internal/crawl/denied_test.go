package crawl

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
)

// A host that is denied while it is asked: the request ends, no other one is made, and its URLs are host_blocked in
// every crawl of the process, also in one that begins later. An origin whose robots.txt leads to it is crawled
// nevertheless. When the host is allowed again, the next run of a crawl reads it.
func TestDeniedHost(t *testing.T) {
	t.Parallel()
	var denied atomic.Bool
	underWay, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := newHandSite(t, map[string]any{
		"good.test/":  `<html><a href="http://bad.test/1">x</a><a href="http://bad.test/2">y</a><a href="/3">z</a>`,
		"good.test/3": plainPage, "also.test/": plainPage, "bad.test/2": plainPage,
		"also.test/robots.txt": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://bad.test/rules", http.StatusMovedPermanently)
		}),
		"bad.test/rules": "User-agent: *\n",
		"bad.test/1": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if denied.Load() {
				_, _ = w.Write([]byte(plainPage))
				return
			}
			once.Do(func() {
				close(underWay)
				<-r.Context().Done()
				close(ended)
			})
		}),
	})
	shared := newShared(t, SharedOptions{})
	options := func(dir datadir.Dir, start string) Options {
		set := s.settings(func(o *config.Settings) {
			o.Scope, o.SeedingStrategy, o.MaxInflightPerHost = "any", []string{"none"}, 1
		})
		return Options{Settings: set, Starts: []datadir.Start{{URL: mustURL(t, start)}}, Dir: dir,
			Metrics: NewMetrics()}
	}
	run := func(o Options) map[string]int64 {
		c, err := newTested(shared, o)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if joined := strings.Join(rep.Warnings, "\n"); denied.Load() && rep.Outcomes["host_blocked"] > 0 &&
			!strings.Contains(joined, "denies requests to bad.test") {
			t.Errorf("warnings %q do not name the host", rep.Warnings)
		}
		return rep.Outcomes
	}
	dir := newDataDir(t)
	var running sync.WaitGroup
	running.Go(func() {
		if got := run(options(dir, "http://good.test/")); got["ok"] != 2 || got["host_blocked"] != 2 || len(got) != 2 {
			t.Errorf("outcomes %v, want 2 ok and 2 host_blocked", got)
		}
	})
	<-underWay
	denied.Store(true)
	if err := shared.Deny([]string{"bad.test"}); err != nil {
		t.Fatal(err)
	}
	<-ended
	running.Wait()
	before := len(s.requests())
	if got := run(options(newDataDir(t), "http://also.test/")); got["ok"] != 1 || len(got) != 1 {
		t.Errorf("a crawl that begins later: %v", got)
	}
	for url := range s.requests() {
		if strings.HasPrefix(url, "bad.test/") && url != "bad.test/1" && url != "bad.test/robots.txt" {
			t.Errorf("%s was asked", url)
		}
	}
	if len(s.requests()) == before {
		t.Error("the second crawl asked nothing")
	}
	if err := shared.Deny(nil); err != nil {
		t.Fatal(err)
	}
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := options(dir, "http://good.test/")
	o.Plan = plan
	if got := run(o); got["ok"] != 4 || len(got) != 1 {
		t.Errorf("after the host is allowed again: %v, want 4 ok", got)
	}
	if shared.Deny([]string{"not a host"}) == nil {
		t.Error("a bad name is taken")
	}
}

// A host stays denied over a pause: the run that goes on names it, and is not complete. One that is allowed during the
// pause is read. A start host that is denied is named by the failure.
func TestDeniedOverAPause(t *testing.T) {
	t.Parallel()
	underWay, goOn := make(chan struct{}, 1), make(chan struct{})
	s := newHandSite(t, map[string]any{
		"good.test/": `<html><a href="http://bad.test/1">x</a><a href="/slow">y</a>`, "bad.test/": plainPage,
		"bad.test/1": plainPage,
		"good.test/slow": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case underWay <- struct{}{}:
			default: // no request waits for it any more
			}
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(plainPage))
		}),
	})
	shared := newShared(t, SharedOptions{})
	deny := func(hosts ...string) {
		if err := shared.Deny(hosts); err != nil {
			t.Fatal(err)
		}
	}
	run := func(dir datadir.Dir, start string, pause bool) (*report.Report, error) {
		set := s.settings(func(o *config.Settings) {
			o.Scope, o.SeedingStrategy, o.Grace = "any", []string{"none"}, time.Millisecond
		})
		blocked := make(chan struct{}, 10)
		o := Options{Settings: set, Starts: []datadir.Start{{URL: mustURL(t, start)}}, Dir: dir}
		o.Managed.Notify = func(Notice) { blocked <- struct{}{} }
		if exists, err := dir.Holds(); err != nil {
			t.Fatal(err)
		} else if exists {
			if o.Plan, err = datadir.ReadPlan(dir); err != nil {
				t.Fatal(err)
			}
		}
		c, err := newTested(shared, o)
		if err != nil {
			t.Fatal(err)
		}
		if pause {
			go func() {
				<-blocked
				<-underWay
				c.Stop(Pause)
			}()
		}
		return c.Run(t.Context())
	}
	still, allowed := newDataDir(t), newDataDir(t)
	deny("bad.test")
	for _, dir := range []datadir.Dir{still, still, allowed} { // it is met again after a pause
		if _, err := run(dir, "http://good.test/", true); !errors.Is(err, ErrPaused) {
			t.Fatalf("paused: %v", err)
		}
	}
	close(goOn)
	const text = "denies requests to bad.test"
	rep, err := run(newDataDir(t), "http://bad.test/", false)
	if err != nil || rep.Status != page.Failed || !strings.Contains(rep.Reason, text) ||
		!strings.Contains(strings.Join(rep.Errors, "\n"), "http://bad.test/: the operator of the service "+text) {
		t.Errorf("a start that is denied: %+v, %v", rep, err)
	}
	rep, err = run(still, "http://good.test/", false)
	if err != nil || rep.Status != page.Partial || !strings.Contains(rep.Reason, text) ||
		!strings.Contains(strings.Join(rep.Warnings, "\n"), text) {
		t.Fatalf("the run that goes on: %+v, %v", rep, err)
	}
	if len(rep.BlockedHosts) != 1 || !strings.Contains(rep.BlockedHosts[0].Why, "denies requests") {
		t.Errorf("blocked hosts: %+v", rep.BlockedHosts)
	}
	deny()
	if rep, err = run(allowed, "http://good.test/", false); err != nil || rep.Status != page.Complete ||
		rep.Outcomes["ok"] != 3 {
		t.Errorf("allowed during the pause: %+v, %v", rep, err)
	}
}
