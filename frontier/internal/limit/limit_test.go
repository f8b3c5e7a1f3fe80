package limit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestPermits(t *testing.T) {
	var p Permits
	p.Init(8)
	if got := p.Take(5); got != 5 || !p.Plenty() {
		t.Errorf("took %d of 8, plenty left: %v", got, p.Plenty())
	}
	if got := p.Take(5); got != 3 || p.Left() != 0 || p.Plenty() {
		t.Errorf("took %d, %d left, plenty: %v; want 3, 0, false", got, p.Left(), p.Plenty())
	}
	if got := p.Take(1); got != 0 {
		t.Errorf("took %d of none", got)
	}
	p.Release(6)
	if p.Used() != 2 || p.Peak() != 8 {
		t.Errorf("%d in use, peak %d; want 2, 8", p.Used(), p.Peak())
	}
}

// However many goroutines take permits or slots, no more are in use than there are.
func TestLimitsHold(t *testing.T) {
	const limit, tries = 10, 1000
	var p Permits
	var s Slots
	p.Init(limit)
	s.Init(limit, 0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range tries {
				if n := p.Take(3); n > 0 {
					p.Release(n)
				}
				if s.Take() {
					if n := s.Used(); n > limit {
						t.Errorf("%d slots of %d are in use", n, limit)
					}
					s.Release()
				}
			}
		})
	}
	wg.Wait()
	if p.Peak() > limit || p.Used() != 0 || s.Used() != 0 {
		t.Errorf("peak %d of %d; %d permits and %d slots still in use", p.Peak(), limit, p.Used(), s.Used())
	}
}

func TestSlots(t *testing.T) {
	var s Slots
	s.Init(2, 1)
	if !s.Take() || s.Take() || !s.Exhausted() {
		t.Error("of 2 slots, 1 of them in use, one more can be taken")
	}
	s.Queue()
	if s.CanServe() {
		t.Error("no slot is free")
	}
	s.Release()
	if !s.CanServe() {
		t.Error("a slot is free and a host waits")
	}
	s.Dequeue()
	if s.CanServe() {
		t.Error("no host waits")
	}
	var unbounded Slots
	unbounded.Init(0, 5)
	if !unbounded.Take() || unbounded.Exhausted() || unbounded.Used() != 6 {
		t.Errorf("%d in use without a limit, exhausted %v; want 6, false", unbounded.Used(), unbounded.Exhausted())
	}
}

func TestLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLookups(4)
		if err := l.Acquire(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed, got := make(chan error, 1), make(chan error, 1)
		go func() { failed <- l.Acquire(ctx, 2) }()
		synctest.Wait()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("the wait ended with %v", err)
		}
		go func() { got <- l.Acquire(t.Context(), 2) }()
		synctest.Wait()
		if used, waiting, waited := l.Counts(); used != 3 || waiting != 2 || waited != 2 {
			t.Errorf("%d used, %d wait, %d waited; want 3, 2, 2", used, waiting, waited)
		}
		l.Release(3)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if used, waiting, _ := l.Counts(); used != 2 || waiting != 0 {
			t.Errorf("%d used, %d wait; want 2, 0", used, waiting)
		}
	})
}
