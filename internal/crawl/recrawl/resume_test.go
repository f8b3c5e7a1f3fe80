package recrawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// queue is a frontier that only records what is queued, and fails after some calls.
type queue struct {
	store *state.Store
	left  int // calls of Revisit until it fails
	held  int // tokens that are out
}

var errCut = errors.New("the process ends here")

func (q *queue) Revisit(_ context.Context, links []frontier.Link, facts ...frontier.CrawlFact) error {
	if q.left--; q.left < 0 {
		return errCut
	}
	_, err := q.store.Commit(frontier.Record{Visits: links, Facts: facts})
	return err
}

func (q *queue) Source() (release func()) {
	q.held++
	released := false
	return func() {
		if !released {
			released = true
			q.held--
		}
	}
}

func (q *queue) Stats() frontier.Stats { return frontier.Stats{} }

// newStore has pages of two hosts that were visited in generation 0, and one start page. Generation 1 has begun.
func newStore(t *testing.T, pages int) (s *state.Store, start weburl.URL) {
	t.Helper()
	s, err := state.Open(t.TempDir()+"/state", state.Options{Mode: state.CreateOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	start = weburl.MustCanonical("http://x.test/")
	for i := range pages {
		u := start
		if i > 0 {
			u = weburl.MustCanonical(fmt.Sprintf("http://%s.test/p%d", []string{"x", "y"}[i%2], i))
		}
		k := s.Hasher().Key(u)
		record(t, s, frontier.Record{
			Links: []frontier.Link{{URL: u, Key: k, Discovered: now}},
			Finish: &frontier.Finish{Key: k, Visit: 1, Outcome: uint8(page.OK), Status: 200,
				CheckedAt: now.Add(time.Duration(i) * time.Second)},
		})
	}
	facts, err := Begin(1, Terms{})
	if err != nil {
		t.Fatal(err)
	}
	record(t, s, frontier.Record{Facts: facts})
	return s, start
}

func record(t *testing.T, s *state.Store, r frontier.Record) {
	t.Helper()
	if _, err := s.Commit(r); err != nil {
		t.Fatal(err)
	}
}

// sweeper is one of a run.
func sweeper(t *testing.T, s *state.Store, q *queue, start weburl.URL) *Sweeper {
	t.Helper()
	settings := config.Defaults(config.Polite)
	settings.Scope = "any"
	within, err := scope.New(settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	sw, err := NewSweeper(SweepOptions{Store: s, Frontier: q, Scope: within,
		Starts: []frontier.Link{{URL: start}}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return sw
}

// queuedVisits is which visit of each page is queued. A page that is queued twice is an error.
func queuedVisits(t *testing.T, s *state.Store) map[weburl.Key]uint32 {
	t.Helper()
	visits := map[weburl.Key]uint32{}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for b, err := range s.Backlogs(t.Context(), 0, 255) {
		if err != nil {
			t.Fatal(err)
		}
		for at := (frontier.Cursor{}); ; {
			links, next, err := s.Pending(t.Context(), b.Fact.Host, at, 500)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range links {
				if visits[l.Key] != 0 {
					t.Errorf("%s is queued twice: visits %d and %d", l.URL, visits[l.Key], l.Visit)
				}
				visits[l.Key] = l.Visit
			}
			if len(links) < 500 {
				break
			}
			at = next
		}
	}
	return visits
}

// However often a sweep is cut off, each page is queued once. Pages that were visited in between are not queued again.
func TestSweepIsCutOff(t *testing.T) {
	const pages = 5 * batch
	s, start := newStore(t, pages)
	runs, visited := 0, 0
	for !IsSwept(s.Facts(), &scope.History{}) {
		q := &queue{store: s, left: 2}
		if err := sweeper(t, s, q, start).sweepAll(t.Context()); (err == nil) != IsSwept(s.Facts(), &scope.History{}) ||
			err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if runs++; runs > 50 {
			t.Fatal("the sweep does not end")
		}
		// Some of what is queued is visited before the next run.
		n := 0
		for k, visit := range queuedVisits(t, s) {
			if n++; n > 50 {
				break
			}
			record(t, s, frontier.Record{Finish: &frontier.Finish{Key: k, Visit: visit, Generation: 1,
				Outcome: uint8(page.OK), Status: 200, CheckedAt: now}})
			visited++
		}
	}
	visits := queuedVisits(t, s)
	if len(visits)+visited != pages || runs < 3 {
		t.Errorf("%d of %d pages are queued, and %d were visited, after %d runs", len(visits), pages, visited, runs)
	}
	for _, visit := range visits {
		if visit != 2 {
			t.Fatalf("visit %d is queued", visit)
		}
	}
}

// All pages of a host that were answered 304 are queued again when one of the answers turns out to be false, however
// often that is cut off. Other hosts are not concerned.
func TestRecheckIsCutOff(t *testing.T) {
	const pages = 6 * batch
	s, start := newStore(t, pages)
	want := 0
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for p, err := range s.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		notModified := p.Finish.CheckedAt.Unix()%3 != 0
		if notModified && p.Link.URL.Host() == "x.test" {
			want++
		}
		again := frontier.Link{URL: p.Link.URL, Key: p.Link.Key, Visit: 2, Before: p.Finish.Summary()}
		record(t, s, frontier.Record{Visits: []frontier.Link{again}})
		record(t, s, frontier.Record{Finish: &frontier.Finish{
			Key: p.Link.Key, Visit: 2, Generation: 1, Before: p.Finish.Summary(), Outcome: uint8(page.OK), Status: 200,
			CheckedAt: now, KeepFacts: true, NotModified: notModified,
		}})
	}
	isDone := func() bool { return string(s.Facts()[factDistrust+"x.test"]) == "1" }
	runs := 0
	for ; !isDone(); runs++ {
		q := &queue{store: s, left: 1}
		sw := sweeper(t, s, q, start)
		if runs == 0 {
			err := sw.Distrust("x.test", func(f frontier.CrawlFact) (frontier.Disposition, error) {
				_, err := s.Commit(frontier.Record{Facts: []frontier.CrawlFact{f}})
				return frontier.Finished, err
			})
			if err != nil {
				t.Fatal(err)
			}
		} else {
			sw.addOpenJobs(s.Facts(), func(string) bool { return true })
		}
		if q.held != 1 {
			t.Fatalf("%d tokens are out while there is a job", q.held)
		}
		if err := sw.recheckAll(t.Context()); (err == nil) != isDone() || err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if q.held != 0 || runs > 50 {
			t.Fatalf("%d tokens are out after run %d", q.held, runs)
		}
	}
	visits := queuedVisits(t, s)
	if len(visits) != want || runs < 2 {
		t.Errorf("%d pages are queued after %d runs, want %d", len(visits), runs, want)
	}
	for k, visit := range visits {
		if visit != 3 || k.Host != s.Hasher().HostID("x.test") {
			t.Fatalf("visit %d of %v is queued", visit, k)
		}
	}
	if !distrustedHosts(s.Facts())["x.test"] || distrustedHosts(s.Facts())["y.test"] {
		t.Errorf("distrusted: %v", distrustedHosts(s.Facts()))
	}
}
