package frontier

import (
	"context"
	"iter"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A Position is the number of a record, given by [Store.Commit]. It grows within
// each partition; there may be gaps.
type Position uint64

// A Store keeps what the frontier must not forget. [NewMemStore] makes one
// for tests and small crawls, package state has one on disk.
//
// The frontier calls Commit with its locks held and everything else without any,
// so Commit must neither block nor call back. It must not keep the records, nor
// anything that they point to: they are used again.
type Store interface {
	// Commit takes records in order and returns the position of the last one.
	// Positions grow with every record, across restarts too. Records are durable
	// some time later, in order: whatever a crash leaves is a prefix. What was
	// committed is visible to Seen, Pending and Host at once. Commit sets At of the
	// records' links.
	Commit(recs ...Record) (Position, error)
	// Ready waits while the store has more to write than it should.
	Ready(ctx context.Context) error
	// Seen says for each key, sorted, whether a link with it was ever committed.
	Seen(ctx context.Context, keys []weburl.Key, out []bool) error
	// Pending returns up to n links of a host that are not finished, in the order of the host's queue after the cursor,
	// and the cursor to go on from. Each link has Key and At set. If it returns fewer than n links, there are no more
	// at after.Priority: a store may stop at the end of that priority.
	Pending(ctx context.Context, host weburl.HostID, after Cursor, n int) ([]Link, Cursor, error)
	// Host returns what was last committed about a host.
	Host(ctx context.Context, host weburl.HostID) (HostFact, bool, error)
	// Backlogs goes through the hosts with queued links, of the partitions from first to last, both included. Hosts
	// that have only a HostFact may be among them.
	Backlogs(ctx context.Context, first, last uint8) iter.Seq2[Backlog, error]
	// Keys goes through the keys of all links of these partitions that were ever committed.
	Keys(ctx context.Context, first, last uint8) iter.Seq2[weburl.Key, error]
}

// A Record is one event of the crawl: all of it is kept, or nothing. The frontier itself makes no Origins, and no Facts
// but FactListed; both are for its caller.
type Record struct {
	// Finish is what became of a URL, nil if this record finishes none.
	Finish *Finish
	// Links are new: no other record has one of them. Those with a Finish are
	// finished too, and not in the queue.
	Links []Link
	// Visits are links that were finished and are queued again, as visit 2 or later.
	Visits []Link
	// Sent are links of partitions that are closed here, for the owners of these. They do not become known here.
	Sent []Link
	// Asked are questions for the owners of partitions that are closed here.
	Asked []RobotsQuestion
	// Marks say which links of other sessions have been received.
	Marks []Mark
	// Leased are URLs that are in flight from now on. Returned are in flight no longer, and not finished. From both a
	// store can tell after a crash which URLs were in flight.
	Leased, Returned []weburl.Key
	// Alone are in flight while no other URL is read: if the process ends uncleanly now, one of them counts as the
	// cause. They were in Leased of an earlier record.
	Alone []weburl.Key
	// Hosts replace what was known about them.
	Hosts []HostFact
	// Cursors say that all of a host's queue up to and including the cursor, as far
	// as it was committed before, is finished and may be thrown away.
	Cursors []HostCursor
	// Origins replace what was known about them.
	Origins []OriginFact
	// Vouchers are added to those that are known.
	Vouchers []Voucher
	// Evidence is what folds are computed from.
	Evidence []Evidence
	// Skips are added to the counts of links that were found and not queued.
	Skips []Skip
	// Named say which URLs sitemaps list, and which URLs pages link to. In generation 0 a link
	// of Links, and one that is received, says that by its Source instead.
	Named []Named
	// Facts replace those of the same name.
	Facts []CrawlFact
}

// A Finish is what became of one URL. A later one for the same key replaces it.
// Times are kept to the millisecond.
type Finish struct {
	// Key, Visit, Generation, Before, Attempts and Counted are set by the frontier
	// where it records the result of a lease.
	Key weburl.Key
	// Visit is the number of the visit, from 1.
	Visit uint32
	// Generation is the one of the frontier that leased the URL.
	Generation uint32
	// Before is how the previous visit ended; zero in visit 1. With it a store can update its counts without reading
	// that visit.
	Before Summary
	// Attempts is how many leases the URL took in this run.
	Attempts uint16
	// Counted reports whether the URL counts towards page limits, that is, whether
	// a request for it was ever started.
	Counted bool
	// Sitemap means that the URL is a sitemap. The frontier sets it too.
	Sitemap bool

	Outcome    uint8  // the caller's code; a store counts by it
	Status     uint16 // HTTP status, or 0
	Bytes      uint64 // of the body, as received
	CheckedAt  time.Time
	RedirectTo string
	Facts      []byte // the caller's

	// The fields below are for visits after the first, and zero in generation 0. The caller decides them all.

	// KeepFacts means that the facts of an earlier visit still hold. Facts are then about
	// this visit only.
	KeepFacts bool
	// NotModified means that the answer was 304, or that the visit was to verify such an answer and failed.
	NotModified bool
	Change      uint8     // the caller's code, 0 for none
	ChangedAt   time.Time // when a change was last seen
	Changes     uint32    // how many visits saw a change
	Failures    uint8     // visits in a row that failed while earlier facts were kept
	// Differences are what this visit changed, in the caller's form; empty for nothing.
	Differences []byte
}

// FactListed is a fact of a crawl that has a URL from a sitemap or a public index, which perhaps no page links to.
// Without it, all URLs but starts were found on pages, and no link to a known URL is recorded in generation 0.
const FactListed = "listed"

// Named says that a page links to a URL, or that a sitemap lists it. If a URL has several, the
// last one counts, separately for Listed and Linked.
type Named struct {
	Key            weburl.Key
	Listed, Linked bool
	LastMod        time.Time // as a sitemap gives it
	Generation     uint32
}

// A Summary has the fields of a Finish that stores count by.
type Summary struct {
	Outcome uint8
	Status  uint16
	Counted bool
	Bytes   uint64
}

// Summary returns the fields of f that stores count by.
func (f *Finish) Summary() Summary {
	return Summary{Outcome: f.Outcome, Status: f.Status, Counted: f.Counted, Bytes: f.Bytes}
}

// A HostFact is what later runs need to know of one host.
type HostFact struct {
	Host    weburl.HostID
	Name    string
	Learned pace.Learned
	// Run is the number of the run in which Row, Blocked and Abandoned were recorded.
	Run uint64
	// Row is how near the host is to being blocked.
	Row pace.Row
	// Blocked hosts failed too often in a row, or are denied or away; the next run tries them again.
	Blocked bool
	// Denied is set if the host is blocked because Block was called for it, Away if because it is not to be asked for
	// longer than a run waits. The next run tries it again, even if that run continues this one (Options.Continues).
	Denied, Away bool
	// Abandoned hosts belong to a domain with too many failed URLs in a row.
	Abandoned bool
	// Pages is how many URLs that count towards page limits were finished in PagesGeneration. It is kept up to date
	// only under Options.MaxURLsPerHost.
	Pages           int64
	PagesGeneration uint32
}

// An OriginFact is what is known of an origin, "scheme://host[:port]": its
// robots.txt, and whether its sitemaps were requested.
type OriginFact struct {
	Host    weburl.HostID
	Origin  string
	State   OriginState
	Status  uint16 // of the answer, or 0
	Fetched time.Time
	Expires time.Time
	// SitemapsRequested means that the sitemaps which robots.txt names were queued, in
	// SitemapsGeneration.
	SitemapsRequested  bool
	SitemapsGeneration uint32
	// Body is robots.txt as it was served.
	Body []byte
}

// OriginState is what is known of an origin's robots.txt.
type OriginState uint8

const (
	OriginUnknown  OriginState = iota // it was not asked for
	OriginAnswered                    // there is one
	OriginNone                        // there is none
	OriginFailed                      // it could not be fetched
)

// A Voucher says that the robots.txt of a host names a sitemap, or an index over it.
// Such a sitemap speaks for the URLs of that host.
type Voucher struct {
	Key  weburl.Key // of the sitemap
	Host weburl.HostID
	// Visit is the first visit of the sitemap that takes the voucher into account. It
	// is queued in the same record or an earlier one.
	Visit uint32
}

// Evidence is an observation. A fold is a value that is computed from all
// observations of some kinds, in the order of their positions.
type Evidence struct {
	Partition uint8
	Kind      EvidenceKind
	Subject   uint64   // what it is about: a hash
	Words     []uint64 // as the kind needs them
}

// A Skip is a number of links that were found and not queued, for one reason. Its record adds it to the count, so that
// each link is counted once, however often the crawl is killed. A later visit that leaves out fewer links adds a number
// below zero, modulo 2^64.
type Skip struct {
	Partition uint8 // of the page that has the links, or of their source
	Reason    uint8 // the caller's code; a store counts by it
	Count     uint64
}

// EvidenceKind is what was observed. The frontier has two kinds of its own; FORMAT.md
// of package state lists all.
type EvidenceKind uint8

const (
	evidenceDomainFailed   EvidenceKind = 4 // a URL of a domain failed for good
	evidenceDomainAnswered EvidenceKind = 5 // a URL of a domain was answered after failures
)

// A CrawlFact is a named fact about the crawl.
type CrawlFact struct {
	// Partition is the one that the fact follows from, 0 for the crawl as a whole.
	Partition uint8
	Name      string
	Value     []byte // nil removes the fact
}

// A HostCursor is a place in the queue of one host.
type HostCursor struct {
	Host weburl.HostID
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
