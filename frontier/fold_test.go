package frontier

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// evidenceStore keeps evidence with its positions.
type evidenceStore struct {
	*memStore
	at       []Position
	evidence []Evidence
	skips    []Skip
}

func (s *evidenceStore) Commit(recs ...Record) (Position, error) {
	at, err := s.memStore.Commit(recs...)
	for i := range recs {
		for _, e := range recs[i].Evidence {
			s.at = append(s.at, at)
			s.evidence = append(s.evidence, e)
		}
		s.skips = append(s.skips, recs[i].Skips...)
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

// Failures of a domain in a row are counted over runs that are killed at any moment, whenever the last checkpoint was:
// the domain is abandoned at the same URL as in one run.
func TestFailuresOfADomainOutliveKills(t *testing.T) {
	const threshold, urls = 5, 12
	for saved := range 3 { // how many URLs before the kill the fold is saved
		for killed := range threshold {
			synctest.Test(t, func(t *testing.T) {
				store := &evidenceStore{memStore: newMemStore()}
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
				f.FoldRun(true)
				if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
					t.Fatal(err)
				}
				for range threshold - killed {
					fail()
				}
				if _, err := f.Next(t.Context()); err != ErrDrained {
					t.Errorf("saved %d before, killed after %d: %v, want the domain to be abandoned", saved, killed,
						err)
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
		store := &evidenceStore{memStore: newMemStore()}
		o := Options{Pace: fast(1), IgnoreRobots: true, MaxRetries: Off, FailureThreshold: 3}
		o.Pace.MaxFailures = 255
		f := newTest(t, o, store)
		for i := range 20 {
			add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i))...)
		}
		end := func(c pace.Class) { done(t, next(t, f), Result{Class: c, Finish: &Finish{}, Final: true}) }
		for _, c := range []pace.Class{pace.ClassOK, pace.ClassNetwork, pace.ClassNetwork, pace.ClassOK, pace.ClassOK,
			pace.ClassNetwork} {
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
		f.FoldRun(true)
		if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			end(pace.ClassNetwork)
		}
		end(pace.ClassOK)
	})
}

// What a host has done in a row is counted over kills at any request: it is blocked, and its 403s become refusals, at
// the same request as in one run. A URL that failed counts once, before and after a kill together.
func TestRowsOfAHostOutliveKills(t *testing.T) {
	const requests = 7
	for name, c := range map[string]struct {
		class pace.Class
		urls  int
	}{
		"failures":             {pace.ClassServerError, requests + 1},
		"failures of one URL":  {pace.ClassServerError, 1},
		"plain 403s":           {pace.ClassForbidden, requests + 1},
		"refusals at the most": {pace.ClassThrottled, requests + 1},
	} {
		t.Run(name, func(t *testing.T) {
			// story is how the host stands after each request, of a crawl that is killed after some of them.
			story := func(kills ...int) (all []string) {
				synctest.Test(t, func(t *testing.T) {
					store := &evidenceStore{memStore: newMemStore()}
					o := Options{Pace: fast(1), IgnoreRobots: true, MaxRetries: 100, FailureThreshold: 5,
						CancelOnThrottle: true, Run: 1, Continues: 1}
					o.Pace.MaxFailures, o.Pace.MaxLearned = 4, time.Millisecond
					f := newTest(t, o, store)
					for i := range c.urls {
						add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i))...)
					}
					id := f.hasher.HostID("a.example")
					for i := range requests {
						l, err := f.Next(t.Context())
						if err == ErrDrained {
							break
						}
						if err != nil {
							t.Fatal(err)
						}
						startLease(t, l)
						done(t, l, Result{Class: c.class, Finish: &Finish{}, Final: c.urls > 1})
						fact, _, err := store.Host(t.Context(), id)
						if err != nil {
							t.Fatal(err)
						}
						row := fact.Row
						all = append(all, fmt.Sprintf("%d failures of %d URLs, %d plain 403s, %d refusals, %d at the "+
							"most; blocked %v, abandoned %v",
							row.Failures, len(row.Failed), row.Forbidden, row.Refusals, row.AtCap, fact.Blocked,
							fact.Abandoned))
						if slices.Contains(kills, i) {
							f.Close()
							o.Run++
							f = newTest(t, o, store)
							for i, e := range store.evidence {
								f.Fold(store.at[i], e)
							}
							f.FoldRun(false)
							if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
								t.Fatal(err)
							}
						}
					}
				})
				return all
			}
			want := story()
			if len(want) < 3 || (want[0] == want[len(want)-1]) != (c.urls == 1) {
				t.Fatalf("nothing happens in a row: %q", want)
			}
			for i := range requests - 1 {
				if got := story(i); !slices.Equal(got, want) {
					t.Errorf("killed after request %d:\n got %q\nwant %q", i, got, want)
				}
				if got := story(i, i+1); !slices.Equal(got, want) {
					t.Errorf("killed after requests %d and %d:\n got %q\nwant %q", i, i+1, got, want)
				}
			}
		})
	}
}

// A run that a user asked for tries a blocked host again, and counts its failures from none. The run that goes on after
// a kill of it does the same with a host that the killed run had not come to: what the store says of the host is of an
// earlier run.
func TestRowsAreOverInANewRun(t *testing.T) {
	for _, known := range []bool{false, true} { // whether the second run had links of the host
		synctest.Test(t, func(t *testing.T) {
			store := newMemStore()
			o := Options{Pace: fast(1), IgnoreRobots: true, MaxRetries: Off, FailureThreshold: Off, Run: 1,
				Continues: 1}
			o.Pace.MaxFailures = 2
			fail := func(f *Frontier) {
				t.Helper()
				l := next(t, f)
				startLease(t, l)
				done(t, l, Result{Class: pace.ClassServerError, Finish: &Finish{}, Final: true})
			}
			open := func(run, continues uint64) *Frontier {
				t.Helper()
				o.Run, o.Continues = run, continues
				f := newTest(t, o, store)
				if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
					t.Fatal(err)
				}
				return f
			}
			f := open(1, 1)
			add(t, f, seeds("http://a.example/1", "http://a.example/2")...)
			fail(f)
			fail(f)
			if fact, _, err := store.Host(t.Context(), f.hasher.HostID("a.example")); !fact.Blocked || err != nil {
				t.Fatalf("%+v, %v", fact, err)
			}
			f.Close()

			f = open(2, 2)
			if known {
				add(t, f, seeds("http://a.example/3")...)
				fail(f)
			}
			f.Close()

			f = open(3, 2)
			add(t, f, seeds("http://a.example/4", "http://a.example/5", "http://a.example/6")...)
			fail(f)
			if !known {
				fail(f)
			}
			if _, err := f.Next(t.Context()); err != ErrDrained {
				t.Errorf("known %v: %v, want the host to be blocked at its second failure since the second run began",
					known, err)
			}
			f.Close()

			f = open(4, 3)
			if _, err := f.Next(t.Context()); err != ErrDrained {
				t.Errorf("known %v: %v, want the host to stay blocked", known, err)
			}
			f.Close()
			f = open(5, 5)
			fail(f)
		})
	}
}
