package service

import (
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/page"
)

// Account owns crawls, schedules, webhooks and usage.
type Account struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Plan      string    `json:"plan"`
	OwnHosts  []string  `json:"own_hosts"` // hosts for which the account may use settings with permission own_host
	Disabled  bool      `json:"disabled"`
	CreatedAt page.Time `json:"created_at"`
}

// AccountEdit changes an account. Fields that are nil stay as they are.
type AccountEdit struct {
	Name     *string   `json:"name,omitempty"`
	Plan     *string   `json:"plan,omitempty"`
	OwnHosts *[]string `json:"own_hosts,omitempty"`
	Disabled *bool     `json:"disabled,omitempty"`
}

// Scope is what a key may do.
type Scope string

// The scopes. Each contains those before it.
const (
	ScopeRead  Scope = "read"
	ScopeWrite Scope = "write"
	ScopeAdmin Scope = "admin"
)

// Scopes are all scopes.
func Scopes() []Scope { return []Scope{ScopeRead, ScopeWrite, ScopeAdmin} }

// Key is a credential of an account. Only its hash is stored.
type Key struct {
	ID         string    `json:"id"`
	Account    string    `json:"account"`
	Name       string    `json:"name"`
	Scopes     []Scope   `json:"scopes"`
	CreatedAt  page.Time `json:"created_at"`
	LastUsedAt page.Time `json:"last_used_at,omitzero"` // to the minute
	ExpiresAt  page.Time `json:"expires_at,omitzero"`
	RevokedAt  page.Time `json:"revoked_at,omitzero"`
	Secret     string    `json:"secret,omitempty"` // only in the answer to its creation

	hash string // of the secret; empty for the key of a session that a login link began
}

// State says whether a key can be used.
func (k *Key) State() KeyState {
	switch {
	case !k.RevokedAt.IsZero():
		return KeyRevoked
	case !k.ExpiresAt.IsZero() && !time.Now().Before(k.ExpiresAt.Time):
		return KeyExpired
	}
	return KeyValid
}

// KeyState says whether a key can be used.
type KeyState string

// States of a key.
const (
	KeyValid   KeyState = "valid"
	KeyExpired KeyState = "expired"
	KeyRevoked KeyState = "revoked"
)

// Plan is what an account may use. Zero means no limit.
type Plan struct {
	Name          string   `json:"name"`
	Safe          bool     `json:"safe"`                       // every crawl has the safe profile
	MaxURLs       int      `json:"max_urls,omitempty"`         // pages of one crawl
	MaxCrawls     int      `json:"max_crawls,omitempty"`       // crawls that run at once
	MaxQueued     int      `json:"max_queued,omitempty"`       // crawls that wait at once
	MaxPriority   int      `json:"max_priority"`               // highest priority of a crawl, 0 to 9
	PagesPerMonth int64    `json:"pages_per_month,omitempty"`  // quota of a UTC month
	DiskBytes     int64    `json:"disk_bytes,omitempty"`       // of all crawls of the account
	Refused       []string `json:"refused_settings,omitempty"` // settings that its crawls may not use, by file key

	own *Plan // the account's plan, if a crawl has another one but not by an admin; its limits apply to the crawl too
}

// defaultPlan is the plan of an account that was made without one. It exists from the start and can be changed.
const defaultPlan = "default"

// Usage is what an account has used of its plan.
type Usage struct {
	Account  string    `json:"account"`
	Plan     string    `json:"plan"`
	Period   string    `json:"period"` // UTC month, such as 2026-11
	Pages    PageUse   `json:"pages"`
	Crawls   CrawlUse  `json:"crawls"`
	Disk     DiskUse   `json:"disk_bytes"`
	ResetsAt page.Time `json:"resets_at"`
}

// PageUse is the use of the quota. Granted pages are reserved by crawls that run, used ones were requested. Limit 0
// means no limit.
type PageUse struct {
	Used    int64 `json:"used"`
	Granted int64 `json:"granted"`
	Limit   int64 `json:"limit,omitempty"`
}

// CrawlUse is how many crawls of an account run and wait. Limit 0 means no limit.
type CrawlUse struct {
	Running int `json:"running"`
	Queued  int `json:"queued"`
	Limit   int `json:"limit,omitempty"`
}

// DiskUse is how many bytes the crawls of an account have on disk. Limit 0 means no limit.
type DiskUse struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit,omitempty"`
}

// Caller is who asks: the key of a request with its account, or a part of the service.
type Caller struct {
	Account  Account
	Key      string // id of the key; empty for a part of the service
	System   string // the part of the service, such as schedule
	Scopes   []Scope
	Remote   string // address of the client, for the audit log
	Schedule string // id of the schedule that submits a crawl

	session string    // hash of the session; empty for a key
	login   string    // hash of the login link; empty for a key and a session
	expires page.Time // the latest end of keys that the caller makes; zero means no bound
	used    page.Time // when the key was last used, as far as it is recorded
}

// MayRevoke says whether the caller has all scopes of a key.
func (c *Caller) MayRevoke(k *Key) bool {
	return !slices.ContainsFunc(k.Scopes, func(s Scope) bool { return !c.Has(s) })
}

// Has says whether the caller has a scope.
func (c *Caller) Has(s Scope) bool {
	all := Scopes()
	want := slices.Index(all, s)
	return slices.ContainsFunc(c.Scopes, func(has Scope) bool { return slices.Index(all, has) >= want })
}

// Actor is the caller as events and the audit log name it.
func (c *Caller) Actor() Actor { return Actor{Key: c.Key, System: c.System} }

// Visible is the account whose things the caller finds; empty means all.
func (c *Caller) Visible() string {
	if c.Has(ScopeAdmin) {
		return ""
	}
	return c.Account.ID
}
