package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/state"
)

// A report is about all runs of the generation: when the first began, how long all of them crawled, and what any of
// them warned of. The time between runs does not count. The first run ends like one that is killed: nothing is recorded
// at its end.
func TestReportTellsAllRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{Pages: 60, Faults: testweb.OnAll(testweb.Slow{Delay: 2 * time.Second})})
		s := quick(web.Server)
		s.MaxInflightPerHost = 1
		dir := newDir(t)
		var worked time.Duration
		run := func(ctx context.Context, stop <-chan struct{}, warnings ...string) (*report.Report, error) {
			o := web.options(s, dir, web.StartURLs()[0])
			o.Warnings = warnings
			if plan, err := datadir.ReadPlan(dir); err == nil {
				o.Starts, o.Plan = nil, plan
			}
			began := time.Now()
			rep, err := runUntil(ctx, o, stop)
			worked += time.Since(began)
			time.Sleep(time.Hour)
			return rep, err
		}

		first := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 37*time.Second)
		defer cancel()
		if _, err := run(ctx, nil, "of the first run", "of the first and the third"); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		time.AfterFunc(20*time.Second, func() { close(stop) })
		rep, err := run(t.Context(), stop, "of the second run")
		if err != nil || rep.Status != page.Cancelled || rep.Runs != 2 {
			t.Fatalf("%+v, %v", rep, err)
		}
		if rep, err = run(t.Context(), nil, "of the first and the third", "of the third run"); err != nil ||
			rep.Status != page.Complete {
			t.Fatalf("%+v, %v", rep, err)
		}
		if want := []string{"of the first run", "of the first and the third", "of the second run",
			"of the third run"}; !slices.Equal(rep.Warnings, want) {
			t.Errorf("warnings %q, want %q", rep.Warnings, want)
		}
		// What was noted of the first run is at most a second old.
		if short := worked - time.Duration(rep.Elapsed*float64(time.Second)); short < -time.Millisecond ||
			short > time.Second+time.Millisecond {
			t.Errorf("%v s elapsed, want %v", rep.Elapsed, worked)
		}
		if !rep.StartedAt.Equal(first) || rep.Runs != 3 {
			t.Errorf("%d runs since %v, want 3 since %v", rep.Runs, rep.StartedAt, first)
		}

		// The report of a recrawl is about the recrawl.
		again := time.Now()
		o := web.options(s, dir)
		o.Recrawl, o.Warnings = &Recrawl{}, []string{"of the recrawl"}
		if o.Plan, err = datadir.ReadPlan(dir); err != nil {
			t.Fatal(err)
		}
		if rep, err = runAlone(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		took := time.Since(again).Seconds()
		if !slices.Equal(rep.Warnings, []string{"of the recrawl"}) || rep.StartedAt.Before(again) || rep.Runs != 1 ||
			rep.Elapsed > took {
			t.Errorf("%d runs since %v, %v s elapsed, warnings %q; want 1 since %v, %v s", rep.Runs, rep.StartedAt,
				rep.Elapsed, rep.Warnings, again, took)
		}
	})
}

// The warnings of all runs together are bounded, and the last line says that there were more.
func TestWarningsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for run := range 3 {
		store, err := state.Open(dir, state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &warnings{log: slog.New(slog.DiscardHandler)}
		w.add("before the store of run %d was open", run)
		w.keep(store)
		for i := range 120 {
			w.add("%d of run %d", i, run)
			w.add("%d of all", i%3)
		}
		list := w.all()
		if list[0] != "before the store of run 0 was open" || !slices.Contains(list, "119 of run 0") {
			t.Errorf("run %d has lost lines of the first: %q", run, list)
		}
		want := min(3+121*(run+1), maxWarnings)
		if len(list) != want || (list[len(list)-1] == noMore) != (want == maxWarnings) {
			t.Errorf("run %d: %d lines, want %d; the last is %q", run, len(list), want, list[len(list)-1])
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPastRunsAreRead(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)
	for _, p := range []pastRuns{{began: at, elapsed: 1234 * time.Millisecond, runs: 3}, {began: at, runs: 1}} {
		if got := readPastRuns(p.fact().Value); got != p {
			t.Errorf("read %+v, want %+v", got, p)
		}
	}
	for _, text := range []string{"", "x", "2026-03-04 1 2", fmt.Sprintf("%s 5", at.Format(factTime))} {
		if got := readPastRuns([]byte(text)); got != (pastRuns{}) {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
