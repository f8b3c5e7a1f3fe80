package service

import (
	"encoding/json"

	"github.com/mapwright/mapwright/internal/page"
)

// Event is something that happened to a crawl, an account or a schedule. Events with an id are durable and in the order
// of their ids.
type Event struct {
	ID         int64           `json:"id,omitempty"` // none for a sample
	At         page.Time       `json:"at"`
	Type       EventType       `json:"type"`
	Account    string          `json:"account,omitempty"`
	Crawl      string          `json:"crawl,omitempty"`
	Generation uint32          `json:"generation"`
	Actor      Actor           `json:"actor"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// EventType names what happened.
type EventType string

// The types of events.
const (
	CrawlQueued     EventType = "crawl.queued"
	CrawlStarted    EventType = "crawl.started"
	CrawlPausing    EventType = "crawl.pausing"
	CrawlPaused     EventType = "crawl.paused"
	CrawlResumed    EventType = "crawl.resumed"
	CrawlFinishing  EventType = "crawl.finishing"
	CrawlFinished   EventType = "crawl.finished"
	CrawlDeleted    EventType = "crawl.deleted"
	LimitWarning    EventType = "limit.warning"
	HostBlocked     EventType = "host.blocked"
	QuotaReached    EventType = "quota.reached"
	ScheduleSkipped EventType = "schedule.skipped"
	Sample          EventType = "sample" // never stored: the live status
	Gap             EventType = "gap"    // never stored: events that the client asked for are not kept any more
)

// EventTypes are all types of durable events.
func EventTypes() []EventType {
	return []EventType{CrawlQueued, CrawlStarted, CrawlPausing, CrawlPaused, CrawlResumed, CrawlFinishing,
		CrawlFinished, CrawlDeleted,
		LimitWarning, HostBlocked, QuotaReached, ScheduleSkipped}
}

// Actor is who caused something: a key, or a part of the service. One of the two is set.
type Actor struct {
	Key    string `json:"key,omitempty"`    // its id
	System string `json:"system,omitempty"` // such as dispatcher, schedule, retention
}

// EventFilter selects durable events, oldest first.
type EventFilter struct {
	Account string // empty means all accounts
	Crawl   string // empty means all crawls
	After   int64  // only events with a higher id
	Limit   int    // 0 means 1000
}

// AuditEntry is one line of the audit log: who did what.
type AuditEntry struct {
	ID      int64           `json:"id"`
	At      page.Time       `json:"at"`
	Account string          `json:"account"` // of the actor
	Actor   Actor           `json:"actor"`
	Remote  string          `json:"remote,omitempty"` // address of the client
	Action  string          `json:"action"`           // such as crawl.pause, key.create
	Object  string          `json:"object"`           // id of what it was done to
	Data    json.RawMessage `json:"data,omitempty"`
}
