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
