package seeding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// A statusError is an answer whose status is not a success.
type statusError struct {
	Status int
	// Wait is what Retry-After asked for, or zero.
	Wait time.Duration
}

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
}

// errShape means that an answer was something else than what the service documents, such as a page that says it is
// busy.
var errShape = errors.New("not an answer of the documented form")

// A client asks one service, one question at a time.
type client struct {
	base    weburl.URL // address of the service
	fetcher fetch.Fetcher
	limits  limits
	last    time.Time // start of the last request
}

// limits say how often and how long a service is asked.
type limits struct {
	attempts int           // of one request, before the source gives up
	backoff  time.Duration // before the second attempt; it doubles with each further one
	pause    time.Duration // least time between the starts of two requests
	timeout  time.Duration // of one whole answer
	maxBytes int64         // of one answer
}

// maxWait is the longest wait before another attempt. A service that asks for a longer one is not asked again.
const maxWait = 2 * time.Minute

// newClient makes a client of the service at an address. Paths are appended to the address.
func newClient(base string, f fetch.Fetcher) (*client, error) {
	u, err := weburl.Parse(base)
	if err == nil && u.Query() != "" {
		err = errors.New("must not have a query")
	}
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", base, err)
	}
	usual := limits{attempts: 4, backoff: 2 * time.Second, pause: time.Second, timeout: 10 * time.Minute,
		maxBytes: 1 << 30}
	return &client{base: u, fetcher: f, limits: usual}, nil
}

// under returns an address below the address of the service. The rest begins with a slash.
func (c *client) under(rest string) (weburl.URL, error) {
	return weburl.Parse(strings.TrimSuffix(c.base.Origin()+c.base.Path(), "/") + rest)
}

// get makes a request and passes the answer to read. After each failure that may pass, it does both again. A sinkError
// is final: read wraps errors of its caller in it.
func (c *client) get(ctx context.Context, u weburl.URL, read func(io.Reader) error) error {
	for attempt := 1; ; attempt++ {
		if err := sleep(ctx, time.Until(c.last.Add(c.limits.pause))); err != nil {
			return err
		}
		err := c.once(ctx, u, read)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err):
			return err
		case attempt == c.limits.attempts:
			return fmt.Errorf("after %d attempts: %w", attempt, err)
		}
		wait := min(c.limits.backoff<<min(attempt-1, 16), maxWait)
		if status, ok := errors.AsType[*statusError](err); ok && status.Wait > 0 {
			if status.Wait > maxWait {
				return fmt.Errorf("it asks to wait for %v: %w", status.Wait, err)
			}
			wait = max(wait, status.Wait)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// maxHops is how many redirects of a service are followed, as from http to https.
const maxHops = 3

func (c *client) once(ctx context.Context, u weburl.URL, read func(io.Reader) error) error {
	c.last = time.Now()
	for hop := 0; ; hop++ {
		resp, err := c.fetcher.Do(ctx, fetch.Request{URL: u, Mode: fetch.Stream, Timeout: c.limits.timeout,
			MaxBody: c.limits.maxBytes})
		if err != nil {
			resp.Close()
			return err
		}
		if resp.OK() && resp.Reader != nil {
			err := read(resp.Reader)
			resp.Close()
			return err
		}
		status := &statusError{Status: resp.Status, Wait: pace.ParseRetryAfter(resp.RetryAfter, resp.Header.Get("Date"),
			time.Now())}
		location := resp.Location
		resp.Close()
		if status.Status < 300 || status.Status >= 400 || location == "" || hop == maxHops {
			return status
		}
		if u, err = u.Resolve(location); err != nil {
			return fmt.Errorf("redirect to %q: %w", location, err)
		}
	}
}

// A sinkError is an error of the function that takes the URLs.
type sinkError struct{ error }

func (e *sinkError) Unwrap() error { return e.error }

// final reports whether another attempt would have the same error.
func final(err error) bool {
	if _, ours := errors.AsType[*sinkError](err); ours {
		return true
	}
	if fetch.KindOf(err) == fetch.RefusedAddress || fetch.KindOf(err) == fetch.TooLarge {
		return true
	}
	status, ok := errors.AsType[*statusError](err)
	if !ok {
		return false
	}
	switch status.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status.Status < 500
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A meteredReader fails when one piece of an answer takes more than most: a decoder would hold it all in memory.
type meteredReader struct {
	r    io.Reader
	most int
	used int // bytes read since the last piece; reset by the reader's owner
}

func (m *meteredReader) Read(p []byte) (int, error) {
	if m.used > m.most {
		return 0, fmt.Errorf("%w: one entry of more than %d bytes", errShape, m.most)
	}
	n, err := m.r.Read(p)
	m.used += n
	return n, err
}
