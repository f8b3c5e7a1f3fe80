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
	// ErrDone is returned by a second Done of one lease.
	ErrDone = errors.New("lease is done already")
)
