package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// anyName resolves every name to one public address. The connections of a bubble are pipes, so nothing connects to it.
type anyName struct{}

func (anyName) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
}

// fixture is a service in a bubble of testing/synctest, whose crawls reach a synthetic web through pipes.
type fixture struct {
	t   *testing.T
	web *testweb.Server
	*service.Service
	*Hosts
	admin *service.Caller
}

func newFixture(t *testing.T, dir string, cfg testweb.Config) *fixture {
	t.Helper()
	cfg.Grace = time.Nanosecond
	web, err := testweb.StartOn(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := fetch.New(fetch.Options{Dial: web.Dial, Resolver: anyName{}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := service.Open(t.Context(), service.Options{Dir: dir, MinFree: -1, MaxCrawls: 20, SlotDir: t.TempDir(),
		Fetcher: client,
		Log:     slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	running.Go(func() { h.Run(ctx) })
	t.Cleanup(func() {
		web.Release()
		cancel()
		running.Wait()
		if err := errors.Join(s.Close(), client.Close(), web.Close()); err != nil {
			t.Error(err)
		}
	})
	return &fixture{t: t, web: web, Service: s, Hosts: h, admin: &service.Caller{System: "test",
		Scopes: []service.Scope{service.ScopeAdmin}}}
}

// account makes an account that owns hosts, and returns a caller of it that may write.
func (f *fixture) account(name string, hosts ...string) *service.Caller {
	f.t.Helper()
	account, err := f.Accounts.Create(f.t.Context(), f.admin, service.Account{Name: name, OwnHosts: hosts})
	if err != nil {
		f.t.Fatal(err)
	}
	return &service.Caller{Account: account, System: "test", Scopes: []service.Scope{service.ScopeWrite}}
}

func (f *fixture) submit(c *service.Caller, settings map[string]any, urls ...string) string {
	f.t.Helper()
	sub := service.Submission{StartURLs: urls, Settings: map[string]json.RawMessage{}}
	for name, value := range settings {
		text, err := json.Marshal(value)
		if err != nil {
			f.t.Fatal(err)
		}
		sub.Settings[name] = text
	}
	crawl, err := f.Crawls.Submit(f.t.Context(), c, sub, "")
	if err != nil {
		f.t.Fatal(err)
	}
	return crawl.ID
}

// await waits until a crawl has ended.
func (f *fixture) await(id string) *service.Crawl {
	f.t.Helper()
	for {
		added := f.Events.Added()
		crawl, err := f.Crawls.Get(f.t.Context(), f.admin, id)
		if err != nil {
			f.t.Fatal(err)
		}
		if crawl.State.Ended() {
			return crawl
		}
		<-added
	}
}

// events are the events of a type of a crawl.
func (f *fixture) events(id string, kind service.EventType) []service.Event {
	f.t.Helper()
	all, err := f.Events.Since(f.t.Context(), service.EventFilter{Crawl: id})
	if err != nil {
		f.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e service.Event) bool { return e.Type != kind })
}

// Ten accounts crawl one host, each with other settings, one of them as its owner: by the web's own statistics the
// longest delay and the smallest limit of all hold from the first request to the last, and each crawl finds what it
// should.
func TestTenAccountsOneHost(t *testing.T) {
	t.Parallel()
	long.Test(t)
	synctest.Test(t, func(t *testing.T) {
		const pages, strict = 30, 700 // ms
		f := newFixture(t, t.TempDir(), testweb.Config{Seed: 5, Hosts: 1, Pages: pages, PageSize: 800, Links: 8,
			Faults: testweb.OnAll(testweb.Slow{Delay: 250 * time.Millisecond})})
		start := f.web.StartURLs()[0]
		name := f.web.HostName(0)
		slowest := f.submit(f.account("slowest"), map[string]any{"min_delay_ms": strict, "max_delay_ms": strict,
			"max_inflight_per_host": 1, "scope": "host"}, start)
		for f.web.HostStats(0).Requests == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		others := []map[string]any{
			{}, {"profile": "own-site"}, {"base_delay_ms": 300}, {"max_inflight_per_host": 1},
			{"profile": "safe", "max_urls": 5}, {"profile": "own-site", "max_inflight_per_host": 20},
			{"min_delay_ms": 600, "max_delay_ms": 600}, {"robots_strict": true},
			{"profile": "own-site", "min_delay_ms": 0},
		}
		var ids []string
		for i, settings := range others {
			if settings["max_urls"] == nil {
				settings["max_urls"] = pages / 3
			}
			settings["scope"] = "host"
			ids = append(ids, f.submit(f.account(fmt.Sprint("account ", i), name), settings, start))
		}
		saysWhy := false // of a crawl that waits, its status says for what
		for range 20 {
			time.Sleep(time.Second)
			for _, id := range ids {
				live := f.Crawls.Live(id)
				saysWhy = saysWhy || live != nil && strings.Contains(live.Waiting, "asked by another crawl")
			}
		}
		if !saysWhy {
			t.Error("no crawl says that it waits for another one")
		}
		for i, id := range ids {
			if crawl := f.await(id); crawl.State != service.Partial ||
				crawl.Outcomes["ok"]+crawl.Outcomes["redirect"] == 0 {
				t.Errorf("crawl %d: %s with %v: %q", i, crawl.State, crawl.Outcomes, crawl.Errors)
			}
			if got := f.events(id, service.LimitWarning); len(got) == 0 {
				t.Errorf("crawl %d: warnings of limits %v", i, got)
			}
		}
		if crawl, err := f.Crawls.Get(t.Context(), f.admin, slowest); err != nil || crawl.State != service.Running {
			t.Fatalf("the slowest crawl has ended before the others: %+v, %v", crawl, err)
		}
		during := f.web.HostStats(0)
		crawl := f.await(slowest)
		if crawl.State != service.Complete || crawl.Done < pages {
			t.Errorf("the slowest crawl: %s with %d URLs", crawl.State, crawl.Done)
		}
		t.Logf("%d requests, least gap %v, at most %d in flight", during.Requests, during.LeastGap, during.MostInFlight)
		if during.LeastGap < strict*time.Millisecond || during.MostInFlight != 1 || during.Requests < 10*len(others)/2 {
			t.Errorf("least gap %v, at most %d in flight, %d requests; want %d ms and 1", during.LeastGap,
				during.MostInFlight, during.Requests, strict)
		}
	})
}

// What the crawls of an account learn of a host is there for those of the next process.
func TestLearnedIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, dir, testweb.Config{Seed: 1, Hosts: 1, Pages: 3})
		var p pace.Pace
		c := pace.Polite()
		handle := f.Shared().Pace().Join("slow.example", "a", &p, func(*pace.Handle) {})
		for range 3 {
			time.Sleep(time.Minute)
			p, _, _ = handle.Apply(p, &c, pace.Event{Class: pace.ClassThrottled, Now: time.Now()})
		}
		time.Sleep(2 * writeEvery)
		synctest.Wait()
		list, err := f.Hosts.List(t.Context(), "", 0)
		if err != nil || len(list.Items) != 1 || time.Duration(list.Items[0].Pace.Delay) != 3*time.Second ||
			list.Items[0].Crawls.Asking != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		// written at the end
		p, _, _ = handle.Apply(p, &c, pace.Event{Class: pace.ClassThrottled, Now: time.Now().Add(time.Hour)})
		_ = p
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, dir, testweb.Config{Seed: 1, Hosts: 1, Pages: 3})
		for account, want := range map[string]time.Duration{"a": 4 * time.Second, "b": 0} {
			var p pace.Pace
			f.Shared().Pace().Join("slow.example", account, &p, func(*pace.Handle) {})
			if got := p.Learned().Delay; got != want {
				t.Errorf("account %s begins with %v in the next process, want %v", account, got, want)
			}
		}
	})
}

// A domain whose every name refuses leaves a bounded number of rows, and the next process learns no more of it.
func TestLearnedIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	count := func(f *fixture) (n int) {
		row := f.DB().Read().QueryRowContext(f.t.Context(), "SELECT count(*) FROM learned")
		if err := row.Scan(&n); err != nil {
			f.t.Fatal(err)
		}
		return n
	}
	const most = 1000
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, dir, testweb.Config{Seed: 1, Hosts: 1, Pages: 3})
		c := pace.Polite()
		for i := range 3 * most {
			var p pace.Pace
			handle := f.Shared().Pace().Join(fmt.Sprintf("h%d.many.example", i), "", &p, func(*pace.Handle) {})
			_, _, _ = handle.Apply(p, &c, pace.Event{Class: pace.ClassThrottled, Now: time.Now()})
			if i%most == most/2 {
				time.Sleep(2 * writeEvery)
			}
		}
		time.Sleep(2 * writeEvery)
		synctest.Wait()
		if n := count(f); n != most {
			t.Errorf("%d rows, want %d", n, most)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, dir, testweb.Config{Seed: 1, Hosts: 1, Pages: 3})
		if n := count(f); n != most {
			t.Errorf("%d rows for the next process, want %d", n, most)
		}
	})
}

// A host that is denied while a crawl asks it: the crawl ends without it, and so do those that come later, also in the
// next process.
func TestDeny(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := testweb.Config{Seed: 2, Hosts: 2, Pages: 12, PageSize: 800, Links: 6, CrossHost: 0.5}
	var account *service.Caller
	denied := ""
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, dir, cfg)
		account = f.account("a")
		f.web.Hold(4)
		id := f.submit(account, map[string]any{"scope": "host"}, f.web.StartURLs()...)
		time.Sleep(10 * time.Second) // requests of both hosts are held
		bad := f.web.HostName(0)
		if _, err := f.Deny(t.Context(), account, bad, "complaint"); err == nil {
			t.Error("a tenant may deny a host")
		}
		host, err := f.Deny(t.Context(), f.admin, bad, "complaint")
		if err != nil || !host.Denied || host.DeniedReason != "complaint" || host.DeniedAt.IsZero() {
			t.Errorf("%+v, %v", host, err)
		}
		asked := f.web.HostStats(0).Requests
		f.web.Release()
		crawl := f.await(id)
		if crawl.State != service.Partial || crawl.Outcomes["host_blocked"] == 0 || crawl.Outcomes["ok"] == 0 {
			t.Errorf("%s with %v", crawl.State, crawl.Outcomes)
		}
		if text := "denies requests to " + bad; !strings.Contains(crawl.Reason, text) ||
			!strings.Contains(strings.Join(crawl.Warnings, "\n"), text) {
			t.Errorf("reason %q, warnings %q", crawl.Reason, crawl.Warnings)
		}
		denied = id
		if got := f.events(id, service.HostBlocked); len(got) != 1 || !strings.Contains(string(got[0].Data), bad) ||
			!strings.Contains(string(got[0].Data), "operator") {
			t.Errorf("events %v", got)
		}
		if n := f.web.HostStats(0).Requests; n != asked {
			t.Errorf("%d requests after the host was denied", n-asked)
		}
		for _, name := range []string{"", "a b", "http://x/", "x:80"} {
			if _, err := f.Deny(t.Context(), f.admin, name, ""); err == nil {
				t.Errorf("%q is taken for a host", name)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, dir, cfg)
		id := f.submit(account, map[string]any{"scope": "host"}, f.web.StartURLs()...)
		if crawl := f.await(id); crawl.Outcomes["host_blocked"] == 0 || f.web.HostStats(0).Requests != 0 {
			t.Errorf("%s with %v, %d requests", crawl.State, crawl.Outcomes, f.web.HostStats(0).Requests)
		}
		if host, err := f.Allow(t.Context(), f.admin, f.web.HostName(0)); err != nil || host.Denied {
			t.Errorf("%+v, %v", host, err)
		}
		id = f.submit(account, map[string]any{"scope": "host"}, f.web.StartURLs()...)
		if crawl := f.await(id); crawl.Outcomes["host_blocked"] != 0 || f.web.HostStats(0).Requests == 0 {
			t.Errorf("%s with %v", crawl.State, crawl.Outcomes)
		}
		if _, err := f.Crawls.Command(t.Context(), account, denied, service.CommandResume, nil); err != nil {
			t.Fatal(err)
		}
		if crawl := f.await(denied); crawl.State != service.Complete || crawl.Outcomes["host_blocked"] != 0 {
			t.Errorf("resumed after the host was allowed: %s (%s) with %v", crawl.State, crawl.Reason, crawl.Outcomes)
		}
		audit, err := f.Accounts.AuditLog(t.Context(), "", 0, 0)
		if err != nil || len(audit) == 0 {
			t.Errorf("%v, %v", audit, err)
		}
	})
}
