package api

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"strconv"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
)

// accountRoutes are the routes of accounts, keys, plans and usage.
type accountRoutes struct{ server *Server }

func (a accountRoutes) accounts() *service.Accounts { return a.server.service.Accounts }

// me is who the caller is.
type me struct {
	Account service.Account `json:"account"`
	Key     string          `json:"key,omitempty"`
	Scopes  []service.Scope `json:"scopes"`
	CSRF    string          `json:"csrf_token,omitempty"`
}

func (a accountRoutes) me(c *call) error {
	m := me{Account: c.caller.Account, Key: c.caller.Key, Scopes: c.caller.Scopes}
	if c.cred.session {
		m.Key, m.CSRF = "", c.cred.csrf
	}
	return c.json(http.StatusOK, m)
}

func (a accountRoutes) usage(c *call) error {
	q := c.query()
	account := c.account(q)
	if account == "" {
		q.fault("account", "invalid", "usage is of one account")
	}
	if err := q.done(); err != nil {
		return err
	}
	return c.reply(a.accounts().Usage(c.r.Context(), account))
}

// keyInput is a request for a key.
type keyInput struct {
	Name      string          `json:"name"`
	Scopes    []service.Scope `json:"scopes"`
	Account   string          `json:"account"`
	ExpiresAt page.Time       `json:"expires_at"`
}

// createKey makes a key of the caller's account or, for an admin, of another.
func (a accountRoutes) createKey(c *call) error {
	var in keyInput
	if err := c.body(&in); err != nil {
		return err
	}
	in.Account = cmp.Or(in.Account, c.caller.Account.ID)
	if in.Account != c.caller.Account.ID && !c.caller.Has(service.ScopeAdmin) {
		return refuse(service.ErrInvalid, "the body has faults",
			service.FieldError{Field: "account", Code: "not_allowed", Detail: "other accounts need the scope admin"})
	}
	key, err := a.accounts().CreateKey(c.r.Context(), c.caller,
		service.Key{Account: in.Account, Name: in.Name, Scopes: in.Scopes, ExpiresAt: in.ExpiresAt})
	if err != nil {
		return err
	}
	return c.json(http.StatusCreated, key)
}

func (a accountRoutes) revokeKey(ctx context.Context, c *service.Caller, id string) error {
	return a.accounts().RevokeKey(ctx, c, c.Visible(), id)
}

func (a accountRoutes) list(c *call) error {
	return listed(c, c.query(), func(account service.Account) string { return account.Name }, a.accounts().List)
}

// accountInput is a request for an account.
type accountInput struct {
	Name     string   `json:"name"`
	Plan     string   `json:"plan"`
	OwnHosts []string `json:"own_hosts"`
}

func (a accountRoutes) create(ctx context.Context, c *service.Caller, in accountInput) (service.Account, error) {
	return a.accounts().Create(ctx, c, service.Account{Name: in.Name, Plan: in.Plan, OwnHosts: in.OwnHosts})
}

func (a accountRoutes) get(c *call) error {
	if c.id() != c.caller.Account.ID && !c.caller.Has(service.ScopeAdmin) {
		return refuse(service.ErrNotFound, "there is no such account")
	}
	return c.reply(a.accounts().Get(c.r.Context(), c.id()))
}

func (a accountRoutes) plans(c *call) error {
	return listed(c, c.query(), func(p service.Plan) string { return p.Name }, a.accounts().Plans)
}

// planInput is a plan without its name, which the path has.
type planInput struct {
	Safe          bool     `json:"safe"`
	MaxURLs       int      `json:"max_urls"`
	MaxCrawls     int      `json:"max_crawls"`
	MaxQueued     int      `json:"max_queued"`
	MaxPriority   *int     `json:"max_priority"`
	PagesPerMonth int64    `json:"pages_per_month"`
	DiskBytes     int64    `json:"disk_bytes"`
	Refused       []string `json:"refused_settings"`
}

func (a accountRoutes) putPlan(c *call) error {
	var in planInput
	if err := c.body(&in); err != nil {
		return err
	}
	p := service.Plan{Name: c.r.PathValue("name"), Safe: in.Safe, MaxURLs: in.MaxURLs, MaxCrawls: in.MaxCrawls,
		MaxQueued: in.MaxQueued, MaxPriority: 9,
		PagesPerMonth: in.PagesPerMonth, DiskBytes: in.DiskBytes, Refused: in.Refused}
	if in.MaxPriority != nil {
		p.MaxPriority = *in.MaxPriority
	}
	if err := a.accounts().PutPlan(c.r.Context(), c.caller, p); err != nil {
		return err
	}
	return c.json(http.StatusOK, p)
}

func (a accountRoutes) deletePlan(c *call) error {
	return c.noContent(a.accounts().DeletePlan(c.r.Context(), c.caller, c.r.PathValue("name")))
}

func (a accountRoutes) audit(c *call) error {
	q := c.query()
	before, limit := q.number("cursor", 1, math.MaxInt, 0), q.number("limit", 1, mostItems, someItems)
	if err := q.done(); err != nil {
		return err
	}
	entries, err := a.server.service.Audit.List(c.r.Context(), "", int64(before), limit)
	if err != nil {
		return err
	}
	list := service.List[service.AuditEntry]{Items: entries}
	if len(entries) == limit {
		list.NextCursor = strconv.FormatInt(entries[limit-1].ID, 10)
	}
	return c.json(http.StatusOK, list)
}
