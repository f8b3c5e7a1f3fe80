package state

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/mapwright/mapwright/frontier"
)

// TestValueLogIsCollected overwrites the same facts many times over: the disk
// must not keep them all, and the last ones must stay.
func TestValueLogIsCollected(t *testing.T) {
	dir := t.TempDir() + "/store"
	s := open(t, dir, still())
	const facts, rounds = 100, 200
	fact := func(i, round int) frontier.OriginFact {
		// Long keys fill memtables soon.
		return frontier.OriginFact{Origin: fmt.Sprintf("https://h%0600d.example", i),
			Body: []byte(fmt.Sprintf("%80d", round))}
	}
	for round := range rounds {
		var r frontier.Record
		for i := range facts {
			r.Origins = append(r.Origins, fact(i, round))
		}
		commit(t, s, r)
		// Each round in a transaction of its own.
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	values := func() int {
		names, err := filepath.Glob(filepath.Join(dir, badgerDir, "*.vlog"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := values()
	// Compactions find out what is garbage. They run by themselves, but not
	// now.
	if err := s.view.db.Flatten(1); err != nil {
		t.Fatal(err)
	}
	if err := s.keeper.collect(); err != nil {
		t.Fatal(err)
	}
	if after := values(); after >= before {
		t.Errorf("%d value log files, %d before they were collected", after, before)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, still())
	for i := range facts {
		want := fact(i, rounds-1)
		if got, ok, err := s.Origin(t.Context(), want.Host, want.Origin); err != nil || !ok ||
			!reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, %v, %v\nwant %v", got, ok, err, want)
		}
	}
}
