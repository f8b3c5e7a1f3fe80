package state

import (
	"context"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
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
	o := still()
	o.Workers = s.opts.Workers
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func crashCount(s *Store, k weburl.Key) int {
	n, _ := s.UncleanEnds(k)
	return n
}

// A page that was in flight alone at an unclean end is known by that until it is finished. Neither a clean end nor a
// return counts, and neither voids what was counted.
func TestInFlightAlone(t *testing.T) {
	s, err := Open(t.TempDir()+"/store", still())
	if err != nil {
		t.Fatal(err)
	}
	want := func(when string, n, alone int) {
		t.Helper()
		if got, is := s.UncleanEnds(key(0)); got != n || is != alone {
			t.Errorf("%s: %d unclean ends, %d alone; want %d and %d", when, got, is, n, alone)
		}
	}
	lease := func(alone bool) {
		t.Helper()
		commit(t, s, frontier.Record{Leased: []weburl.Key{key(0), key(1)}})
		if alone {
			commit(t, s, frontier.Record{Alone: []weburl.Key{key(0)}})
		}
	}
	lease(true)
	commit(t, s, frontier.Record{Returned: []weburl.Key{key(0)}})
	s = crash(t, s)
	want("returned before the end", 0, 0)
	lease(true)
	commit(t, s, frontier.Record{Returned: []weburl.Key{key(0)}})
	lease(false)
	s = crash(t, s)
	want("leased again, and not alone", 1, 0)
	lease(true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(s.dir, still()); err != nil {
		t.Fatal(err)
	}
	want("a clean end", 1, 0)
	lease(true)
	// The mark lies before the position from which the log is applied again.
	for range 3 {
		if err := s.Checkpoint(t.Context(), func(*SnapshotWriter) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	s = crash(t, s)
	want("an unclean end", 2, 1)
	lease(false)
	s = crash(t, s)
	want("another one, not alone", 3, 1)
	if _, alone := s.UncleanEnds(key(1)); alone > 0 {
		t.Error("a page counts as alone that never was")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(s.dir, still()); err != nil {
		t.Fatal(err)
	}
	want("a clean end after it", 3, 1)
	commit(t, s, frontier.Record{Finish: &frontier.Finish{Key: key(0)}})
	s = crash(t, s)
	want("finished", 0, 0)
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
	commit(t, s, frontier.Record{Leased: []weburl.Key{key(0), key(1), key(2)}})
	commit(t, s, frontier.Record{Finish: &frontier.Finish{Key: key(1)}, Returned: []weburl.Key{key(2)}})
	s = crash(t, s)
	want("first", 1, 1, 0, 0, 0)
	// A run that leases nothing counts against no page.
	s = crash(t, s)
	want("second", 0, 1, 0, 0, 0)
	commit(t, s, frontier.Record{Leased: []weburl.Key{key(0), key(3)}})
	// A checkpoint must not forget what is in flight.
	for range 3 {
		if err := s.Checkpoint(context.Background(), func(*SnapshotWriter) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	s = crash(t, s)
	want("third", 2, 2, 0, 0, 1)
	// A clean end counts against no page either, whatever is in flight.
	commit(t, s, frontier.Record{Leased: []weburl.Key{key(0), key(3)}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(s.dir, still()); err != nil {
		t.Fatal(err)
	}
	want("fourth", 0, 2, 0, 0, 1)
	commit(t, s, frontier.Record{Leased: []weburl.Key{key(0)}})
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

// What workers note in the file counts once for each unclean end, until the page is finished or the worker notes
// something else. What is left of other runs counts for nothing, and neither does a damaged entry.
func TestInFlightFile(t *testing.T) {
	o := still()
	o.Workers = 1000
	s, err := Open(t.TempDir()+"/store", o)
	if err != nil {
		t.Fatal(err)
	}
	want := func(when string, inflight int, ends ...[2]int) {
		t.Helper()
		if got := s.Recovery().InFlight; got != inflight {
			t.Errorf("%s: %d in flight, want %d", when, got, inflight)
		}
		for i, want := range ends {
			n, alone := s.UncleanEnds(key(uint64(i)))
			if got := [2]int{n, alone}; got != want {
				t.Errorf("%s: page %d has %v unclean ends and those alone, want %v", when, i, got, want)
			}
		}
	}
	set := func(worker int, page uint64, visit uint32, alone bool) {
		t.Helper()
		s.SetInFlight(worker, &frontier.Link{Key: key(page), Visit: visit}, alone)
	}
	finish := func(page uint64, visit uint32) {
		t.Helper()
		commit(t, s, frontier.Record{Finish: &frontier.Finish{Key: key(page), Visit: visit}})
	}
	reopen := func() {
		t.Helper()
		err := s.Close()
		if err == nil {
			s, err = Open(s.dir, o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	// Worker 700 has page 0 only. Page 1 is finished, and page 2 gives way to page 3. Page 4 is in the journal, as of
	// an earlier version.
	set(700, 0, 1, false)
	set(1, 1, 1, false)
	finish(1, 1)
	set(2, 2, 1, false)
	set(2, 3, 1, false)
	commit(t, s, frontier.Record{Leased: []weburl.Key{key(0), key(4)}})
	s = crash(t, s)
	want("first", 3, [2]int{1, 0}, [2]int{}, [2]int{}, [2]int{1, 0}, [2]int{1, 0})
	s = crash(t, s) // the opening is killed
	want("second", 0, [2]int{1, 0}, [2]int{}, [2]int{}, [2]int{1, 0})
	reopen() // as status does
	want("third", 0, [2]int{1, 0})

	// A later visit is in flight though the first is finished. A page that was alone is not any more. Of a page that
	// two workers have, one alone counts.
	set(0, 1, 2, false)
	set(1, 2, 1, true)
	s.SetInFlight(1, nil, false)
	set(2, 3, 1, true)
	set(3, 3, 1, false)
	s = crash(t, s)
	want("fourth", 2, [2]int{1, 0}, [2]int{1, 0}, [2]int{}, [2]int{2, 1})

	set(0, 1, 2, false)
	set(5, 3, 1, true)
	reopen()
	want("a clean end", 0, [2]int{1, 0}, [2]int{1, 0}, [2]int{}, [2]int{2, 1})

	set(0, 3, 1, true)
	set(1, 0, 1, false)
	s.inflight[inflightSize+20]++ // in the key of page 0
	s = crash(t, s)
	want("fifth", 1, [2]int{1, 0}, [2]int{1, 0}, [2]int{}, [2]int{3, 2})
	reopen()
	set(0, 3, 1, true)
	s = crash(t, s)
	want("sixth", 1, [2]int{1, 0}, [2]int{1, 0}, [2]int{}, [2]int{4, 2})
	finish(3, 1)
	s = crash(t, s)
	want("finished", 0, [2]int{1, 0}, [2]int{1, 0}, [2]int{}, [2]int{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
