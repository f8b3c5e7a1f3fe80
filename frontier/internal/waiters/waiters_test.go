package waiters

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// wait starts n calls that wait, one after another, and returns the channel in which each puts its number when it is
// woken.
func wait(t *testing.T, q *List, n int) <-chan int {
	woken := make(chan int, n)
	for i := range n {
		w := q.Enter()
		go func() {
			if _, err := q.Wait(t.Context(), w); err == nil {
				woken <- i
			}
		}()
	}
	synctest.Wait()
	return woken
}

func TestWakeIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q List
		q.Init(func() {})
		woken := wait(t, &q, 3)
		for i := range 3 {
			q.Wake()
			if got := <-woken; got != i {
				t.Errorf("waiter %d was woken, want %d", got, i)
			}
		}
		q.Wake()
		if q.Wakeups() != 3 || q.Len() != 0 {
			t.Errorf("%d were woken, %d wait; want 3, 0", q.Wakeups(), q.Len())
		}
	})
}

// While a woken waiter has not returned, no other is woken.
func TestWakeOneAtATime(t *testing.T) {
	var q List
	q.Init(func() {})
	a, b := q.Enter(), q.Enter()
	q.Wake()
	q.Wake()
	if q.Len() != 1 {
		t.Fatalf("%d wait, want 1", q.Len())
	}
	if !q.Leave(a) {
		t.Error("the first waiter was not woken")
	}
	q.Wake()
	if woken, err := q.Wait(t.Context(), b); !woken || err != nil {
		t.Errorf("woken %v, %v", woken, err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	var q List
	q.Init(func() {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if woken, err := q.Wait(ctx, q.Enter()); woken || !errors.Is(err, context.Canceled) || q.Len() != 0 {
		t.Errorf("woken %v, %v, %d wait", woken, err, q.Len())
	}
}

func TestTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q List
		q.Init(q.Wake)
		start := time.Now()
		arm := func(d time.Duration) { q.Arm(time.Now().Add(d).UnixNano(), d) }
		arm(time.Second) // nothing waits
		woken := wait(t, &q, 2)
		arm(time.Minute)
		arm(10 * time.Second)
		arm(time.Hour)
		<-woken
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("the timer fired after %v, want 10s", got)
		}
		arm(time.Second)
		<-woken
		if got := time.Since(start); got != 11*time.Second {
			t.Errorf("the timer fired after %v, want 11s", got)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q List
		q.Init(func() { t.Error("the timer fired after Close") })
		woken := wait(t, &q, 3)
		q.Arm(1, time.Second)
		q.Close()
		for range 3 {
			<-woken
		}
		time.Sleep(time.Minute)
	})
}
