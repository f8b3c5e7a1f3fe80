package frontier

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/mapwright/mapwright/frontier/pace"
)

// evidenceStore keeps evidence with its positions.
type evidenceStore struct {
	*MemStore
	at       []Position
	evidence []Evidence
}

func (s *evidenceStore) Commit(recs ...Record) (Position, error) {
	at, err := s.MemStore.Commit(recs...)
	for i := range recs {
		for _, e := range recs[i].Evidence {
			s.at = append(s.at, at)
			s.evidence = append(s.evidence, e)
		}
	}
	return at, err
}

// blobWriter keeps the last blob.
type blobWriter struct{ bytes.Buffer }

func (w *blobWriter) Put(_ string, _ uint32, write func(io.Writer) error) error {
	w.Reset()
	return write(&w.Buffer)
}

func (w *blobWriter) Keep(string) bool { return false }

// Failures of a domain in a row are counted over runs that are killed at any moment, whenever the last checkpoint was: the domain is
// abandoned at the same URL as in one run.
func TestFailuresOfADomainOutliveKills(t *testing.T) {
	const threshold, urls = 5, 12
	for saved := range 3 { // how many URLs before the kill the fold is saved
		for killed := range threshold {
			synctest.Test(t, func(t *testing.T) {
				store := &evidenceStore{MemStore: NewMemStore()}
				o := Options{Pace: fast(1), IgnoreRobots: true, MaxRetries: Off, FailureThreshold: threshold, Shards: 3}
				o.Pace.MaxFailures = 255
				f := newTest(t, o, store)
				for i := range urls {
					add(t, f, seeds(fmt.Sprintf("http://h%d.domain.example/", i))...)
				}
				fail := func() { done(t, next(t, f), Result{Class: pace.ClassNetwork, Finish: &Finish{}, Final: true}) }
				var blob blobWriter
				since := Position(0)
				for i := range killed {
					if i == max(0, killed-saved) {
						since = store.last
						if err := f.SaveFolds(&blob, 1); err != nil {
							t.Fatal(err)
						}
					}
					fail()
				}
				f.Close()

				f = newTest(t, o, store)
				if blob.Len() > 0 {
					if run, err := f.RestoreFolds(bytes.NewReader(blob.Bytes())); run != 1 || err != nil {
						t.Fatal(run, err)
					}
				}
				for i, e := range store.evidence {
					if store.at[i] > since-min(since, 1) { // once more than is needed
						f.Fold(store.at[i], e)
					}
				}
				f.FoldNewRun()
				if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
					t.Fatal(err)
				}
				for range threshold - killed {
					fail()
				}
				if _, err := f.Next(t.Context()); err != ErrDrained {
					t.Errorf("saved %d before, killed after %d: %v, want the domain to be abandoned", saved, killed, err)
				}
				synctest.Wait()
				checkInvariants(t, f)
			})
		}
	}
}

// An answer ends the row, and a new run tries a domain again that was given up.
func TestFoldOfADomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &evidenceStore{MemStore: NewMemStore()}
		o := Options{Pace: fast(1), IgnoreRobots: true, MaxRetries: Off, FailureThreshold: 3}
		o.Pace.MaxFailures = 255
		f := newTest(t, o, store)
		for i := range 20 {
			add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i))...)
		}
		end := func(c pace.Class) { done(t, next(t, f), Result{Class: c, Finish: &Finish{}, Final: true}) }
		for _, c := range []pace.Class{pace.ClassOK, pace.ClassNetwork, pace.ClassNetwork, pace.ClassOK, pace.ClassOK, pace.ClassNetwork} {
			end(c)
		}
		if got := len(store.evidence); got != 4 {
			t.Errorf("%d observations were recorded, want 4: answers without failures before are none", got)
		}
		for range 2 {
			end(pace.ClassNetwork)
		}
		if _, err := f.Next(t.Context()); err != ErrDrained {
			t.Fatal(err)
		}
		f.Close()
		f = newTest(t, o, store)
		for i, e := range store.evidence {
			f.Fold(store.at[i], e)
		}
		f.FoldNewRun()
		if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			end(pace.ClassNetwork)
		}
		end(pace.ClassOK)
	})
}
