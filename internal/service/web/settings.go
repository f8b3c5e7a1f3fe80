package web

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
)

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
func showAccount(q *request) error {
	v, err := settingsOf(q)
	if err != nil {
		return err
	}
	return q.render(http.StatusOK, "settings", v)
}

func settingsOf(q *request) (*settingsView, error) {
	ctx, account := q.r.Context(), q.caller.Account.ID
	v := &settingsView{frame: q.settingsFrame("account", "Account")}
	var err error
	if v.Usage, err = q.server.o.Service.Accounts.Usage(ctx, account); err != nil {
		return nil, err
	}
	v.Bars = usageBars(&v.Usage)
	keys, err := q.server.o.Service.Accounts.Keys(ctx, account)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		v.Keys = append(v.Keys, keyRow{Key: k, Scope: service.Join(k.Scopes, ", "), State: keyState(&k),
			Mine: k.ID == q.caller.Key,
			Ends: k.RevokedAt.IsZero() && q.caller.MayRevoke(&k)})
	}
	for _, s := range service.Scopes() {
		if q.caller.Has(s) {
			v.Scopes = append(v.Scopes, s)
		}
	}
	return v, nil
}

// settingsFrame is the frame of one of the pages of settings.
func (q *request) settingsFrame(tab, title string) frame {
	f := q.frame("Settings · "+title, "settings")
	f.Tab = tab
	return f
}

const shownAudit = 50

// showAudit shows the log of who did what.
func showAudit(q *request) error {
	if err := q.admin(); err != nil {
		return err
	}
	v := &auditView{frame: q.settingsFrame("audit", "Audit log")}
	before, _ := strconv.ParseInt(q.r.URL.Query().Get("before"), 10, 64) // what is no number is the newest
	entries, err := q.server.o.Service.Audit.List(q.r.Context(), "", before, shownAudit+1)
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
	return q.render(http.StatusOK, "audit", v)
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

// createKey makes a key and shows its secret, which is stored nowhere.
func createKey(q *request) error {
	name, scope := strings.TrimSpace(q.r.PostForm.Get("name")), service.Scope(q.r.PostForm.Get("scope"))
	if !slices.Contains(service.Scopes(), scope) || !q.caller.Has(scope) {
		return &service.Error{Code: service.ErrForbidden, Detail: "The session cannot give a key this scope."}
	}
	made, err := q.server.o.Service.Accounts.CreateKey(q.r.Context(), q.caller,
		service.Key{Account: q.caller.Account.ID, Name: name, Scopes: []service.Scope{scope}})
	fault, refused := errors.AsType[*service.Error](err)
	if err != nil && !refused {
		return err
	}
	v, err := settingsOf(q)
	if err != nil {
		return err
	}
	if refused {
		v.Fault, v.Name = fault.Error(), name
		return q.render(fault.Code.Status(), "settings", v)
	}
	v.Made = &made
	return q.render(http.StatusOK, "settings", v)
}

func revokeKey(q *request) error {
	return q.then("/settings#keys", q.server.o.Service.Accounts.RevokeKey(q.r.Context(), q.caller, q.caller.Account.ID,
		q.r.PostForm.Get("id")))
}

// leave ends the session.
func leave(q *request) error {
	return q.then("/login", q.server.o.Sessions.EndSession(q.w, q.r))
}
