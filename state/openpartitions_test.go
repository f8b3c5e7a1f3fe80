package state

import (
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A partition is closed and opened again while others go on. What is said of its hosts at closing comes back, what was
// in flight of it is not, and marks are kept.
func TestPartitionIsClosedAndOpened(t *testing.T) {
	dir := t.TempDir() + "/store"
	s := open(t, dir, small())
	mine, other := weburl.Key{Host: 7<<56 | 1, Lo: 1}, weburl.Key{Host: 8<<56 | 1, Lo: 2}
	session := [16]byte{1, 2, 3}
	commit(t, s, frontier.Record{
		Links: []frontier.Link{{Key: mine, URL: mustURL("https://a.example/")},
			{Key: other, URL: mustURL("https://b.example/")}},
		Leased: []weburl.Key{mine, other}, Marks: []frontier.Mark{{Partition: 7, Session: session, Batch: 5}},
		Sent: []frontier.Link{{Key: weburl.Key{Host: 9 << 56, Lo: 3}, URL: mustURL("https://c.example/")}},
	})
	said := frontier.Closed{At: time.UnixMilli(5).UTC(), Hosts: []frontier.HostNotBefore{{Host: mine.Host,
		At: time.UnixMilli(9).UTC()}}}
	if err := s.ClosePartition(t.Context(), 7, said); err != nil {
		t.Fatal(err)
	}
	if s.ClosePartition(t.Context(), 7, said) == nil {
		t.Error("a partition was closed twice")
	}
	if p := s.view.progress(); p.parts[7].open || !p.parts[8].open || len(p.inflight) != 1 {
		t.Errorf("open %v and %v, %d in flight", p.parts[7].open, p.parts[8].open, len(p.inflight))
	}
	got, known, err := s.OpenPartition(t.Context(), 7)
	if err != nil || !known || !got.At.Equal(said.At) || !slices.Equal(got.Hosts, said.Hosts) {
		t.Errorf("opened with %+v, %v, %v", got, known, err)
	}
	if _, _, err := s.OpenPartition(t.Context(), 7); err == nil {
		t.Error("a partition was opened twice")
	}
	if batch, err := s.received(t.Context(), 7, session); batch != 5 || err != nil {
		t.Errorf("batch %d, %v", batch, err)
	}
	if batch, err := s.received(t.Context(), 8, session); batch != 0 || err != nil {
		t.Errorf("batch %d of another partition, %v", batch, err)
	}
	if c := s.PartitionCounters(9); c != (Counters{}) {
		t.Errorf("a link that was sent is counted: %+v", c)
	}
	commit(t, s, frontier.Record{Leased: []weburl.Key{mine}})
	s = crash(t, s)
	if r := s.Recovery(); !r.Unclean || r.InFlight != 2 || crashCount(s, mine) != 1 || crashCount(s, other) != 1 {
		t.Errorf("%+v, crash counts %d and %d", r, crashCount(s, mine), crashCount(s, other))
	}
	if s.ClosePartition(t.Context(), 8, said) == nil {
		t.Error("a partition was closed with a host of another")
	}
	if err := s.ClosePartition(t.Context(), 8, frontier.Closed{At: said.At}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, small())
	if r := s.Recovery(); r.Unclean {
		t.Errorf("%+v", r)
	}
}

// Evidence is read back in the order in which it was recorded.
func TestEvidenceSince(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	var at []frontier.Position
	for i := range uint64(20) {
		at = append(at, commit(t, s, frontier.Record{Evidence: []frontier.Evidence{{Partition: uint8(i * 10), Kind: 4,
			Subject: i}}}))
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := uint64(8)
	err := s.EvidenceSince(t.Context(), at[7], func(p frontier.Position, run uint64, e frontier.Evidence) {
		if run != 1 || e.Subject != next || p != at[next] || e.Partition != uint8(next*10) {
			t.Errorf("%+v at %d, want %d at %d", e, p, next, at[next])
		}
		next++
	})
	if err != nil || next != 20 {
		t.Errorf("read up to %d, %v", next, err)
	}
}
