package frontier

import (
	"errors"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// Kind is what a lease is for.
type Kind uint8

const (
	KindPage    Kind = iota // a page of the queue
	KindRobots              // a robots.txt; see Lease.Robots
	KindSitemap             // a sitemap of the queue
	KindCheck               // a check of the queue: only the answer is wanted
)

// isQueued reports whether leases of the kind are of links in the queue.
func (k Kind) isQueued() bool { return k != KindRobots }

func (k Kind) String() string {
	return [...]string{"page", "robots", "sitemap", "check"}[k]
}

// A Result is how a lease ended.
type Result struct {
	// Class, RetryAfter, Latency and Lag are what the answer means for the host's
	// pace; see [pace.ClassOf], [pace.ParseRetryAfter] and [pace.Event].
	Class      pace.Class
	RetryAfter time.Duration
	Latency    time.Duration
	Lag        time.Duration

	// Finish is recorded as the URL's end. Where it is nil, and where Class is
	// ClassOurs, the URL goes back to the queue and is leased again. A refused or
	// failed URL with retries left goes back too, and Finish is forgotten.
	Finish *Finish
	// Final means that trying again would not help: record Finish now.
	Final bool
	// Found are what the page links to, and Origin is what they have in common. Links are
	// other URLs that it leads to, by a redirect for example. Those that are new are
	// recorded together with Finish; none is if the URL goes back.
	Origin Origin
	Found  []Found
	Links  []Link
	// Skips counts the other links of the page, which are not queued. They are
	// recorded with Finish too, in the partition of the page.
	Skips []Skip
	// Evidence and Facts are recorded together with Finish; none is if the URL goes back.
	Evidence []Evidence
	Facts    []CrawlFact
	// Again queues another visit of the URL, in the record of Finish. It takes another
	// page ticket.
	Again bool
	// Delay is the least time before a URL that goes back is leased again.
	Delay time.Duration

	// RobotsUntil is when the answer to a robots lease must be asked for again. The zero time leaves the origin
	// unknown: another robots lease follows. If the request failed or was refused, that lease is another attempt for
	// the same URL. If the lease is for origins that wait, and the time is not zero, their waits end and each gets a
	// robots lease of its own: the caller has stored the answer.
	RobotsUntil time.Time
	// RobotsProvisional means that the caller may see the answer in another light later: see Frontier.AskRobotsAgain.
	RobotsProvisional bool
	// RobotsAt is where a redirect of robots.txt leads, if RobotsUntil is zero. A
	// robots lease for that URL follows, at the pace of its host. Until it ends, no
	// page of the origin's host is leased. See [RobotsTask].
	RobotsAt weburl.URL
	// CrawlDelay is what robots.txt asks for, zero for nothing. After a lease for the robots.txt of other origins it is
	// the least delay of the host, until the host's own robots.txt is known.
	CrawlDelay time.Duration
}

// Disposition is what Done did with the lease's URL.
type Disposition uint8

const (
	// Returned: back in the queue as if it had never been leased.
	Returned Disposition = iota
	// Retrying: back in the queue, with one attempt more.
	Retrying
	// Finished: recorded.
	Finished
)

func (d Disposition) String() string {
	return [...]string{"returned", "retrying", "finished"}[d]
}

var (
	// ErrDrained is returned by Next when the crawl is over: nothing is queued
	// that may be fetched, nothing is leased, nothing waits for a retry, and no source
	// token is held.
	ErrDrained = errors.New("frontier is drained")
	// ErrLimit is returned by Next when Options.MaxURLs pages have been started, all
	// have ended, and further pages or sitemaps are pending.
	ErrLimit = errors.New("frontier has given out all page tickets")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("frontier is closed")
	// ErrDone is returned by a second Done of one lease, and by Start after Done or
	// Abandon.
	ErrDone = errors.New("lease is done already")
	// ErrPartitionClosed is returned by Start and Done of a lease whose partition was
	// closed, and by Receive for one that is not open.
	ErrPartitionClosed = errors.New("partition is closed")
	// ErrTooSoon is returned by Start if a lease has sent a request, and the host's pace
	// does not allow another one now. With Options.Registry it is also returned for the
	// first request of a lease, if another crawl with a longer delay has joined since.
	ErrTooSoon = errors.New("host's pace does not allow another request now")
	// ErrAddressBusy is returned by Reach if the address gets as many requests as it may.
	ErrAddressBusy = errors.New("address gets as many requests as it may")
	// ErrNotNow is returned by Start if Options.MayStart reports false.
	ErrNotNow = errors.New("no request may be started now")
)

// NoticeKind is what a notice is about.
type NoticeKind uint8

const (
	NoticePace      NoticeKind = iota // Change says how the host's pace changed, or that a request was refused
	NoticeRetry                       // a URL goes back for another attempt
	NoticeBlocked                     // the host failed too often in a row
	NoticeAbandoned                   // the host's domain had too many failed URLs in a row
	NoticeHostLimit                   // Options.MaxURLsPerHost is reached
	NoticeDenied                      // Block was called for the host
	NoticeAway                        // the host is not to be asked before At, and a run does not wait for so long
)

// A Notice is one thing that happened to a host.
type Notice struct {
	Kind NoticeKind
	Host string
	// Change is set with NoticePace and NoticeBlocked.
	Change pace.Change
	// URL is the one whose request ended; set with NoticePace and NoticeRetry.
	URL string
	// Attempt (how many were made so far) is set with NoticeRetry.
	Attempt int
	// At is the earliest time of the next request; set with NoticeRetry and NoticeAway.
	At time.Time
	// Waiting is how many URLs of the host are left pending: with NoticeHostLimit, those
	// that this run will not try.
	Waiting int64
}

// A reason is what a host waits for.
type reason uint8

const (
	whyNothing    reason = iota // it does not wait: it may be leased now
	whyIdle                     // it has nothing queued
	whyDelay                    // the delay between two requests
	whyRest                     // a rest after a refusal
	whyBackoff                  // a backoff after failures
	whyRetry                    // the time of its only URL's next attempt
	whyFull                     // as many requests are out as it may have
	whyStarting                 // a request that was leased is not on the wire yet
	whyRobots                   // its robots.txt is being asked for
	whyRobotsSlot               // too many robots.txt are being asked for at once
	whyLoading                  // its URLs or its facts are being read from the store
	whyTicket                   // all page tickets are taken
	whyHostLimit                // it has had all its pages
	whyLevel                    // its level is not open yet
	whyBlocked                  // it failed too often in a row, or is denied or away
	whyAbandoned                // its domain had too many failed URLs in a row
	whyParked                   // too many hosts are active
	whyClosing                  // its partition is being opened or closed
	whyOtherCrawl               // another crawl of the process asks it, or is to ask it first
	whyAddress                  // its address gets as many requests as it may, from other hosts too
	whyCount
)

func (w reason) String() string {
	return [whyCount]string{
		"ready", "idle", "delay", "rest", "backoff", "retry", "in flight", "starting", "robots.txt",
		"robots.txt slot", "loading", "page limit", "host page limit", "level", "blocked", "abandoned", "parked",
		"partition", "other crawl", "address",
	}[w]
}
