package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// recrawled are the URLs that the tests below visit again and again. What each visit of each records follows from the
// two numbers.
const recrawled = 200

// A revisitedURL is one of them, by its number.
type revisitedURL int

func (u revisitedURL) link(h weburl.Hasher) frontier.Link {
	url := mustURL(fmt.Sprintf("https://h%d.example/%d", u%3, int(u)))
	return frontier.Link{URL: url, Key: h.Key(url), Priority: frontier.PriorityStart}
}

// changed reports whether a visit finds the page changed, and does not keep its facts.
func (u revisitedURL) changed(visit uint32) bool { return visit == 1 || (uint32(u)*7+visit)%3 == 0 }

// page is what must be known of the URL after a visit.
func (u revisitedURL) page(h weburl.Hasher, visit uint32) Page {
	read, changes := uint32(1), uint32(0)
	for v := uint32(2); v <= visit; v++ {
		if u.changed(v) {
			read, changes = v, changes+1
		}
	}
	f := &frontier.Finish{
		Key: u.link(h).Key, Visit: visit, Generation: visit - 1, Outcome: 1, Status: 200, Attempts: 1,
		CheckedAt: time.UnixMilli(int64(visit) * 1000).UTC(),
		Bytes:     uint64(read), Facts: fmt.Appendf(nil, "facts of page %d as read in visit %d", u, read),
		KeepFacts: read != visit, Changes: changes,
	}
	p := Page{Link: u.link(h), Finish: f, FactsGeneration: read - 1, FactsAt: time.UnixMilli(int64(read) * 1000).UTC()}
	if changes > 0 {
		f.ChangedAt = time.UnixMilli(int64(read) * 1000).UTC()
	}
	if f.KeepFacts {
		p.VisitFacts = fmt.Appendf(nil, "error of visit %d", visit)
	} else if visit > 1 {
		f.Differences = fmt.Appendf(nil, "differences of visit %d", visit)
	}
	if visit > 1 {
		f.Before = u.page(h, visit-1).Finish.Summary()
	}
	return p
}

// records are those of one visit: it is queued, and finished.
func (u revisitedURL) records(h weburl.Hasher, visit uint32) []frontier.Record {
	p := u.page(h, visit)
	f := *p.Finish
	if f.KeepFacts {
		f.Facts = p.VisitFacts
	}
	if visit == 1 {
		return []frontier.Record{{Links: []frontier.Link{p.Link}}, {Finish: &f}}
	}
	l := p.Link
	l.Visit, l.Before = visit, f.Before
	return []frontier.Record{{Visits: []frontier.Link{l}}, {Finish: &f}}
}

// check reports how a page differs from what one visit left, and which that is.
func (u revisitedURL) check(h weburl.Hasher, p Page) (visit uint32, err error) {
	if p.Finish == nil {
		return 0, nil
	}
	if want := u.page(h, p.Finish.Visit); !reflect.DeepEqual(p, want) {
		return 0, fmt.Errorf("page %d is a mixture\n got %+v %+v %q\nwant %+v %+v %q", u, p, p.Finish, p.Finish.Facts,
			want, want.Finish, want.Finish.Facts)
	}
	return p.Finish.Visit, nil
}

// childRecrawl visits all URLs, one generation after the other, for ever. It prints how many visits are durable.
func childRecrawl(dir string) error {
	ctx := context.Background()
	s, err := Open(dir, small())
	if err != nil {
		return err
	}
	h, n := s.Hasher(), 0
	for u := range revisitedURL(recrawled) {
		p, _, err := s.Page(ctx, u.link(h).Key)
		if err != nil {
			return err
		}
		visit, err := u.check(h, p)
		if err != nil {
			return err
		}
		n += int(visit)
	}
	for ; ; n++ {
		u, visit := revisitedURL(n%recrawled), uint32(n/recrawled)+1
		recs := u.records(h, visit)
		if visit > 1 {
			before, _, err := s.Before(ctx, u.link(h).Key, visit)
			if err != nil {
				return err
			}
			before.Link = u.link(h) // which Before leaves out
			if was, err := u.check(h, before); err != nil || was != visit-1 {
				return errors.Join(err, fmt.Errorf("page %d: visit %d before %d", u, was, visit))
			}
		}
		if err := s.Ready(ctx); err != nil {
			return err
		}
		for i := range recs { // the visit of a killed run may be queued already, and is queued again
			if _, err := s.Commit(recs[i]); err != nil {
				return err
			}
		}
		if n%20 == 0 {
			if err := s.Flush(ctx); err != nil {
				return err
			}
			fmt.Println(n)
		}
	}
}

// TestKillRecrawl kills a process that visits URLs again and again. After each kill every URL has the facts of one
// generation or of the next, and what was said to be durable is there.
func TestKillRecrawl(t *testing.T) {
	dir, acked := t.TempDir()+"/store", 0
	for range 5 {
		c := startChild(t, "recrawl", dir, 0)
		for range rand.IntN(60) {
			acked = atoi(t, c.line())
		}
		acked = c.kill(acked)
		s, err := Open(dir, small())
		if err != nil {
			t.Fatal(err)
		}
		n := checkRecrawl(t, s)
		if n < acked {
			t.Errorf("%d visits, %d were durable", n, acked)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkRecrawl wants the first n visits to be there, and returns n.
func checkRecrawl(t *testing.T, s *Store) (n int) {
	t.Helper()
	h := s.Hasher()
	urls, visits := map[weburl.Key]revisitedURL{}, [recrawled]uint32{}
	for u := range revisitedURL(recrawled) {
		urls[u.link(h).Key] = u
	}
	for p, err := range s.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		u := urls[p.Link.Key]
		if visits[u], err = u.check(h, p); err != nil {
			t.Fatal(err)
		}
		n += int(visits[u])
	}
	changes := map[string]bool{}
	for u, visit := range visits {
		if want := uint32(n/recrawled) + uint32(min(1, max(0, n%recrawled-u))); visit != want {
			t.Errorf("page %d has visit %d, want %d after %d visits", u, visit, want, n)
		}
		for v := uint32(2); v <= visit; v++ {
			if revisitedURL(u).changed(v) {
				changes[strconv.Itoa(u)+" "+strconv.Itoa(int(v))] = true
			}
		}
	}
	for c, err := range s.Changes(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint(int(urls[c.Key]), " ", c.Generation+1)
		if want := fmt.Sprintf("differences of visit %d", c.Generation+1); !changes[id] ||
			string(c.Differences) != want {
			t.Errorf("change of page and visit %s: %q", id, c.Differences)
		}
		delete(changes, id)
	}
	if len(changes) > 0 {
		t.Errorf("%d changes are missing", len(changes))
	}
	return n
}

// TestReadersSeeOneVisit reads pages in all ways while they are visited again and again.
func TestReadersSeeOneVisit(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	h := s.Hasher()
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for u := revisitedURL(0); ; u = (u + 1) % recrawled {
				select {
				case <-stop:
					return
				default:
				}
				p, _, err := s.Before(t.Context(), u.link(h).Key, 1)
				if err == nil {
					p.Link = u.link(h) // which Before leaves out
					_, err = u.check(h, p)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for visit := range uint32(8) {
		for u := range revisitedURL(recrawled) {
			commit(t, s, u.records(h, visit+1)...)
		}
		for p, err := range s.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.Atoi(p.Link.URL.Path()[1:])
			if err == nil {
				_, err = revisitedURL(n).check(h, p)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	readers.Wait()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := checkRecrawl(t, s); n != 8*recrawled {
		t.Errorf("%d visits, want %d", n, 8*recrawled)
	}
	if c := s.Counters(); c.Pending() != 0 || c.Finished != recrawled || c.Outcomes[1] != recrawled {
		t.Errorf("%+v", c)
	}
}

// Before sees what the visit before has committed, whether it is applied or not.
func TestBeforeSeesTheVisitBefore(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	h, u := s.Hasher(), revisitedURL(4)
	if _, ok, err := s.Before(t.Context(), u.link(h).Key, 1); ok || err != nil {
		t.Errorf("before the first visit: %v, %v", ok, err)
	}
	for visit := range uint32(20) {
		commit(t, s, u.records(h, visit+1)...)
		p, ok, err := s.Before(t.Context(), u.link(h).Key, visit+2)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if found, ok, err := s.Found(u.link(h).Key); err != nil || !ok || !reflect.DeepEqual(found, u.link(h)) {
			t.Errorf("it was found as %+v, %v, %v", found, ok, err)
		}
		p.Link = u.link(h) // which Before leaves out
		if got, err := u.check(h, p); err != nil || got != visit+1 {
			t.Errorf("visit %d, %v; want %d", got, err, visit+1)
		}
	}
}

// A later visit is pending until it is finished, whether its facts are kept or not, and has its URL again.
func TestPendingVisits(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	h := s.Hasher()
	for u := range revisitedURL(recrawled) {
		commit(t, s, u.records(h, 1)...)
	}
	for visit := uint32(2); visit < 5; visit++ {
		for u := range revisitedURL(recrawled) {
			commit(t, s, u.records(h, visit)[0])
		}
		for u := range revisitedURL(recrawled / 2) {
			commit(t, s, u.records(h, visit)[1])
		}
		got := map[weburl.URL]frontier.Link{}
		for i := range revisitedURL(3) {
			for _, l := range drain(t, s, i.link(h).Key.Host, 7) {
				got[l.URL] = l
			}
		}
		for u := range revisitedURL(recrawled) {
			want := u.page(h, visit)
			l, pending := got[want.Link.URL]
			if pending != (u >= recrawled/2) || pending && (l.Visit != visit || l.Before != want.Finish.Before ||
				l.Key != want.Link.Key) {
				t.Fatalf("visit %d of page %d: pending %v, %+v", visit, u, pending, l)
			}
		}
		if c := s.Counters(); c.Visits != recrawled/2 {
			t.Errorf("%d visits are queued, want %d", c.Visits, recrawled/2)
		}
		for u := range revisitedURL(recrawled) {
			if u >= recrawled/2 {
				commit(t, s, u.records(h, visit)[1])
			}
		}
	}
}
