package state

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A frontier over the store visits pages again and again, three times in a generation where Result.Again asks for it,
// and the store is killed at any place: no visit is lost and none comes twice.
func TestVisitsAfterKills(t *testing.T) {
	const pages, generations = 12, 3
	s, err := Open(t.TempDir()+"/s", still())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	var keys []weburl.Key
	last := map[weburl.Key]uint32{} // visit that was finished last
	for generation := range uint32(generations) {
		f := recrawlFrontier(t, s, generation)
		if generation == 0 {
			var links []frontier.Link
			for i := range pages {
				links = append(links, frontier.Link{URL: mustURL(fmt.Sprintf("https://h%d.example/%d", i%3, i))})
				keys = append(keys, s.Hasher().Key(links[i].URL))
			}
			if _, err := f.Add(t.Context(), links); err != nil {
				t.Fatal(err)
			}
		} else {
			var visits []frontier.Link
			for _, k := range keys {
				p, _, err := s.Page(t.Context(), k)
				if err != nil {
					t.Fatal(err)
				}
				l := p.Link
				l.Visit, l.Before = p.Finish.Visit+1, p.Finish.Summary()
				visits = append(visits, l)
			}
			if err := f.Revisit(t.Context(), visits, frontier.CrawlFact{Name: "queued",
				Value: []byte{byte(generation)}}); err != nil {
				t.Fatal(err)
			}
		}
		for done := 0; ; done++ {
			l, err := f.Next(t.Context())
			if errors.Is(err, frontier.ErrDrained) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			link := l.Link()
			if link.Visit != last[link.Key]+1 {
				t.Fatalf("visit %d of %s after %d", link.Visit, link.URL, last[link.Key])
			}
			if err := errors.Join(l.Start(), l.RecordInFlight()); err != nil {
				t.Fatal(err)
			}
			last[link.Key] = link.Visit
			again := link.Visit%3 != 0 // until the third visit of the generation
			fin := &frontier.Finish{Outcome: 1, Status: 200, Bytes: uint64(link.Visit), KeepFacts: link.Visit%2 == 0,
				Facts: fmt.Appendf(nil, "%d", link.Visit)}
			if _, err := l.Done(frontier.Result{Class: pace.ClassOK, Finish: fin, Again: again}); err != nil {
				t.Fatal(err)
			}
			if done%7 == 6 {
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				s = crash(t, s)
				f = recrawlFrontier(t, s, generation)
			}
		}
		if err := errors.Join(f.Close(), s.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		if c := s.Counters(); c.Pending() != 0 || c.Finished != pages || c.Generation != generation ||
			c.Counted != 3*pages {
			t.Fatalf("after generation %d: %+v", generation, c)
		}
	}
	for _, k := range keys {
		p, _, err := s.Page(t.Context(), k)
		if err != nil || p.Finish.Visit != 3*generations || string(p.Finish.Facts) != "9" {
			t.Errorf("%+v %+v, %v", p, p.Finish, err)
		}
	}
	if got := s.Facts()["queued"]; string(got) != "\x02" {
		t.Errorf("fact %q", got)
	}
}

// recrawlFrontier is a frontier that goes on with what the store has.
func recrawlFrontier(t *testing.T, s *Store, generation uint32) *frontier.Frontier {
	t.Helper()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := frontier.Options{Seed: s.Seed(), IgnoreRobots: true, Pace: pace.Config{MaxInflight: 4}, Generation: generation}
	f, err := frontier.New(o, s)
	if err == nil {
		err = f.Resume(t.Context(), s.Backlogs(t.Context(), 0, 255))
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}
