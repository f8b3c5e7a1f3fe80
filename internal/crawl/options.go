package crawl

import (
	"context"
	"log/slog"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/wal"
)

// Start is a URL to start from.
type Start struct {
	URL urlnorm.URL
	// Bare means that only a domain was given: where https is refused, http is tried.
	Bare bool
}

// Fetcher is what the crawl needs of a fetcher: one lease, one call. An implementation may archive or render pages, and may make more than
// one request in a call. It calls Start of the request's Wire before the first byte of each request, and sends nothing if that returns an
// error: Do then returns a *fetch.Error of the kind Canceled.
type Fetcher interface {
	Do(ctx context.Context, r fetch.Request) (*fetch.Response, error)
}

// Options are what one crawl needs.
type Options struct {
	Settings *config.Settings
	Starts   []Start // of a new crawl
	Plan     *Plan   // of a crawl to go on with
	Dir      Dir
	Version  string

	Log     *slog.Logger
	Metrics *metrics.Metrics // may be nil
	Fetcher Fetcher          // nil means one of the crawl's own, by the settings
	LogFS   wal.FS           // where the store's log lives; nil means the operating system

	// NoControl opens no control socket, so that 'mapwright status' cannot ask the crawl. A goroutine that waits for a socket would
	// keep the clock of a testing/synctest bubble from advancing.
	NoControl bool

	// Interrupted is closed when the crawl shall end: no new leases, a grace period for the work under way, then the outputs.
	Interrupted <-chan struct{}
	// Started, when not nil, is called once with a view of the running crawl.
	Started func(*Monitor)
}
