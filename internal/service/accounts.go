package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/service/db"
)

// Accounts are the accounts with their plans, keys and usage. The caller of its methods has checked the scope admin,
// unless a method says otherwise.
type Accounts struct{ s *Service }

// DefaultAccount is the first name of the account that exists from the start.
const DefaultAccount = "default"

// makeDefaults makes the default plan and the default account of a new database.
func (a *Accounts) makeDefaults(ctx context.Context) error {
	if plans, err := Value[int](ctx, a.s.db.Read(), "SELECT COUNT(*) FROM plan"); err != nil || plans > 0 {
		return err
	}
	return a.s.Write(ctx, func(tx *Tx) error {
		for _, p := range []Plan{{Name: defaultPlan, MaxPriority: 9},
			{Name: "safe", Safe: true, MaxPriority: 9, MaxCrawls: 1}} {
			if err := tx.Change("INSERT INTO plan (name, terms_json) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
				p.Name, p); err != nil {
				return err
			}
		}
		return tx.Change("INSERT INTO account ("+accountColumns+") VALUES (?, ?, ?, '[]', 0, ?) ON CONFLICT (name) DO "+
			"NOTHING", NewID(), DefaultAccount, defaultPlan, tx.now)
	})
}

const accountColumns = "id, name, plan, own_hosts_json, disabled, created_at"

func accountDest(a *Account) []any {
	return []any{&a.ID, &a.Name, &a.Plan, &a.OwnHosts, &a.Disabled, &a.CreatedAt}
}

// Get returns the account with an id or a name.
func (a *Accounts) Get(ctx context.Context, id string) (Account, error) {
	return getAccount(ctx, a.s.db.Read(), id)
}

func getAccount(ctx context.Context, q Queryer, id string) (Account, error) {
	account, err := One(ctx, q, accountDest, "SELECT "+accountColumns+" FROM account WHERE id = ? OR name = ? "+
		"ORDER BY id = ? DESC LIMIT 1", id, id, id)
	return account, orNotFound(err, "account", id)
}

// firstAccount returns the id of the account that exists from the start, whatever its name is by now. Accounts are
// never deleted, and rows are in the order in which they were made, whatever the clock did.
func firstAccount(ctx context.Context, q Queryer) (string, error) {
	return Value[string](ctx, q, "SELECT id FROM account ORDER BY rowid LIMIT 1")
}

// List returns all accounts in the order of their names.
func (a *Accounts) List(ctx context.Context) ([]Account, error) {
	return Collect(ctx, a.s.db.Read(), accountDest, "SELECT "+accountColumns+" FROM account ORDER BY name")
}

// Create makes an account.
func (a *Accounts) Create(ctx context.Context, c *Caller, account Account) (Account, error) {
	account.ID = NewID()
	account.Plan = cmp.Or(account.Plan, defaultPlan)
	if account.OwnHosts == nil {
		account.OwnHosts = []string{}
	}
	err := a.s.Write(ctx, func(tx *Tx) error {
		if err := checkAccount(ctx, tx, &account); err != nil {
			return err
		}
		account.CreatedAt = TimeOf(Millis(tx.now))
		err := tx.Insert("account", accountColumns, account.ID, account.Name, account.Plan, account.OwnHosts,
			account.Disabled, tx.now)
		return errors.Join(orTaken(err, &account), tx.Audit(c, "account.create", account.ID, account))
	})
	return account, err
}

// Edit changes an account. Its crawls get a new plan too, unless an admin gave them another one. A plan acts on running
// crawls at once.
func (a *Accounts) Edit(ctx context.Context, c *Caller, id string, e AccountEdit) (account Account, err error) {
	err = a.s.Write(ctx, func(tx *Tx) error {
		if account, err = getAccount(ctx, tx, id); err != nil {
			return err
		}
		before := account.Plan
		Set(&account.Name, e.Name)
		Set(&account.Plan, e.Plan)
		Set(&account.OwnHosts, e.OwnHosts)
		Set(&account.Disabled, e.Disabled)
		if err := checkAccount(ctx, tx, &account); err != nil {
			return err
		}
		err := tx.Change("UPDATE account SET name = ?, plan = ?, own_hosts_json = ?, disabled = ? WHERE id = ?",
			account.Name, account.Plan, account.OwnHosts, account.Disabled, account.ID)
		if err = orTaken(err, &account); err == nil && account.Plan != before {
			err = tx.Change("UPDATE crawl SET plan = ? WHERE account = ? AND plan = ? AND plan_by_admin = 0",
				account.Plan, account.ID, before)
		}
		return errors.Join(err, tx.Audit(c, "account.edit", account.ID, e))
	})
	if err == nil {
		a.s.Crawls.dispatch.regrant()
	}
	return account, err
}

// orTaken turns the error of a statement that would give two accounts the same name into an *Error for the caller.
func orTaken(err error, account *Account) error {
	if db.IsTaken(err) {
		return &Error{Code: ErrExists, Detail: fmt.Sprintf("there is an account %q already", account.Name)}
	}
	return err
}

// Set sets a value, if one is given.
func Set[T any](p *T, value *T) {
	if value != nil {
		*p = *value
	}
}

// checkAccount names every fault of an account.
func checkAccount(ctx context.Context, q Queryer, account *Account) error {
	faults := checkName("name", account.Name)
	others, err := Value[int](ctx, q, "SELECT COUNT(*) FROM account WHERE id = ? AND id <> ?", account.Name, account.ID)
	if err != nil {
		return err
	}
	if others > 0 {
		faults = append(faults, FieldError{"name", "invalid", "it is the id of another account"})
	}
	if _, err := getPlan(ctx, q, account.Plan); err != nil {
		if e := (*Error)(nil); !errors.As(err, &e) {
			return err
		}
		faults = append(faults, FieldError{"plan", "unknown", fmt.Sprintf("there is no plan %q", account.Plan)})
	}
	for i, host := range account.OwnHosts {
		if len(host) > maxHost {
			faults = append(faults, FieldError{fmt.Sprintf("own_hosts[%d]", i), "too_long",
				fmt.Sprintf("a host has at most %d bytes", maxHost)})
		}
	}
	if _, err := config.NewHostSet(account.OwnHosts); err != nil {
		faults = append(faults, FieldError{"own_hosts", "invalid", err.Error()})
	}
	return Invalid("the account", faults)
}

const (
	maxName = 200 // bytes
	maxHost = 253 // bytes, as in DNS
)

// checkName says what is wrong with a name.
func checkName(field, name string) []FieldError {
	switch {
	case strings.TrimSpace(name) == "":
		return []FieldError{{field, "missing", "it is empty"}}
	case len(name) > maxName:
		return []FieldError{tooLong(field, name)}
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return []FieldError{{field, "invalid", "it has characters that cannot be shown"}}
	}
	return nil
}

// tooLong is the fault of a text with more than maxName bytes.
func tooLong(field, text string) FieldError {
	return FieldError{field, "too_long", fmt.Sprintf("it has %d bytes, at most %d are allowed", len(text), maxName)}
}

// Invalid is the error for a request with faults, or nil without any.
func Invalid(what string, faults []FieldError) error {
	if len(faults) == 0 {
		return nil
	}
	return &Error{Code: ErrInvalid, Detail: what + " has faults", Fields: faults}
}

// Plans returns all plans in the order of their names. Every caller may ask.
func (a *Accounts) Plans(ctx context.Context) ([]Plan, error) {
	return Collect(ctx, a.s.db.Read(), Column[Plan], "SELECT terms_json FROM plan ORDER BY name")
}

// plan returns a plan by its name.
func (a *Accounts) plan(ctx context.Context, name string) (Plan, error) {
	return getPlan(ctx, a.s.db.Read(), name)
}

func getPlan(ctx context.Context, q Queryer, name string) (Plan, error) {
	plan, err := Value[Plan](ctx, q, "SELECT terms_json FROM plan WHERE name = ?", name)
	return plan, orNotFound(err, "plan", name)
}

// PutPlan makes a plan or replaces it.
func (a *Accounts) PutPlan(ctx context.Context, c *Caller, p Plan) error {
	faults := checkName("name", p.Name)
	if p.MaxURLs < 0 || p.MaxCrawls < 0 || p.MaxQueued < 0 || p.PagesPerMonth < 0 || p.DiskBytes < 0 {
		faults = append(faults, FieldError{"", "invalid", "limits must not be negative; 0 is no limit"})
	}
	if p.MaxPriority < 0 || p.MaxPriority > maxPriority {
		faults = append(faults, FieldError{"max_priority", "invalid", "it must be 0 to 9"})
	}
	known := map[string]bool{config.ProfileName: true}
	for _, e := range new(config.Settings).Table() {
		known[config.FileKey(e.Name)] = true
	}
	for _, name := range p.Refused {
		if !known[name] {
			faults = append(faults, FieldError{"refused_settings", "unknown",
				fmt.Sprintf("there is no setting %q", name)})
		}
	}
	if err := Invalid("the plan", faults); err != nil {
		return err
	}
	err := a.s.Write(ctx, func(tx *Tx) error {
		return errors.Join(tx.Put("plan", "name", "name, terms_json", p.Name, p), tx.Audit(c, "plan.put", p.Name, p))
	})
	if err == nil {
		a.s.Crawls.dispatch.regrant()
	}
	return err
}

// DeletePlan deletes a plan that no account and no crawl uses. A refusal names the accounts.
func (a *Accounts) DeletePlan(ctx context.Context, c *Caller, name string) error {
	return a.s.Write(ctx, func(tx *Tx) error {
		if name == defaultPlan {
			return &Error{Code: ErrInUse, Detail: "the default plan is that of new accounts and cannot be deleted"}
		}
		owners, err := Collect(ctx, tx, Column[string], "SELECT name FROM account WHERE plan = ? ORDER BY name", name)
		if err != nil {
			return err
		}
		users, err := Collect(ctx, tx, Column[string], "SELECT name FROM account WHERE id IN (SELECT account FROM "+
			"crawl WHERE plan = ?) ORDER BY name", name)
		if err != nil {
			return err
		}
		switch {
		case len(owners) > 0:
			return &Error{Code: ErrInUse,
				Detail: fmt.Sprintf("plan %q is that of %s: give these accounts another plan first, which their "+
					"crawls get too", name, listNames(owners))}
		case len(users) > 0:
			return &Error{Code: ErrInUse,
				Detail: fmt.Sprintf("crawls of %s were submitted with plan %q: delete these crawls first",
					listNames(users), name)}
		}
		n, err := tx.Exec("DELETE FROM plan WHERE name = ?", name)
		if err == nil && n == 0 {
			return notFound("plan", name)
		}
		return errors.Join(err, tx.Audit(c, "plan.delete", name, nil))
	})
}

// rights is a text of all by which requests of an account are judged: its plan, its hosts, and the terms of the plans.
// While it stays the same, what was judged by it holds.
type rights string

func rightsOf(ctx context.Context, q Queryer, account string) (rights, error) {
	r, err := Value[rights](ctx, q, "SELECT plan || ' ' || own_hosts_json || disabled || "+
		"(SELECT group_concat(terms_json) FROM plan) FROM account WHERE id = ?", account)
	return r, orNotFound(err, "account", account)
}

// checkRights returns errChanged if an account's rights are others than a request was judged by.
func (tx *Tx) checkRights(account string, judged rights) error {
	now, err := rightsOf(tx.ctx, tx, account)
	if err == nil && now != judged {
		err = errChanged
	}
	return err
}

// listNames names the first accounts of a list, and says how many others there are.
func listNames(names []string) string {
	const most = 10
	quoted := make([]string, min(len(names), most))
	for i := range quoted {
		quoted[i] = strconv.Quote(names[i])
	}
	text := "account " + quoted[0]
	if len(names) > 1 {
		text = "accounts " + strings.Join(quoted, ", ")
	}
	if more := len(names) - len(quoted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
