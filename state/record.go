package state

import (
	"time"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A Link is a URL as it was when it was first named. Times are kept to the
// millisecond, in UTC.
type Link struct {
	Key      urlnorm.Key
	URL      string // canonical
	Depth    uint16
	Priority uint8  // smaller is fetched earlier
	Source   uint8  // where it came from; the caller's code
	Parent   string // URL of the page that named it, or ""

	DiscoveredAt time.Time
	LastMod      time.Time // zero if nobody said

	// Extra is the caller's. It is offered again by Pending, so it should be
	// small.
	Extra []byte
}

// A Finish says what became of a URL. A later one for the same key replaces
// it.
type Finish struct {
	Key       urlnorm.Key
	Outcome   uint8  // the caller's code; Counters counts by it
	Status    uint16 // HTTP status, or 0
	Attempts  uint16
	CrawledAt time.Time
	Bytes     uint64 // body bytes received; Counters adds them up

	RedirectTo string

	// Generation is which visit of the URL this was, from 0. NextFetch is when
	// the next one is due; zero means never.
	Generation uint32
	NextFetch  time.Time

	Facts []byte // the caller's
}

// A HostFact is what is known of a host. The latest one counts.
type HostFact struct {
	Host urlnorm.HostID
	Name string
	Data []byte // the caller's
}

// A RobotsFact is the robots.txt of an origin. The latest one counts.
type RobotsFact struct {
	Origin    string
	FetchedAt time.Time
	Expires   time.Time
	Data      []byte // the caller's
}

// A RunFact is a named fact about the crawl as a whole. The latest one of a
// name counts; a nil Value removes it.
type RunFact struct {
	Name  string
	Value []byte
}

// A Cursor is a place in a host's queue, which is ordered by priority, then by
// position in the log, then by place in the record. The zero Cursor is before
// everything.
type Cursor struct {
	Priority uint8
	Seq      uint64 // position of the record that named the link
	Index    uint32 // place of the link in Record.Links
}

// Compare orders cursors as the queue is ordered.
func (c Cursor) Compare(o Cursor) int {
	switch {
	case c.Priority != o.Priority:
		return int(c.Priority) - int(o.Priority)
	case c.Seq != o.Seq:
		if c.Seq < o.Seq {
			return -1
		}
		return 1
	case c.Index != o.Index:
		if c.Index < o.Index {
			return -1
		}
		return 1
	}
	return 0
}

// Before returns the Cursor just before the links of priority p in the record
// at seq, for pulling a cursor back to links that were added below it.
func Before(p uint8, seq uint64) Cursor {
	return Cursor{Priority: p, Seq: seq - 1, Index: ^uint32(0)}
}

// A HostCursor says that every link of the host at or before Low, among those
// committed before this record, is finished. Their part of the queue is
// deleted.
type HostCursor struct {
	Host urlnorm.HostID
	Low  Cursor
}

// A Record is one event of the crawl. All that it says becomes durable
// together.
type Record struct {
	Finish *Finish // nil if no page ended
	Links  []Link  // new ones; a link should be in one record only

	Leased   []urlnorm.Key // now in flight
	Returned []urlnorm.Key // in flight no longer, and not finished

	Hosts   []HostFact
	Cursors []HostCursor
	Robots  []RobotsFact
	Run     []RunFact
}

// A Page is what is known of one URL.
type Page struct {
	// Link is how the URL was found. Of a key that was finished without ever
	// being named, only Link.Key is set.
	Link Link
	// Finish is nil while the URL is pending.
	Finish *Finish
}
