package state

import (
	"context"
	"testing"

	"github.com/mapwright/mapwright/frontier"
)

// crash opens a copy of a store with the options still, as a kill would leave
// it.
func crash(t *testing.T, s *Store) *Store {
	t.Helper()
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	dir := s.dir + "+"
	copyDir(t, s.dir, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, still())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func crashCount(s *Store, k frontier.Key) int {
	n, _ := s.UncleanEnds(k)
	return n
}

// A page that was in flight alone at an unclean end is known by that until it is finished. Neither a clean end nor a return counts, and neither voids
// what was counted.
func TestInFlightAlone(t *testing.T) {
	s, err := Open(t.TempDir()+"/store", still())
	if err != nil {
		t.Fatal(err)
	}
	want := func(when string, n int, alone bool) {
		t.Helper()
		if got, is := s.UncleanEnds(key(0)); got != n || is != alone {
			t.Errorf("%s: %d unclean ends, alone %v; want %d and %v", when, got, is, n, alone)
		}
	}
	lease := func(alone bool) {
		t.Helper()
		commit(t, s, frontier.Record{Leased: []frontier.Key{key(0), key(1)}})
		if alone {
			commit(t, s, frontier.Record{Alone: []frontier.Key{key(0)}})
		}
	}
	lease(true)
	commit(t, s, frontier.Record{Returned: []frontier.Key{key(0)}})
	s = crash(t, s)
	want("returned before the end", 0, false)
	lease(true)
	commit(t, s, frontier.Record{Returned: []frontier.Key{key(0)}})
	lease(false)
	s = crash(t, s)
	want("leased again, and not alone", 1, false)
	lease(true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(s.dir, still()); err != nil {
		t.Fatal(err)
	}
	want("a clean end", 1, false)
	lease(true)
	// The mark lies before the position from which the log is applied again.
	for range 3 {
		if err := s.Checkpoint(t.Context(), func(*SnapshotWriter) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	s = crash(t, s)
	want("an unclean end", 2, true)
	lease(false)
	s = crash(t, s)
	want("another one, not alone", 3, true)
	if _, alone := s.UncleanEnds(key(1)); alone {
		t.Error("a page counts as alone that never was")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(s.dir, still()); err != nil {
		t.Fatal(err)
	}
	want("a clean end after it", 3, true)
	commit(t, s, frontier.Record{Finish: &frontier.Finish{Key: key(0)}})
	s = crash(t, s)
	want("finished", 0, false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCrashCounts(t *testing.T) {
	s, err := Open(t.TempDir()+"/store", still())
	if err != nil {
		t.Fatal(err)
	}
	want := func(life string, inflight int, counts ...int) {
		t.Helper()
		if got := s.Recovery().InFlight; got != inflight {
			t.Errorf("%s: %d in flight, want %d", life, got, inflight)
		}
		for i, n := range counts {
			if got := crashCount(s, key(uint64(i))); got != n {
				t.Errorf("%s: crash count of page %d is %d, want %d", life, i, got, n)
			}
		}
	}
	// Page 0 stays in flight, 1 is finished, 2 is given back, 3 is leased later.
	commit(t, s, frontier.Record{Leased: []frontier.Key{key(0), key(1), key(2)}})
	commit(t, s, frontier.Record{Finish: &frontier.Finish{Key: key(1)}, Returned: []frontier.Key{key(2)}})
	s = crash(t, s)
	want("first", 1, 1, 0, 0, 0)
	// A run that leases nothing counts against no page.
	s = crash(t, s)
	want("second", 0, 1, 0, 0, 0)
	commit(t, s, frontier.Record{Leased: []frontier.Key{key(0), key(3)}})
	// A checkpoint must not forget what is in flight.
	for range 3 {
		if err := s.Checkpoint(context.Background(), func(*SnapshotWriter) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	s = crash(t, s)
	want("third", 2, 2, 0, 0, 1)
	// A clean end counts against no page either, whatever is in flight.
	commit(t, s, frontier.Record{Leased: []frontier.Key{key(0), key(3)}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(s.dir, still()); err != nil {
		t.Fatal(err)
	}
	want("fourth", 0, 2, 0, 0, 1)
	commit(t, s, frontier.Record{Leased: []frontier.Key{key(0)}})
	s = crash(t, s)
	want("fifth", 1, 3, 0, 0, 1)
	// Finishing ends the count.
	commit(t, s, frontier.Record{Finish: &frontier.Finish{Key: key(0)}})
	s = crash(t, s)
	want("sixth", 0, 0, 0, 0, 1)
	if s.Run() != 7 {
		t.Errorf("run %d, want 7", s.Run())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
