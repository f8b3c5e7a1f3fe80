package seed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A Fetcher makes one request. *fetch.Client is one.
type Fetcher interface {
	Do(ctx context.Context, r fetch.Request) (*fetch.Response, error)
}

// A Sink takes what a source found. It must not keep the slice. Its error ends the source and is returned.
type Sink func(ctx context.Context, urls []urlnorm.URL) error

// A Summary says what one question brought.
type Summary struct {
	Rows   int64 // entries of the index that were read
	Found  int64 // URLs handed over, repeats included
	Absent int64 // names that do not exist any more
	Failed int64 // names that DNS had no answer for
}

// Options say how often and how long a source asks its service. The zero value lacks only the Fetcher.
type Options struct {
	Fetcher Fetcher

	// Attempts is how often one request is made before the source gives up. Zero means 4.
	Attempts int

	// Backoff is the wait before the second attempt; it doubles with each further one. Zero means 2 s.
	Backoff time.Duration

	// Pause is the least time between the starts of two requests. Zero means 1 s.
	Pause time.Duration

	// Timeout is for one whole answer. Zero means 10 minutes.
	Timeout time.Duration

	// MaxBytes is the most that is read of one answer. Zero means 1 GiB.
	MaxBytes int64
}

func (o Options) withDefaults() Options {
	o.Attempts = cmp.Or(o.Attempts, 4)
	o.Backoff = cmp.Or(o.Backoff, 2*time.Second)
	o.Pause = cmp.Or(o.Pause, time.Second)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Minute)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<30)
	return o
}

// maxWait is the longest wait before another attempt. A service that asks for a longer one is not asked again.
const maxWait = 2 * time.Minute

// validate reports every fault of options whose defaults are set.
func (o Options) validate() error {
	var errs []error
	if o.Fetcher == nil {
		errs = append(errs, errors.New("no fetcher"))
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"attempts", int64(o.Attempts)}, {"backoff", int64(o.Backoff)}, {"pause", int64(o.Pause)},
		{"timeout", int64(o.Timeout)}, {"max bytes", o.MaxBytes},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s must not be negative", n.name))
		}
	}
	return errors.Join(errs...)
}

// parseBase reads the address of a service. Paths are put behind it.
func parseBase(text string) (urlnorm.URL, error) {
	u, err := urlnorm.Parse(text)
	if err != nil {
		return u, fmt.Errorf("address %q: %w", text, err)
	}
	if u.Query() != "" {
		return u, fmt.Errorf("address %q: must not have a query", text)
	}
	return u, nil
}

// under is an address below base. The rest begins with a slash.
func under(base urlnorm.URL, rest string) (urlnorm.URL, error) {
	return urlnorm.Parse(strings.TrimSuffix(base.Origin()+base.Path(), "/") + rest)
}

// within reports whether a host is the domain or below it.
func within(host, domain string) bool {
	rest, ok := strings.CutSuffix(host, domain)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}
