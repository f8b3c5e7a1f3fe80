package crawl

import (
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// Monitor is a view of a running crawl, for whoever shows it.
type Monitor struct{ r *run }

// StatusVersion stands first in a live status.
const StatusVersion = 1

// Live is the state of a crawl at one moment: what the live view, /status and 'mapwright status' show.
type Live struct {
	SchemaVersion int              `json:"schema_version"`
	State         Status           `json:"state"`
	PID           int              `json:"pid,omitempty"`
	Profile       string           `json:"profile"`
	StartURLs     []string         `json:"start_urls"`
	StartedAt     page.Time        `json:"started_at,omitzero"`
	Elapsed       float64          `json:"elapsed_seconds,omitempty"`
	Found         int64            `json:"found"`
	Done          int64            `json:"done"`
	Pending       int64            `json:"pending"`
	InFlight      int64            `json:"in_flight"`
	Outcomes      map[string]int64 `json:"outcomes"`
	Bytes         int64            `json:"bytes"`
	PagesPerSec   float64          `json:"pages_per_second,omitempty"` // since this run began
	InMemory      int64            `json:"frontier_in_memory"`
	OnDisk        int64            `json:"frontier_on_disk"`
	Waiting       string           `json:"waiting,omitempty"` // why nothing moves, when nothing does
	Limits        []LimitUse       `json:"limits,omitempty"`
	Workers       ControlUse       `json:"workers"`
	CommitMS      float64          `json:"commit_latency_ms"`
	Robots        int64            `json:"robots_in_flight"`
	Tickets       int64            `json:"pages_counted"`
	Violations    int64            `json:"inflight_violations"`
}

// LimitUse is how much of a limit is used up.
type LimitUse struct {
	Name  string  `json:"name"`
	Used  float64 `json:"used"`
	Limit float64 `json:"limit"`
}

// ControlUse is how much of a control is in use.
type ControlUse struct {
	Limit   int `json:"limit"`
	InUse   int `json:"in_use"`
	Waiting int `json:"waiting"`
}

// Live takes the state as it is now.
func (m *Monitor) Live() *Live {
	r := m.r
	fs, ss, counters := r.frontier.Stats(), r.store.Stats(), r.store.Counters()
	elapsed := r.elapsed()
	_, pages := r.tally.byOutcome()
	out := &Live{
		SchemaVersion: StatusVersion, State: Running, Profile: string(r.settings.Profile), StartedAt: page.Time{Time: r.beganAt()}, Elapsed: elapsed.Seconds(),
		Found: int64(counters.Discovered), Done: int64(counters.Finished), Pending: fs.Pending, InFlight: fs.Leased, Outcomes: outcomeCounts(&counters),
		Bytes: int64(counters.Bytes), PagesPerSec: float64(pages) / max(elapsed.Seconds(), 0.001), InMemory: fs.InMemory, OnDisk: fs.OnDisk,
		CommitMS: float64(ss.CommitLatency) / float64(time.Millisecond), Robots: fs.Robots, Tickets: fs.Tickets, Violations: fs.Violations,
	}
	out.Workers.Limit, out.Workers.InUse, out.Workers.Waiting = r.gov.state()
	for _, s := range r.starts[:min(len(r.starts), maxShownStarts)] {
		out.StartURLs = append(out.StartURLs, s.URL.String())
	}
	if r.limits.pages > 0 {
		out.Limits = append(out.Limits, LimitUse{"pages", float64(fs.Tickets), float64(r.limits.pages)})
	}
	if r.limits.duration > 0 {
		out.Limits = append(out.Limits, LimitUse{"seconds", elapsed.Seconds(), r.limits.duration.Seconds()})
	}
	out.Waiting = r.waitingReason(fs.Leased, fs.Pending, fs.Waiting)
	return out
}

// maxShownStarts bounds the list of start URLs in a status.
const maxShownStarts = 10

// Stored is the state of a crawl that does not run, as far as its store tells.
func Stored(s *state.Store, p *Plan) *Live {
	counters := s.Counters()
	out := &Live{
		SchemaVersion: StatusVersion, State: Running, StartedAt: p.CreatedAt, Found: int64(counters.Discovered), Done: int64(counters.Finished),
		Pending: int64(counters.Pending()), Outcomes: outcomeCounts(&counters), Bytes: int64(counters.Bytes), Tickets: countedPages(&counters),
	}
	if status, ok := runFact(s, factStatus); ok {
		out.State = Status(status)
	}
	if profile := p.Settings[config.ProfileName]; len(profile) > 0 {
		out.Profile = profile[0]
	}
	for _, st := range p.Starts[:min(len(p.Starts), maxShownStarts)] {
		out.StartURLs = append(out.StartURLs, st.URL)
	}
	return out
}
