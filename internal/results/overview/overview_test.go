package overview

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/memory"
	"github.com/mapwright/mapwright/state"
)

func create(t *testing.T, e cluster.Engine, name string, maxURLs uint64) cluster.CrawlID {
	t.Helper()
	u, err := weburl.Parse("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := datadir.NewPlan(config.Defaults(config.OwnSite), []datadir.Start{{URL: u}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Crawl{ID: cluster.NewID(), Name: name, Plan: plan, MaxURLs: maxURLs}
	if err := e.Create(t.Context(), c, "start"); err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func TestFind(t *testing.T) {
	e := memory.New()
	if _, err := Find(t.Context(), e, ""); !errors.Is(err, cluster.ErrNoCrawl) {
		t.Errorf("an engine without crawls: %v", err)
	}
	first := create(t, e, "b", 0)
	if c, err := Find(t.Context(), e, ""); err != nil || c.ID != first {
		t.Errorf("the only crawl: %v, %v", c, err)
	}
	second := create(t, e, "a", 0)
	if _, err := Find(t.Context(), e, ""); !errors.Is(err, ErrSeveral) || !strings.HasSuffix(err.Error(), ": a, b") {
		t.Errorf("two crawls without a name: %v", err)
	}
	if c, err := Find(t.Context(), e, "a"); err != nil || c.ID != second {
		t.Errorf("by name: %v, %v", c, err)
	}
	if _, err := Find(t.Context(), e, "c"); !errors.Is(err, cluster.ErrNoCrawl) ||
		!strings.Contains(err.Error(), "a, b") {
		t.Errorf("a name that no crawl has: %v", err)
	}
}

// TestStatus has two machines, of which one has expired, and partitions of both.
func TestStatus(t *testing.T) {
	e := memory.New()
	id := create(t, e, "site", 100)
	join := func(name string, parts ...uint8) (cluster.Session, []cluster.Claimed) {
		s := cluster.Session{Crawl: id, ID: cluster.NewID(), Machine: cluster.NewID(), Name: name}
		if err := e.Join(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		claimed, err := e.Claim(t.Context(), s, parts)
		if err != nil || len(claimed) != len(parts) {
			t.Fatalf("claimed %v: %v", claimed, err)
		}
		return s, claimed
	}
	commit := func(s cluster.Session, c cluster.Claimed, n state.Counters) {
		w := cluster.Write{Partition: c.Partition, Epoch: c.Epoch, After: c.Head, Body: []byte("row")}
		w.Status = cluster.PartStatus{Counted: n.Counted, Counts: n.Append(nil)}
		if err := e.Commit(t.Context(), s, &cluster.Batch{Number: 1, Writes: []cluster.Write{w}}); err != nil {
			t.Fatal(err)
		}
	}
	first, parts := join("one", 3, 4)
	counters := state.Counters{Discovered: 9, Finished: 4, Bytes: 1000, Counted: 3}
	counters.Outcomes[page.OK] = 4
	commit(first, parts[0], counters)
	e.Advance(time.Minute)
	second, parts := join("two", 7)
	counters = state.Counters{Discovered: 1, Finished: 1, Bytes: 24, Counted: 1}
	counters.Outcomes[page.OK] = 1
	commit(second, parts[0], counters)
	second.Tally = cluster.Tally{Takeovers: 1, Fenced: 2, Batch: 3 * time.Millisecond, Replaying: 4, RowsLeft: 5}
	if _, err := e.Beat(t.Context(), second, cluster.Known{}); err != nil {
		t.Fatal(err)
	}

	snap, err := e.Look(t.Context(), id, cluster.Known{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Of(snap)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "site" || s.State != cluster.Running || s.Run != 1 || s.Profile != "own-site" ||
		!reflect.DeepEqual(s.StartURLs, []string{"https://example.com/"}) {
		t.Errorf("the crawl: %+v", s)
	}
	if want := map[string]int64{"ok": 5, "pending": 5}; s.Found != 10 || s.Done != 5 || s.Pending != 5 ||
		s.Bytes != 1024 || s.Counted != 4 || s.MaxURLs != 100 || !reflect.DeepEqual(s.Outcomes, want) {
		t.Errorf("counts: %+v", s)
	}
	if !reflect.DeepEqual(s.Sources, []string{"start"}) || s.Unowned != 255 || len(s.Machines) != 2 {
		t.Fatalf("machines: %+v", s)
	}
	if m := s.Machines[0]; m.Name != "one" || m.Alive || m.Partitions != 2 || m.Silent < 60 || m.Batches != 1 ||
		m.ID != first.Machine.String() {
		t.Errorf("the first machine: %+v", m)
	}
	if m := s.Machines[1]; m.Name != "two" || !m.Alive || m.Partitions != 1 || m.Silent >= 60 || m.Takeovers != 1 ||
		m.Fenced != 2 || m.BatchMS != 3 || m.Replaying != 4 || m.RowsLeft != 5 {
		t.Errorf("the second machine: %+v", m)
	}
	if names := s.Alive(); !reflect.DeepEqual(names, []string{"two"}) {
		t.Errorf("alive: %v", names)
	}
	snap.Crawl.Plan = []byte("{}")
	if _, err := Of(snap); err == nil {
		t.Error("a plan without start URLs is accepted")
	}
}
