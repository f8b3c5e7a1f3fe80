package frontier

import (
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// Kind is what a lease is for.
type Kind uint8

const (
	KindPage    Kind = iota // a URL of the queue
	KindRobots              // a robots.txt; see Lease.Robots
	KindSitemap             // a URL given to AddSitemap
)

func (k Kind) String() string {
	return [...]string{"page", "robots", "sitemap"}[k]
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
	// Links are what the page links to. Those that are new are recorded together
	// with Finish; none is if the URL goes back.
	Links []Link
	// Delay is the least time before a URL that goes back is leased again.
	Delay time.Duration

	// RobotsUntil is when the answer to a robots lease must be asked for again.
	// The zero time leaves the origin unknown: another robots lease follows. If the
	// request failed or was refused, that lease is another attempt for the same
	// URL. Where the lease is for origins that wait, a time ends their waits, and
	// each gets a robots lease of its own: the caller has stored the answer.
	RobotsUntil time.Time
	// RobotsAt is where a redirect of robots.txt leads, if RobotsUntil is zero. A
	// robots lease for that URL follows, at the pace of its host. Until it ends, no
	// page of the origin's host is leased. See [RobotsTask].
	RobotsAt URL
	// CrawlDelay is what robots.txt asks for, zero for nothing.
	CrawlDelay time.Duration
}

// Disposition is what Done did with the lease's URL.
type Disposition uint8

const (
	// Returned: back in the queue as if it had never been leased.
	Returned Disposition = iota
	// Retrying: back in the queue, one attempt the richer.
	Retrying
	// Finished: recorded.
	Finished
)

func (d Disposition) String() string {
	return [...]string{"returned", "retrying", "finished"}[d]
}
