package pace

import "time"

// Class is what became of a request, as far as the host's pace is concerned.
type Class uint8

const (
	// ClassNone is a request of which nothing can be said: it was cancelled, or
	// never reached the wire.
	ClassNone Class = iota
	// ClassOK is any answer of no other class: the host served us, even if the answer is a redirect, a 404 or a 410.
	ClassOK
	// ClassForbidden is a 403.
	ClassForbidden
	// ClassThrottled is a 429.
	ClassThrottled
	// ClassUnavailable is a 503.
	ClassUnavailable
	// ClassServerError is any other 5xx.
	ClassServerError
	// ClassNetwork is a time-out, a refused, reset or truncated connection, a DNS
	// or a TLS failure.
	ClassNetwork
	// ClassDropped is a request over a kept connection that the host closed before it
	// answered, as hosts do with idle connections. It says nothing about the host, but
	// the URL has used up an attempt.
	ClassDropped
	// ClassOurs is a failure of our own machine: no file descriptors, no route, no
	// resolver. It is never held against a host.
	ClassOurs
)

// ClassOf is the class of an answer with the given status code.
func ClassOf(status int) Class {
	switch {
	case status == 403:
		return ClassForbidden
	case status == 429:
		return ClassThrottled
	case status == 503:
		return ClassUnavailable
	case status >= 500:
		return ClassServerError
	}
	return ClassOK
}

// Event is one finished request of a host.
type Event struct {
	Class Class
	// Start is when the request went on the wire or, if it did not get that far,
	// when it was tried; Now is when its end was known. Both must come from a clock
	// that is never set back: one reading of the time, say, plus what has elapsed
	// since by the monotonic clock.
	Start, Now time.Time
	// RetryAfter is what the answer asked for; see [ParseRetryAfter]. Zero means
	// that it asked for nothing.
	RetryAfter time.Duration
	// Latency is the time from Start to the first byte of the answer.
	Latency time.Duration
	// Lag is the part of Latency that was our own machine's doing: how long an answer waits here before it is looked
	// at, as a recent average.
	Lag time.Duration
	// URL tells the URLs of a host apart; any hash will do.
	URL uint64
	// Inflight is how many requests of the host were on the wire just after this
	// one started, itself included.
	Inflight int
	// Slots is how many of the host's slots were taken then, which are held from the lease until its end. It shows
	// whether the limit held the crawl back. Zero means that it is not known.
	Slots int
}

// judge decides what the event means. It counts the plain 403s in a row in forbidden: any other answer ends the row,
// and an event without an answer leaves it as it is.
func (e *Event) judge(forbidden *uint8) Meaning {
	switch e.Class {
	case ClassForbidden:
		if e.RetryAfter > 0 {
			return MeaningRefused
		}
		*forbidden = satInc(*forbidden)
		if int(*forbidden) >= forbiddenStreak {
			return MeaningRefused
		}
		return MeaningAnswered
	case ClassOK:
		*forbidden = 0
		return MeaningAnswered
	case ClassThrottled, ClassUnavailable:
		*forbidden = 0
		return MeaningRefused
	case ClassServerError:
		*forbidden = 0
		return MeaningFailed
	case ClassNetwork:
		return MeaningFailed
	}
	return MeaningNothing
}
