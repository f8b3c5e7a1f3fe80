package frontier

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// sleepers makes a frontier whose one host has a slot, and n calls of Next that wait for
// it to be free. Leases come out of the channel.
func sleepers(t *testing.T, n int) (f *Frontier, first *Lease, leases chan *Lease) {
	t.Helper()
	f = newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, newMemStore())
	for i := range 100 {
		add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i))...)
	}
	first = next(t, f)
	startLease(t, first)
	leases = make(chan *Lease, n)
	for range n {
		go func() {
			if l, err := f.Next(t.Context()); err == nil {
				leases <- l
			}
		}()
	}
	synctest.Wait()
	return f, first, leases
}

// A worker that ends a lease and asks for the next gets it, and no other worker is woken for it.
func TestReturningTakesItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _ := sleepers(t, 8)
		woken := f.waiting.Wakeups()
		for range 50 {
			done(t, l, ok())
			l = next(t, f)
			startLease(t, l)
		}
		synctest.Wait()
		if n := f.waiting.Wakeups() - woken; n != 0 {
			t.Errorf("%d were woken for nothing", n)
		}
	})
}

// If the worker that made work does not return, another worker gets it within comeBack.
func TestWorkerDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, leases := sleepers(t, 8)
		for range 8 {
			start := time.Now()
			done(t, l, ok())
			l = <-leases
			startLease(t, l)
			if waited := time.Since(start); waited > comeBack {
				t.Errorf("the slot was free for %v", waited)
			}
		}
	})
}
