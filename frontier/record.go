package frontier

import (
	"context"

	"github.com/mapwright/mapwright/frontier/pace"
)

// A Store keeps what the frontier must not forget. [MemStore] is one for tests
// and small crawls.
//
// The frontier calls Commit with its locks held and everything else without any,
// so Commit must neither block nor call back. It must not keep the records, nor
// anything that they point to: they are used again.
type Store interface {
	// Commit takes records in order and returns the number of the last one.
	// Numbers grow with every record, across restarts too. Records are durable
	// some time later, in order: whatever a crash leaves is a prefix. What was
	// committed is visible to Seen, Pending and Host at once.
	Commit(recs ...Record) (seq uint64, err error)
	// Ready waits while the store has more to write than it should.
	Ready(ctx context.Context) error
	// Seen says for each key, sorted, whether a link with it was ever committed.
	Seen(ctx context.Context, keys []Key, out []bool) error
	// Pending returns up to n links of a host that are not finished, in the order
	// of the host's queue after the cursor, and the cursor to go on from. Each
	// link has Key and At set. Fewer than n means that there are no more. It may
	// stop at the end of after.Priority.
	Pending(ctx context.Context, host HostID, after Cursor, n int) ([]Link, Cursor, error)
	// Host returns what was last committed about a host.
	Host(ctx context.Context, host HostID) (HostFact, bool, error)
}

// A Record is what one call changes, all of it or nothing.
type Record struct {
	// Finish is what became of a URL, nil if this record finishes none.
	Finish *Finish
	// Links are new: no other record has one of them. Record number and index in
	// this slice are their place in the host's queue. Those with a Verdict are
	// finished too, and not in the queue.
	Links []Link
	// Leased are now in flight, Returned no longer and not finished. With them a
	// store can tell after a crash which URLs were in flight.
	Leased, Returned []Key
	// Hosts replace what was known about them.
	Hosts []HostFact
	// Cursors say that all of a host's queue up to and including the cursor, as far
	// as it was committed before, is finished and may be thrown away.
	Cursors []HostCursor
}

// A Finish is the end of one URL.
type Finish struct {
	Key Key
	// At is the URL's place in its host's queue.
	At Cursor
	// Attempts is how many leases the URL took in this run.
	Attempts int
	// Counted reports whether the URL took a page ticket, that is, whether a
	// request for it was ever started.
	Counted bool
	// Payload is the caller's Result.Finish.
	Payload any
}

// A HostFact is what outlives a run about one host.
type HostFact struct {
	Host    HostID
	Name    string
	Learned pace.Learned
	// Blocked hosts failed too often in a row; the next run tries them again.
	Blocked bool
	// Abandoned hosts belong to a domain with too many failed URLs in a row.
	Abandoned bool
	// Pages counts finished URLs that took a ticket. It is kept up to date only
	// under Options.MaxURLsPerHost.
	Pages int64
}

// A HostCursor is a place in the queue of one host.
type HostCursor struct {
	Host HostID
	Low  Cursor
}

// A Backlog is what a host had pending when the last run ended; see
// [Frontier.Resume].
type Backlog struct {
	// Fact is what was last committed about the host; Host and Name are set even
	// if nothing was.
	Fact HostFact
	// Low is the last cursor committed for the host, or the zero Cursor.
	Low Cursor
	// Levels lists the priorities that may have pending links.
	Levels []LevelBacklog
}

// A LevelBacklog is one priority of a backlog.
type LevelBacklog struct {
	Priority uint8
	// Links is how many links may be pending: at least as many as are.
	Links int
}
