package cluster

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mapwright/mapwright/frontier"
)

// Errors of an engine. Text may be wrapped around them.
var (
	// ErrFenced means that the session is over: another has claimed its partitions, or
	// it has left.
	ErrFenced = errors.New("the session has ended: others may have its partitions")
	// ErrRolledBack means that the engine has lost what it had acknowledged. The
	// session is over, and views that are ahead of the log must be discarded.
	ErrRolledBack = errors.New("the engine has lost acknowledged data")
	// ErrUnknown means that a batch may be committed or not. The same batch must be sent again until the engine gives
	// another answer.
	ErrUnknown = errors.New("it is not known whether the batch was committed")
	// ErrAway means that the engine could not be reached or is restarting. A Commit with this error has changed
	// nothing. Any other call may or may not have had its effect, and can be repeated.
	ErrAway = errors.New("the engine cannot be reached")
	// ErrFull means that the engine has no room for a batch. A Commit with this error has changed nothing, and can be
	// repeated.
	ErrFull = errors.New("the engine has no room for more")
	// ErrNoCrawl means that the crawl does not exist, or was deleted.
	ErrNoCrawl = errors.New("there is no such crawl")
	// ErrExists means that there is a crawl of that name or identifier.
	ErrExists = errors.New("a crawl of that name exists")
	// ErrNewer means that the engine's data was written by a later version of the
	// program.
	ErrNewer = errors.New("the engine's schema is newer than this program")
)

// An Engine keeps crawls for several machines.
type Engine interface {
	Catalog
	Members
	Log
	io.Closer
}

// A Catalog is the list of crawls. It needs no session.
type Catalog interface {
	// Create makes a crawl, with tokens that no session holds yet. Of the crawl it
	// takes ID, Name, Seed, Identity, Plan and MaxURLs. All partitions are idle. The
	// same call again succeeds; otherwise a crawl of that name is ErrExists.
	Create(ctx context.Context, c Crawl, tokens ...string) error
	// List returns all crawls, in the order of their creation, without plans.
	List(ctx context.Context) ([]Crawl, error)
	// Look returns the crawl at one moment. It changes nothing.
	Look(ctx context.Context, id CrawlID, known Known) (*Snapshot, error)
	// Sessions returns all sessions of the crawl, those that have ended too, in the order
	// in which they joined.
	Sessions(ctx context.Context, id CrawlID) ([]Member, error)
	// Delete removes everything of a crawl. Its sessions are fenced. A crawl that does
	// not exist is no error.
	Delete(ctx context.Context, id CrawlID) error
}

// A Sizer is an engine that keeps crawls in memory, and says how much of it there is.
type Sizer interface {
	Memory(ctx context.Context, id CrawlID) (Memory, error)
}

// Memory is that of an engine's server, in bytes.
type Memory struct {
	Used  uint64 `json:"used"`
	Most  uint64 `json:"most"`  // 0 means no limit
	Crawl uint64 `json:"crawl"` // what the crawl uses of it, by an estimate
}

// Members is how sessions share the partitions of a crawl.
type Members interface {
	// Join begins a session with its first beat.
	Join(ctx context.Context, s Session) error
	// Beat renews the lease of a session, even one that has expired, as long as no other session has claimed anything
	// of it. It returns the crawl at one moment after that.
	Beat(ctx context.Context, s Session, known Known) (*Snapshot, error)
	// Leave ends a session. Partitions that it did not close count as lost by it.
	Leave(ctx context.Context, s Session) error
	// Claim makes the session the owner of those of the partitions that have none, or whose owner has ended or expired,
	// and returns them. That ends owners that have expired, for all that they own. Partitions that it owns are returned
	// as they are, so that the call can be repeated.
	Claim(ctx context.Context, s Session, parts []uint8) ([]Claimed, error)
	// Change compares and sets something of the crawl. It reports false if the condition does not hold. It reports true
	// if the same call has made the change before. After ErrAway a Grant must be repeated before the next Commit, which
	// names it.
	Change(ctx context.Context, s Session, c Change) (bool, error)
}

// A Log holds the rows of all partitions and what sessions send to each other.
type Log interface {
	// Commit makes a batch durable, all or nothing. After ErrUnknown, ErrAway and ErrFull the
	// same batch must be sent again; a batch that was committed before succeeds.
	Commit(ctx context.Context, s Session, b *Batch) error
	// Read returns rows of a partition's log after a place, in order: at least one if there is one, and none after the
	// row that reaches the limit in bytes. If the log does not have that place, the error is ErrRolledBack.
	Read(ctx context.Context, id CrawlID, part uint8, after Place, limit int) ([]Row, error)
	// Inbox returns hand-overs to the partitions that the session owns, in the order of partition, sending session and
	// batch, and limited in bytes like the rows of Read. Hand-overs up to the given marks are left out.
	Inbox(ctx context.Context, s Session, after []frontier.Mark, limit int) ([]Handover, error)
}

// A Claimed partition is one that a session owns.
type Claimed struct {
	Partition uint8
	Part
	// LastBeat is the last beat of the latest owner that did not close the partition
	// in good order, by the engine's clock; zero if there was none. Requests of that
	// owner may have been started up to StartWithin after it.
	LastBeat time.Time
}

// A Row is a row of a partition's log.
type Row struct {
	Place
	Epoch   uint64
	Session SessionID
	Body    []byte
}

// Follows reports whether the row is the one after a place, unchanged.
func (r *Row) Follows(p Place) bool { return r.Place == p.Next(r.Body) }

// A Handover is what one session sent to the owner of a partition.
type Handover struct {
	To    uint8
	From  SessionID
	Batch uint64 // of the sender; grows, with gaps
	Body  []byte
}
