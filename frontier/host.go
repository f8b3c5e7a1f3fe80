package frontier

import (
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// A host is what is kept of a host name that has anything pending, or of which
// something must not be forgotten. Most of what makes it run lies in its seat,
// which a parked host does not have.
type host struct {
	id        HostID
	pending   int64 // URLs not finished: in windows, on disk, leased, waiting
	lastStart int64 // clock; 0 if nothing was started yet
	notBefore int64 // clock; no start before it, whatever the pace says
	parkedAt  int64 // clock; when the host was parked

	// What the host adds to the frontier's live, pages and busy counters.
	live, pages, busy int64
	// givenUp is what the host adds to the shard's count of that name.
	givenUp int64

	first originState // the origin asked for first; others are in shard.origins

	ended Cursor // all levels that are gone lay before it
	saved Cursor // the last cursor committed

	tickets int64 // page tickets taken, under MaxURLsPerHost
	counted int64 // finished pages that took one, likewise

	name     chunkRef
	nameLen  uint8
	flags    hostFlags
	why      Why
	levels   int32 // first level, in order of class; -1 for none
	wait     int32 // first wait, in order of time; -1 for none
	waitLast int32
	seat     int32 // -1 for none: parked

	domain           int32
	domNext, domPrev int32 // the other hosts of the domain; -1 at the ends

	leases     uint32 // all kinds, until Done is through
	pageLeases uint32
	disowned   uint32 // requests of leases whose partition was closed: they hold slots
	waiting    uint32 // waits
	ticketed   uint32 // of them, with a ticket
	sitemaps   uint32 // sitemaps queued
	inMemory   uint32 // permits held, but for leases: entries in windows and waits with text
	gated      uint32 // what its sitemaps add to the gate's count of depth 0
}

type hostFlags uint16

const (
	hostBlocked     hostFlags = 1 << iota // failed too often in a row
	hostAbandoned                         // its domain was given up
	hostUnknown                           // the store has not been asked about it yet
	hostAsking                            // a loader is about to
	hostLoading                           // a loader is to fill a window or a wait
	hostRobotsOut                         // a robots lease is out
	hostRobotsWait                        // waits for one of MaxRobots
	hostRobotsAway                        // an origin of it waits for another request for its robots.txt; see asks
	hostRobotsAsked                       // has questions; see asks
	hostTicketWait                        // waits for a page ticket
	hostEarly                             // in the ready heap before its time, so that loading is done by then
	hostIdle                              // in the list of idle hosts
	hostFactDirty                         // has a fact that must be written at the next checkpoint
	hostTouched                           // in the list of hosts to settle
	hostClosed                            // its partition was closed; only its slots are left of it

	hostHeld = hostBlocked | hostAbandoned
)

// A seat is what an active host has and a parked one does not.
type seat struct {
	pace pace.Pace
	fair int64  // clock; when the host last gave up its turn, which orders those whose time has come
	rnd  uint64 // drawn at each start, for the delay after it

	saved   pace.Saved // what was last written of the pace
	savedAt int64      // clock; when it was, 0 for not in this run
	crawled int64      // leases since the host was seated

	inflight  uint16 // slots taken
	unstarted uint16 // of them, not on the wire yet
	wire      uint16 // of them, on the wire
	turn      uint16 // leases left of a turn that has begun
}

// originState is what is known of an origin's robots.txt.
type originState struct {
	origin origin
	crawl  time.Duration // its Crawl-delay
	until  int64         // clock; 0 if never asked
}

// A domain is a registrable domain with hosts in the table, or with a row of
// failures to its name.
type domain struct {
	hosts     int32    // first host, -1 for none
	failures  uint16   // in a row; a fold
	at        Position // of the last evidence
	abandoned bool
	id        uint64
}
