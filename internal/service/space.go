package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/state"
)

// space is how much of the disk crawls may take. It belongs to the goroutine of Run.
type space struct {
	low  bool  // running crawls pause
	room int64 // bytes beyond --min-free that no started crawl is going to take
}

// look notes what is free. opening is the number of started crawls whose store is not open yet. It reports whether
// there is enough again after there was too little. Crawls need more space to go on than to run: a crawl that pauses
// gives disk space back, so with one bound for both it would go on at once and pause again.
func (s *space) look(o *Options, opening int64) (again bool) {
	if o.MinFree < 0 {
		s.room = math.MaxInt64
		return false
	}
	free, err := o.FreeBytes(o.Dir)
	if err != nil {
		o.Log.Warn("cannot see how much of the disk is free", "error", err)
		s.room = math.MaxInt64 // the store of a crawl looks too
		return false
	}
	was := s.low
	s.room = free - o.MinFree
	s.low = s.room < 0 || s.low && !s.hasRoom(o)
	s.room -= opening * state.OpenBytes
	switch {
	case s.low && !was:
		o.Log.Warn("little disk is free: crawls pause until there is more", "free",
			humanize.IBytes(uint64(max(0, free))), "needed", humanize.IBytes(uint64(o.MinFree)))
	case was && !s.low:
		o.Log.Info("enough disk is free again: crawls go on")
	}
	return was && !s.low
}

// startTakes is how much of the disk beyond --min-free must be free for a crawl to start: what its store takes at once,
// and a tenth for what it records.
func (o *Options) startTakes() int64 { return state.OpenBytes + o.MinFree/10 }

// hasRoom says whether one more crawl may start.
func (s *space) hasRoom(o *Options) bool { return s.room >= o.startTakes() }

// diskDetail says why a crawl waits for the disk.
func (o *Options) diskDetail() string {
	return fmt.Sprintf("less than %s of the server's disk is free; the crawl goes on by itself when there is more",
		humanize.IBytes(uint64(o.MinFree+o.startTakes())))
}

// outputFactor is how many times the state of a crawl its outputs may take if its account has no disk left.
const outputFactor = 2

// outputRoom bounds the files that a crawl writes at its end. They may take what the plan of its account leaves, or
// outputFactor times its state.
func (d *dispatcher) outputRoom(account, id string) *datadir.Room {
	var before ownSize // measured when it is first asked for
	room := datadir.NewRoom(d.s.o.MinFree, d.s.o.FreeBytes)
	room.Allowed = func() int64 {
		if before == (ownSize{}) {
			before = sizeWithoutOutputs(d.s.Crawls.DataDir(id))
		}
		limit, others, err := d.diskOfOthers(account, id)
		if err != nil {
			d.s.o.Log.Warn("cannot see how much disk an account may use", "account", account, "error", err)
		}
		if err != nil || limit == 0 {
			return math.MaxInt64
		}
		return max(limit-others-before.all, outputFactor*before.state)
	}
	return room
}

// ownSize is what a crawl has on disk without its outputs, which are replaced.
type ownSize struct{ all, state int64 }

// sizeWithoutOutputs measures the directories of a crawl: outputs are files beside them. The space that an open store
// reserves does not count.
func sizeWithoutOutputs(dir datadir.Dir) (size ownSize) {
	size.state = max(0, sizeOf(dir.State())-state.OpenBytes)
	size.all = size.state
	entries, _ := os.ReadDir(string(dir)) // what cannot be read does not count
	for _, e := range entries {
		if path := filepath.Join(string(dir), e.Name()); e.IsDir() && path != dir.State() {
			size.all += sizeOf(path)
		}
	}
	return size
}

// diskOfOthers is how much disk the plan of an account allows, 0 without a limit, and how much it uses now without one
// of its crawls.
func (d *dispatcher) diskOfOthers(account, id string) (limit, used int64, err error) {
	ctx, q := context.Background(), d.s.db.Read()
	limited, err := One(ctx, q, func(t *terms) []any { return []any{&t.plan, &t.disk} }, "SELECT plan.terms_json, "+
		diskUse+" FROM account JOIN plan ON plan.name = account.plan WHERE account.id = ?", account)
	if err != nil || limited.plan.DiskBytes == 0 {
		return 0, 0, err
	}
	stored, err := Collect(ctx, q, func(e *entry) []any { return []any{&e.id, &e.disk} }, "SELECT id, disk_bytes FROM "+
		"crawl WHERE account = ? AND (id = ? OR state IN ('running', 'pausing', 'finishing'))", account, id)
	used = limited.disk
	for _, e := range stored {
		if e.id == id {
			used -= e.disk
		} else if r := d.runner(e.id); r != nil {
			used += max(0, r.size.Load()-e.disk) // what it has written since its size was stored
		}
	}
	return limited.plan.DiskBytes, used, err
}

// unclosed holds crawls that have ended, but whose store is still open because the disk was full.
type unclosed struct {
	mu  sync.Mutex
	all map[string]*crawl.Crawl // guarded by mu
}

func (u *unclosed) add(id string, c *crawl.Crawl) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all[id] = c
}

// reclaimAll closes the stores of all of them.
func (u *unclosed) reclaimAll() error {
	u.mu.Lock()
	ids := slices.Collect(maps.Keys(u.all))
	u.mu.Unlock()
	var errs []error
	for _, id := range ids {
		errs = append(errs, u.reclaim(id))
	}
	return errors.Join(errs...)
}

// reclaim closes the store of a crawl, which must be done before anything else opens its directory.
func (u *unclosed) reclaim(id string) error {
	u.mu.Lock()
	c := u.all[id]
	u.mu.Unlock()
	if c == nil {
		return nil
	}
	if err := c.Reclaim(); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, id)
	return nil
}
