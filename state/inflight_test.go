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
			if got := s.CrashCount(key(uint64(i))); got != n {
				t.Errorf("%s: crash count of page %d is %d, want %d", life, i, got, n)
			}
		}
	}
	// Page 0 stays in flight, 1 is finished, 2 is given back, 3 is leased later.
	commit(t, s, frontier.Record{Leased: []frontier.Key{key(0), key(1), key(2)}})
	commit(t, s, frontier.Record{Finish: &frontier.Finish{Key: key(1)}, Returned: []frontier.Key{key(2)}})
	s = crash(t, s)
	want("first", 1, 1, 0, 0, 0)
	// A run that leases nothing blames nobody.
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
	// A clean end blames nobody either, whatever is in flight.
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
