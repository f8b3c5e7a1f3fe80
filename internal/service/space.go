package service

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/crawl"
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
