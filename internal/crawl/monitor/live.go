package monitor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// StatusVersion stands first in a live status. Fields are added without raising it; one that goes or changes its
// meaning raises it.
const StatusVersion = 1

// Live is the state of a crawl at one moment: what the live view, /status and 'mapwright status' show.
type Live struct {
	SchemaVersion int         `json:"schema_version"`
	State         page.Status `json:"state"`
	Reason        string      `json:"reason,omitempty"` // why a crawl that does not run ended
	Phase         Phase       `json:"phase,omitempty"`  // of a crawl that runs
	PID           int         `json:"pid,omitempty"`
	Profile       string      `json:"profile"`
	StartURLs     []string    `json:"start_urls"`
	StartURLCount int         `json:"start_url_count"`    // StartURLs has the first few of them
	Insecure      bool        `json:"insecure,omitempty"` // certificates are not checked
	Generation    uint32      `json:"generation"`         // 0 is the first crawl, 1 the first recrawl
	StartedAt     page.Time   `json:"started_at,omitzero"`
	Elapsed       float64     `json:"elapsed_seconds,omitempty"`

	Found    int64            `json:"found"`
	Done     int64            `json:"done"`
	Pending  int64            `json:"pending"`
	GivenUp  int64            `json:"given_up,omitempty"` // of Pending, the URLs of hosts that are blocked
	InFlight int64            `json:"in_flight"`
	Outcomes map[string]int64 `json:"outcomes"`
	Classes  map[string]int64 `json:"status_classes"` // of URLs that had an answer, such as 2xx
	Bytes    int64            `json:"bytes"`

	Conditional int64 `json:"conditional_requests,omitempty"` // of this run, answered
	NotModified int64 `json:"not_modified,omitempty"`         // of them, those answered 304

	PagesPerSec    float64 `json:"pages_per_second,omitempty"` // since this run began
	PagesPerSecNow float64 `json:"pages_per_second_now"`       // over the last seconds
	BytesPerSecNow float64 `json:"bytes_per_second_now"`       // likewise
	Idle           float64 `json:"idle_seconds,omitempty"`     // since anything was last found or finished
	Waiting        string  `json:"waiting,omitempty"`          // why nothing moves, when nothing does

	Memory   int64            `json:"memory_bytes"` // resident set of the process
	InMemory int64            `json:"frontier_in_memory"`
	OnDisk   int64            `json:"frontier_on_disk"`
	Hosts    map[string]int64 `json:"hosts,omitempty"` // that have anything pending, by what they wait for

	Limits   []LimitUse `json:"limits,omitempty"`
	Workers  ControlUse `json:"workers"`
	CommitMS float64    `json:"commit_latency_ms"`
	LogBytes int64      `json:"log_bytes"`

	Busiest []HostUse `json:"busiest_hosts,omitempty"`
	Slowest []HostUse `json:"slowest_hosts,omitempty"` // of those that are being asked
	Resting []HostUse `json:"resting_hosts,omitempty"` // after refusals and failures, the longest first

	// of a crawl of several machines; what is found, done and pending is then of this machine's partitions
	Cluster *Cluster `json:"cluster,omitempty"`

	Robots     int64 `json:"robots_in_flight"`
	Tickets    int64 `json:"pages_counted"`
	Violations int64 `json:"inflight_violations"`
}

// Cluster is this machine's part in a crawl of several machines.
type Cluster struct {
	Name       string  `json:"name"` // of the crawl
	Machines   int     `json:"machines"`
	Partitions int     `json:"partitions"`                 // that this machine has
	Unowned    int     `json:"partitions_without_machine"` // that no living machine has
	Handovers  int     `json:"handovers_waiting"`          // of links between machines; counted up to 10,000
	Sent       uint64  `json:"handovers_sent"`             // by this machine
	Batches    uint64  `json:"batches"`                    // that this machine committed
	BatchMS    float64 `json:"batch_latency_ms"`           // of a commit, moving average
	// partitions that this machine took over from one that had not closed them
	Takeovers uint64 `json:"takeovers"`
	// sessions of this machine that ended because others had taken its partitions over
	Fenced    uint64 `json:"fenced"`
	Replaying int    `json:"partitions_replayed"` // whose log this machine is reading
	// of those logs; a row is what one batch holds for one partition
	RowsLeft  uint64  `json:"replay_rows_left"`
	ReadBytes uint64  `json:"replay_bytes"`        // that this session has read of logs
	Away      float64 `json:"engine_away_seconds"` // since when the engine cannot be reached; 0 if it can
}

// Phase is how far a run has come.
type Phase string

// The phases, in their order. A run may skip any but the last.
const (
	Queueing Phase = "queueing" // waits for another safe crawl to end
	Crawling Phase = "crawling"
	Stopping Phase = "stopping" // no new fetches; those under way may finish
	Writing  Phase = "writing"  // the outputs
)

// LimitUse is how much of a limit is used up.
type LimitUse struct {
	Name  string  `json:"name"` // pages or seconds
	Used  float64 `json:"used"`
	Limit float64 `json:"limit"`
	Left  float64 `json:"seconds_left,omitempty"` // until it is reached, at the present rate; 0 if that cannot be told
}

// ControlUse is how much of a control is in use.
type ControlUse struct {
	Limit   int `json:"limit"`          // now: the governor may have lowered it
	Most    int `json:"most,omitempty"` // by the settings
	InUse   int `json:"in_use"`
	Waiting int `json:"waiting"`
}

// HostUse is one host at one moment.
type HostUse struct {
	Host      string  `json:"host"`
	InFlight  int     `json:"in_flight"`
	Limit     int     `json:"limit"`  // what it may have in flight
	Leases    int64   `json:"leases"` // requests since it became active
	Pending   int64   `json:"pending"`
	DelayMS   float64 `json:"delay_ms"`
	LatencyMS float64 `json:"latency_ms"` // smoothed
	Why       string  `json:"why"`        // what it waits for
	Left      float64 `json:"seconds_left,omitempty"`
	Refusals  int     `json:"refusals,omitempty"` // in a row
	Failures  int     `json:"failures,omitempty"` // in a row
}

// limitUses returns how much of each limit is used up. Rate is pages per second at present.
func limitUses(f *Figures, pages int64, rate float64) []LimitUse {
	var all []LimitUse
	if f.MaxPages > 0 {
		u := LimitUse{Name: "pages", Used: float64(pages), Limit: float64(f.MaxPages)}
		if rate > 0 {
			u.Left = max(0, u.Limit-u.Used) / rate
		}
		all = append(all, u)
	}
	if f.MaxTime > 0 {
		all = append(all, LimitUse{Name: "seconds", Used: f.Counted.Seconds(), Limit: f.MaxTime.Seconds(),
			Left: max(0, f.MaxTime-f.Counted).Seconds()})
	}
	return all
}

// maxShownStarts bounds the list of start URLs in a status, shownHosts its lists of hosts.
const (
	maxShownStarts = 10
	shownHosts     = 5
)

// Stored is the state of a crawl that does not run, as far as its store tells.
func Stored(ctx context.Context, s *state.Store, p *datadir.Plan) (*Live, error) {
	counters := s.Counters()
	blocked := int64(0)
	for h, err := range WaitingHosts(ctx, s) {
		if err != nil {
			return nil, fmt.Errorf("count the URLs of blocked hosts: %w", err)
		}
		blocked += h.Pages
	}
	generation, err := page.Generation(s.Facts())
	if err != nil {
		return nil, err
	}
	out := &Live{
		SchemaVersion: StatusVersion, Generation: generation, State: page.Interrupted, StartedAt: p.CreatedAt,
		Found: int64(counters.Discovered), Done: int64(counters.Done()),
		Pending: int64(counters.Pending()), GivenUp: blocked,
		Outcomes: OutcomeCounts(&counters, blocked),
		Classes:  ClassCounts(&counters), Bytes: int64(counters.Bytes), Tickets: int64(counters.Counted),
		LogBytes: s.Stats().LogBytes, StartURLCount: len(p.Starts), Profile: p.Profile(),
		Insecure: slices.Equal(p.Settings["insecure"], []string{"true"}),
	}
	// The caller has the store open, so no run is under way: one that is recorded as running was interrupted.
	if status, ok := s.Facts()[page.FactStatus]; ok && page.Status(status) != page.Running {
		reason, _ := s.Facts()[page.FactReason]
		out.State, out.Reason = page.Status(status), string(reason)
	}
	for _, st := range p.Starts[:min(len(p.Starts), maxShownStarts)] {
		out.StartURLs = append(out.StartURLs, st.URL)
	}
	return out, nil
}

// WaitingHost is a host that is blocked or abandoned, and how many of its pages wait for a visit because of that.
type WaitingHost struct {
	frontier.HostFact
	Pages int64
}

// WaitingHosts goes through the hosts that are blocked or abandoned while pages of them wait. It reads their queues.
func WaitingHosts(ctx context.Context, s *state.Store) iter.Seq2[WaitingHost, error] {
	return func(yield func(WaitingHost, error) bool) {
		for b, err := range s.Backlogs(ctx, 0, 255) {
			h := WaitingHost{HostFact: b.Fact}
			if err == nil && !h.Blocked && !h.Abandoned {
				continue
			}
			if err == nil {
				h.Pages, err = pagesOf(ctx, s, &h.HostFact)
			}
			if (err != nil || h.Pages > 0) && !yield(h, err) || err != nil {
				return
			}
		}
	}
}

// pagesOf is how many pages are in the queue of a host.
func pagesOf(ctx context.Context, s *state.Store, h *frontier.HostFact) (pages int64, err error) {
	const chunk = 1000
	at, links := frontier.Cursor{}, []frontier.Link(nil)
	for n := chunk; n == chunk; n = len(links) {
		if links, at, err = s.Pending(ctx, h.Host, at, chunk); err != nil {
			return 0, err
		}
		for i := range links {
			if !links[i].Sitemap {
				pages++
			}
		}
	}
	return pages, nil
}

// OutcomeCounts are the store's counts by outcome, whether or not limits counted them. Blocked is how many of the
// pending URLs wait because their hosts are blocked or abandoned.
func OutcomeCounts(c *state.Counters, blocked int64) map[string]int64 {
	out := map[string]int64{}
	for code, n := range c.Outcomes {
		if n > 0 {
			out[page.Outcome(code).String()] += int64(n)
		}
	}
	// A URL that waits for a later visit has its outcome of the visit before.
	pending := int64(c.Discovered - min(c.Finished, c.Discovered))
	blocked = min(blocked, pending)
	for o, n := range map[page.Outcome]int64{page.Pending: pending - blocked, page.HostBlocked: blocked} {
		if n > 0 {
			out[o.String()] += n
		}
	}
	return out
}

// ClassCounts are the store's counts by class of status, named as those of a report.
func ClassCounts(c *state.Counters) map[string]int64 {
	out := map[string]int64{}
	for class, n := range c.Status {
		if class > 0 && n > 0 {
			out[strconv.Itoa(class)+"xx"] = int64(n)
		}
	}
	return out
}
