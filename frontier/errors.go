package frontier

import "errors"

var (
	// ErrDrained is Next's way to say that the crawl is over: nothing is queued
	// that may be fetched, nothing leased, nothing waits for a retry, and nobody
	// holds a source token.
	ErrDrained = errors.New("frontier is drained")
	// ErrLimit is Next's way to say that Options.MaxURLs pages have been started,
	// all have ended, and more are pending.
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
	// does not allow another one now.
	ErrTooSoon = errors.New("host's pace does not allow another request now")
)
