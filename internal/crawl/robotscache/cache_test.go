package robotscache

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state"
)

// Two robots leases of one origin may end at the same time: one stores an answer that another host gave, the other that the sitemaps were requested.
// Whatever the order, both are stored.
func TestRobotsUpdatesKeepEachOther(t *testing.T) {
	t.Parallel()
	s, err := state.Open(t.TempDir()+"/state", state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	k := New(s, Reader{Token: "mapwright"}, DefaultMemory, 0)
	const origin = "https://a.test"
	for i := range 500 {
		first, err := k.Fact(t.Context(), origin)
		if err != nil {
			t.Fatal(err)
		}
		first.SitemapsRequested = false
		if _, err := s.Commit(frontier.Record{Origins: []frontier.OriginFact{first}}); err != nil {
			t.Fatal(err)
		}
		answer := frontier.OriginFact{State: frontier.OriginAnswered, Status: 200, Expires: time.Now().Add(time.Hour), Body: []byte{byte(i)}}
		var both sync.WaitGroup
		both.Go(func() {
			if err := k.Keep(t.Context(), origin, answer); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if _, err := k.Update(t.Context(), origin, frontier.OriginFact{}, true); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if got, err := k.Fact(t.Context(), origin); err != nil || !got.SitemapsRequested || !bytes.Equal(got.Body, answer.Body) {
			t.Fatalf("round %d: %+v, %v", i, got, err)
		}
	}
}
