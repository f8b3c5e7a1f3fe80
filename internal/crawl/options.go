package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/crawl/seeding"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/state"
	"github.com/mapwright/mapwright/wal"
)

// Outputs makes the files and the report of a crawl. The methods may be called at the same time.
type Outputs interface {
	// Check returns datadir.ErrNotOurs if Finish would replace a file that Mapwright did not write.
	Check(s *config.Settings, starts []datadir.Start, dir datadir.Dir) error
	// Finish writes the outputs of a crawl that has ended. The crawl holds its store and its directory meanwhile.
	Finish(ctx context.Context, e *monitor.Ended) error
	// Export writes the pages that are recorded so far. Types are the content types that XML sitemaps may list.
	Export(ctx context.Context, s *state.Store, options json.RawMessage, types []string) (json.RawMessage, error)
}

// Options are the settings and the parts that one crawl needs.
type Options struct {
	Settings *config.Settings
	Starts   []datadir.Start // of a new crawl; not used with a plan
	Plan     *datadir.Plan   // of a crawl to go on with
	Recrawl  *Recrawl        // begins a recrawl of the crawl of the plan; nil goes on with what is under way
	Dir      datadir.Dir
	Version  string
	Managed  Managed
	Outputs  Outputs

	Log     *slog.Logger     // nil means none
	Metrics *metrics.Metrics // may be nil
	// Cluster is this machine's session in a crawl of several machines, whose plan is Plan. Run ends the session. Nil
	// means a crawl of this machine alone.
	Cluster *session.Session
	// Warnings are for the report: what happened before the run, such as the end of an earlier session.
	Warnings []string

	Fetcher fetch.Fetcher // nil means one of the crawl's own, by the settings
	LogFS   wal.FS        // where the store's log lives; nil means the operating system
	// FreeBytes says how much space the disk of a directory has left. Nil asks the operating system.
	FreeBytes func(dir string) (int64, error)

	// WouldFetch, when not nil, sees each page that would be fetched, and no page is fetched. Workers call it at the
	// same time. The crawl is in a directory that is deleted after it.
	WouldFetch func(*frontier.Link)

	// Sitemaps bounds the sitemaps that are read.
	Sitemaps seeding.Limits

	// NoControl opens no control socket, so that 'mapwright status' cannot ask the crawl. A goroutine that waits for a
	// socket would keep the clock of a testing/synctest bubble from advancing.
	NoControl bool

	// Started, when not nil, is called once with a view of the running crawl.
	Started func(*monitor.Monitor)
}

// Managed is what a program that runs many crawls decides for each of them. The zero value is a crawl that runs by
// itself.
type Managed struct {
	// Account names whose crawl it is: accounts take turns when all workers of the process, or all requests that a
	// network address may get, are in use, and leave some of them to others.
	Account string
	// Elapsed is how long earlier runs of this generation have crawled. It counts towards the time limit.
	Elapsed time.Duration
	// Quota grants the pages that may be fetched. Nil means that only the settings limit them.
	Quota Quota
	// Finishing, when not nil, is called once before the outputs are written, when nothing can change the result any
	// more. If it returns false, the run ends as if it had been paused.
	Finishing func() bool
	// Room bounds the outputs. Nil means that only free disk space does.
	Room *datadir.Room
	// HotSetBytes bounds the memory for recently seen URLs. Zero means the default of the frontier.
	HotSetBytes int
	// HasSlot means that the caller holds the slot of safe crawls.
	HasSlot bool
	// GuardStarts means that a start URL whose address is not public is refused, like any other URL.
	GuardStarts bool
	// Given, when not nil, says that the crawl belongs to a user of a service. It has the settings, by file key, that
	// the user gave; the others are the operator's. No text that the user can read names an operator's setting, a file
	// of the server or an address of its network. Headers of the operator go only to the origins of header-to.
	Given map[string]bool
	// Notify, when not nil, is told what a user should know at once. It must return soon, and must not call the crawl.
	Notify func(Notice)
}

// Notice is something that a user should know while a crawl runs: that a share of a limit is used, or that a host is
// not asked any more.
type Notice struct {
	Limit   string `json:"limit,omitempty"` // pages or seconds
	Percent int64  `json:"percent,omitempty"`
	Host    string `json:"host,omitempty"`
	Reason  string `json:"reason,omitempty"` // why the host is not asked
}

// notice passes n to notify, which may be nil.
func (n Notice) notice(notify func(Notice)) {
	if notify != nil {
		notify(n)
	}
}

// Recrawl says which URLs of a finished crawl are visited again. It holds for one generation.
type Recrawl struct {
	// Generation is the least number of the one to begin; it is greater if the crawl has come further.
	Generation uint32
	// Ordered is when the recrawl was ordered. If a generation has begun since, the run goes on with it. Zero begins one
	// in any case.
	Ordered          time.Time
	MaxAge           time.Duration // only URLs whose last check is longer ago; zero means all
	Include, Exclude []string      // expressions that URLs must match, and must not
}

// terms are those of a recrawl that begins now, and not before it was ordered, whatever the clock says.
func (r *Recrawl) terms() recrawl.Terms {
	t := recrawl.Terms{Began: time.Now(), Include: r.Include, Exclude: r.Exclude}
	if t.Began.Before(r.Ordered) {
		t.Began = r.Ordered
	}
	t.Began = t.Began.Truncate(time.Millisecond)
	if r.MaxAge > 0 {
		t.CheckedBefore = t.Began.Add(-r.MaxAge)
	}
	return t
}

// begins reports whether the run begins a generation, by the number of the last one and when that began.
func (r *Recrawl) begins(last uint32, began time.Time) bool {
	return r != nil && (r.Ordered.IsZero() || last < r.Generation || began.Before(r.Ordered.Truncate(time.Millisecond)))
}

// Check says what is wrong with the expressions.
func (r *Recrawl) Check() error {
	_, err := scope.NewMatcher(r.Include, r.Exclude)
	return err
}

// validate names every fault of the options that can be seen without opening anything.
func (o *Options) validate() error {
	var faults []error
	if o.Settings == nil {
		faults = append(faults, errors.New("no settings"))
	}
	if o.Outputs == nil {
		faults = append(faults, errors.New("no outputs"))
	}
	if o.Dir == "" {
		faults = append(faults, errors.New("no data directory"))
	}
	if len(o.Starts) == 0 && o.Plan == nil {
		faults = append(faults, errors.New("neither start URLs of a new crawl nor the plan of one to go on with"))
	}
	if o.Recrawl != nil && o.Plan == nil {
		faults = append(faults, errors.New("a recrawl without the plan of its crawl"))
	}
	if o.Recrawl != nil {
		faults = append(faults, o.Recrawl.Check())
	}
	if o.Cluster != nil && (o.Plan == nil || o.Recrawl != nil) {
		faults = append(faults,
			errors.New("a session in a crawl of several machines needs its plan, which has the recrawl too"))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("crawl options: %w", err)
	}
	return nil
}
