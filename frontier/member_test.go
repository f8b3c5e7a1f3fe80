package frontier

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A start that may not be made now returns the URL without an attempt.
func TestMayStart(t *testing.T) {
	may := false
	f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, MayStart: func() bool { return may }}, newMemStore())
	add(t, f, seeds("http://a.example/1")...)
	l := next(t, f)
	if err := l.Start(); err != ErrNotNow {
		t.Errorf("start: %v, want %v", err, ErrNotNow)
	}
	if d, err := l.Done(Result{}); err != nil || d != Returned {
		t.Errorf("%v, %v", d, err)
	}
	may = true
	if l = next(t, f); l.Attempt() != 1 {
		t.Errorf("attempt %d", l.Attempt())
	}
	startLease(t, l)
}

// A partition fetches as many pages as it is granted. What it does not use can be taken back only when it has nothing
// to do.
func TestGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(8), IgnoreRobots: true, Closed: true, Grants: true}, newMemStore())
		m := MemberOf(f)
		p := f.hasher.HostID("a.example").Partition()
		if err := f.OpenPartition(t.Context(), p, Opening{At: time.Unix(1, 0), Granted: 5, Used: 3}); err != nil {
			t.Fatal(err)
		}
		add(t, f, seeds("http://a.example/1", "http://a.example/2", "http://a.example/3", "http://a.example/4")...)
		leased := func() *Lease {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			l, err := f.Next(ctx)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			return l
		}
		one, two := leased(), leased()
		if one == nil || two == nil || leased() != nil {
			t.Error("of 5 pages, 3 of them used, not 2 were leased")
		}
		status := func() PartitionStatus {
			list, ok := m.Statuses(func() bool { return true })
			if !ok {
				t.Error("no statuses")
			}
			return list[p]
		}
		if s := status(); !s.Open || !s.Short || s.Leases != 2 || s.Live != 4 {
			t.Errorf("%+v", s)
		}
		if _, ok := m.TakeBack(p); ok {
			t.Error("a partition with work was taken back from")
		}
		m.Grant(p, 6)
		three := leased()
		if three == nil || leased() != nil {
			t.Error("one more page was granted, and not one was leased")
		}
		for _, l := range []*Lease{one, two, three} {
			startLease(t, l)
			done(t, l, ok())
		}
		m.Grant(p, 10)
		last := leased()
		startLease(t, last)
		done(t, last, ok())
		if s := status(); s.Live != 0 || s.Short {
			t.Errorf("%+v", s)
		}
		if used, ok := m.TakeBack(p); !ok || used != 7 {
			t.Errorf("%d used, %v; want 7", used, ok)
		}
		if _, ok := m.TakeBack(p); ok {
			t.Error("taken back twice")
		}
	})
}

// Levels of a member are opened by its caller, and Hold keeps it from being drained.
func TestOpenLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(8), IgnoreRobots: true, Closed: true, LevelByLevel: true}, newMemStore())
		m := MemberOf(f)
		release := m.Hold()
		p := f.hasher.HostID("a.example").Partition()
		if err := f.OpenPartition(t.Context(), p, Opening{At: time.Unix(1, 0)}); err != nil {
			t.Fatal(err)
		}
		if !m.IsOpen(p) || m.IsOpen(p+1) || m.LeastDepth() != -1 {
			t.Errorf("open %v and %v, least depth %d", m.IsOpen(p), m.IsOpen(p+1), m.LeastDepth())
		}
		deep := seeds("http://a.example/1")
		deep[0].Depth = 2
		add(t, f, deep...)
		if m.LeastDepth() != 2 {
			t.Errorf("least depth %d", m.LeastDepth())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := f.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a closed level was leased: %v", err)
		}
		m.OpenLevel(1)
		m.OpenLevel(2)
		l := next(t, f)
		startLease(t, l)
		done(t, l, ok())
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := f.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a frontier that is held: %v", err)
		}
		release()
		if _, err := f.Next(t.Context()); err != ErrDrained {
			t.Errorf("a frontier that is not held any more: %v", err)
		}
	})
}
