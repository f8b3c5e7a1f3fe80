package frontier

import (
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// NoticeKind is what a notice is about.
type NoticeKind uint8

const (
	NoticePace      NoticeKind = iota // Change says how the host's pace changed, or that a request was refused
	NoticeRetry                       // a URL goes back for another attempt
	NoticeBlocked                     // the host failed too often in a row
	NoticeUnblocked                   // it is tried again
	NoticeAbandoned                   // the host's domain had too many failed URLs in a row
	NoticeHostLimit                   // Options.MaxURLsPerHost is reached
)

func (k NoticeKind) String() string {
	return [...]string{"pace", "retry", "blocked", "unblocked", "abandoned", "host limit"}[k]
}

// A Notice is one thing that happened to a host.
type Notice struct {
	Kind NoticeKind
	Host string
	// Change is set with NoticePace and NoticeBlocked.
	Change pace.Change
	// URL is that of the request which ended, with NoticePace and NoticeRetry.
	URL string
	// Attempt (the ones so far) and At (the earliest next one) are set with
	// NoticeRetry.
	Attempt int
	At      time.Time
	// Waiting is how many URLs of the host are left pending: with NoticeHostLimit, those
	// that this run will not try.
	Waiting int64
}
