package service

import (
	"github.com/mapwright/mapwright/internal/page"
)

// Schedule starts crawls or recrawls at given times.
type Schedule struct {
	ID         string      `json:"id"`
	Account    string      `json:"account"`
	Name       string      `json:"name"`
	Cron       string      `json:"cron,omitempty"`     // expression of five fields; this or Interval
	Interval   string      `json:"interval,omitempty"` // such as "6h"
	Zone       string      `json:"zone"`               // IANA name; UTC if none was given
	Enabled    bool        `json:"enabled"`
	Submission *Submission `json:"submission,omitempty"` // the crawl to start; this or Crawl
	Crawl      string      `json:"crawl,omitempty"`      // id of the crawl to visit again
	Recrawl    *Recrawl    `json:"recrawl,omitempty"`    // what of it
	CreatedAt  page.Time   `json:"created_at"`
	NextAt     page.Time   `json:"next_at,omitzero"`
	LastAt     page.Time   `json:"last_at,omitzero"`
	LastCrawl  string      `json:"last_crawl,omitempty"`
	LastError  string      `json:"last_error,omitempty"` // why the last run was not started
}

// Webhook is an address that is told of events.
type Webhook struct {
	ID      string      `json:"id"`
	Account string      `json:"account"`
	URL     string      `json:"url"`
	Events  []EventType `json:"events"`
	Enabled bool        `json:"enabled"`
	// AllowPrivate is set by an admin: the address may be one that is not public.
	AllowPrivate bool      `json:"allow_private,omitempty"`
	CreatedAt    page.Time `json:"created_at"`
	// only in the answer to its creation, and to a change that draws another one
	Secret string `json:"secret,omitempty"`
}

// Delivery is one event for one webhook.
type Delivery struct {
	ID         string        `json:"id"`
	Webhook    string        `json:"webhook"`
	Event      int64         `json:"event,omitempty"` // none for a test
	Type       EventType     `json:"type"`
	Crawl      string        `json:"crawl,omitempty"`
	State      DeliveryState `json:"state"`
	Attempts   int           `json:"attempts"`
	CreatedAt  page.Time     `json:"created_at"`
	NextAt     page.Time     `json:"next_at,omitzero"`
	DoneAt     page.Time     `json:"done_at,omitzero"`
	LastStatus int           `json:"last_status,omitempty"`
	LastError  string        `json:"last_error,omitempty"`
}

// DeliveryState is how far a delivery is.
type DeliveryState string

// States of a delivery.
const (
	DeliveryPending DeliveryState = "pending"
	Delivered       DeliveryState = "delivered"
	DeliveryFailed  DeliveryState = "failed"
)
