package crawl

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/test/long"
)

func testPermits(s *config.Settings, starts func() (time.Duration, error)) *permits {
	return newPermits(s, slog.New(slog.DiscardHandler), starts)
}

func TestGovernorShrinksAndRecovers(t *testing.T) {
	s := config.Defaults(config.Polite)
	s.MaxWorkers = 64
	g := testPermits(s, nil)
	for range 64 {
		if err := g.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	slow, quick, between := 600*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond
	if from, to := g.step(between); from != to {
		t.Errorf("moved from %d to %d between the thresholds", from, to)
	}
	last := 64
	for range 30 {
		_, last = g.step(slow)
	}
	if last != 1 {
		t.Errorf("stopped shrinking at %d", last)
	}
	for range 60 {
		_, last = g.step(quick)
	}
	if last != 64 {
		t.Errorf("grew back to %d only", last)
	}
}

func TestGovernorOff(t *testing.T) {
	s := config.Defaults(config.Polite)
	s.GovernorEnabled = false
	if _, to := testPermits(s, nil).step(time.Hour); to != s.MaxWorkers {
		t.Errorf("moved to %d though it is off", to)
	}
}

// In a bubble, a closed loop of workers and a disk: the slower the disk, the longer a commit takes under the same load.
// Workers in use must fall until commits are near their target, and come back when the disk does.
func TestGovernorHoldsCommitLatencyNearItsTarget(t *testing.T) {
	long.Test(t)
	synctest.Test(t, func(t *testing.T) {
		s := config.Defaults(config.Polite)
		s.MaxWorkers = 256
		g := testPermits(s, nil)
		perWorker := time.Millisecond // what each worker at work adds to a commit
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		defer workers.Wait()
		defer cancel()
		for range s.MaxWorkers {
			workers.Go(func() {
				for g.acquire(ctx) == nil {
					time.Sleep(10 * time.Millisecond)
					g.release()
				}
			})
		}
		run := func(cost time.Duration, seconds int) (latency time.Duration, used int) {
			perWorker = cost
			for range seconds * int(time.Second/governorEvery) {
				time.Sleep(governorEvery)
				synctest.Wait()
				_, used, _, _ = g.state()
				latency = time.Duration(used) * perWorker
				g.step(latency)
			}
			return latency, used
		}
		if latency, used := run(time.Millisecond, 10); used != 256 {
			t.Errorf("a quick disk (%v): %d workers, want all", latency, used)
		}
		if latency, used := run(20*time.Millisecond, 60); latency > 500*time.Millisecond || used > 25 {
			t.Errorf("a slow disk: %d workers and %v a commit", used, latency)
		}
		if _, used := run(time.Microsecond, 60); used != 256 {
			t.Errorf("the disk recovered, but only %d workers did", used)
		}
	})
}

func TestGovernorWaitCanBeCancelled(t *testing.T) {
	s := config.Defaults(config.Safe)
	g := testPermits(s, nil)
	if err := g.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, used, waiting, _ := g.state(); used != 1 || waiting != 0 {
		t.Errorf("%d used, %d waiting", used, waiting)
	}
}

func TestMachineFaultPausesAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPermits(config.Defaults(config.Polite), nil)
		waited := func() time.Duration {
			start := time.Now()
			if err := p.acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.release()
			return time.Since(start)
		}
		if got := waited(); got != 0 {
			t.Errorf("waits %v though nothing happened", got)
		}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			p.trip(errors.New("no files left"))
			p.trip(errors.New("once more, in the same pause"))
			if reason, left, _ := p.paused(); reason != "no files left" || left != want*time.Second {
				t.Errorf("pauses for %v because of %q, want %ds", left, reason, want)
			}
			if got := waited(); got != want*time.Second {
				t.Errorf("waits %v, want %ds", got, want)
			}
		}
		p.succeeded()
		p.trip(errors.New("again"))
		if got := waited(); got != time.Second {
			t.Errorf("after a success: waits %v, want 1s", got)
		}
		if _, _, trips := p.paused(); trips != 8 {
			t.Errorf("%d trips, want 8", trips)
		}
	})
}

// A worker that waits for one reason is held by every other one that appears meanwhile: all hold at the moment when it
// gets its permit.
func TestPermitNeedsAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := config.Defaults(config.Polite)
		s.MaxWorkers = 1
		leased, over := true, error(nil)
		p := testPermits(s, func() (time.Duration, error) {
			if leased {
				return 0, nil
			}
			return 100 * time.Millisecond, over
		})
		lease := func(has bool, end error) { // the permits ask with their lock held
			p.mu.Lock()
			defer p.mu.Unlock()
			leased, over = has, end
		}
		acquired := make(chan error, 1)
		begin := func() { go func() { acquired <- p.acquire(t.Context()) }() }
		waits := func(why string) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-acquired:
				t.Fatalf("a permit while %s: %v", why, err)
			default:
			}
		}
		begin()
		if err := <-acquired; err != nil {
			t.Fatal(err)
		}
		begin()
		waits("all are in use")
		p.trip(errors.New("no route"))
		p.release()
		waits("the machine fails")
		lease(false, nil)
		time.Sleep(firstPause + time.Second)
		waits("the cluster's lease is lost")
		lease(true, nil)
		if err := <-acquired; err != nil {
			t.Fatal(err)
		}
		if _, used, waiting, waited := p.state(); used != 1 || waiting != 0 || waited != 1 {
			t.Errorf("%d used, %d waiting, %d ever waited", used, waiting, waited)
		}
		begin()
		synctest.Wait()
		ended := errors.New("the session is over")
		lease(false, ended)
		p.release()
		if err := <-acquired; err != ended {
			t.Errorf("got %v after the end of the session", err)
		}
	})
}

// A record waits while a batch is collected, or until the batch before is committed, and then for its own commit.
func TestUsualLatency(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ commit, want time.Duration }{
		{0, 200 * ms}, {10 * ms, 210 * ms}, {150 * ms, 350 * ms}, {200 * ms, 400 * ms}, {300 * ms, 600 * ms},
	} {
		if got := usualLatency(c.commit); got != c.want {
			t.Errorf("a commit takes %v: %v, want %v", c.commit, got, c.want)
		}
	}
}
