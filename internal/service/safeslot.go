package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/slot"
)

// safeSlot is the machine's slot of safe crawls, for the one crawl of this service whose turn it is. The crawl that
// waits for it holds no crawl slot.
type safeSlot struct {
	mu     sync.Mutex
	owner  string             // guarded by mu; the crawl for which the slot is waited for or held; empty if none
	held   *slot.Slot         // guarded by mu; nil while it is waited for
	cancel context.CancelFunc // guarded by mu; ends the wait
	note   string             // guarded by mu; which crawl holds the slot
}

// isHeldFor says whether a crawl has the slot.
func (s *safeSlot) isHeldFor(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held != nil && s.owner == id
}

// detail says what a safe crawl waits for.
func (s *safeSlot) detail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.note != "" {
		return s.note
	}
	return "only one safe crawl runs at a time on a machine"
}

// want begins to wait for the slot for a crawl, if nothing else waits for it or has it; an empty id is no crawl. A
// crawl that does not need it any more, such as one that was paused, gives it back.
func (s *safeSlot) want(d *dispatcher, id string, needed func(id string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner != "" && !needed(s.owner) {
		s.releaseLocked(d)
	}
	if s.owner != "" || id == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.owner, s.cancel = id, cancel
	d.jobs.Go(func() { s.wait(ctx, d, id) })
}

// wait waits for the slot.
func (s *safeSlot) wait(ctx context.Context, d *dispatcher, id string) {
	info := slot.Info{PID: os.Getpid(), StartURL: "crawl " + id, DataDir: d.s.crawlDir(id), Since: time.Now()}
	held, err := slot.Acquire(ctx, d.s.o.slotDir(), info, func(w slot.Waiting) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note = fmt.Sprintf("another safe crawl runs on this machine, and only one may at a time; %d go first",
			w.Ahead)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = ""
	switch {
	case s.owner != id || ctx.Err() != nil:
		if held != nil {
			err = errors.Join(err, held.Release())
		}
	case err == nil:
		s.held = held
	default:
		s.owner = ""
	}
	if err != nil && ctx.Err() == nil {
		d.s.o.Log.Error("cannot wait for the slot of safe crawls; this is tried again", "error", err)
	}
	d.wake()
}

// releaseOf gives the slot back that a crawl has.
func (s *safeSlot) releaseOf(d *dispatcher, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == id {
		s.releaseLocked(d)
	}
}

// release ends any wait and gives the slot back.
func (s *safeSlot) release(d *dispatcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(d)
}

func (s *safeSlot) releaseLocked(d *dispatcher) {
	if s.cancel != nil {
		s.cancel()
	}
	if s.held != nil {
		if err := s.held.Release(); err != nil {
			d.s.o.Log.Warn("cannot release the slot of safe crawls", "error", err)
		}
	}
	s.owner, s.held, s.cancel = "", nil, nil
}

// slotDir is the directory of the slot: that of all users, or the user's own if that cannot be used.
func (o *Options) slotDir() string {
	if o.SlotDir != "" {
		return o.SlotDir
	}
	return slot.Dir()
}
