package crawl

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
)

func TestGovernorShrinksAndRecovers(t *testing.T) {
	s := config.Defaults(config.Polite)
	s.MaxWorkers = 64
	g := newGovernor(s)
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
	if _, to := newGovernor(s).step(time.Hour); to != s.MaxWorkers {
		t.Errorf("moved to %d though it is off", to)
	}
}

// In a bubble, a closed loop of workers and a disk: the slower the disk, the longer a commit takes under the same load. Workers
// in use must fall until commits are near their target, and come back when the disk does.
func TestGovernorHoldsCommitLatencyNearItsTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := config.Defaults(config.Polite)
		s.MaxWorkers = 256
		g := newGovernor(s)
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
				_, used, _ = g.state()
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
	g := newGovernor(s)
	if err := g.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, used, waiting := g.state(); used != 1 || waiting != 0 {
		t.Errorf("%d used, %d waiting", used, waiting)
	}
}
