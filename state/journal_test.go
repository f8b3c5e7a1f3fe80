package state

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/record"
	"github.com/mapwright/mapwright/wal"
)

// A partsJournal keeps parts by partition in memory, as a journal of several
// machines does. It is a second implementation of Journal.
type partsJournal struct {
	mu      sync.Mutex
	parts   map[uint8][]Part // guarded by mu
	numbers []uint64         // guarded by mu; of the batches
	closed  bool             // guarded by mu
}

func (j *partsJournal) Append(_ context.Context, b *Batch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	j.numbers = append(j.numbers, b.Number)
	for p := range b.Parts() {
		list := j.parts[p.Partition]
		if n := len(list); n > 0 && list[n-1].At >= p.At {
			return errors.New("positions do not grow")
		}
		p.Body = bytes.Clone(p.Body)
		j.parts[p.Partition] = append(list, p)
	}
	return nil
}

func (j *partsJournal) Replay(_ context.Context, after Positions, fn func(frontier.Position, []byte) error) error {
	j.mu.Lock()
	records := map[frontier.Position][]Part{}
	for p, last := range after {
		for _, part := range j.parts[p] {
			if part.At > last {
				records[part.At] = append(records[part.At], part)
			}
		}
	}
	j.mu.Unlock()
	for _, at := range slices.Sorted(maps.Keys(records)) {
		if err := fn(at, JoinParts(nil, records[at]...)); err != nil {
			return err
		}
	}
	return nil
}

func (j *partsJournal) Truncate(context.Context, Positions) error { return nil }

func (j *partsJournal) Stats() JournalStats { return JournalStats{} }

func (j *partsJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	return nil
}

// reopen returns the journal as it is found again.
func (j *partsJournal) reopen() *partsJournal { return &partsJournal{parts: j.parts} }

// spread returns the journal with gaps between all positions.
func (j *partsJournal) spread() *partsJournal {
	s := &partsJournal{parts: map[uint8][]Part{}}
	for p, list := range j.parts {
		for _, part := range list {
			part.At = 10*part.At + part.At%7
			s.parts[p] = append(s.parts[p], part)
		}
	}
	return s
}

// A sharedJournal makes a store a view of a crawl of several machines.
type sharedJournal struct{ *partsJournal }

func (sharedJournal) View() (crawl [16]byte, run uint64) { return [16]byte{1}, 1 }

// A view answers before it has any record. A crawl that ignores robots.txt asks for origins then.
func TestViewWithoutRecords(t *testing.T) {
	o := small()
	o.Mode = CreateOnly
	o.Journal = sharedJournal{&partsJournal{parts: map[uint8][]Part{}}}
	s := open(t, t.TempDir()+"/view", o)
	if _, known, err := s.Origin(t.Context(), 1, "https://a.example"); known || err != nil {
		t.Errorf("an origin is known: %v, %v", known, err)
	}
	if _, known, err := s.Host(t.Context(), 1); known || err != nil {
		t.Errorf("a host is known: %v, %v", known, err)
	}
}

// TestOtherJournal runs a store on a journal that keeps parts by partition. Another
// store is made of what it holds, with gaps between the positions.
func TestOtherJournal(t *testing.T) {
	with := func(j *partsJournal) Options {
		o := small()
		o.Journal = j
		return o
	}
	m := newModel(7)
	journal := &partsJournal{parts: map[uint8][]Part{}}
	first := open(t, t.TempDir()+"/first", with(journal))
	for range 200 {
		commit(t, first, m.record())
	}
	m.check(t, first)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for i, n := range journal.numbers {
		if n != uint64(i+1) {
			t.Fatalf("batches have the numbers %v", journal.numbers)
		}
	}

	journal = journal.spread()
	dir := t.TempDir() + "/second"
	second := open(t, dir, with(journal))
	if r := second.Recovery(); r.Unclean || r.Applied < 200 || second.Run() != 2 {
		t.Errorf("found %+v, run %d", r, second.Run())
	}
	before := second.Stats().Committed
	if before < 2000 {
		t.Errorf("goes on after position %d", before)
	}
	m.check(t, second)
	if err := second.Checkpoint(t.Context(), func(*SnapshotWriter) error { return nil }); err != nil {
		t.Fatal(err)
	}
	named := map[weburl.Key]bool{}
	for range 20 {
		r := m.record()
		commit(t, second, r)
		for i := range r.Links {
			named[r.Links[i].Key] = true
		}
	}
	m.check(t, second)
	_, since := second.Snapshots()
	keys := map[weburl.Key]bool{}
	for k, err := range second.KeysSince(t.Context(), since) {
		if err != nil {
			t.Fatal(err)
		}
		keys[k] = true
	}
	if len(named) == 0 || !maps.Equal(keys, named) {
		t.Errorf("%d keys since the checkpoint, want %d", len(keys), len(named))
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}

	third := open(t, dir, with(journal.reopen()))
	if got := third.Recovery().Applied; got > 1 {
		t.Errorf("applied %d records again after a clean end", got)
	}
	m.check(t, third)
}

// batchOf makes a batch of records from a position on.
func batchOf(first frontier.Position, recs ...[]byte) *Batch {
	b := &Batch{Number: 1, first: first}
	for _, rec := range recs {
		b.buf = append(b.buf, rec...)
		b.ends = append(b.ends, len(b.buf))
	}
	return b
}

// testRecord is a record with a part for each of some partitions.
func testRecord(partitions ...uint8) []byte {
	var r frontier.Record
	for _, p := range partitions {
		r.Facts = append(r.Facts, frontier.CrawlFact{Partition: p, Name: "n", Value: []byte{p}})
	}
	return record.Append(nil, 1, &r, &record.Bodies{})
}

// TestBatchParts takes records apart and joins them again.
func TestBatchParts(t *testing.T) {
	b := batchOf(5, testRecord(1, 9, 200), testRecord(), testRecord(9))
	type place struct {
		partition uint8
		at        frontier.Position
	}
	var got []place
	records := map[frontier.Position][]Part{}
	for p := range b.Parts() {
		got = append(got, place{p.Partition, p.At})
		records[p.At] = append(records[p.At], p)
	}
	if want := []place{{1, 5}, {9, 5}, {200, 5}, {9, 7}}; !slices.Equal(got, want) {
		t.Errorf("parts %v, want %v", got, want)
	}
	for i := range b.len() {
		if joined := JoinParts(nil, records[b.position(i)]...); !bytes.Equal(joined, b.record(i)) {
			t.Errorf("record %d joined again is %x, was %x", i, joined, b.record(i))
		}
	}
	for range b.Parts() {
		break // ends without a panic
	}
}

// TestLocalJournal: what is replayed is what comes after the position of each
// partition, and the log is cut where all partitions agree.
func TestLocalJournal(t *testing.T) {
	j, err := openLocalJournal(t.TempDir(), 0, wal.Options{SegmentSize: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	ctx := t.Context()
	if err := j.Append(ctx, batchOf(2, testRecord(1))); err == nil {
		t.Error("a position that is not the next one was accepted")
	}
	if err := j.Append(ctx, batchOf(1, testRecord(1, 2), testRecord(2), testRecord(1, 2, 3),
		testRecord(3))); err != nil {
		t.Fatal(err)
	}
	type part struct {
		at        frontier.Position
		partition uint8
	}
	for name, c := range map[string]struct {
		after Positions
		want  []part
	}{
		"nothing":             {Positions{}, nil},
		"all":                 {everywhere(2), []part{{3, 1}, {3, 2}, {3, 3}, {4, 3}}},
		"one":                 {Positions{2: 0}, []part{{1, 2}, {2, 2}, {3, 2}}},
		"different positions": {Positions{1: 1, 2: 2, 3: 3}, []part{{3, 1}, {3, 2}, {4, 3}}},
		"at the end":          {everywhere(4), nil},
	} {
		var got []part
		err := j.Replay(ctx, c.after, func(at frontier.Position, rec []byte) error {
			return eachPart(rec, func(p Part) bool {
				got = append(got, part{at, p.Partition})
				return true
			})
		})
		slices.SortStableFunc(got, func(a, b part) int { return cmp.Compare(a.at, b.at) })
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: parts %v, want %v, %v", name, got, c.want, err)
		}
	}
	none := func(frontier.Position, []byte) error { return nil }
	wantErr(t, wal.ErrOutOfRange, j.Replay(ctx, everywhere(5), none), "replay from beyond the end")

	for range 20 {
		if err := j.Append(ctx, batchOf(frontier.Position(j.log.Last()+1), testRecord(1))); err != nil {
			t.Fatal(err)
		}
	}
	some := everywhere(20)
	delete(some, 3)
	if err := j.Truncate(ctx, some); err != nil || j.first() != 1 {
		t.Errorf("cut at %d though a partition needs all, %v", j.first(), err)
	}
	some[3] = 2
	if err := j.Truncate(ctx, some); err != nil || j.first() > 3 {
		t.Errorf("cut at %d though a partition needs record 3, %v", j.first(), err)
	}
	if err := j.Truncate(ctx, everywhere(20)); err != nil || j.first() == 1 || j.first() > 21 {
		t.Errorf("cut at %d, %v", j.first(), err)
	}
	wantErr(t, wal.ErrOutOfRange, j.Replay(ctx, everywhere(0), none), "replay of what was cut")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, ErrClosed, j.Truncate(ctx, everywhere(20)), "truncate after close")
}

// A slowJournal takes a second for each Append.
type slowJournal struct{ partsJournal }

func (j *slowJournal) Append(ctx context.Context, b *Batch) error {
	time.Sleep(time.Second)
	return j.partsJournal.Append(ctx, b)
}

// TestGroupedOnce: all that is committed while the writer waits for the journal is
// the next batch, however many calls of Commit it was.
func TestGroupedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := Options{}.validate()
		if err != nil {
			t.Fatal(err)
		}
		a := newAccess("", o)
		p := newPipeline(a, &o)
		j := &slowJournal{partsJournal{parts: map[uint8][]Part{}}}
		p.journal, p.checkpoints = j, &checkpoints{limit: o.CheckpointBytes, due: make(chan struct{}, 1)}
		a.queue.begin(1)
		go p.write()
		rec := testRecord(1)
		put := func() {
			if _, err := a.queue.put(rec, []int{len(rec)}, nil); err != nil {
				t.Error(err)
			}
		}
		put()
		time.Sleep(100 * time.Millisecond) // the writer has taken it
		for range 100 {
			put()
		}
		a.queue.end(ErrClosed, nil)
		var sizes []int
		for b := range p.durable {
			sizes = append(sizes, b.len())
		}
		if !slices.Equal(sizes, []int{1, 100}) {
			t.Errorf("batches of %v records, want 1 and 100", sizes)
		}
	})
}
