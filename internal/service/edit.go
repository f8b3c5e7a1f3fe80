package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/config"
)

// Edit changes a crawl, as far as its state allows. Before a crawl has begun, everything can be changed. Later its
// name, labels, priority and limits can be, and while it is queued or paused also its scope.
func (c *Crawls) Edit(ctx context.Context, caller *Caller, id string, e Edit) (*Crawl, error) {
	var r *row
	var input *encodedInput
	err := c.change(ctx, caller, id, c.s.Add, func(whole *row) (err error) {
		r = whole
		input, err = c.edit(ctx, caller, r, &e)
		return err
	}, func(tx *Tx, _ *row) error { return r.putEdit(tx, caller, &e, input) })
	if err != nil {
		return nil, err
	}
	if err := c.dispatch.changed(context.WithoutCancel(ctx), r.ID); err != nil {
		return nil, err
	}
	return c.show(r), nil
}

// errChanged means that a crawl has changed since it was judged.
var errChanged = errors.New("the crawl has changed meanwhile")

// change judges a crawl by its whole row, and then records a change in a transaction. To judge takes long if there are
// many start URLs, so it is done before the transaction. If the crawl was edited meanwhile, if it is in another state, or
// if its plan or the rights of its account have changed, it is judged again. judge may change what the crawl was
// submitted with; record gets this with the row as it is now. write is Service.Write or Service.Add.
func (c *Crawls) change(ctx context.Context, caller *Caller, id string,
	write func(context.Context, func(*Tx) error) error, judge func(*row) error,
	record func(tx *Tx, now *row) error) error {
	for {
		r, err := c.s.getWhole(ctx, caller.Visible(), id)
		if err != nil {
			return err
		}
		judged, err := rightsOf(ctx, c.s.db.Read(), r.Account)
		if err != nil {
			return err
		}
		plan, planByAdmin := r.Plan, r.planByAdmin // judge may change them
		if err := judge(r); err != nil {
			return err
		}
		err = write(ctx, func(tx *Tx) error {
			now, err := getRow(ctx, tx, caller.Visible(), id)
			if err != nil {
				return err
			}
			if now.Plan != plan || now.planByAdmin != planByAdmin || now.edits != r.edits || now.State != r.State ||
				now.Generation != r.Generation || now.hasStarted() != r.hasStarted() {
				return errChanged
			}
			if err := tx.checkRights(r.Account, judged); err != nil {
				return err
			}
			now.starts, now.given, now.stored, now.Settings = r.starts, r.given, r.stored, r.Settings
			now.next = r.next
			return record(tx, now)
		})
		if !errors.Is(err, errChanged) {
			return err
		}
	}
}

// edit changes a row as an edit asks, or names every fault of it. It returns what the crawl is submitted with if the
// edit changes that or its size with the texts of the row.
func (c *Crawls) edit(ctx context.Context, caller *Caller, r *row, e *Edit) (*encodedInput, error) {
	if r.State == Deleting {
		return nil, &Error{Code: ErrState, Detail: "the crawl is being deleted", State: r.State,
			Allowed: r.allowed(time.Now())}
	}
	owner, err := c.owner(ctx, caller, r)
	if err != nil {
		return nil, err
	}
	editable := r.editable()
	var plan Plan
	var faults []FieldError
	if e.Plan != nil && editable == nil {
		plan, faults, err = c.choosePlan(ctx, owner, r, *e.Plan)
	} else {
		plan, err = c.s.Accounts.planOfCrawl(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	if e.Plan != nil && editable != nil {
		faults = append(faults, FieldError{"plan", "wrong_state",
			"the plan of a crawl that has begun cannot be changed"})
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
	settings := config.SpellOutJSON(e.Settings)
	r.given = config.SpellOutJSON(r.given) // an earlier version stored short forms
	for name, value := range settings {
		if editable != nil && !slices.Contains(editable, name) {
			faults = append(faults, r.refuseSetting(name, editable))
			continue
		}
		r.given[name] = value // null too, since load judges names; then it counts as not given
	}
	if _, ok := settings["only_hosts"]; ok {
		delete(r.stored, onlyHosts) // else an edit by an admin leaves the crawl bound as it is
	}
	faults = append(faults, r.refuseRedirection(e.StartURLs != nil, settings)...)
	if e.changesInput() {
		warnings, asked := r.Warnings, settings
		if e.Plan != nil {
			asked = r.given
		}
		faults = append(faults, c.load(r, owner, &plan, asked)...)
		if r.hasStarted() || r.Generation > 0 {
			r.Warnings = warnings // new ones are about settings that were judged before
		}
	}
	if err := Invalid("the change", faults); err != nil || !e.changesInput() && e.Name == nil && e.Labels == nil {
		return nil, err
	}
	return r.encodeInput(), nil
}

// changesInput reports whether an edit changes what is judged: settings, start URLs or the plan.
func (e *Edit) changesInput() bool { return len(e.Settings) > 0 || e.StartURLs != nil || e.Plan != nil }

// refuseRedirection names the credentials that an edit would send to other origins than before. No key can read them,
// so a key that did not give them must not have them sent to its own host. Edited are the settings of the edit.
func (r *row) refuseRedirection(startURLs bool, edited map[string]json.RawMessage) (faults []FieldError) {
	_, headerTo := edited["header_to"]
	for name, moves := range map[string]bool{"header": startURLs || headerTo, "cookie": startURLs,
		"basic_auth": startURLs} {
		_, has := r.given[name]
		if _, again := edited[name]; moves && has && !again {
			faults = append(faults, FieldError{settingField(name), "needed_again",
				"its value is hidden, and the change may send it to other origins: give it again, or null to remove it"})
		}
	}
	slices.SortFunc(faults, func(a, b FieldError) int { return strings.Compare(a.Field, b.Field) })
	return faults
}

// putEdit stores a row that was edited. The input is nil if the edit does not change it.
func (r *row) putEdit(tx *Tx, caller *Caller, e *Edit, input *encodedInput) error {
	err := tx.Change("UPDATE crawl SET name = ?, labels_json = ?, plan = ?, plan_by_admin = ?, "+
		"priority = ?, profile = ?, first_starts_json = ?, start_count = ?, edits = edits + 1 WHERE id = ?",
		r.Name, r.Labels, r.Plan, r.planByAdmin, r.Priority, r.Profile, r.StartURLs, len(r.starts), r.ID)
	if input != nil {
		err = errors.Join(err, r.putInput(tx, input))
	}
	if e.changesInput() { // another name is small, and allowed where the disk is used up
		err = errors.Join(err, tx.CheckInput(r.Account))
	}
	if input != nil && !r.hasStarted() { // the result is what the settings are warned of
		err = errors.Join(err, tx.Change("UPDATE crawl SET result_json = ? WHERE id = ?", r.Result, r.ID))
	}
	return errors.Join(err, tx.Audit(caller, "crawl.edit", r.ID,
		map[string]any{"settings": slices.Sorted(maps.Keys(e.Settings))}))
}

// owner is the caller with its own scopes and the account of the crawl.
func (c *Crawls) owner(ctx context.Context, caller *Caller, r *row) (*Caller, error) {
	account, err := getAccount(ctx, c.s.db.Read(), r.Account)
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
	case r.State == Finishing || r.isSafe() && !waits && !r.State.Ended():
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
	case r.State == Finishing:
		detail = "the crawl writes its files: its settings can be changed when it has ended, for the next generation"
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
