package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/wal"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		runChild(name)
	}
	goleak.VerifyTestMain(m)
}

// small are options under which little data meets all limits.
func small() Options {
	return Options{
		Seed: modelSeed, MinFree: Off, MemTableSize: 1 << 20, ValueLogFileSize: 1 << 20,
		Log: wal.Options{SegmentSize: 128 << 10}, SyncBytes: 64 << 10, CheckpointBytes: 256 << 10, BatchRecords: 50,
	}
}

// still are options under which a store that was flushed writes nothing more of
// itself, so that a copy of its directory is what a kill would leave.
func still() Options {
	o := small()
	o.SyncBytes, o.SyncInterval, o.GCInterval = 1<<40, time.Hour, Off
	return o
}

func open(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return s
}

func commit(t *testing.T, s *Store, recs ...frontier.Record) frontier.Position {
	t.Helper()
	if err := s.Ready(context.Background()); err != nil {
		t.Fatal(err)
	}
	seq, err := s.Commit(recs...)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// TestModel does random things to a store and to a model of one.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ctx := context.Background()
	dir := t.TempDir() + "/store"
	m := newModel(seed)
	for range 4 {
		s, err := Open(dir, small())
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			switch rng.IntN(8) {
			case 0:
				err = s.Flush(ctx)
			case 1:
				err = s.Checkpoint(ctx, func(*SnapshotWriter) error { return nil })
			case 2:
				h := m.hasher.HostID("h3.example")
				if r, ok := low(t, s, h); ok {
					commit(t, s, r)
				}
			case 3:
				err = s.keeper.collect()
			case 4:
				// What has just been committed is seen at once.
				r := m.record()
				commit(t, s, r)
				for _, l := range r.Links {
					out := []bool{false}
					if err := s.Seen(ctx, []weburl.Key{l.Key}, out); err != nil || !out[0] {
						t.Fatalf("seen %v, %v", out, err)
					}
				}
			default:
				var recs []frontier.Record
				for range rng.IntN(40) {
					recs = append(recs, m.record())
				}
				commit(t, s, recs...)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		m.check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, small())
	if r := s.Recovery(); r.Unclean || r.Created || r.Applied != 0 {
		t.Errorf("recovery after a clean end: %+v", r)
	}
	m.check(t, s)
}

func TestCommitReturnsPositions(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	first := commit(t, s, frontier.Record{})
	if got := commit(t, s, frontier.Record{}, frontier.Record{}, frontier.Record{}); got != first+3 {
		t.Errorf("last of three records after %d is at %d", first, got)
	}
	if got := commit(t, s); got != first+3 {
		t.Errorf("no record is at %d, want the last one's %d", got, first+3)
	}
}

func TestClosedStoreSaysSo(t *testing.T) {
	s, err := Open(t.TempDir()+"/store", small())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	ctx := context.Background()
	_, commitErr := s.Commit(frontier.Record{})
	_, _, pendingErr := s.Pending(ctx, 1, frontier.Cursor{}, 1)
	_, _, pageErr := s.Page(ctx, weburl.Key{})
	_, _, hostErr := s.Host(ctx, 1)
	var pagesErr error
	for _, pagesErr = range s.Pages(ctx) {
		break
	}
	for i, err := range []error{
		commitErr, pendingErr, pageErr, hostErr, pagesErr, s.Ready(ctx), s.Flush(ctx),
		s.Seen(ctx, make([]weburl.Key, 1), make([]bool, 1)),
		s.Checkpoint(ctx, func(*SnapshotWriter) error { return nil }),
	} {
		wantErr(t, ErrClosed, err, "call %d", i)
	}
}

// TestLargeRecord applies a record that does not fit into one transaction.
func TestLargeRecord(t *testing.T) {
	dir := t.TempDir() + "/store"
	s := open(t, dir, small())
	m := newModel(1)
	var r frontier.Record
	limit := int(s.view.db.MaxBatchCount())
	for range 2 * limit {
		m.n++
		r.Links = append(r.Links, m.link(weburl.URL{}, m.linkTime()))
	}
	m.apply(&r)
	commit(t, s, r)
	m.check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m.check(t, open(t, dir, small()))
}

// TestSplitRecord commits a record whose links are larger than a record may be, between two others.
func TestSplitRecord(t *testing.T) {
	dir := t.TempDir() + "/store"
	s := open(t, dir, small())
	big := frontier.Record{Finish: &frontier.Finish{Key: key(1)}, Skips: []frontier.Skip{{Reason: 1, Count: 1}}}
	for i := range 100 {
		l := frontier.Link{Key: weburl.Key{Host: 1, Lo: uint64(i)}, URL: mustURL(fmt.Sprint("https://a.example/", i))}
		if i%2 == 0 {
			l.Finish = &frontier.Finish{Facts: make([]byte, 1<<19)}
		}
		big.Links = append(big.Links, l)
	}
	recs := []frontier.Record{{Leased: []weburl.Key{key(1)}}, big, {Skips: []frontier.Skip{{Reason: 1, Count: 10}}}}
	last := commit(t, s, recs...)
	var at frontier.Cursor
	for i := range big.Links {
		now := big.Links[i].At
		if now.Position >= last || now.Position == 0 || i > 0 && now.Compare(at) <= 0 {
			t.Fatalf("link %d is at %v after %v", i, now, at)
		}
		at = now
	}
	if big.Links[99].At.Position != last-1 || big.Links[0].At.Position == last-1 {
		t.Errorf("links at %v to %v, and the last record at %d", big.Links[0].At, big.Links[99].At, last)
	}
	check := func(s *Store) {
		t.Helper()
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := s.Counters()
		if c.Discovered != 100 || c.Finished != 51 || c.Skips[1] != 11 {
			t.Errorf("counters %+v", c)
		}
		if links := drain(t, s, 1, 7); len(links) != 50 || links[0].URL != big.Links[1].URL ||
			links[49].URL != big.Links[99].URL {
			t.Errorf("%d links are pending", len(links))
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(open(t, dir, small()))
}

// Links that are sent to other partitions make a record as large as others do.
func TestLargeRecordOfSentLinks(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	before := commit(t, s, frontier.Record{})
	rec := frontier.Record{Finish: &frontier.Finish{}, Links: []frontier.Link{{Key: key(1),
		URL: mustURL("https://a.example/")}}}
	long := strings.Repeat("p", 60_000)
	for i := range 400 { // 24 MB
		rec.Sent = append(rec.Sent, frontier.Link{Key: weburl.Key{Host: 9 << 56, Lo: uint64(i)},
			URL: mustURL(fmt.Sprintf("https://c.example/%d/%s", i, long))})
	}
	if last := commit(t, s, rec); last < before+3 {
		t.Errorf("the record became %d, want at least 3", last-before)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := s.Counters(); c.Discovered != 1 {
		t.Errorf("counters %+v", c)
	}
}

func TestTooLargeRecord(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	before := commit(t, s, frontier.Record{})
	_, err := s.Commit(frontier.Record{}, frontier.Record{Finish: &frontier.Finish{Facts: make([]byte, MaxRecordSize)}})
	wantErr(t, ErrTooLarge, err, "commit")
	finished := &frontier.Finish{Facts: make([]byte, MaxRecordSize)}
	_, err = s.Commit(frontier.Record{Links: []frontier.Link{{Key: key(1), URL: mustURL("https://a.example/"),
		Finish: finished}}})
	wantErr(t, ErrTooLarge, err, "commit one link")
	for _, r := range []frontier.Record{
		{Facts: []frontier.CrawlFact{{Name: strings.Repeat("n", maxName+1), Value: []byte("v")}}},
		{Origins: []frontier.OriginFact{{Origin: strings.Repeat("o", maxName+1)}}},
	} {
		_, err := s.Commit(r)
		wantErr(t, ErrTooLarge, err, "commit")
	}
	if got := commit(t, s, frontier.Record{}); got != before+1 {
		t.Errorf("position %d after %d: something was committed", got, before)
	}
	longest := frontier.Record{
		Facts:   []frontier.CrawlFact{{Name: strings.Repeat("n", maxName), Value: []byte("v")}},
		Origins: []frontier.OriginFact{{Origin: strings.Repeat("o", maxName)}},
	}
	commit(t, s, longest)
	if err := s.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRepeats commits the same things twice, but for skips: those of each record are added.
func TestRepeats(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	m := newModel(2)
	var recs []frontier.Record
	for range 200 {
		recs = append(recs, m.record())
	}
	commit(t, s, recs...)
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range recs {
		recs[i].Skips = nil
	}
	commit(t, s, recs...)
	m.check(t, s)
}

// TestCursorsDeleteBlocks finishes everything and says so: the queues must be
// gone.
func TestCursorsDeleteBlocks(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir()+"/store", small())
	h := s.Hasher().HostID("h.example")
	var last frontier.Position
	for i := range 3000 {
		k := weburl.Key{Host: h, Lo: uint64(i)}
		last = commit(t, s, frontier.Record{Links: []frontier.Link{{Key: k, URL: mustURL("https://h.example/"),
			Priority: uint8(i % 4)}}})
	}
	for i := range 3000 {
		last = commit(t, s, frontier.Record{Finish: &frontier.Finish{Key: weburl.Key{Host: h, Lo: uint64(i)}}})
	}
	// A link that comes after the cursor in the log stays, though it lies below
	// it in the queue.
	commit(t, s,
		frontier.Record{Cursors: []frontier.HostCursor{{Host: h, Low: frontier.Cursor{Priority: 3, Position: last}}}},
		frontier.Record{Links: []frontier.Link{{Key: weburl.Key{Host: h, Lo: 5000},
			URL: mustURL("https://h.example/new"), Priority: 0}}})
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	var got []frontier.Backlog
	for b, err := range s.Backlogs(ctx, 0, 255) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b)
	}
	if len(got) != 1 || got[0].Fact.Name != "h.example" || got[0].Low.Position != last ||
		!slices.Equal(got[0].Levels, []frontier.LevelBacklog{{Priority: 0, Links: 1}}) {
		t.Errorf("backlog %+v", got)
	}
	if links := drain(t, s, h, 10); len(links) != 1 || links[0].URL.String() != "https://h.example/new" {
		t.Errorf("pending %v", links)
	}
}

// Facts are found by the beginnings of their names.
func TestFactsLike(t *testing.T) {
	s, err := Open(t.TempDir()+"/state", Options{MinFree: Off})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var facts []frontier.CrawlFact
	for _, name := range []string{"one", "one more", "two", "another one"} {
		facts = append(facts, frontier.CrawlFact{Name: name, Value: []byte(name)})
	}
	if _, err := s.Commit(frontier.Record{Facts: facts}); err != nil {
		t.Fatal(err)
	}
	for want, names := range map[int][]string{0: {"no"}, 2: {"one"}, 3: {"one", "two", "one m"}, 4: {""}} {
		if got := s.FactsLike(names...); len(got) != want {
			t.Errorf("%q: %d facts, want %d", names, len(got), want)
		}
	}
}
