package session

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/test/memory"
	"github.com/mapwright/mapwright/state"
)

// testMachine is a session with a view, without a frontier.
type testMachine struct {
	*testing.T
	session cluster.Session
	journal *Journal
	store   *state.Store
	failed  error
}

func newTestMachine(t *testing.T, e cluster.Engine, crawl cluster.CrawlID) *testMachine {
	t.Helper()
	m := &testMachine{T: t, session: cluster.Session{Crawl: crawl, ID: cluster.NewID(), Machine: cluster.NewID()}}
	if err := e.Join(t.Context(), m.session); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	m.journal, err = newJournal(ctx, &calls{engine: e, log: slog.New(slog.DiscardHandler)}, m.session, 1,
		func(err error) { m.failed = err; cancel() })
	if err != nil {
		t.Fatal(err)
	}
	m.store, err = state.Open(filepath.Join(t.TempDir(), "view"),
		state.Options{Mode: state.CreateOnly, Journal: m.journal, Seed: 1, MinFree: state.Off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := m.store.Close(); err != nil && m.failed == nil {
			t.Error(err)
		}
	})
	return m
}

// open claims and opens a partition.
func (m *testMachine) open(p uint8) {
	m.Helper()
	claimed, err := m.journal.calls.engine.Claim(m.Context(), m.session, []uint8{p})
	if err != nil || len(claimed) != 1 {
		m.Fatalf("claimed %d, %v", len(claimed), err)
	}
	m.journal.claimed(&claimed[0], false)
	err = m.store.Follow(m.Context(), p, func(frontier.Position, uint64, frontier.Evidence) {})
	if err == nil {
		_, _, err = m.store.OpenPartition(m.Context(), p)
	}
	if err != nil {
		m.Fatal(err)
	}
}

func (m *testMachine) commit(recs ...frontier.Record) {
	m.Helper()
	_, err := m.store.Commit(recs...)
	if err == nil {
		err = m.store.Flush(m.Context())
	}
	if err != nil {
		m.Fatal(err)
	}
}

func testKey(p uint8, n uint64) weburl.Key {
	return weburl.Key{Host: weburl.HostID(p)<<56 | 1, Lo: n}
}

func testLink(p uint8, n uint64) frontier.Link {
	return frontier.Link{Key: testKey(p, n), URL: weburl.MustCanonical("http://a.test/")}
}

func newTestEngine(t *testing.T) (*memory.Engine, cluster.CrawlID) {
	t.Helper()
	e, row := memory.New(), cluster.Crawl{ID: cluster.NewID(), Name: "test"}
	if err := e.Create(t.Context(), row, TokenStart); err != nil {
		t.Fatal(err)
	}
	return e, row.ID
}

// What one machine records of a partition, another has when it opens it, with positions that go on; and the first has
// what the second added when it opens the partition again.
func TestPartitionMoves(t *testing.T) {
	e, crawl := newTestEngine(t)
	a, b := newTestMachine(t, e, crawl), newTestMachine(t, e, crawl)
	for p := range uint8(20) { // b's positions are ahead of a's
		b.open(100 + p)
	}
	a.open(7)
	a.commit(frontier.Record{Links: []frontier.Link{testLink(7, 1), testLink(7, 2)},
		Facts: []frontier.CrawlFact{{Partition: 7, Name: "x", Value: []byte("1")}}})
	for i, m := range []*testMachine{b, a, b} {
		from := []*testMachine{a, b, a}[i]
		if err := from.store.ClosePartition(t.Context(), 7, frontier.Closed{}); err != nil {
			t.Fatal(err)
		}
		m.open(7)
		if c := m.store.PartitionCounters(7); c.Discovered != uint64(2+i) || c.Finished != uint64(i) {
			t.Errorf("move %d: %d found, %d finished", i, c.Discovered, c.Finished)
		}
		if got := string(m.store.Facts()["x"]); got != "1" {
			t.Errorf("move %d: the fact is %q", i, got)
		}
		m.commit(frontier.Record{Links: []frontier.Link{testLink(7, uint64(10+i))},
			Finish: &frontier.Finish{Key: testKey(7, uint64(1+i)), Outcome: 1}})
	}
	if j := a.journal; j.bytesRead == 0 || len(j.reading) != 0 {
		t.Errorf("read of logs: %d bytes, %v", j.bytesRead, j.reading)
	}
	snap, err := e.Look(t.Context(), crawl, cluster.Known{})
	if err != nil {
		t.Fatal(err)
	}
	if part := snap.Parts[7]; part.Owner != b.session.ID || part.Epoch != 4 || part.Status.Idle {
		t.Errorf("partition 7: %+v", part)
	}
}

// Links, vouchers, questions and answers for a partition of another machine become a hand-over; other facts of it are
// left out.
func TestHandover(t *testing.T) {
	e, crawl := newTestEngine(t)
	a, b := newTestMachine(t, e, crawl), newTestMachine(t, e, crawl)
	a.open(1)
	b.open(2)
	sitemap := testLink(2, 3)
	sitemap.Sitemap, sitemap.Priority, sitemap.Vouchers = true, frontier.PrioritySitemap, []weburl.HostID{5, 6}
	host := weburl.HostID(2)<<56 | 1
	question := frontier.RobotsQuestion{Host: host, URL: weburl.MustCanonical("http://b.test/robots.txt"),
		Origin: "http://a.test", Hops: 1}
	a.commit(
		frontier.Record{Finish: &frontier.Finish{Key: testKey(1, 1), Outcome: 1},
			Sent: []frontier.Link{testLink(2, 1), sitemap}},
		frontier.Record{Asked: []frontier.RobotsQuestion{question}},
		frontier.Record{Origins: []frontier.OriginFact{{Host: host, Origin: "http://b.test",
			State: frontier.OriginAnswered, Body: []byte("rules")}}},
		frontier.Record{Facts: []frontier.CrawlFact{{Partition: 2, Name: "late", Value: []byte("1")}}},
	)
	list, err := e.Inbox(t.Context(), b.session, nil, 1<<20)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d hand-overs, %v", len(list), err)
	}
	parts, err := b.journal.codec.Decode(2, cluster.Place{}, list[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := state.ReadHanded(parts...)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Links) != 2 || !got.Links[1].Sitemap || len(got.Links[1].Vouchers) != 2 || len(got.Questions) != 1 ||
		got.Questions[0] != question ||
		len(got.Origins) != 1 || string(got.Origins[0].Body) != "rules" {
		t.Errorf("handed over: %+v", got)
	}
	mark := frontier.Mark{Partition: 2, Session: list[0].From, Batch: list[0].Batch}
	b.journal.expect(mark)
	b.commit(frontier.Record{Links: []frontier.Link{testLink(2, 1)}, Marks: []frontier.Mark{mark}})
	if list, err = e.Inbox(t.Context(), b.session, nil, 1<<20); err != nil || len(list) != 0 ||
		len(b.journal.underway()) != 0 {
		t.Errorf("%d hand-overs are left, %v", len(list), err)
	}
}

// A partition that another machine has taken fails the whole store of the first, and its session.
func TestFencedBatch(t *testing.T) {
	e, crawl := newTestEngine(t)
	a := newTestMachine(t, e, crawl)
	a.open(1)
	a.open(2)
	if err := e.Leave(t.Context(), a.session); err != nil { // as another session does that ends it
		t.Fatal(err)
	}
	_, err := a.store.Commit(frontier.Record{Links: []frontier.Link{testLink(1, 1)}})
	if err == nil {
		err = a.store.Flush(t.Context())
	}
	if !errors.Is(err, cluster.ErrFenced) || !errors.Is(a.failed, cluster.ErrFenced) {
		t.Errorf("commit: %v; the session: %v", err, a.failed)
	}
}

// A grant whose answer was lost is asked for again, so that the next batch names what the engine has.
func TestLostAnswerToGrant(t *testing.T) {
	e, crawl := memory.New(), cluster.Crawl{ID: cluster.NewID(), Name: "test", MaxURLs: 100}
	if err := e.Create(t.Context(), crawl); err != nil {
		t.Fatal(err)
	}
	m := newTestMachine(t, e, crawl.ID)
	m.open(3)
	lost := 2
	e.Fault = func(call string) memory.Fault {
		if call != "Change" || lost == 0 {
			return memory.None
		}
		lost--
		return memory.AnswerLost
	}
	granted, ok, err := m.journal.grant(3, func(granted uint64) uint64 { return granted + 7 })
	if err != nil || !ok || granted != 7 || lost != 0 {
		t.Errorf("granted %d, %v, %v", granted, ok, err)
	}
	m.commit(frontier.Record{Links: []frontier.Link{testLink(3, 1)}})
	if m.failed != nil {
		t.Errorf("the session is over: %v", m.failed)
	}
}
