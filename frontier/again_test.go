package frontier

import (
	"slices"
	"testing"
	"testing/synctest"
)

// A recordStore keeps the records that finish URLs or queue them again.
type recordStore struct {
	*memStore
	recs []Record
}

func (s *recordStore) Commit(recs ...Record) (Position, error) {
	at, err := s.memStore.Commit(recs...)
	for _, r := range recs {
		if r.Finish != nil || len(r.Visits) > 0 || len(r.Facts) > 0 {
			f := r.Finish
			if f != nil {
				c := *f
				f = &c
			}
			s.recs = append(s.recs, Record{Finish: f, Visits: slices.Clone(r.Visits), Facts: slices.Clone(r.Facts),
				Named: slices.Clone(r.Named)})
		}
	}
	return at, err
}

// A visit that Again queues is in the record of the finish, and knows how that ended.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recordStore{memStore: newMemStore()}
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, Generation: 3}, store)
		add(t, f, Link{URL: mustURL("http://a.example/"), Source: 2, Hops: 1, Repeats: 4})
		lease := next(t, f)
		startLease(t, lease)
		r := ok()
		r.Finish.Outcome, r.Finish.Status, r.Finish.Bytes, r.Again = 5, 304, 77, true
		r.Facts = []CrawlFact{{Name: "fact", Value: []byte("value")}}
		done(t, lease, r)
		checkInvariants(t, f)
		rec := store.recs[0]
		want := Summary{Outcome: 5, Status: 304, Bytes: 77, Counted: true}
		if len(rec.Visits) != 1 || rec.Visits[0].Visit != 2 || rec.Visits[0].Before != want ||
			rec.Visits[0].Key != rec.Finish.Key {
			t.Fatalf("%+v", rec)
		}
		if len(rec.Facts) != 1 || rec.Facts[0].Name != "fact" {
			t.Errorf("facts %v", rec.Facts)
		}
		lease = next(t, f)
		if l := lease.Link(); l.Visit != 2 || l.Before != want || l.Source != 2 || l.Hops != 1 || l.Repeats != 4 {
			t.Errorf("%+v", l)
		}
		startLease(t, lease)
		done(t, lease, ok())
		if fin := store.recs[1].Finish; fin.Visit != 2 || fin.Before != want || fin.Generation != 3 {
			t.Errorf("%+v", fin)
		}
		checkEmpty(t, f, store.memStore)
	})
}

// A URL that goes back is not queued once more.
func TestAgainOfAReturnedURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recordStore{memStore: newMemStore()}
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, store)
		add(t, f, Link{URL: mustURL("http://a.example/")})
		done(t, next(t, f), Result{Again: true, Facts: []CrawlFact{{Name: "fact"}}})
		lease := next(t, f)
		if l := lease.Link(); l.Visit != 1 || len(store.recs) != 0 {
			t.Errorf("visit %d, records %+v", l.Visit, store.recs)
		}
		startLease(t, lease)
		done(t, lease, ok())
		checkEmpty(t, f, store.memStore)
	})
}

// A lease is recorded as in flight when the caller says so, in the first visit and in later ones, and never otherwise.
func TestRecordInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, store)
		add(t, f, Link{URL: mustURL("http://a.example/")})
		again := ok()
		again.Again = true
		for visit := range 4 {
			lease := next(t, f)
			if got := store.Inflight(); got != 0 {
				t.Errorf("visit %d: %d in flight", visit+1, got)
			}
			startLease(t, lease)
			switch visit {
			case 1: // an answer without a body
				before := store.last
				done(t, lease, again)
				if store.last != before+1 {
					t.Errorf("%d records", store.last-before)
				}
				continue
			case 2:
				before := store.last
				lease.Abandon()
				if store.last != before {
					t.Error("a URL that was not in flight is returned")
				}
				lease = next(t, f)
				startLease(t, lease)
			}
			for range 2 {
				if err := lease.RecordInFlight(); err != nil || store.Inflight() != 1 {
					t.Errorf("visit %d: %d in flight, %v", visit+1, store.Inflight(), err)
				}
			}
			if visit == 3 {
				again.Again = false
			}
			done(t, lease, again)
			if err := lease.RecordInFlight(); err != ErrDone {
				t.Errorf("read after the end: %v", err)
			}
		}
		checkEmpty(t, f, store)
	})
}

// The facts of Revisit are in its last record, also if there are no links.
func TestFactsOfRevisit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recordStore{memStore: newMemStore()}
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, store)
		links := make([]Link, batchMost+1)
		for i := range links {
			links[i] = Link{URL: partURL(0, i), Visit: 2}
		}
		for _, n := range []int{len(links), 0} {
			if err := f.Revisit(t.Context(), links[:n], CrawlFact{Name: "queued"}); err != nil {
				t.Fatal(err)
			}
		}
		var got []int
		for _, r := range store.recs {
			got = append(got, len(r.Visits), len(r.Facts))
		}
		if want := []int{batchMost, 0, 1, 1, 0, 1}; !slices.Equal(got, want) {
			t.Errorf("visits and facts of the records: %v, want %v", got, want)
		}
	})
}

// Pages of a host count towards its limit in their own generation only.
func TestHostLimitIsOfOneGeneration(t *testing.T) {
	for generation, want := range []reason{whyHostLimit, whyNothing} {
		synctest.Test(t, func(t *testing.T) {
			store := newMemStore()
			u := mustURL("http://a.example/")
			o := Options{Pace: fast(1), IgnoreRobots: true, MaxURLsPerHost: 2, Generation: uint32(generation)}
			f := newTest(t, o, store)
			if _, err := store.Commit(Record{Hosts: []HostFact{{Host: f.hasher.HostID(u.Host()), Name: u.Host(),
				Pages: 2}}}); err != nil {
				t.Fatal(err)
			}
			add(t, f, Link{URL: u})
			synctest.Wait()
			s := f.shards.of(f.hasher.HostID(u.Host()))
			s.lock()
			i, _ := s.hosts.find(f.hasher.HostID(u.Host()))
			got := s.hosts.at(i).why
			s.unlock()
			if got != want {
				t.Errorf("generation %d: the host waits for %v, want %v", generation, got, want)
			}
		})
	}
}
