package serve

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
)

// me is the caller, as /v1/me shows it.
type me struct {
	Account service.Account `json:"account"`
	Key     string          `json:"key,omitempty"`
	Scopes  []service.Scope `json:"scopes"`
	CSRF    string          `json:"csrf_token,omitempty"`
}

func (c *call) getMe() error {
	m := me{Account: c.caller.Account, Key: c.caller.Key, Scopes: c.caller.Scopes}
	if c.cred.session {
		m.Key, m.CSRF = "", c.cred.csrf
	}
	return c.json(http.StatusOK, m)
}

func (c *call) getUsage() error {
	q := c.query()
	account := c.account(q)
	if account == "" {
		q.fault("account", "invalid", "usage is of one account")
	}
	if err := q.done(); err != nil {
		return err
	}
	return c.reply(c.Service.Accounts.Usage(c.ctx, account))
}

// keyInput is a request for a key.
type keyInput struct {
	Name      string          `json:"name"`
	Scopes    []service.Scope `json:"scopes"`
	Account   string          `json:"account"`
	ExpiresAt page.Time       `json:"expires_at"`
}

// createKey makes a key of the caller's account or, for an admin, of another.
func (c *call) createKey() error {
	var in keyInput
	if err := c.body(&in); err != nil {
		return err
	}
	in.Account = cmp.Or(in.Account, c.caller.Account.ID)
	if in.Account != c.caller.Account.ID && !c.caller.Has(service.ScopeAdmin) {
		return refuse(service.ErrInvalid, "the body has faults",
			service.FieldError{Field: "account", Code: "not_allowed", Detail: "other accounts need the scope admin"})
	}
	key, err := c.Service.Accounts.CreateKey(c.ctx, c.caller,
		service.Key{Account: in.Account, Name: in.Name, Scopes: in.Scopes, ExpiresAt: in.ExpiresAt})
	if err != nil {
		return err
	}
	return c.json(http.StatusCreated, key)
}

func (s *Server) revokeKey(ctx context.Context, c *service.Caller, id string) error {
	return s.Service.Accounts.RevokeKey(ctx, c, c.Visible(), id)
}

func (c *call) listAccounts() error {
	return listed(c, c.query(), func(a service.Account) string { return a.Name }, c.Service.Accounts.List)
}

// accountInput is a request for an account.
type accountInput struct {
	Name     string   `json:"name"`
	Plan     string   `json:"plan"`
	OwnHosts []string `json:"own_hosts"`
}

func (s *Server) createAccount(ctx context.Context, c *service.Caller, in accountInput) (service.Account, error) {
	return s.Service.Accounts.Create(ctx, c, service.Account{Name: in.Name, Plan: in.Plan, OwnHosts: in.OwnHosts})
}

func (c *call) getAccount() error {
	if c.id() != c.caller.Account.ID && !c.caller.Has(service.ScopeAdmin) {
		return refuse(service.ErrNotFound, "there is no such account")
	}
	return c.reply(c.Service.Accounts.Get(c.ctx, c.id()))
}

func (c *call) listPlans() error {
	return listed(c, c.query(), func(p service.Plan) string { return p.Name }, c.Service.Accounts.Plans)
}

// putPlan stores a plan. The path has its name, the body has the rest.
func (c *call) putPlan() error {
	p := service.Plan{MaxPriority: 9}
	if err := c.body(&p); err != nil {
		return err
	}
	if p.Name != "" {
		return refuse(service.ErrInvalid, "the body has faults",
			service.FieldError{Field: "name", Code: "unknown", Detail: "the path has the name"})
	}
	p.Name = c.r.PathValue("name")
	if err := c.Service.Accounts.PutPlan(c.ctx, c.caller, p); err != nil {
		return err
	}
	return c.json(http.StatusOK, p)
}

func (c *call) deletePlan() error {
	return c.noContent(c.Service.Accounts.DeletePlan(c.ctx, c.caller, c.r.PathValue("name")))
}

func (c *call) listAudit() error {
	q := c.query()
	before, limit := q.number("cursor", 1, math.MaxInt, 0), q.number("limit", 1, mostItems, someItems)
	if err := q.done(); err != nil {
		return err
	}
	entries, err := c.Service.Accounts.AuditLog(c.ctx, "", int64(before), limit)
	if err != nil {
		return err
	}
	list := service.List[service.AuditEntry]{Items: entries}
	if len(entries) == limit {
		list.NextCursor = strconv.FormatInt(entries[limit-1].ID, 10)
	}
	return c.json(http.StatusOK, list)
}

// settingsView is what the page shows.
type settingsView struct {
	frame
	Usage  service.Usage
	Bars   []limitBar
	Keys   []keyRow
	Scopes []service.Scope // that the caller may give to a key
	Made   *service.Key    // just made: its secret is shown once
	Fault  string          // of the form for a key
	Name   string          // as it was given
}

// auditView is what the log shows.
type auditView struct {
	frame
	Table *ui.Table
	Older string // address of older entries
}

// keyRow is a key.
type keyRow struct {
	service.Key
	Scope string
	State ui.Cell
	Mine  bool // the session belongs to it
	Ends  bool // the session may revoke it
}

// showAccount shows usage and keys of the account.
func (c *call) showAccount() error {
	v, err := c.settingsOf()
	if err != nil {
		return err
	}
	return c.render(http.StatusOK, "settings", v)
}

func (c *call) settingsOf() (*settingsView, error) {
	ctx, account := c.ctx, c.caller.Account.ID
	v := &settingsView{frame: c.settingsFrame("account", "Account")}
	var err error
	if v.Usage, err = c.Service.Accounts.Usage(ctx, account); err != nil {
		return nil, err
	}
	v.Bars = usageBars(&v.Usage)
	keys, err := c.Service.Accounts.Keys(ctx, account)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		v.Keys = append(v.Keys, keyRow{Key: k, Scope: service.Join(k.Scopes, ", "), State: keyState(&k),
			Mine: k.ID == c.caller.Key,
			Ends: k.RevokedAt.IsZero() && c.caller.MayRevoke(&k)})
	}
	for _, s := range service.Scopes() {
		if c.caller.Has(s) {
			v.Scopes = append(v.Scopes, s)
		}
	}
	return v, nil
}

// settingsFrame is the frame of one of the pages of settings.
func (c *call) settingsFrame(tab, title string) frame {
	f := c.frame("Settings · "+title, "settings")
	f.Tab = tab
	return f
}

const shownAudit = 50

// showAudit shows the log of who did what.
func (c *call) showAudit() error {
	v := &auditView{frame: c.settingsFrame("audit", "Audit log")}
	before, _ := strconv.ParseInt(c.r.URL.Query().Get("before"), 10, 64) // a text that is not a number means the newest
	entries, err := c.Service.Accounts.AuditLog(c.ctx, "", before, shownAudit+1)
	if err != nil {
		return err
	}
	if len(entries) > shownAudit {
		entries = entries[:shownAudit]
		v.Older = v.Base + "/settings/audit?before=" + strconv.FormatInt(entries[shownAudit-1].ID, 10)
	}
	v.Table = &ui.Table{Caption: "Who did what, newest first",
		Columns: []ui.Column{{Name: "Time"}, {Name: "Who"}, {Name: "From"}, {Name: "Action"}, {Name: "Object"},
			{Name: "Details"}}}
	for _, e := range entries {
		who := cmp.Or(e.Actor.System, "key "+e.Actor.Key)
		v.Table.Add(ui.Word(ui.When(e.At)), ui.Text(who), ui.Text(e.Remote), ui.Word(e.Action), ui.Text(e.Object),
			ui.Text(string(e.Data)))
	}
	return c.render(http.StatusOK, "audit", v)
}

// usageBars are the parts of the plan that have a limit, as bars.
func usageBars(u *service.Usage) []limitBar {
	bars := []limitBar{
		{Name: "Pages in " + u.Period, Value: float64(u.Pages.Used + u.Pages.Granted), Max: float64(u.Pages.Limit),
			Used:  humanize.Comma(u.Pages.Used),
			Limit: humanize.Comma(u.Pages.Limit), Left: "begins anew on " + ui.When(u.ResetsAt)},
		{Name: "Crawls that run", Value: float64(u.Crawls.Running), Max: float64(u.Crawls.Limit),
			Used:  humanize.Comma(int64(u.Crawls.Running)),
			Limit: humanize.Comma(int64(u.Crawls.Limit)), Left: humanize.Comma(int64(u.Crawls.Queued)) + " wait"},
		{Name: "Disk", Value: float64(u.Disk.Used), Max: float64(u.Disk.Limit), Used: ui.Size(u.Disk.Used),
			Limit: ui.Size(u.Disk.Limit)},
	}
	if u.Pages.Granted > 0 {
		bars[0].Left = humanize.Comma(u.Pages.Granted) + " more are reserved by running crawls; " + bars[0].Left
	}
	for i := range bars {
		if bars[i].Max == 0 {
			bars[i].Limit = ""
		}
	}
	return bars
}

func keyState(k *service.Key) ui.Cell {
	tones := map[service.KeyState]string{service.KeyValid: "good"}
	ranks := []service.KeyState{service.KeyValid, service.KeyExpired, service.KeyRevoked}
	return ui.Badge(string(k.State()), tones[k.State()], slices.Index(ranks, k.State()))
}

// postKey makes a key and shows its secret, which is stored nowhere.
func (c *call) postKey() error {
	name, scope := strings.TrimSpace(c.r.PostForm.Get("name")), service.Scope(c.r.PostForm.Get("scope"))
	if !slices.Contains(service.Scopes(), scope) || !c.caller.Has(scope) {
		return refuse(service.ErrForbidden, "The session cannot give a key this scope.")
	}
	made, err := c.Service.Accounts.CreateKey(c.ctx, c.caller,
		service.Key{Account: c.caller.Account.ID, Name: name, Scopes: []service.Scope{scope}})
	fault, refused := errors.AsType[*service.Error](err)
	if err != nil && !refused {
		return err
	}
	v, err := c.settingsOf()
	if err != nil {
		return err
	}
	if refused {
		v.Fault, v.Name = fault.Error(), name
		return c.render(fault.Code.Status(), "settings", v)
	}
	v.Made = &made
	return c.render(http.StatusOK, "settings", v)
}

func (c *call) postKeyRevoke() error {
	return c.then("/settings#keys", c.Service.Accounts.RevokeKey(c.ctx, c.caller, c.caller.Account.ID,
		c.r.PostForm.Get("id")))
}

// postLeave ends the session.
func (c *call) postLeave() error {
	return c.then("/login", c.endSession())
}
