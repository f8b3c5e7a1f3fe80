package service

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// Crawl is one crawl of the service as users see it.
type Crawl struct {
	ID         string   `json:"id"`
	Account    string   `json:"account"`
	Name       string   `json:"name"`
	Labels     []string `json:"labels"`
	Generation uint32   `json:"generation"` // 0 is the first crawl, 1 the first recrawl
	State      State    `json:"state"`
	Desired    Desired  `json:"desired"`
	Waiting    *Waiting `json:"waiting,omitempty"` // of a queued or paused crawl

	StartURLs     []string       `json:"start_urls"` // the first of them, at most ten
	StartURLCount int            `json:"start_url_count"`
	Profile       string         `json:"profile"`
	Settings      map[string]any `json:"settings,omitzero"` // what the submission set, by file key; lists leave it out
	Plan          string         `json:"plan"`
	Priority      int            `json:"priority"` // 0 to 9; higher ones run first
	Schedule      string         `json:"schedule,omitempty"`

	CreatedAt page.Time `json:"created_at"`
	StartedAt page.Time `json:"started_at,omitzero"` // of this generation
	EndedAt   page.Time `json:"ended_at,omitzero"`
	ExpiresAt page.Time `json:"expires_at,omitzero"` // when retention deletes it
	Result
	Progress

	Links map[string]string `json:"links"` // filled by the HTTP API
}

// hasStarted says whether the present generation has begun to crawl.
func (c *Crawl) hasStarted() bool { return !c.StartedAt.IsZero() }

// isInQueue says whether the crawl, if it does not run, waits to start or to write its files.
func (c *Crawl) isInQueue() bool {
	return c.State == Queued || c.State == Finishing || c.State == Paused && c.Desired == DesiredCancel
}

// isSafe says whether the crawl has the safe profile.
func (c *Crawl) isSafe() bool { return c.Profile == string(config.Safe) }

// fillEmpty replaces missing lists and objects by empty ones, as the API documents them.
func (c *Crawl) fillEmpty() {
	c.Result.fillEmpty()
	c.Progress.fillEmpty()
	c.Links = map[string]string{}
}

func (r *Result) fillEmpty() {
	if r.Errors == nil {
		r.Errors = []string{}
	}
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
}

func (p *Progress) fillEmpty() {
	if p.Outcomes == nil {
		p.Outcomes = map[string]int64{}
	}
	if p.StatusClasses == nil {
		p.StatusClasses = map[string]int64{}
	}
	if p.Limits == nil {
		p.Limits = []monitor.LimitUse{}
	}
}

// setCancelled makes c a crawl that was cancelled and has no outputs.
func (c *Crawl) setCancelled(now time.Time) {
	reason := "cancelled"
	if !c.hasStarted() {
		reason = "cancelled before it began"
	}
	c.State, c.Desired, c.Waiting = Cancelled, DesiredCancel, nil
	c.Result = Result{Status: page.Cancelled, Success: new(bool), Reason: reason, Warnings: c.Warnings}
	c.EndedAt = page.Time{Time: now}
}

// Result is how a generation of a crawl ended.
type Result struct {
	Status   page.Status `json:"status,omitempty"`
	Success  *bool       `json:"success,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	Errors   []string    `json:"errors"`
	Warnings []string    `json:"warnings,omitzero"` // lists of crawls leave them out
}

// bounded are the first of the texts that a report has of one kind. The database keeps them for each generation, and a
// crawled site decides how many and how long they are.
func bounded(texts []string, kind string) []string {
	const most = 16 << 10 // bytes
	bytes := 0
	for i, text := range texts {
		if bytes += len(text); bytes > most {
			more := fmt.Sprintf("and %d more: report.json has all %s", len(texts)-i, kind)
			return append(slices.Clone(texts[:i]), more)
		}
	}
	return texts
}

// Progress is how far a crawl is: a running crawl at this moment, another crawl when it last stopped.
type Progress struct {
	Elapsed        float64            `json:"elapsed_seconds"` // of this generation, without pauses
	Found          int64              `json:"found"`
	Done           int64              `json:"done"`
	Pending        int64              `json:"pending"`
	InFlight       int64              `json:"in_flight"`
	PagesCounted   int64              `json:"pages_counted"` // towards page limits and the quota
	Bytes          int64              `json:"bytes"`
	Outcomes       map[string]int64   `json:"outcomes"`
	StatusClasses  map[string]int64   `json:"status_classes"`
	Indexable      *int64             `json:"indexable,omitempty"`
	PagesPerSecNow float64            `json:"pages_per_second_now"`
	Limits         []monitor.LimitUse `json:"limits"`
	Problems       *problems.Totals   `json:"problems,omitempty"`
}

// Run is one ended generation of a crawl.
type Run struct {
	Generation uint32    `json:"generation"`
	State      State     `json:"state"`
	StartedAt  page.Time `json:"started_at,omitzero"`
	EndedAt    page.Time `json:"ended_at,omitzero"`
	Result
	Progress
}

// Waiting is why a crawl does not run.
type Waiting struct {
	Code     WaitCode  `json:"code"`
	Detail   string    `json:"detail"`
	Position int       `json:"position,omitempty"` // in the queue, from 1
	Until    page.Time `json:"until,omitzero"`     // when it ends by itself, if that is known
}

// WaitCode says what a crawl waits for.
type WaitCode string

// What a crawl waits for.
const (
	WaitSlot     WaitCode = "slot"      // --max-crawls run
	WaitAccount  WaitCode = "account"   // the account is disabled
	WaitPlan     WaitCode = "plan"      // the plan's crawls at once run, or use the disk that it allows
	WaitQuota    WaitCode = "quota"     // the month's pages are used
	WaitDisk     WaitCode = "disk"      // less than --min-free is free
	WaitSafeSlot WaitCode = "safe_slot" // another safe crawl runs on the machine
	WaitOperator WaitCode = "operator"  // a key paused it, or it has found too many hosts
	WaitRecovery WaitCode = "recovery"  // the process ended three times while it ran
)

// Submission is a request for a crawl.
type Submission struct {
	StartURLs []string                   `json:"start_urls"`
	Settings  map[string]json.RawMessage `json:"settings,omitempty"` // by file key
	Name      string                     `json:"name,omitempty"`
	Labels    []string                   `json:"labels,omitempty"`
	Priority  *int                       `json:"priority,omitempty"` // 0 to 9; 5 if it is not given
	// one that the account may use; the account's own if it is not given
	Plan string `json:"plan,omitempty"`
}

// Edit changes a crawl. Fields that are nil stay as they are. A setting whose value is null becomes its default.
type Edit struct {
	StartURLs *[]string                  `json:"start_urls,omitempty"` // only before the crawl has begun
	Plan      *string                    `json:"plan,omitempty"`       // likewise
	Name      *string                    `json:"name,omitempty"`
	Labels    *[]string                  `json:"labels,omitempty"`
	Priority  *int                       `json:"priority,omitempty"`
	Settings  map[string]json.RawMessage `json:"settings,omitempty"`
}

// Recrawl says what a recrawl visits again.
type Recrawl struct {
	MaxAge  string   `json:"max_age,omitempty"` // only URLs whose last check is longer ago, such as "7d"
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// CrawlFilter selects crawls of a list, newest first. Zero values select all.
type CrawlFilter struct {
	Account  string // set by the service unless the caller is an admin
	States   []State
	Label    string
	Name     string // part of the name or of a start URL that is shown, in any case
	Schedule string
	Cursor   string
	Limit    int // 0 means 50; at most 1000
}

// List is one part of a longer list.
type List[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// State is where a crawl is. Only the engine writes it.
type State string

// The states.
const (
	Queued    State = "queued"
	Running   State = "running"
	Pausing   State = "pausing"
	Paused    State = "paused"
	Finishing State = "finishing" // outputs are being written
	Complete  State = "complete"
	Partial   State = "partial"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	Deleting  State = "deleting"
)

// States are all states.
func States() []State {
	return []State{Queued, Running, Pausing, Paused, Finishing, Complete, Partial, Failed, Cancelled, Deleting}
}

// Ended says whether a generation of the crawl is over.
func (s State) Ended() bool { return slices.Contains([]State{Complete, Partial, Failed, Cancelled}, s) }

// Desired is what the last command wants a crawl to be. The engine moves the state towards it.
type Desired string

// What commands want.
const (
	DesiredRun    Desired = "run" // run to its end
	DesiredPause  Desired = "pause"
	DesiredCancel Desired = "cancel"
	DesiredDelete Desired = "delete"
)

// Command is what a user may ask of a crawl.
type Command string

// The commands.
const (
	CommandPause   Command = "pause"
	CommandResume  Command = "resume"
	CommandCancel  Command = "cancel"
	CommandRecrawl Command = "recrawl"
	CommandDelete  Command = "delete"
)

// Commands are all commands.
func Commands() []Command {
	return []Command{CommandPause, CommandResume, CommandCancel, CommandRecrawl, CommandDelete}
}
