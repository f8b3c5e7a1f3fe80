package frontier

import (
	"context"
	"reflect"
	"testing"
)

// A hookedStore calls hook, once, before a batch of links is recorded. No lock is held then.
type hookedStore struct {
	*memStore
	hook func()
}

func (s *hookedStore) Ready(ctx context.Context) error {
	if hook := s.hook; hook != nil {
		s.hook = nil
		hook()
	}
	return s.memStore.Ready(ctx)
}

// Another page records the same links after the first page's links were looked up and before they are recorded. No
// counter falls.
func TestCountersNeverFall(t *testing.T) {
	store := &hookedStore{memStore: newMemStore()}
	f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, store)
	links := seeds("http://a.example/1", "http://a.example/2", "http://b.example/1")

	var samples []Stats
	sample := func() { samples = append(samples, f.Stats()) }
	sample()
	store.hook = func() {
		sample()
		if n := add(t, f, links...); n != len(links) {
			t.Errorf("the second call recorded %d links, want %d", n, len(links))
		}
		sample()
	}
	if n := add(t, f, links...); n != 0 {
		t.Errorf("the first call recorded %d links, want 0", n)
	}
	sample()

	counters := []string{
		"Added", "Finished", "Links", "HotHits", "Filtered", "Doubtful", "Erred", "LookWaited", "Loads", "Loaded",
		"GaveBack", "Violations",
	}
	for i, st := range samples[1:] {
		was, is := reflect.ValueOf(samples[i]), reflect.ValueOf(st)
		for _, name := range counters {
			if a, b := was.FieldByName(name).Int(), is.FieldByName(name).Int(); b < a {
				t.Errorf("sample %d: %s fell from %d to %d", i+1, name, a, b)
			}
		}
	}
	last := samples[len(samples)-1]
	if last.Links != 6 || last.Filtered != 6 || last.HotHits != 3 || last.Added != 3 {
		t.Errorf("%d links, %d looked up in the filter, %d known to the hot set, %d new; want 6, 6, 3, 3", last.Links,
			last.Filtered, last.HotHits, last.Added)
	}
}
