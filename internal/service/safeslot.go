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

// safeSlot is the machine's slot of safe crawls, for one crawl of this service: the one that runs with it, or else the
// first in the order of the queue that may start. The crawl that waits for it holds no crawl slot.
type safeSlot struct {
	queue  slot.Queue
	mu     sync.Mutex
	owner  string             // guarded by mu; the crawl for which the slot is waited for or held; empty if none
	held   *slot.Slot         // guarded by mu; nil while it is waited for
	cancel context.CancelFunc // guarded by mu; ends the wait
	note   string             // guarded by mu; what the wait is for, as users see it
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

// isFor says whether the slot is waited for or held for a crawl.
func (s *safeSlot) isFor(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owner == id
}

// giveTo makes the slot that of a queued crawl, unless a running crawl has it; an empty id is no crawl. begin says
// whether to begin to wait for the slot if nothing waits for it. A wait that is under way goes on for the new owner.
func (s *safeSlot) giveTo(d *dispatcher, id string, begin bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.owner != "" && d.runner(s.owner) != nil:
	case id == "":
		s.releaseLocked(d)
	case s.owner != "":
		s.owner = id
	case begin:
		ctx, cancel := context.WithCancel(context.Background())
		s.owner, s.cancel = id, cancel
		d.jobs.Go(func() { s.wait(ctx, d) })
	}
}

// wait waits until the slot is held or not wanted any more. Each wait for the next try is longer than the one before.
func (s *safeSlot) wait(ctx context.Context, d *dispatcher) {
	for retry := firstRetry; !s.try(ctx, d); retry = min(2*retry, lastRetry) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

// try waits for the slot once. It returns false if the slot cannot be had now.
func (s *safeSlot) try(ctx context.Context, d *dispatcher) bool {
	info := slot.Info{PID: os.Getpid(), StartURL: "a crawl of mapwright serve", DataDir: d.s.o.Dir, Since: time.Now()}
	held, err := s.queue.Acquire(ctx, info, func(w slot.Waiting) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		s.note = fmt.Sprintf("another safe crawl runs on this machine, and only one may at a time; %d go first",
			w.Ahead)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil: // another wait may be under way
		if held != nil {
			err = held.Release()
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			d.s.o.Log.Warn("cannot release the slot of safe crawls", "error", err)
		}
	case err == nil:
		s.held, s.note = held, ""
		d.wake()
	default:
		s.note = "the server cannot use the files by which safe crawls wait for each other; this is tried again"
		d.s.o.Log.Error("cannot wait for the slot of safe crawls; this is tried again", "error", err)
		return false
	}
	return true
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
	s.owner, s.held, s.cancel, s.note = "", nil, nil, ""
}
