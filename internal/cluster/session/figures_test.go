package session

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/test/memory"
)

// The tally of a session goes to the engine with each beat. A session that others have ended counts as fenced, beside
// those before it.
func TestTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, row := memory.New(), cluster.Crawl{ID: cluster.NewID(), Name: "test", Identity: weburl.Identity()}
		if err := e.Create(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		earlier := cluster.Tally{Takeovers: 3, Fenced: 1}
		s, err := Join(t.Context(), Options{
			Engine: e, Crawl: row.ID, Machine: cluster.NewID(), Earlier: earlier,
			Clock: func() time.Duration { return time.Duration(time.Now().UnixNano()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		snap, err := e.Look(t.Context(), row.ID, cluster.Known{})
		if err != nil || len(snap.Members) != 1 || snap.Members[0].Tally != earlier {
			t.Fatalf("members: %+v, %v", snap.Members, err)
		}
		if err := e.Leave(t.Context(), s.id); err != nil { // as another session does that ends it
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got, want := s.Tally(), (cluster.Tally{Takeovers: 3, Fenced: 2}); got != want ||
			!errors.Is(s.Over(), cluster.ErrFenced) {
			t.Errorf("after the end: %+v, want %+v; %v", got, want, s.Over())
		}
	})
}

// A session counts the machines that are alive, and divides the limits of addresses by their number: a machine that
// joins or leaves counts with the next beat.
func TestLivingMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, row := memory.New(), cluster.Crawl{ID: cluster.NewID(), Name: "test", Identity: weburl.Identity()}
		if err := e.Create(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		join := func() *Session {
			s, err := Join(t.Context(), Options{
				Engine: e, Crawl: row.ID, Machine: cluster.NewID(),
				Clock: func() time.Duration { return time.Duration(time.Now().UnixNano()) },
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		want := func(n int, sessions ...*Session) {
			t.Helper()
			time.Sleep(cluster.BeatEvery + time.Millisecond)
			synctest.Wait()
			for _, s := range sessions {
				if got := s.Machines(); got != n {
					t.Errorf("%d machines, want %d", got, n)
				}
			}
		}
		first := join()
		defer first.Close()
		want(1, first)
		second, third := join(), join()
		defer third.Close()
		want(3, first, second, third)
		if err := e.Leave(t.Context(), second.id); err != nil {
			t.Fatal(err)
		}
		want(2, first, third)
		second.Close()
	})
}
