package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// Partitions is the number of partitions of a crawl.
const Partitions = 256

// A CrawlID names a crawl for ever; its name may be given again after its deletion.
type CrawlID [16]byte

// A MachineID stays with a data directory. Which partitions a machine should own
// follows from it, so that a machine which joins again finds the views that it has.
type MachineID [16]byte

// A SessionID names one session of a machine. It is never used again. The zero value stands for no session.
type SessionID [16]byte

// NewID returns 16 random bytes for any of the three.
func NewID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // it never fails
	return id
}

func (id CrawlID) String() string   { return hex.EncodeToString(id[:]) }
func (id MachineID) String() string { return hex.EncodeToString(id[:]) }
func (id SessionID) String() string { return hex.EncodeToString(id[:]) }

// A State says whether a crawl runs. To the engine only Running matters: tokens are given and pages are granted in that
// state alone.
type State string

// The states of a crawl.
const (
	Running  State = "running"
	Paused   State = "paused"
	Finished State = "finished" // the reason says why
)

// A Crawl is the row of a crawl.
type Crawl struct {
	ID       CrawlID
	Name     string
	Seed     uint64 // of the hashes of its keys
	Identity string // the rules from which keys follow, see state/FORMAT.md
	Created  time.Time

	Plan        []byte // the crawl's settings
	PlanVersion uint64 // from 1; each SetPlan adds 1

	State  State
	Reason string // of the state, for people and the report
	Run    uint64 // from 1; a state change with NewRun adds 1
	Begun  Begun  // of the run

	Level   uint32        // URLs of this depth and less may be fetched
	MaxURLs uint64        // pages that may be counted; 0 means no limit
	Granted uint64        // how many of them partitions may use
	Used    time.Duration // time in state Running with at least one machine
}

// Begun is how a crawl was when its run began.
type Begun struct {
	At      time.Time
	Used    time.Duration
	Counted uint64 // pages
}

// An IdentityError says that a crawl was made by a program with other rules for URLs.
type IdentityError struct{ Name, Crawl, Own string }

// Error implements error.
func (e *IdentityError) Error() string {
	return fmt.Sprintf("crawl %s was made with other rules for URLs (%s) than those of this program (%s): use the "+
		"same version on all machines", e.Name, e.Crawl, e.Own)
}

// CheckIdentity refuses a crawl whose keys this program would compute in another way. The
// error is an *IdentityError.
func (c *Crawl) CheckIdentity() error {
	if own := weburl.Identity(); c.Identity != own {
		return &IdentityError{c.Name, c.Identity, own}
	}
	return nil
}

// A PartStatus is what the owner of a partition says about it with every batch.
type PartStatus struct {
	Idle    bool   // its live count is 0: nothing is queued or in flight
	Busy    uint32 // requests in flight, and answers that are not committed
	Least   uint32 // least depth of its live URLs; NoDepth for none
	Counted uint64 // pages counted towards MaxURLs
	// its state.Counters as their Append writes them, for Snapshot.Counters; empty before the first batch
	Counts []byte
}

// NoDepth is the least depth of a partition without live URLs.
const NoDepth = 1<<32 - 1

// A Place is a row of a partition's log. The zero value is the place before the first
// row. Two logs with the same hash at the same place are the same up to there.
type Place struct {
	Seq  uint64 // from 1, without gaps
	Hash uint64
}

// A Part is the row of a partition.
type Part struct {
	Owner   SessionID // zero if it was closed in good order, or never owned
	Epoch   uint64    // number of claims
	Head    Place     // the last row of its log
	Granted uint64    // pages that it may count; used ones included
	Status  PartStatus
}
