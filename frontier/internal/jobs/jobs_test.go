package jobs

import (
	"slices"
	"testing"
	"testing/synctest"
)

func newQueue() *Queue[string] {
	q := &Queue[string]{}
	q.Init()
	return q
}

// names takes n jobs.
func names(t *testing.T, q *Queue[string], n int) (got []string) {
	t.Helper()
	for range n {
		j, ok := q.Next()
		if !ok {
			t.Fatal("the queue is closed")
		}
		got = append(got, j.Of)
	}
	return got
}

func TestOrder(t *testing.T) {
	q := newQueue()
	q.Load("late", 30)
	q.Load("early", 10)
	q.Ask("a")
	q.Load("middle", 20)
	q.Ask("b")
	if asks, loads := q.Len(); asks != 2 || loads != 3 {
		t.Errorf("%d questions, %d loads; want 2, 3", asks, loads)
	}
	if got, want := names(t, q, 5), []string{"a", "b", "early", "middle", "late"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// next calls Next in a goroutine of its own.
func next(q *Queue[string]) <-chan Job[string] {
	got := make(chan Job[string], 1)
	go func() {
		if j, ok := q.Next(); ok {
			got <- j
		} else {
			close(got)
		}
	}()
	synctest.Wait()
	return got
}

// A starved queue hands out a load when memory was given back, and every load once all have been done.
func TestStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Load("a", 1)
		j, _ := q.Next()
		q.Starve(j)
		q.Load("b", 2)
		got := next(q)
		select {
		case j := <-got:
			t.Fatalf("got %s though there is no memory", j.Of)
		default:
		}
		q.Freed()
		if j = <-got; j.Of != "a" || !j.Load {
			t.Fatalf("got %+v, want the load of a", j)
		}
		q.Done()
		if !q.Starved() {
			t.Error("a load is left, and the queue is not starved")
		}
		if j, _ = q.Next(); j.Of != "b" {
			t.Errorf("got %s, want b: memory was given back, and no load has found none since", j.Of)
		}
		q.Done()
		if q.Starved() {
			t.Error("no load is left, and the queue is starved")
		}
	})
}

func TestHoldAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Hold(true)
		q.Load("a", 1)
		got := next(q)
		q.Ask("b")
		if j := <-got; j.Of != "b" || j.Load {
			t.Errorf("got %+v, want the question b", j)
		}
		got = next(q)
		q.Hold(false)
		if j := <-got; j.Of != "a" {
			t.Errorf("got %+v, want a", j)
		}
		got = next(q)
		q.Close()
		if _, ok := <-got; ok {
			t.Error("got a job after Close")
		}
	})
}
