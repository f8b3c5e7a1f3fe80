package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/test/memory"
	"github.com/mapwright/mapwright/state"
)

const seed = 7

// A writer is a session that writes the partitions which it owns, as the journal of a
// machine does. Parts of other partitions are dropped.
type writer struct {
	engine  cluster.Engine
	session cluster.Session
	codec   *cluster.RowCodec
	owned   map[uint8]*cluster.Write
	batch   uint64
}

func newWriter(t *testing.T, e cluster.Engine, id cluster.CrawlID, first, last int) *writer {
	t.Helper()
	codec, err := cluster.NewRowCodec()
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{engine: e, session: cluster.Session{Crawl: id, ID: cluster.NewID(), Machine: cluster.NewID()},
		codec: codec, owned: map[uint8]*cluster.Write{}}
	var parts []uint8
	for p := first; p <= last; p++ {
		parts = append(parts, uint8(p))
	}
	if err := e.Join(t.Context(), w.session); err != nil {
		t.Fatal(err)
	}
	claimed, err := e.Claim(t.Context(), w.session, parts)
	if err != nil || len(claimed) != len(parts) {
		t.Fatalf("%d partitions claimed: %v", len(claimed), err)
	}
	for _, c := range claimed {
		w.owned[c.Partition] = &cluster.Write{Partition: c.Partition, Epoch: c.Epoch, After: c.Head}
	}
	return w
}

func (w *writer) Append(ctx context.Context, b *state.Batch) error {
	parts := map[uint8][]state.Part{}
	for p := range b.Parts() {
		parts[p.Partition] = append(parts[p.Partition], p)
	}
	w.batch++
	batch := &cluster.Batch{Number: w.batch}
	for p := range cluster.Partitions {
		own := w.owned[uint8(p)]
		if own == nil || len(parts[uint8(p)]) == 0 {
			continue
		}
		own.Body = w.codec.Encode(own.After, parts[uint8(p)])
		batch.Writes = append(batch.Writes, *own)
		own.After = own.Head()
	}
	return w.engine.Commit(ctx, w.session, batch)
}

func (w *writer) Replay(context.Context, state.Positions, func(frontier.Position, []byte) error) error {
	return nil
}
func (w *writer) Truncate(context.Context, state.Positions) error { return nil }
func (w *writer) Stats() state.JournalStats                       { return state.JournalStats{} }
func (w *writer) Close() error                                    { return nil }

// crawl writes pages of many domains by two machines, each with half of the partitions.
// Their positions overlap. It returns what was finished, by URL.
func crawl(t *testing.T, e cluster.Engine) (id cluster.CrawlID, pages map[string]uint16) {
	t.Helper()
	c := cluster.Crawl{ID: cluster.NewID(), Name: "test", Seed: seed, Identity: weburl.Identity()}
	if err := e.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	pages = map[string]uint16{}
	hasher := weburl.NewHasher(seed)
	for half := range 2 {
		w := newWriter(t, e, c.ID, 128*half, 128*half+127)
		s, err := state.Open(t.TempDir()+"/state", state.Options{Seed: seed, Journal: w, MinFree: state.Off,
			BatchRecords: 20})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 600 {
			u, err := weburl.Parse(fmt.Sprintf("https://site%d.example/page%d", i%150, i))
			if err != nil {
				t.Fatal(err)
			}
			key := hasher.Key(u)
			if int(key.Host.Partition())/128 != half {
				continue
			}
			status := uint16(200 + i%3)
			if _, err := s.Commit(frontier.Record{Links: []frontier.Link{{Key: key, URL: u}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Commit(frontier.Record{Finish: &frontier.Finish{Key: key, Status: status,
				Outcome: 1}}); err != nil {
				t.Fatal(err)
			}
			pages[u.String()] = status
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return c.ID, pages
}

func look(t *testing.T, e cluster.Engine, id cluster.CrawlID) *cluster.Snapshot {
	t.Helper()
	s, err := e.Look(t.Context(), id, cluster.Known{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOpen(t *testing.T) {
	e := memory.New()
	id, want := crawl(t, e)
	s, err := Open(t.Context(), e, look(t, e, id), t.TempDir()+"/scratch")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint16{}
	for p, err := range s.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got[p.Link.URL.String()] = p.Finish.Status
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d pages, want %d", len(got), len(want))
	}
	if c := s.Counters(); c.Finished != uint64(len(want)) {
		t.Errorf("%d pages are counted, want %d", c.Finished, len(want))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestRecords has positions in order, and nothing that was committed after the snapshot.
func TestRecords(t *testing.T) {
	e := memory.New()
	id, _ := crawl(t, e)
	snap := look(t, e, id)
	count := func(s *cluster.Snapshot) (n int, err error) {
		var last frontier.Position
		err = Records(t.Context(), e, s, func(at frontier.Position, _ []byte) error {
			if at <= last {
				return fmt.Errorf("position %d after %d", at, last)
			}
			last = at
			n++
			return nil
		})
		return n, err
	}
	all, err := count(snap)
	if err != nil {
		t.Fatal(err)
	}
	early := *snap
	for p := range early.Parts {
		rows, err := e.Read(t.Context(), id, uint8(p), cluster.Place{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		early.Parts[p].Head = rows[0].Place
	}
	if n, err := count(&early); err != nil || n == 0 || n >= all {
		t.Errorf("%d of %d records up to the first rows: %v", n, all, err)
	}
	beyond := *snap
	beyond.Parts[9].Head.Seq++
	if _, err := count(&beyond); !errors.Is(err, cluster.ErrRolledBack) {
		t.Errorf("a log that is shorter than its head: %v", err)
	}
	other := *snap
	other.Parts[9].Head.Hash++
	if _, err := count(&other); !errors.Is(err, cluster.ErrRolledBack) {
		t.Errorf("a log with another head: %v", err)
	}
}

func TestOpenRefusesOtherRules(t *testing.T) {
	e := memory.New()
	c := cluster.Crawl{ID: cluster.NewID(), Name: "test", Identity: "url=0"}
	if err := e.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), e, look(t, e, c.ID), t.TempDir()+"/scratch")
	if other, ok := errors.AsType[*cluster.IdentityError](err); !ok || other.Crawl != "url=0" ||
		other.Own != weburl.Identity() {
		t.Errorf("got %v", err)
	}
}
