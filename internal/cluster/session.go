package cluster

import (
	"fmt"
	"time"

	"github.com/mapwright/mapwright/state"
)

const (
	// BeatEvery is the time between two beats of a session.
	BeatEvery = 2 * time.Second
	// Lease is how long a beat is valid by the engine's clock. After it, others may
	// claim the session's partitions, which ends the session.
	Lease = 10 * time.Second
	// StartWithin is how long after the sending of a beat a session may start requests,
	// by its own clock.
	StartWithin = 8 * time.Second
	// ClockTolerance is how far the clock of a machine that joins may be from the
	// engine's.
	ClockTolerance = time.Second
	// CountedBeats is how many beats a session must have sent before partitions move
	// to it from others.
	CountedBeats = 2
)

// A Session is a machine while it works on a crawl.
type Session struct {
	Crawl   CrawlID
	ID      SessionID
	Machine MachineID
	Name    string // of the machine, for people
	Tally   Tally  // stored by each beat, and by Leave
}

// A Tally is what a session says about its work, for people. Nothing is decided by it.
type Tally struct {
	Takeovers uint64        // partitions claimed whose last owner did not close them, by all sessions of the process
	Fenced    uint64        // sessions of the process that ended because others had claimed their partitions
	Batch     time.Duration // duration of a commit, moving average
	Replaying uint32        // partitions whose log is being read
	RowsLeft  uint64        // of those logs
	Pages     uint64        // fetched by all sessions of the process
}

// Known is what a session has of the crawl already, so that a beat need not bring it.
type Known struct {
	Plan  uint64 // version
	Scope int    // number of scope extensions
}

// A Member is a session. All times are of the engine's clock.
type Member struct {
	Session SessionID
	Machine MachineID
	Name    string
	Joined  time.Time
	// Since is the beat from which on no gap between two beats was longer than a lease. Only a session with a whole
	// lease since then may take partitions from sessions that have expired: if the engine was away, all have expired,
	// and none is dead.
	Since time.Time
	Beat  time.Time // the last one
	Beats uint64
	Batch uint64 // the last one committed
	Tally Tally  // of the last beat; zero after Join alone
	Ended bool   // it has no rights any more
	Left  bool   // it has ended by Leave, and not because of another session
}

// A Token is held by a source that may still add URLs. The crawl is not complete
// while there is one.
type Token struct {
	Name   string
	Holder SessionID // zero for none
}

// A Snapshot is the state of a crawl at one moment.
type Snapshot struct {
	Now     time.Time // the engine's clock
	Crawl   Crawl     // Plan is nil if the version is the one known
	Members []Member  // that have not ended, in the order of Session
	Parts   [Partitions]Part
	Tokens  []Token  // in the order of Name
	Waiting int      // hand-overs that were not received; MostWaiting means that or more
	Scope   []string // extensions beyond those known, in order
	Scopes  int      // number of all extensions
}

// MostWaiting is the number up to which hand-overs are counted. Counting all of them would take long when there are
// many.
const MostWaiting = 10_000

// Alive reports whether the lease of a member is valid.
func (s *Snapshot) Alive(m *Member) bool { return s.Now.Sub(m.Beat) <= Lease }

// Member returns a member by its session, nil if the session has ended.
func (s *Snapshot) Member(id SessionID) *Member {
	for i := range s.Members {
		if s.Members[i].Session == id {
			return &s.Members[i]
		}
	}
	return nil
}

// Counters adds up the counters of all partitions.
func (s *Snapshot) Counters() (state.Counters, error) {
	var sum state.Counters
	for p := range s.Parts {
		counts := s.Parts[p].Status.Counts
		if len(counts) == 0 {
			continue
		}
		c, err := state.DecodeCounters(counts)
		if err != nil {
			return sum, fmt.Errorf("partition %d: %w", p, err)
		}
		sum.Add(&c)
	}
	return sum, nil
}

// Complete reports whether nothing is left to do: every partition is idle, every
// hand-over was received, and there is no token. A later moment cannot differ, because
// only these three make work.
func (s *Snapshot) Complete() bool {
	return s.all(func(p *Part) bool { return p.Status.Idle }) && s.Waiting == 0 && len(s.Tokens) == 0
}

// Counted is the number of pages that all partitions have counted.
func (s *Snapshot) Counted() (counted uint64) {
	for i := range s.Parts {
		counted += s.Parts[i].Status.Counted
	}
	return counted
}

// LimitReached reports whether as many pages are counted as may be, and nothing is in
// flight.
func (s *Snapshot) LimitReached() bool {
	return s.Crawl.MaxURLs > 0 && s.Counted() >= s.Crawl.MaxURLs &&
		s.all(func(p *Part) bool { return p.Status.Busy == 0 })
}

// MayRaise reports whether URLs of a depth may be fetched, because none of a lesser
// depth is left anywhere.
func (s *Snapshot) MayRaise(depth uint32) bool {
	return s.all(func(p *Part) bool { return p.Status.Least >= depth }) && s.Waiting == 0 && len(s.Tokens) == 0
}

func (s *Snapshot) all(ok func(*Part) bool) bool {
	for i := range s.Parts {
		if !ok(&s.Parts[i]) {
			return false
		}
	}
	return true
}
