package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/internal/config"
)

// Edit changes a crawl, as far as its state allows. Before a crawl has begun, everything can be changed. Later its
// name, labels, priority and limits can be, and while it is queued or paused also its scope.
func (c *Crawls) Edit(ctx context.Context, caller *Caller, id string, e Edit) (*Crawl, error) {
	var r *row
	err := c.s.Write(ctx, func(tx *Tx) (err error) {
		if r, err = getRow(ctx, tx, caller.Visible(), id); err != nil {
			return err
		}
		return c.edit(ctx, tx, caller, r, &e)
	})
	if err != nil {
		return nil, err
	}
	if err := c.dispatch.changed(context.WithoutCancel(ctx), r.ID); err != nil {
		return nil, err
	}
	return c.show(r), nil
}

func (c *Crawls) edit(ctx context.Context, tx *Tx, caller *Caller, r *row, e *Edit) error {
	if r.State == Deleting {
		return &Error{Code: ErrState, Detail: "the crawl is being deleted", State: r.State, Allowed: r.allowed(tx.now)}
	}
	owner, err := c.owner(ctx, tx, caller, r)
	if err != nil {
		return err
	}
	editable := r.editable()
	var faults []FieldError
	if e.Plan != nil && editable != nil {
		faults = append(faults, FieldError{"plan", "wrong_state",
			"the plan of a crawl that has begun cannot be changed"})
	} else if e.Plan != nil {
		r.Plan = *e.Plan
	}
	plan, wrong, err := c.choosePlan(ctx, owner, r.Plan)
	if err != nil {
		return err
	}
	if e.Plan != nil {
		r.Plan, faults = plan.Name, append(faults, wrong...)
	}
	Set(&r.Name, e.Name)
	Set(&r.Labels, e.Labels)
	Set(&r.Priority, e.Priority)
	if r.Labels == nil {
		r.Labels = []string{}
	}
	faults = append(faults, slices.DeleteFunc(r.checkWords(&plan),
		func(f FieldError) bool { return f.Field == "priority" && e.Priority == nil && e.Plan == nil })...)
	if e.StartURLs != nil {
		if editable != nil {
			faults = append(faults, FieldError{"start_urls", "wrong_state",
				"the start URLs of a crawl that has begun cannot be changed"})
		}
		r.setStarts(*e.StartURLs)
	}
	for name, value := range e.Settings {
		if editable != nil && !slices.Contains(editable, name) {
			faults = append(faults, r.refuseSetting(name, editable))
			continue
		}
		if string(value) == "null" {
			delete(r.given, name)
		} else {
			r.given[name] = value
		}
	}
	if len(e.Settings) > 0 || e.StartURLs != nil || e.Plan != nil {
		warnings, asked := r.Warnings, e.Settings
		if e.Plan != nil {
			asked = r.given
		}
		faults = append(faults, c.load(r, owner, &plan, asked)...)
		if r.hasStarted() || r.Generation > 0 {
			r.Warnings = warnings // new ones are about settings that were judged before
		}
	}
	if err := Invalid("the change", faults); err != nil {
		return err
	}
	err = tx.Change("UPDATE crawl SET name = ?, labels_json = ?, plan = ?, priority = ?, profile = ?, "+
		"first_starts_json = ?, start_count = ?, result_json = ? WHERE id = ?",
		r.Name, r.Labels, r.Plan, r.Priority, r.Profile, r.StartURLs, len(r.starts), r.Result, r.ID)
	if len(e.Settings) > 0 || e.StartURLs != nil || e.Plan != nil {
		err = errors.Join(err, r.putInput(tx))
	}
	return errors.Join(err, tx.Audit(caller, "crawl.edit", r.ID,
		map[string]any{"settings": slices.Sorted(maps.Keys(e.Settings))}))
}

// owner is the caller with its own scopes and the account of the crawl.
func (c *Crawls) owner(ctx context.Context, tx *Tx, caller *Caller, r *row) (*Caller, error) {
	account, err := getAccount(ctx, tx, r.Account)
	as := *caller
	as.Account = account
	return &as, err
}

// editable lists the settings that the crawl's state allows to change; nil means all.
func (r *row) editable() []string {
	waits := r.State == Queued || r.State == Paused
	switch {
	case waits && !r.hasStarted() && r.Generation == 0:
		return nil
	case r.isSafe() && !waits && !r.State.Ended():
		return []string{}
	}
	keys := []string{}
	for _, name := range limitSettings() {
		keys = append(keys, config.FileKey(name))
	}
	if waits {
		keys = append(keys, scopeSettings()...)
	}
	return keys
}

// refuseSetting says why a setting cannot be changed, and what to do.
func (r *row) refuseSetting(name string, editable []string) FieldError {
	detail := fmt.Sprintf("this setting of a crawl that has begun cannot be changed: submit another crawl; settings "+
		"that can be changed now: %s", strings.Join(editable, ", "))
	switch {
	case len(editable) == 0:
		detail = "settings of a safe crawl that is " + string(r.State) + " cannot be changed"
	case slices.Contains(scopeSettings(), name) && (r.State == Running || r.State == Pausing):
		detail = "the scope of a crawl that is " + string(r.State) + " cannot be changed: pause it first"
	}
	return FieldError{"settings." + name, "wrong_state", detail}
}

// limitSettings are the settings that bound a crawl. They can be changed while it runs.
func limitSettings() []string {
	return []string{"max-urls", "duration", "max-urls-per-host", "max-depth", "max-body-size", "timeout"}
}

// scopeSettings are the settings that say which URLs belong to a crawl, by file key.
func scopeSettings() []string {
	return []string{"scope", "only_hosts", "include", "exclude", "skip_extensions"}
}
