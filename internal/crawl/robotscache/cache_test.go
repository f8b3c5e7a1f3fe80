package robotscache

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/state"
)

// Two robots leases of one origin may end at the same time: one stores an answer that another host gave, the other that
// the sitemaps were requested. Whatever the order, both are stored.
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
	k := New(s, &config.Settings{UserAgent: "mapwright"}, DefaultMemory, 0, time.Time{}, nil)
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
		answer := frontier.OriginFact{State: frontier.OriginAnswered, Status: 200, Expires: time.Now().Add(time.Hour),
			Body: []byte{byte(i)}}
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
		if got, err := k.Fact(t.Context(), origin); err != nil || !got.SitemapsRequested ||
			!bytes.Equal(got.Body, answer.Body) {
			t.Fatalf("round %d: %+v, %v", i, got, err)
		}
	}
}

// A long robots.txt waits for its turn each time that it is parsed, also if it comes from the store.
func TestLongFilesWait(t *testing.T) {
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
	began, ended := 0, 0
	k := New(s, &config.Settings{UserAgent: "mapwright"}, 0, 0, time.Time{}, func(context.Context) func() {
		began++
		return func() { ended++ }
	})
	for _, test := range []struct {
		origin      string
		bytes, want int
	}{{"https://short.test", short, 0}, {"https://long.test", short + 1, 2}} {
		began, ended = 0, 0
		answer := frontier.OriginFact{State: frontier.OriginAnswered, Status: 200, Expires: time.Now().Add(time.Hour),
			Body: make([]byte, test.bytes)}
		if err := k.Keep(t.Context(), test.origin, answer); err != nil {
			t.Fatal(err)
		}
		if err := k.Keep(t.Context(), "https://next.test", frontier.OriginFact{State: frontier.OriginNone}); err != nil {
			t.Fatal(err) // for which the other is forgotten
		}
		if a, err := k.Lookup(t.Context(), test.origin); err != nil || a == nil {
			t.Error(a, err)
		}
		if began != test.want || ended != test.want {
			t.Errorf("%s: waited %d times, %d ended, want %d", test.origin, began, ended, test.want)
		}
	}
}

// A recrawl does not go by what robots.txt said before it began, unless robots.txt cannot be fetched now.
func TestRecrawlAsksAgain(t *testing.T) {
	began := time.Now()
	before := frontier.OriginFact{State: frontier.OriginAnswered, Status: 200, Fetched: began.Add(-time.Hour),
		Expires: began.Add(23 * time.Hour), Body: []byte("x")}
	first, again := &Cache{}, &Cache{generation: 1, began: began}
	if !first.IsValid(&before) || again.IsValid(&before) {
		t.Error("the answer from before does not count in the crawl, or counts in the recrawl")
	}
	failed := Failed(503)
	if got := OrEarlier(failed, before); !again.IsValid(&got) || string(got.Body) != "x" ||
		got.Expires.After(failed.Expires) {
		t.Errorf("robots.txt cannot be fetched: %+v", got)
	}
	old := before
	old.Expires = began.Add(-time.Minute)
	none := frontier.OriginFact{State: frontier.OriginNone, Status: 404, Fetched: time.Now(),
		Expires: time.Now().Add(TTL)}
	for name, got := range map[string]frontier.OriginFact{"too old": OrEarlier(failed, old),
		"not known": OrEarlier(failed, frontier.OriginFact{}), "failed before": OrEarlier(failed, Failed(500))} {
		if got.State != frontier.OriginFailed || got.Status != 503 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := OrEarlier(none, before); got.State != frontier.OriginNone {
		t.Errorf("there is none any more: %+v", got)
	}
}
